"""Premises that read facts only, and heads that need a candidate: new rules, and what they mean world by world."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from logicmp import infer, parse_facts, parse_theory
from logicmp.facts.roles import premises_from_facts, skip_outside
from logicmp.facts.world import build_world

DECLARED = """
F(p, p)
K(p, p)
S(p)
symmetric M(p, p)
label(p) in {A, B}
L(p, q!)
"""


@pytest.mark.parametrize("rule, new", [
    ("1 K(x,y) ^ K(y,z) => K(x,z)", "1 facts of K(x, y) ^ facts of K(y, z) => K(x, z)"),
    ("1 F(x,y) ^ K(y,z) => K(x,z)", "1 F(x, y) ^ facts of K(y, z) => K(x, z)"),
    ("1 !K(x,y) v S(x)", "1 !facts of K(x, y) v S(x)"),
    # a rule without a head has no premises
    ("0.5 !K(x,y)", "0.5 !K(x, y)"),
    ("1 K(x,y) => !S(x)", "1 K(x, y) => !S(x)"),
    ("1 !K(x,y) ^ (S(x) => K(x,x))", "1 !K(x, y) ^ (facts of S(x) => K(x, x))"),
    ("1 F(x,y) => (S(x) <=> S(y))", "1 F(x, y) => (facts of S(x) => S(y)) ^ (facts of S(y) => S(x))"),
    ("1 F(x,y) <=> F(y,x)", "1 F(x, y) <=> F(y, x)"),
    ("1 (EXIST y (K(x,y))) => S(x)", "1 (EXIST y (facts of K(x, y))) => S(x)"),
    ("1 M(x,y) => S(x)", "1 facts of M(x, y) => S(x)"),
    ("1 label(x)=A ^ F(x,y) => label(y)=A", "1 facts of label=A(x) ^ F(x, y) => label(y) in {A}"),
    ("1 label(x) in {A, B} => S(x)", "1 facts of label=A(x) v facts of label=B(x) => S(x)"),
    ("1 L(x,c) ^ F(x,y) => L(y,c)", "1 facts of L(x, c) ^ F(x, y) => L(y, c)"),
    ("S(x) => K(x,x).", "facts of S(x) => K(x, x)."),
])
def test_premises_read_facts(rule: str, new: str) -> None:
    theory = parse_theory(DECLARED + rule)
    found, added = premises_from_facts(theory, parse_facts("", theory), ["K", "S", "M", "label", "L"])
    assert [str(r) for r in found.theory.rules] == [new]
    assert set(added) == {name for name in found.theory.predicate if name.startswith("facts of")}
    for name in added:
        old = theory.predicate[name.removeprefix("facts of ").partition("=")[0]]
        new_one = found.theory.predicate[name]
        assert (new_one.types, new_one.symmetric) == (old.types, old.symmetric)


def test_only_true_facts_are_premises() -> None:
    theory = parse_theory(DECLARED + "1 S(x) => K(x,x)\n1 label(x)=A => S(x)\n1 L(x,c) => S(x)")
    facts = parse_facts("S(A)\n!S(B)\n?S(C)\n0.7 S(D)\nlabel(A)=A\nlabel(B)=B\nL(A,Q1)", theory)
    found, _ = premises_from_facts(facts.theory, facts, ["S", "K", "label", "L"])
    assert {name: table.args for name, table in found.tables.items() if name.startswith("facts of")} == {
        "facts of S": [("A",)], "facts of label=A": [("A",)], "facts of L": [("A", "Q1")]}


@pytest.mark.parametrize("rule, new", [
    ("1 F(x,y) => K(x,y)", "1 F(x, y) => K(x, y) v !candidates of K(x, y)"),
    ("1 K(x,y) => S(x)", "1 K(x, y) => S(x)"),
    ("0.5 K(x,y)", "0.5 K(x, y) v !candidates of K(x, y)"),
    ("1 S(x) => (EXIST y (K(x,y)))", "1 S(x) => (EXIST y (K(x, y)))"),
    ("1 (FORALL y (F(x,y) => K(x,y))) v S(x)",
     "1 (FORALL y (F(x, y) => K(x, y) v !candidates of K(x, y))) v S(x)"),
    ("1 !(FORALL y (!K(x,y)))", "1 !(FORALL y (!K(x, y)))"),
    ("1 F(x,y) => L(x,c)", "1 F(x, y) => L(x, c) v !candidates of L(x)"),
])
def test_heads_need_a_candidate(rule: str, new: str) -> None:
    theory = parse_theory(DECLARED + rule)
    facts = parse_facts("F(A,B)\nS(A)\nM(A,A)\nlabel(A)=A\n?L(A,Q1)\n?L(A,Q2)\n?K(A,A)", theory)
    world = build_world(facts, ["K", "L"], dense_atoms=10**6, candidates=parse_facts(
        "K(A,B)\nL(A,Q1)", facts.theory))
    assert [str(r) for r in skip_outside(world).theory.rules] == [new]


PEOPLE = "ABC"
FACTS = {("A", "B"), ("B", "C"), ("C", "C")}
RULES: dict[str, Callable[[set[tuple[str, str]], set[tuple[str, str]], tuple[str, ...]], bool]] = {
    # K(x,y) ^ K(y,z) => K(x,z), with K read from facts in the premises
    "0.9 K(x,y) ^ K(y,z) => K(x,z)": lambda k, f, b: not ((b[0], b[1]) in f and (b[1], b[2]) in f) or (b[0], b[2]) in k,
    "0.6 K(x,y) <=> K(y,x)": lambda k, f, b: ((b[0], b[1]) not in f or (b[1], b[0]) in k) and (
        (b[1], b[0]) not in f or (b[0], b[1]) in k),
    "0.4 !K(x,y)": lambda k, f, b: (b[0], b[1]) not in k,
}


def test_premises_from_facts_by_counting_worlds() -> None:
    """Eq. 1, world by world: the premises read the facts, the heads the world."""
    atoms = list(itertools.product(PEOPLE, PEOPLE))
    totals = dict.fromkeys(atoms, 0.0)
    z = 0.0
    free = [atom for atom in atoms if atom not in FACTS]
    for chosen in itertools.product((False, True), repeat=len(free)):
        world = FACTS | {atom for atom, is_true in zip(free, chosen, strict=True) if is_true}
        score = 0.0
        for (rule, holds), n in zip(RULES.items(), (3, 2, 2), strict=True):
            weight = float(rule.split()[0])
            score += weight * sum(holds(world, FACTS, b) for b in itertools.product(PEOPLE, repeat=n))
        z += math.exp(score)
        for atom in world:
            totals[atom] += math.exp(score)
    text = "p = {A, B, C}\nK(p, p)\n" + "\n".join(RULES)
    found = infer(text, "\n".join(f"K({a},{b})" for a, b in sorted(FACTS)), "K", "exact", premises="facts")
    assert dict(found) == pytest.approx({f"K({a},{b})": total / z for (a, b), total in totals.items()}, rel=1e-9)
    assert found.log_partition == pytest.approx(math.log(z), rel=1e-9)
    # it differs from reading all atoms
    assert abs(found["K(A,A)"] - infer(text, "\n".join(f"K({a},{b})" for a, b in FACTS), "K", "exact")["K(A,A)"]) > 0.01
