"""Merged features: every world has the same score, and each feature is there once."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of, random_network

from logicmp import LogicMPError
from logicmp.inference.moves.arrays import GroundArrays, build_arrays
from logicmp.inference.search.merge import merge_features


def score(arrays: GroundArrays, values: np.ndarray) -> tuple[float, int]:
    """The score of a world, and how many hard features are true, feature by feature."""
    g, total, n_hard = arrays.ground, 0.0, 0
    for f in range(arrays.n_features):
        if all(g.member[g.set[j], values[g.var[j]]] for j in range(g.begins[f], g.begins[f + 1])):
            total += g.log_weight[f]
            n_hard += bool(g.is_hard[f])
    return total, n_hard


@pytest.mark.parametrize("seed", range(30))
def test_every_world_has_the_same_score(seed: int) -> None:
    network, rng = random_network(seed, max_ground=6), np.random.default_rng(seed)
    try:
        arrays = build_arrays(network, unary_features=True)
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return
    merged = merge_features(arrays)
    g = merged.ground
    for _ in range(5):
        values = rng.integers(0, network.cards)
        assert score(merged, values) == pytest.approx(score(arrays, values))
    soft = [(*g.var[g.begins[f] : g.begins[f + 1]].tolist(), *g.set[g.begins[f] : g.begins[f + 1]].tolist())
            for f in range(merged.n_features) if not g.is_hard[f]]
    assert len(soft) == len(set(soft))
    # the features that decide quantified parts are the same ones
    for a in np.flatnonzero(g.decider >= 0).tolist():
        old, new = arrays.ground.decider[a], g.decider[a]
        assert (arrays.ground.var[arrays.ground.begins[old] : arrays.ground.begins[old + 1]].tolist()
                == g.var[g.begins[new] : g.begins[new + 1]].tolist())


def test_equal_features_become_one_and_opposite_weights_none() -> None:
    network = network_of("p = {A}\nS(p)\nT(p)\n2 S(x) => T(x)\n0.5 !S(x) v T(x)\n1 S(x) v T(x)\n-1 S(x) v T(x)")
    merged = merge_features(build_arrays(network))
    assert merged.n_features == 1
    assert merged.ground.log_weight.tolist() == [-2.5]
