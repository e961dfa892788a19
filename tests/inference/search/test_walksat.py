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
