"""MaxWalkSAT: repair violated groundings one by one, and remember the best world on the way.

Room: inference/search; used by map.  Kautz, Selman and Jiang 1997.

    choose a violated grounding at random; change one of its atoms: a random one, or the one with the lowest cost

The loop itself is `loops.walk`. A rule with a negative weight is violated if its features are false. After a number of
moves each atom in turn takes its best value: on large networks random moves alone stay far above a local optimum. Each
component of the network keeps its own best world of all restarts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ...ground.join import number_rows
from ...ground.network import label_components
from ...limits import Limits, Progress, need
from ..moves.arrays import GroundArrays, State

# moves between two checks of the clock at first; doubled until they take about CHUNK_SECONDS
FIRST_CHUNK = 10_000
CHUNK_SECONDS = 0.1
# moves between two descents, or half the number of variables if that is larger
DESCENT = 1000
# up to this many moves are repeated to reach the best world; after more, the world is copied
TRAIL = 4096


@dataclass(frozen=True)
class Walk:
    """The best world of a search."""

    values: np.ndarray
    # features that it violates, and the hard ones among them
    n_violated: int
    n_violated_hard: int
    flips: int
    seconds: float
    is_late: bool


def max_walksat(arrays: GroundArrays, rng: np.random.Generator, max_flips: int, restarts: int, noise: float,
                limits: Limits, progress: Progress) -> Walk:
    """The world of lowest cost that a search with restarts finds.

    Args:
        arrays: with soft evidence as features.
        max_flips: of all restarts together.
        noise: share of random moves, 0 to 1.
    """
    need("numba", "sampling", "MaxWalkSAT")
    from ..moves import loops

    # one hard grounding outweighs all soft ones together
    g = arrays.ground
    weight = np.where(g.is_hard, np.abs(g.log_weight).sum() + 1, -g.log_weight)
    state = arrays.new_state(weight, np.sign(weight))
    merge = _Components(arrays, weight)
    trail, stride = np.zeros((TRAIL, 2), dtype=np.int32), max(DESCENT, g.n_own // 2)
    done, chunk, start = 0, FIRST_CHUNK, time.monotonic()

    def is_over() -> bool:
        return bool(state.n_violated[0] == 0) or limits.is_over()

    for restart in range(restarts):
        # all first values, all last ones, then random ones
        loops.random_world(g, state, restart, rng)
        best, best_score = np.zeros_like(state.values), np.inf
        goal = max_flips * (restart + 1) // restarts
        while True:
            while loops.descend(g, state) and not is_over():
                pass
            merge.add(state)
            until = min(goal, done + stride)
            while True:
                before = time.monotonic()
                flips, best_score = loops.walk(g, state, best, best_score, min(chunk, until - done), noise, trail, rng)
                done += flips
                if time.monotonic() - before < CHUNK_SECONDS / 2:
                    chunk *= 2
                progress("MaxWalkSAT", done, max_flips)
                if is_over() or done >= until:
                    break
            if is_over() or done >= goal:
                break
        # the search remembers moves, but not how quantified parts followed them
        state.values[:] = best
        loops.follow(g, state)
        merge.add(state)
        if is_over():
            break
    state.values[:] = merge.values
    loops.follow(g, state)
    n_violated_hard = int(g.is_hard[state.violated[: state.n_violated[0]]].sum())
    return Walk(state.values.copy(), int(state.n_violated[0]), n_violated_hard, done, time.monotonic() - start,
                limits.is_over())


class _Components:
    """The best world so far, component by component."""

    def __init__(self, arrays: GroundArrays, weight: np.ndarray):
        g = arrays.ground
        self.label = number_rows(label_components(arrays.network))
        self.of_feature = self.label[g.var[g.begins[:-1]]] if arrays.n_features else np.zeros(0, dtype=np.int64)
        self.weight = weight
        self.score = np.full(int(self.label.max(initial=-1)) + 1, np.inf)
        self.values = np.zeros(len(self.label), dtype=np.int32)

    def add(self, state: State) -> None:
        """Keep the components of a world that have a lower score than before."""
        score = np.bincount(self.of_feature, self.weight * (state.n_false == 0), len(self.score))
        # differences below the precision of a sum are no improvement
        is_better = score < self.score - 1e-9
        self.score[is_better] = score[is_better]
        chosen = is_better[self.label]
        self.values[chosen] = state.values[chosen]
