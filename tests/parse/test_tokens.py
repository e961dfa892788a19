"""Words of the language: joined lines, constants, sets, weights, and what a syntax error shows."""

from __future__ import annotations

import gc
import math
import pickle
import time

import pytest

from logicmp.errors import RuleError, Source, Span
from logicmp.parse.reader import read_statements
from logicmp.parse.tokens import (
    EmptyError,
    Statement,
    UnexpectedError,
    check_readable,
    collector_paused,
    constant_name,
    evaluate_weight,
    is_prac,
    join_lines,
    set_items,
    unexpected,
)

NOWHERE = Span(Source("<text>", ""), 0, 0)


@pytest.mark.parametrize("text, joined", [
    ("P(x)\nQ(x)", "P(x)\nQ(x)"),
    ("P(x,\n y)\nQ", "P(x,  y)\nQ"),
    ("[P\nv (Q\n)\n]\nR", "[P v (Q ) ]\nR"),
    # a set may go on in the next line as it is
    ("t = {A,\nB}", "t = {A,\nB}"),
    ("P // (\nQ /* [\n */ R", "P     \nQ          R"),
    # brackets, quotes and comments inside strings mean nothing
    ('P("(", "//", "/*")\nQ', 'P("(", "//", "/*")\nQ'),
    ('P("\\"(")\nQ', 'P("\\"(")\nQ'),
    # too many closing brackets do not join later lines
    ("P)\n(Q\n)", "P)\n(Q )"),
    ("P /* (\nQ", "P /* (\nQ"),
])
def test_lines_are_joined_inside_brackets(text: str, joined: str) -> None:
    assert join_lines(text) == joined
    assert len(joined) == len(text)


@pytest.mark.parametrize("text, prac", [
    ("P(?x)", True), ("P(a, +?x)", True), ("EXIST ?x P(y)", True), ("forall\n?x P(y)", True),
    ("P(t?)", False), ('P("(?x)")', False), ("P(x) // (?x)", False), ("P(x) /* (?x) */", False),
])
def test_question_marks_of_variables_mean_pracmln(text: str, prac: bool) -> None:
    assert is_prac(text) is prac


@pytest.mark.parametrize("token, name", [
    ("Anna", "Anna"), ("-1.5", "-1.5"), ('"a b"', "a b"), (r'"a\"b\\c"', 'a"b\\c'), (r'"a\nb\rc\d"', "a\nb\rcd"),
    ('""', ""),
])
def test_constant_has_no_quotes_or_escapes(token: str, name: str) -> None:
    assert constant_name(token) == name


@pytest.mark.parametrize("items, members", [
    ([], ()), (["A", "b", "A"], ("A", "b")), (["-1", "...", "1"], ("-1", "0", "1")), (["3", "...", "3"], ("3",)),
    (["1", "...", "2", "...", "4"], ("1", "2", "3", "4")), (['"..."'], ("...",)),
])
def test_set_has_members(items: list[str], members: tuple[str, ...]) -> None:
    assert set_items(items, NOWHERE) == members


@pytest.mark.parametrize("items", [
    ["..."], ["...", "1"], ["1", "..."], ["2", "...", "1"], ["1.5", "...", "3"], ["1", "...", "..."],
    ["1", "...", "9" * 30], ["1", "...", "2000000"],
])
def test_impossible_range_is_rejected(items: list[str]) -> None:
    with pytest.raises(RuleError):
        set_items(items, NOWHERE)


@pytest.mark.parametrize("text, value", [
    ("2", 2.0), ("-0.5", -0.5), ("+3.", 3.0), (".5", 0.5), ("1e-3", 1e-3), ("99999999999999999999", 1e20),
    ("log(0.9/0.1)", math.log(9)), ("logx(0)", -100.0), ("logx(1)", 0.0), ("log(8,2)", 3.0), ("exp(1)", math.e),
    ("sqrt(2)*-pi", -math.sqrt(2) * math.pi), ("-(1+2)/3", -1.0),
])
def test_weight_has_a_value(text: str, value: float) -> None:
    assert evaluate_weight(text, NOWHERE) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["007", "2**3", "1//2", "pi()", "log", "1,2", "()", "--", "(" * 500 + "1", "1" * 1001])
def test_what_is_not_arithmetic_has_no_value(text: str) -> None:
    with pytest.raises(RuleError):
        evaluate_weight(text, NOWHERE)


def test_numbers_need_no_syntax_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ast.parse", None)
    (rule,) = read_statements(Source("", "-1.25 P(x)"))
    assert isinstance(rule, Statement)
    assert rule.weight == -1.25


def test_empty_text_has_an_error_of_its_own() -> None:
    for text in ("", " \n", "// a", "/* a */", '"a"'):
        with pytest.raises(EmptyError):
            check_readable(Source("", text))
    check_readable(Source("", "/* a"))


@pytest.mark.parametrize("text, at, message", [
    ("P(x) Q(x)", 4, "unexpected 'Q'"), ("P =>", 1, "unexpected '=>'"), ("P  -1.5 v", 1, "unexpected '-1.5'"),
    ('P "a b"', 1, "unexpected '\"a b\"'"), ("P // Q\n ?x", 1, "unexpected '?x'"),
    ("P ^ // Q\n", 3, "unexpected end of the line"),
    ('P "a', 1, "this string is never closed"), ("P /* a", 1, "this comment is never closed"),
    ("(P", 2, "bracket '(' is never closed"), ("P)", 1, "bracket ')' closes nothing"),
    # closed later: the bracket is not the reason
    ("P(x ! = y)", 6, "unexpected '='"), ("(P {", 3, "bracket '(' is never closed"), ('"(" $', 3, "unexpected '$'"),
])
def test_syntax_error_names_the_cause(text: str, at: int, message: str) -> None:
    assert unexpected(Source("", text), at, ["a name"]).message == message


def test_syntax_error_lists_what_was_expected() -> None:
    source = Source("", "P $")
    assert unexpected(source, 1, ["a name"]).hint == "expected a name"
    assert unexpected(source, 1, ["a name", "'v'", "'^'"]).hint == "expected '^', 'v' or a name"
    assert unexpected(source, 1, ["a name"], "write Q").hint == "write Q"


def test_syntax_error_survives_pickling() -> None:
    error = unexpected(Source("a.mln", "P $"), 1, ["a name"])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is UnexpectedError
    assert str(copy) == str(error)


def test_collector_runs_again_after_a_pause() -> None:
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with pytest.raises(KeyError), collector_paused():
                assert not gc.isenabled()
                raise KeyError
            assert gc.isenabled() is enabled
        finally:
            gc.enable()


def test_comments_that_are_never_closed_take_linear_time() -> None:
    start = time.perf_counter()
    assert join_lines("/* " * 100_000) == "/* " * 100_000
    assert not is_prac("/* " * 100_000)
    # quadratic time would be minutes
    assert time.perf_counter() - start < 5
