"""Clauses for SAT solvers: their models are the worlds of the ground network."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from networks import network_of, random_network, score, worlds

from logicmp import LogicMPError
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.search.maxsat import Propositions, hard_world


@pytest.mark.parametrize("seed", range(20))
def test_the_models_of_the_hard_clauses_are_the_possible_worlds(seed: int) -> None:
    network = random_network(seed, max_ground=4, features={"formulas", "multiclass", "functional", "hard"})
    n = int(network.starts[-1])
    try:
        propositions = Propositions(build_arrays(network))
    except LogicMPError:
        return
    if n > 10:
        return
    clauses = list(propositions.hard_clauses())
    # a variable with two values has one proposition; the number after it is free, so false here
    free = {int(s) + 2 for s, card in zip(network.starts, network.cards, strict=False) if card == 2}
    found = set()
    for signs in itertools.product((1, -1), repeat=n):
        model = [sign * (k + 1) for k, sign in enumerate(signs)]
        if not free & {p for p in model if p > 0} and all(set(clause) & set(model) for clause in clauses):
            found.add(tuple(propositions.world(model).tolist()))
    assert found == {tuple(values.tolist()) for values in worlds(network) if score(network, values) > -np.inf}


def test_hard_rules_without_a_world_have_none() -> None:
    contradiction = "p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\nS(x) v !T(x).\n!S(x) v !T(x)."
    assert hard_world(build_arrays(network_of(contradiction))) is None
