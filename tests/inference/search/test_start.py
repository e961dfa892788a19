"""Worlds for chains to start from: by WalkSAT, by a SAT solver, or an error."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from networks import network_of, random_network

from logicmp import LogicMPError
from logicmp.ground.features import true_features
from logicmp.inference.moves.arrays import GroundArrays, build_arrays
from logicmp.inference.search.start import satisfy_hard_rules
from logicmp.limits import Limits

# S is true for all or for none, and then T is true for all
EQUAL = "p = {A, B, C, D}\nS(p)\nT(p)\nS(x) => S(y).\nS(x) v T(x).\n1 T(x)"


def start(arrays: GroundArrays, chain: int = 0, max_flips: int = 10_000) -> np.ndarray:
    state = arrays.new_state(arrays.ground.log_weight, arrays.ground.is_hard)
    satisfy_hard_rules(arrays, state, np.random.default_rng(chain), max_flips, Limits(), chain)
    assert state.n_violated[0] == 0
    return state.values


@pytest.mark.parametrize("seed", range(20))
def test_the_start_satisfies_the_hard_rules(seed: int) -> None:
    network = random_network(seed, max_ground=10)
    try:
        values = start(build_arrays(network))
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return
    arrays = build_arrays(network)
    assert not true_features(network, values)[arrays.ground.is_hard].any()
    assert arrays.ground.domain[network.starts[:-1] + values].all()


def test_the_first_chains_start_from_opposite_worlds() -> None:
    arrays = build_arrays(network_of("p = {A, B}\nS(p)\nS(x) => S(y)."))
    assert [start(arrays, chain).tolist() for chain in (0, 1)] == [[0, 0], [1, 1]]


def test_a_sat_solver_finds_a_world_where_the_search_gives_up() -> None:
    arrays = build_arrays(network_of(EQUAL))
    values = start(arrays, max_flips=0)
    assert not true_features(arrays.network, values)[arrays.ground.is_hard].any()


def test_without_a_sat_solver_a_search_that_gives_up_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysat", None)
    with pytest.raises(LogicMPError) as caught:
        start(build_arrays(network_of(EQUAL)), max_flips=0)
    assert str(caught.value) == """\
found no world that satisfies the hard rules in 0 flips (there may be one; python-sat would decide); the hard rules are:
  S(x) => S(y).
  S(x) v T(x).
hint: give one of them a weight, or correct the evidence; or pip install "logicmp[map]\""""
