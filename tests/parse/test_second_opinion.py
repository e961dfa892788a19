"""The reader agrees with a parser generated from a grammar: same statements, same places, same texts rejected."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from fixtures_reader import FIXTURES, blocks
from hypothesis import example, given, settings
from hypothesis import strategies as st
from second_opinion import RejectedError, read_again
from test_fuzz import OWN, PIECES, mutated, own_texts

from logicmp import Theory
from logicmp.errors import LogicMPError, Source, Span
from logicmp.parse.reader import read_statements
from logicmp.parse.tokens import EmptyError
from logicmp.testing.random_theories import random_theory, theories

FILES = [path.relative_to(FIXTURES).as_posix() for path in sorted(FIXTURES.rglob("*.txt"))]


def shown(node: Any) -> Any:
    """All of a node, with its spans, which `==` leaves out, and the type of every value."""
    if isinstance(node, Span):
        return ("span", node.start, node.end)
    if is_dataclass(node):
        return (type(node).__name__, *(shown(getattr(node, field.name)) for field in fields(node)))
    return tuple(map(shown, node)) if isinstance(node, (tuple, list)) else (type(node).__name__, repr(node))


def same(text: str) -> int:
    """Compare both readings; returns how many statements there are, 0 if both reject the text."""
    source = Source("<text>", text)
    try:
        read = read_statements(source)
    except EmptyError:
        return 0
    except LogicMPError as error:
        if error.message.startswith("this is not text"):
            return 0
        with pytest.raises(RejectedError):
            read_again(source)
        return 0
    assert shown(read) == shown(read_again(source))
    return len(read)


def test_every_stage_has_fixtures() -> None:
    assert {file.split("/")[0] for file in FILES} == {"normalize", "parse", "plan"}


@pytest.mark.parametrize("file", FILES)
def test_fixtures_are_read_the_same(file: str) -> None:
    texts = [text for text, _ in blocks(FIXTURES / file)]
    assert texts
    n_statements = [same(text) for text in texts]
    assert all(n_statements) or file in ("parse/errors.txt", "parse/facts.txt", "parse/facts_errors.txt")


@pytest.mark.parametrize("text", OWN)
def test_own_text_is_read_the_same(text: str) -> None:
    assert same(text)


def test_random_theories_are_read_the_same() -> None:
    for seed in range(100):
        assert same(str(random_theory(random.Random(seed))))


@settings(max_examples=300, deadline=None)
@given(theories())
def test_random_theory_is_read_the_same(theory: Theory) -> None:
    assert same(str(theory))
    assert same("\n".join(f"({rule.formula})" for rule in theory.rules)) == len(theory.rules)


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
@example("x = exist\ny = not in\n*not (x)")
@example("P(X-1, x-1, x-y-1, X+1)\nP(x-1, +y, X-1) v Q(- 1)\nP(x - 1) v P(+ x)")
@example("P(x) v EXIST y Q(y) ^ R(x) => S\n!EXIST y Q(y) v P(x)\n!(EXIST y Q(y)) v P(x)")
@example("symmetric v(t, t)\nsymmetric C(t, t)\nP(v, in) v Q(not)")
@example("symmetric C\n(t, t)\n*symmetric\nC(t, t)")
@example("P*(t)\nP * (t) v Q\n*P*(t)\nP*(t) = A\nP*(t) in {A}")
@example("P(x) in {A, B} v Q(x) not in {a-1, 3}\nP(x) ! in {A}\nP(x) in {A B}\nx in {A}")
@example("P(x) in\n{A,\nB}\nt = {A,, B}\nt = {A, B,}\nt != {A}\nP(x) = {A}")
@example("P(²) v Q(²x)\nP(٣) v Q(x+٣)")
@example("state(?T, noun) ^ ?T != first => Q(?x)\n")
@example("P(x) ^ (Q(x) // why\n v R(x)) => S\n[P(x) v Q(x)].\n(P(x) v Q(x)]")
@example("P(x) v Q(x) \r\n  P(x)\tv\tQ(x)\f\n")
@example('#include "a.mln"\n#include <b> P(x)')
@example("Q0.5\nP(x.y, X.y, 1.5.a, 1.5e3, '.a)\nP(?x, x.y) v x.y = ?x\nP(a.b!)\nP.Q(x)\nt = {a.b, 1...3, 1.5}")
@example('@2 P(x)\n@P(x)\n[Label] "a" 2 P(x)\n[Label] "a"\n@ 2 P(x)\n[Label] v Q\n[Label] "a" symmetric C(t, t)')
@example("A <=> B => C v D ^ (E <=> F ^ G v H => I) <=> J => K")
def test_words_of_the_language_are_read_the_same(text: str) -> None:
    same(text)
    for line in text.split("\n"):
        same(line)


@pytest.mark.parametrize("n", [0, 1, 40, 150])
def test_nested_text_is_read_the_same(n: int) -> None:
    assert same("!" * n + "P(x) v Q(x)") == 1
    assert same("(" * n + "P(x) ^ Q(x)" + ")" * n) == 1
    assert same("P(x)" + " => P(x)" * n) == 1


def test_real_files_are_read_the_same(data: Path) -> None:
    paths = sorted([*data.rglob("*.mln"), *data.glob("relational/*/*/predicates"), *data.glob("relational/*/*/rules")])
    assert len(paths) >= 21 + 2 * 16
    for path in paths:
        assert same(path.read_text(encoding="utf-8")), path
