"""Plain lines are read without the grammar, and come out as the grammar reads them: same trees, same places."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from fixtures_reader import FIXTURES, blocks
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_fuzz import OWN, PIECES, mutated, own_texts

from logicmp import LogicMPError, Theory, parse_theory
from logicmp.errors import Source, Span
from logicmp.parse.plain import read_plain
from logicmp.parse.reader import _join_lines, _read_by_grammar, is_prac, read_statements
from logicmp.testing.random_theories import theories


def shown(node: Any) -> Any:
    """All of a node, with its spans, which `==` leaves out; and the type of every number."""
    if isinstance(node, Span):
        return ("span", node.start, node.end)
    if is_dataclass(node):
        return (type(node).__name__, *(shown(getattr(node, field.name)) for field in fields(node)))
    return tuple(map(shown, node)) if isinstance(node, (tuple, list)) else (type(node).__name__, repr(node))


def by_grammar(text: str) -> Any:
    source = Source("<text>", text)
    try:
        return shown(_read_by_grammar(source, _join_lines(text) + "\n", is_prac(text), {}))
    except LogicMPError as error:
        return str(error)


def as_read(text: str) -> Any:
    try:
        return shown(read_statements(Source("<text>", text)))
    except LogicMPError as error:
        return str(error)


def n_plain(text: str) -> int:
    runs, rest = read_plain(Source("<text>", text), _join_lines(text) + "\n", is_prac(text))
    assert len(rest) == len(text) + 1
    return sum(map(len, runs.values()))


def same(text: str) -> None:
    read = as_read(text)
    # an empty text and characters that are no text are refused before either reads
    if not str(read).startswith(("the theory is empty", "this is not text")):
        assert read == by_grammar(text)


@settings(max_examples=300, deadline=None)
@given(theories())
def test_random_theory_is_read_the_same(theory: Theory) -> None:
    same(str(theory))
    same("\n".join(f"({rule.formula})" for rule in theory.rules))


@settings(max_examples=300, deadline=None)
@given(mutated(own_texts))
def test_damaged_text_is_read_the_same(text: str) -> None:
    same(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@example("P(x) v\nQ(x)")
@example("P(x) =>\n\nQ(x)\nR(x) v S")
@example("t = {A,\nB\n}\nP(x) v Q(x)")
@example("P(x) v Q(x)\n#define\n")
@example("#\nP(x) v Q(x)")
@example("P(x) Q(x)\nP(y) v Q(y)")
@example("1 P(x) v Q(x).")
@example("007 P(x) v Q(x)")
@example("-0 P(x) v Q(x)\n1e999 P(x) v Q(x)\n1. P(x)\n.5 P(x)\n99999999999999999999 P(x)")
@example("not(x) v P(x)\nnot P(x) v Q(x)\nnot in {A}")
@example("exist (x) v P(x)\nEXIST x, y(z)\nEXIST X P(X)")
@example("x = 1.\n1 = x v P(x)\nx != y ^ A = x v P(x)\nP(x) = B-1.")
@example("P(X-1, x-1, x-y-1, X+1)\nP(x-1, +y, X-1) v Q(- 1)\nP(x - 1) v P(+ x)")
@example("P(x) v EXIST y Q(y) ^ R(x) => S\n!EXIST y Q(y) v P(x)\n!(EXIST y Q(y)) v P(x)")
@example("symmetric v(t, t)\nsymmetric C(t, t)\nP(v, in) v Q(not)")
@example("P(x) in {A, B} v Q(x) not in {a-1, 3}\nP(x) ! in {A}\nP(x) in {A B}\nx in {A}")
@example("P(²) v Q(²x)\nP(٣) v Q(x+٣)")
@example("state(?T, noun) ^ ?T != first => Q(?x)\n")
@example("P(x) ^ (Q(x) // why\n v R(x)) => S\n[P(x) v Q(x)].\n(P(x) v Q(x)]")
@example("P(x) v Q(x) \r\n  P(x)\tv\tQ(x)\f\n")
def test_words_of_the_language_are_read_the_same(text: str) -> None:
    same(text)


@pytest.mark.parametrize("text", [
    *OWN, *(text for file in ("dialects", "errors") for text, _ in blocks(FIXTURES / f"parse/{file}.txt"))])
def test_text_is_read_the_same(text: str) -> None:
    same(text)


@pytest.mark.parametrize("n", [0, 10, 39, 40, 41, 60, 170])
def test_nested_text_is_read_the_same(n: int) -> None:
    same("!" * n + "P(x) v Q(x)")
    same("(" * n + "P(x) ^ Q(x)" + ")" * n)
    same("P(x)" + " => P(x)" * n)


def test_what_files_are_made_of_is_plain() -> None:
    lines = ["1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)", "-2 !P(x, Anna) v Q(+x) v x != y", "P(x) <=> (Q(x) v !R).",
             "log(0.9/0.1) P(x) => EXIST y Q(x, y)", "1 label(i) in {O, B-PER} => !(label(i+1) = I-PER)", "[A v B]"]
    for line in lines:
        assert n_plain(line) == 1, line


def test_a_line_that_goes_on_stays_with_the_grammar() -> None:
    assert n_plain("P(x) v\nQ(x)\nR(x)\nS") == 2
    assert len(parse_theory("P(x) v\nQ(x)\nR(x) v S").rules) == 2


def test_lines_are_counted_from_the_first() -> None:
    source = Source("s", "ab\n\ncd\n", first_line=7)
    assert [(Span(source, k, k).line, Span(source, k, k).column) for k in range(8)] == [
        (7, 1), (7, 2), (7, 3), (8, 1), (9, 1), (9, 2), (9, 3), (10, 1)]
