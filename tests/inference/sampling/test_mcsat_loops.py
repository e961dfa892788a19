"""The compiled propagation of MC-SAT, against that of every start."""

from __future__ import annotations

import numpy as np
import pytest
from networks import random_network

from logicmp import LogicMPError
from logicmp.ground.propagate import n_open_literals, propagate
from logicmp.inference.moves import loops
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.sampling import mcsat_loops


@pytest.mark.parametrize("seed", range(60))
def test_compiled_propagation_gives_the_domains_of_every_start(seed: int) -> None:
    network = random_network(seed, max_ground=12)
    try:
        arrays = build_arrays(network)
    except LogicMPError:
        with pytest.raises(LogicMPError, match="no world satisfies"):
            propagate(network)
        return
    g, work = arrays.ground, mcsat_loops.new_workspace(arrays, 10, 10)
    domain = network.potentials > -np.inf
    assert mcsat_loops.propagate(g, g.is_hard.astype(np.int8), domain, work.n_open, work.stack, work.old)
    assert domain.tolist() == g.domain.tolist()
    want = n_open_literals(network, domain)
    assert work.n_open[g.is_hard].tolist() == want[g.is_hard].tolist()


@pytest.mark.parametrize("seed", range(20))
def test_a_feature_that_must_be_true_keeps_only_its_values(seed: int) -> None:
    network = random_network(seed, max_ground=8, features={"formulas", "multiclass", "functional"})
    if not network.n_features:
        return
    arrays = build_arrays(network)
    g, work = arrays.ground, mcsat_loops.new_workspace(arrays, 10, 10)
    listed = np.zeros(arrays.n_features, dtype=np.int8)
    listed[0] = -1
    domain = g.domain.copy()
    assert mcsat_loops.propagate(g, listed, domain, work.n_open, work.stack, work.old)
    for j in range(g.begins[0], g.begins[1]):
        assert loops.literal_truth(g, domain, g.var[j], g.set[j]) == 1
