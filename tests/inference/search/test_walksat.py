"""The compiled loops that all sampling methods share: counts, propagation, WalkSAT on satisfiable clauses."""

from __future__ import annotations

import random

import numpy as np
import pytest

from logicmp import LogicMPError, parse_facts, parse_theory
from logicmp.execute.inputs import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.features import true_features
from logicmp.ground.network import Network
from logicmp.inference.moves import loops
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.search.walksat import max_walksat
from logicmp.limits import Clock, silent
from logicmp.testing.random_models import random_model


def network_of(theory: str, facts: str = "") -> Network:
    return build_network(build_world(parse_facts(facts, parse_theory(theory))))


@pytest.mark.parametrize("seed", range(40))
def test_after_any_moves_the_counts_are_those_counted_anew(seed: int) -> None:
    model = random_model(random.Random(seed), max_ground=8)
    try:
        arrays = build_arrays(build_network(world_from_tensors(model.theory, model.unary, model.evidence)))
    except LogicMPError as error:
        assert "hard rule" in error.message
        return
    network, rng = arrays.network, np.random.default_rng(seed)
    weight = np.where(arrays.ground.is_hard, 1.0, arrays.ground.log_weight)
    state = arrays.new_state(weight, np.sign(weight))
    loops.random_world(arrays.ground, state, 2, rng)
    for _ in range(50 * (network.n_own > 0)):
        v = int(rng.integers(network.n_own))
        new = int(rng.integers(network.cards[v]))
        before = state.score[0]
        expected = loops.change(arrays.ground, state, v, new)
        loops.move(arrays.ground, state, v, new)
        assert state.score[0] - before == pytest.approx(expected, abs=1e-9)
    holds = true_features(network, state.values)
    assert (state.n_false == 0).tolist() == holds.tolist()
    assert state.score[0] == pytest.approx(weight[holds].sum(), abs=1e-9)
    is_broken = np.where(weight > 0, holds, ~holds) & (weight != 0)
    assert sorted(state.violated[: state.n_violated[0]].tolist()) == np.flatnonzero(is_broken).tolist()
    # quantified parts followed: no feature that defines one holds
    assert not holds[network.defines >= 0].any()


def test_unit_propagation_follows_a_chain_of_hard_rules() -> None:
    network = network_of("p = {A, B, C}\nS(p)\nF(p, p)\nF(x, y) ^ S(x) => S(y).\nS(A).", "F(A, B)\nF(B, C)")
    assert build_arrays(network).ground.domain.tolist() == [False, True] * 3


def test_a_contradiction_that_propagation_sees_is_refused_at_once() -> None:
    with pytest.raises(LogicMPError, match="no world satisfies the hard rules and the evidence"):
        build_arrays(network_of("p = {A}\nS(p)\nT(p)\nS(x).\nS(x) => T(x).\n!T(x)."))


def test_walksat_solves_a_satisfiable_formula_and_stops() -> None:
    people = ", ".join(f"P{i}" for i in range(20))
    network = network_of(f"p = {{{people}}}\nR(p, p)\nR(x, y) v R(y, x).\n!R(x, y) v !R(y, x) v x = y.")
    arrays = build_arrays(network, unary_features=True)
    walk = max_walksat(arrays, np.random.default_rng(0), 100_000, 1, 0.3, Clock(None), silent)
    assert walk.n_violated_hard == 0
    assert walk.flips < 100_000


def test_the_same_random_numbers_give_the_same_walk() -> None:
    network = network_of("p = {A, B, C, D}\nR(p, p)\n1 R(x, y) ^ R(y, z) => R(x, z)\n-0.7 R(x, y) ^ R(y, x)")
    arrays = build_arrays(network, unary_features=True)
    one, two = (max_walksat(arrays, np.random.default_rng(3), 5000, 2, 0.3, Clock(None), silent) for _ in range(2))
    assert one.values.tolist() == two.values.tolist()
    assert one.flips == two.flips
