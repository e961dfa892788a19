"""The integer program: its optimum, its limits, and a network without variables."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of, random_network, score, worlds

from logicmp import LogicMPError
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.search.ilp import solve_ilp


@pytest.mark.parametrize("seed", range(15))
def test_the_optimum_is_the_best_of_all_worlds(seed: int) -> None:
    network = random_network(seed, max_ground=5)
    if np.prod(network.cards, dtype=float) > 2**10:
        return
    best = max((score(network, values) for values in worlds(network)), default=0.0)
    if best == -np.inf:
        with pytest.raises(LogicMPError, match="no world satisfies"):
            solve_ilp(build_arrays(network, unary_features=True), None)
        return
    values, is_proven = solve_ilp(build_arrays(network, unary_features=True), None)
    assert values is not None and is_proven
    assert score(network, values) == pytest.approx(best, abs=1e-6)


def test_a_network_without_variables_has_one_world() -> None:
    values, is_proven = solve_ilp(build_arrays(network_of("p = {A}\nS(p)\n1 S(x)", "S(A)")), None)
    assert values is not None and len(values) == 0 and is_proven
