"""Rows of premises are counted without making them, and rules without premises add no candidates."""

from __future__ import annotations

import itertools
import random

import pytest

from logicmp import parse_facts, parse_theory
from logicmp.ground.reach import count_premises, reach

NAMES = [f"E{k}" for k in range(8)]


@pytest.mark.parametrize("seed", range(4))
def test_premises_are_counted(seed: int) -> None:
    rng = random.Random(seed)
    theory = parse_theory("A(e, e)\nB(e, e)\nC(e, e)\nA(x,h) ^ B(h,y) => C(x,y)\nA(h,x) ^ A(h,y) => C(x,y)\n"
                          "B(y,x) => C(x,y)\nC(x,y) => A(x,y)\nC(x,y)\n")
    pairs = {name: set(rng.sample(list(itertools.product(NAMES, NAMES)), 15)) for name in "AB"}
    facts = parse_facts("\n".join(f"{name}({a}, {b})" for name, rows in pairs.items() for a, b in rows), theory)
    joined = sum(h == g for _, h in pairs["A"] for g, _ in pairs["B"])
    forks = sum(h == g for h, _ in pairs["A"] for g, _ in pairs["A"])
    assert count_premises(facts) == [joined, forks, 15, 0, 0]


def test_a_prior_of_all_atoms_lists_none_of_them() -> None:
    theory = parse_theory("A(e, e)\nC(e, e)\n1 A(x,y) => C(y,x)\n-3 C(x,y)\n!C(x,x).")
    found = reach(parse_facts("A(E1, E2)\nA(E3, E4)", theory), 1, {"C"}, dense_atoms=4)
    assert sorted(found.tables["C"].args) == [("E2", "E1"), ("E4", "E3")]
