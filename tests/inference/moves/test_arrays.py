"""The arrays of a ground network, read back and compared with it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from networks import network_of, random_network

from logicmp import LogicMPError
from logicmp.ground.features import log_weights
from logicmp.ground.network import HARD
from logicmp.ground.propagate import propagate
from logicmp.inference.moves.arrays import build_arrays


@pytest.mark.parametrize("seed", range(20))
def test_occurrences_and_features_are_those_of_the_network(seed: int) -> None:
    network = random_network(seed, max_ground=10)
    try:
        g = build_arrays(network, unary_features=True).ground
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return
    n = network.n_features
    assert g.is_hard[:n].tolist() == (network.param == HARD).tolist()
    assert g.log_weight[:n][~g.is_hard[:n]].tolist() == log_weights(network)[network.param != HARD].tolist()
    assert not g.log_weight[g.is_hard].any()
    assert g.domain.tolist() == propagate(network).tolist()
    by_feature = sorted((int(v), f, int(k)) for f in range(len(g.begins) - 1)
                        for v, k in zip(g.var[g.begins[f] : g.begins[f + 1]], g.set[g.begins[f] : g.begins[f + 1]],
                                        strict=True))
    by_variable = sorted((v, int(f), int(k)) for v in range(len(network.cards))
                         for f, k in zip(g.feature[g.first[v] : g.first[v + 1]],
                                         g.chosen[g.first[v] : g.first[v + 1]], strict=True))
    assert by_feature == by_variable


def test_soft_evidence_becomes_features_only_if_asked() -> None:
    network = network_of("p = {A}\nS(p)\n1 S(x)", "0.8 S(A)", ("S",))
    assert build_arrays(network).ground.log_weight.tolist() == [-1.0]
    both = build_arrays(network, unary_features=True).ground
    assert both.log_weight.tolist() == pytest.approx([-1.0, np.log(0.2 / 0.8)])
    # the set {0} of a variable with two values
    assert both.set.tolist() == [1, 1]


def test_other_weights_replace_those_of_the_network() -> None:
    network = network_of("p = {A}\nS(p)\n1 S(x)")
    assert build_arrays(network, np.array([3.0])).ground.log_weight.tolist() == [-3.0]


@pytest.mark.usefixtures("without_numba")
def test_building_arrays_imports_no_compiled_loop() -> None:
    build_arrays(network_of("p = {A}\nS(p)\nT(p)\n1 S(x) => T(x)\nS(x)."), unary_features=True)
    assert "logicmp.inference.moves.loops" not in sys.modules
