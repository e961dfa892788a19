"""What the reader alone decides: where statements and their parts are, how deep they nest, how long it takes.

What statements mean is in test_theory.py, errors are in test_errors.py, and test_second_opinion.py compares every
statement with another parser.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from logicmp import parse_theory
from logicmp.errors import LogicMPError, RuleError, Source
from logicmp.parse.reader import MAX_DEPTH, read_statements
from logicmp.parse.syntax import And, Atom, Constant, Equal, Exists, Iff, Implies, Not, Or, Variable
from logicmp.parse.tokens import Defined, Enclosed, Include, Marked, Starred, Statement, UnexpectedError


def read(text: str, grammar: str = "auto") -> list[Any]:
    return list(read_statements(Source("<text>", text), grammar))


def formula(text: str) -> Any:
    (statement,) = read(text)
    return statement.formula


def error_of(text: str) -> RuleError:
    with pytest.raises(RuleError) as error:
        read(text)
    return error.value


@pytest.mark.parametrize("text, spans", [
    ("P(x) v Q\nR", ["P(x) v Q", "R"]),
    # a line goes on inside brackets, and where the statement cannot end
    ("P(x,\n y) =>\n\nQ.\nR", ["P(x,\n y) =>\n\nQ.", "R"]),
    ("2 \n P(x)\nR(x) ^\n !\n Q\n", ["2 \n P(x)", "R(x) ^\n !\n Q"]),
    ("t =\n{A,\nB\n}\nP(x) in\n{A}", ["t =\n{A,\nB\n}", "P(x) in\n{A}"]),
    ("EXIST x\n, y\nP(x, y)", ["EXIST x\n, y\nP(x, y)"]),
    ("symmetric C\n(t, t)", ["symmetric C\n(t, t)"]),
    ("  P(x)  // why\n\n/* a\nb */ Q . // hard", ["P(x)", "Q ."]),
    ('#include "a.mln"  \n#include <b.mln>', ['#include "a.mln"', "#include <b.mln>"]),
])
def test_statement_ends_with_its_line_unless_it_goes_on(text: str, spans: list[str]) -> None:
    assert [statement.span.text for statement in read(text)] == spans


def test_kinds_of_statements() -> None:
    weighted, hard, enclosed, defined, symmetric, include = read(
        '-1.5 P(x)\nP(x).\n[P]\nt = {A, 1, ..., 3}\n*symmetric C(t, t)\n#include "a b.mln"')
    assert (weighted.weight, weighted.is_hard, weighted.weight_span.text) == (-1.5, False, "-1.5")
    assert (hard.weight, hard.is_hard, hard.weight_span) == (None, True, None)
    assert isinstance(enclosed.formula, Enclosed) and enclosed.formula.bracket == "["
    assert isinstance(defined.formula, Defined) and defined.formula.items == ("A", "1", "2", "3")
    assert isinstance(symmetric, Statement) and (symmetric.word, symmetric.closed_world) == ("symmetric", True)
    assert isinstance(include, Include) and include.path == "a b.mln"


def test_precedence_and_association() -> None:
    a, b, c, d = map(Atom, "ABCD")
    assert formula("!A ^ B v C => D") == Implies(Or((And((Not(a), b)), c)), d)
    assert formula("A v B ^ C v D") == Or((a, And((b, c)), d))
    assert formula("A => B => C") == Implies(Implies(a, b), c)
    assert formula("A <=> B => C <=> D") == Iff(Iff(a, Implies(b, c)), d)
    assert formula("A => B ^ C <=> D") == Iff(Implies(a, And((b, c))), d)
    # a quantifier reaches as far as it can
    assert formula("A ^ EXIST x B ^ C => D") == And((a, Exists((Variable("x"),), Implies(And((b, c)), d))))


def test_atoms_and_terms() -> None:
    x = Variable("x")
    assert formula('P(x, A, "b c", -1, +x, x+2, x - 1)') == Atom("P", (
        x, Constant("A"), Constant("b c"), Constant("-1"), Variable("x", per_constant=True), Variable("x", offset=2),
        Variable("x", offset=-1)))
    assert formula("1 = x") == Equal(x, Constant("1"))
    assert formula("x != y") == Not(Equal(x, Variable("y")))
    assert formula("P(x) = B-1") == Atom("P", (x,), ("B-1",))
    assert formula("P(x) not in {A B, c}") == Not(Atom("P", (x,), ("A", "B", "c")))
    assert isinstance(formula("*P(x)"), Starred) and isinstance(formula("P*(x)"), Starred)
    assert [type(arg) for arg in formula("P(t!, u?, v)").args] == [Marked, Marked, Variable]


def test_grammar_decides_what_a_variable_is() -> None:
    for grammar, kinds in (("standard", [Variable, Variable]), ("prac", [Variable, Constant]),
                           ("auto", [Variable, Constant])):
        (statement,) = read("P(?x, y)", grammar)
        assert [type(arg) for arg in statement.formula.args] == kinds


@pytest.mark.parametrize("text, expected", [
    ("; P", "'!', '(', '[', a name, a number, a string, a variable or a weight"),
    ("1 ; P", "'!', '(', '[', a name, a number, a string or a variable"),
    ("P(;)", "')', a name, a number, a string or a variable"), ("P(x, ;)", "a name, a number, a string or a variable"),
    ("P(+;)", "a name, a number, a string or a variable"), ("P(x+;)", "a number"), ("P(x ;)", "'!', ')' or ','"),
    ("P(+x ;)", "')' or ','"), ("P(x+1 ;)", "')' or ','"), ("P(x! ;)", "')' or ','"),
    ("P ;", "'!=', '(', '.', '<=>', '=', '=>', '^', 'in', 'v' or the end of the line"),
    ("(P ;)", "'!=', '(', ')', '<=>', '=', '=>', '^', 'in' or 'v'"), ("[(P) ;]", "'<=>', '=>', ']', '^' or 'v'"),
    ("*P(x) ;", "'.', '<=>', '=>', '^', 'v' or the end of the line"), ("P(x). ;", "the end of the line"),
    ("P(x) in ;", "'{'"), ("P(x) in {A ;}", "',', '}', a name, a number or a string"),
    ("P(x) in {A, ;}", "'}', a name, a number or a string"),
    ("P(x) = ;", "'{', a name, a number, a string or a variable"),
    ("P(x) != ;", "a name, a number, a string or a variable"), ("∃ ;", "a name or a variable"),
    ("symmetric C ;", "'('"), ("symmetric C(t, t) ;", "the end of the line"), ('#include "a" ;', "the end of the line"),
])
def test_error_lists_what_was_expected(text: str, expected: str) -> None:
    error = error_of(text)
    assert isinstance(error, UnexpectedError)
    assert (error.message, error.hint) == ("unexpected ';'", f"expected {expected}")


@pytest.mark.parametrize("text, message", [
    ("P(+x!)", "unexpected '!'"), ("P(+x+1)", "unexpected '+'"), ("P(x + y)", "unexpected 'y'"),
    ("P(x~)", "unexpected '~'"), ("P(x!!)", "unexpected '!'"), ("*P(x) = A", "unexpected '='"),
    ("(P(x)) in {A}", "unexpected 'in'"), ("(P(x).)", "unexpected '.'"), ("P(x). Q", "unexpected 'Q'"),
    ("x != {A}", "unexpected '{'"), ("A * B", "unexpected '*'"),
])
def test_place_of_the_error_is_exact(text: str, message: str) -> None:
    error = error_of(text)
    assert error.message == message
    assert error.span is not None and message == f"unexpected {error.span.text!r}"


def test_first_error_counts() -> None:
    assert error_of("1/0 P(x)\nP(x").message.startswith("the weight '1/0' has no value")
    assert error_of("P(x\n1/0 P(x)").message == "bracket '(' is never closed"


@pytest.mark.parametrize("text", [
    "!" * 100_000 + "P(x)", "(" * 100_000 + "P(x)" + ")" * 100_000, "EXIST x " * 100_000 + "P(x)",
    "P(x)" + " => P(x)" * 50_000, "P(x)" + " <=> P(x)" * 200,
    # no more than 150 brackets and 150 arrows inside each other, but 22,500 together
    "(" * 150 + "P(x)" + (" => P(x)" * 150 + ")") * 150,
    "P(x) <=> P(x) => P(x) v P(x) ^ (" * 100 + "P(x)" + ")" * 100,
])
def test_deep_nesting_is_rejected(text: str) -> None:
    error = error_of(text)
    assert (error.message, error.hint) == (f"this formula is nested more than {MAX_DEPTH} deep", "split the rule")


def test_brackets_that_never_close_are_named_first() -> None:
    for text in ("(" * 100_000, "[" * 100_000 + "P(x)", "P(x) v (" * 100_000):
        assert error_of(text).message == f"bracket {'[' if text[0] == '[' else '('!r} is never closed"


def test_deepest_nesting_fits_into_500_frames() -> None:
    def frames() -> int:
        frame, n = sys._getframe(), 0
        while frame.f_back is not None:
            frame, n = frame.f_back, n + 1
        return n

    limit, deepest = sys.getrecursionlimit(), MAX_DEPTH - 1
    sys.setrecursionlimit(frames() + 500)
    try:
        for text in ("(" * deepest + "P" + ")" * deepest, "!" * deepest + "P",
                     "(A <=> A => A v A ^ " * 31 + "A" + ")" * 31):
            assert len(read(text)) == 1
    finally:
        sys.setrecursionlimit(limit)


def test_time_grows_with_the_length() -> None:
    def seconds(n: int) -> float:
        text = "1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)\n" * n
        times = []
        for _ in range(3):
            start = time.perf_counter()
            assert len(read(text)) == n
            times.append(time.perf_counter() - start)
        return min(times)

    # 16 times as long, with room for noise; quadratic would be 256
    assert seconds(8000) < 64 * seconds(500)


def test_error_at_the_end_of_a_long_text_is_found() -> None:
    with pytest.raises(LogicMPError) as error:
        parse_theory("P(t)\n" + "1 P(x) v !P(y)\n" * 5000 + "1 P(x) $")
    assert str(error.value).startswith("unexpected '$'\n --> <text>:5002:8\n")
