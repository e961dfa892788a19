"""The gains of MaxWalkSAT: after any moves, they and the counts are those of a fresh count."""

from __future__ import annotations

import numpy as np
import pytest
from networks import random_network

from logicmp import LogicMPError
from logicmp.inference.moves import loops
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.search import walk_loops
from logicmp.inference.search.merge import merge_features
from logicmp.inference.search.walksat import new_gains


@pytest.mark.parametrize("seed", range(25))
def test_after_any_moves_changes_are_differences_of_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    try:
        arrays = merge_features(build_arrays(random_network(seed, max_ground=8), unary_features=True))
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return
    g = arrays.ground
    if not g.n_own:
        return
    weight = np.where(g.is_hard, 100.0, -g.log_weight)
    state, gains = arrays.new_state(weight, np.sign(weight)), new_gains(arrays)
    loops.random_world(g, state, 2, rng)
    walk_loops.fill_gains(g, state, gains)
    for _ in range(30):
        v = int(rng.integers(g.n_own))
        new = int(rng.integers(g.starts[v + 1] - g.starts[v]))
        before, cost = float(state.score[0]), loops.change(g, state, gains, v, new)
        loops.move(g, state, gains, v, new)
        fresh = arrays.new_state(weight, np.sign(weight))
        fresh.values[:] = state.values
        loops.refresh(g, fresh)
        assert state.score[0] == pytest.approx(fresh.score[0])
        assert before + cost == pytest.approx(fresh.score[0])
        assert (state.n_false == fresh.n_false).all()
        assert sorted(state.violated[: state.n_violated[0]]) == sorted(fresh.violated[: fresh.n_violated[0]])
    kept = gains.value.copy()
    walk_loops.fill_gains(g, state, gains)
    assert kept == pytest.approx(gains.value)


def test_a_descent_ends_where_no_single_move_helps() -> None:
    rng = np.random.default_rng(0)
    arrays = merge_features(build_arrays(random_network(3, max_ground=8), unary_features=True))
    g = arrays.ground
    weight = np.where(g.is_hard, 100.0, -g.log_weight)
    state, gains = arrays.new_state(weight, np.sign(weight)), new_gains(arrays)
    loops.random_world(g, state, 2, rng)
    walk_loops.fill_gains(g, state, gains)
    while walk_loops.descend(g, state, gains):
        pass
    for v in range(g.n_own):
        for x in range(g.starts[v + 1] - g.starts[v]):
            if g.domain[g.starts[v] + x]:
                assert loops.change(g, state, gains, v, x) > -1e-6
