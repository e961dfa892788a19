"""MaxWalkSAT on satisfiable clauses, and its repeatability."""

from __future__ import annotations

import numpy as np
from networks import network_of

from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.search.walksat import max_walksat
from logicmp.limits import Limits, silent


def test_walksat_solves_a_satisfiable_formula_and_stops() -> None:
    people = ", ".join(f"P{i}" for i in range(20))
    network = network_of(f"p = {{{people}}}\nR(p, p)\nR(x, y) v R(y, x).\n!R(x, y) v !R(y, x) v x = y.")
    arrays = build_arrays(network, unary_features=True)
    walk = max_walksat(arrays, np.random.default_rng(0), 100_000, 1, 0.3, Limits(), silent)
    assert walk.n_violated_hard == 0
    assert walk.flips < 100_000


def test_the_same_random_numbers_give_the_same_walk() -> None:
    network = network_of("p = {A, B, C, D}\nR(p, p)\n1 R(x, y) ^ R(y, z) => R(x, z)\n-0.7 R(x, y) ^ R(y, x)")
    arrays = build_arrays(network, unary_features=True)
    one, two = (max_walksat(arrays, np.random.default_rng(3), 5000, 2, 0.3, Limits(), silent) for _ in range(2))
    assert one.values.tolist() == two.values.tolist()
    assert one.flips == two.flips


def test_components_keep_their_best_worlds() -> None:
    # 300 triangles, each with two worlds that are hard to leave: together they are right only if each is judged alone
    n = 300
    names = ", ".join(f"T{k}" for k in range(n))
    rules = (f"t = {{{names}}}\nA(t)\nB(t)\nC(t)\n4 A(x) <=> B(x)\n4 B(x) <=> C(x)\n4 A(x) <=> C(x)\n"
             "1 A(x) ^ B(x) ^ C(x)")
    facts = "\n".join(f"{'0.3' if k % 2 else '0.01'} A(T{k})" for k in range(n))
    arrays = build_arrays(network_of(rules, facts, ("A",)), unary_features=True)
    walk = max_walksat(arrays, np.random.default_rng(0), 20_000, 3, 0.3, Limits(), silent)
    a = walk.values[:n]
    assert a.tolist() == [k % 2 for k in range(n)]
