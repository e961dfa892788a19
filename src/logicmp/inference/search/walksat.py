"""MaxWalkSAT: repair violated groundings one by one, and remember the best world on the way.

Room: inference/search; used by map.  Kautz, Selman and Jiang 1997.

    choose a violated grounding at random; change one of its atoms: a random one, or the one with the lowest cost

The loop itself is in walk_loops.py. A rule with a negative weight is violated if its features are false. After a number
of moves each atom in turn takes its best value: on large networks random moves alone stay far above a local optimum.
Each component of the network keeps its own best world of all restarts. A restart ends when many moves found no better
world, and the search when some restarts in a row found none. The time of a move grows with the groundings of its atom.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ...ground.join import number_rows, ragged_ranges
from ...ground.network import label_components
from ...limits import Limits, Progress, need
from ..moves.arrays import Gains, GroundArrays, State

# moves between two checks of the clock at first; doubled until they take about CHUNK_SECONDS
FIRST_CHUNK = 10_000
CHUNK_SECONDS = 0.1
# moves between two descents, or half the number of variables if that is larger
DESCENT = 1000
# a restart ends after this many moves without a better world, or PATIENCE moves for each variable if that is more
LEAST, PATIENCE = 20_000, 10
# restarts in a row without a better world, after which the search ends
MAX_IN_VAIN = 3
# descents after which the gains are computed from scratch, because moves add rounding errors
REFILL = 64
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
                limits: Limits, progress: Progress, start: np.ndarray | None = None) -> Walk:
    """The world of lowest cost that a search with restarts finds.

    Args:
        arrays: with soft evidence as features.
        max_flips: of all restarts together.
        noise: share of random moves, 0 to 1.
        start: the world that the first search starts from, by default the best one for the features of one literal.
    """
    need("numba", "sampling", "MaxWalkSAT")
    from ..moves import loops
    from . import walk_loops

    g = arrays.ground
    # one hard grounding outweighs all soft ones together
    weight = np.where(g.is_hard, np.abs(g.log_weight).sum() + 1, -g.log_weight)
    state, gains = arrays.new_state(weight, np.sign(weight)), new_gains(arrays)
    merge = _Components(arrays, weight)
    trail, stride = np.zeros((TRAIL, 2), dtype=np.int32), max(DESCENT, g.n_own // 2)
    patience = max(LEAST, PATIENCE * g.n_own)
    done, chunk, began, in_vain = 0, FIRST_CHUNK, time.monotonic(), 0

    def is_over() -> bool:
        return bool(state.n_violated[0] == 0) or limits.is_over()

    for restart in range(restarts):
        lowest = merge.total
        if restart == 0:
            state.values[:] = best_alone(arrays) if start is None else start
            loops.follow(g, state)
        else:
            # all first values, all last ones, then random ones
            loops.random_world(g, state, restart - 1, rng)
        best, best_score, improved, n_descents = np.zeros_like(state.values), np.inf, done, 0
        goal = max_flips * (restart + 1) // restarts
        while True:
            if n_descents % REFILL == 0:
                walk_loops.fill_gains(g, state, gains)
            n_descents += 1
            while walk_loops.descend(g, state, gains) and not is_over():
                pass
            merge.add(state)
            until = min(goal, done + stride)
            while True:
                before = time.monotonic()
                flips, best_score, found = walk_loops.walk(g, state, gains, best, best_score,
                                                           min(chunk, until - done), noise, trail, rng)
                if found >= 0:
                    improved = done + found
                done += flips
                if time.monotonic() - before < CHUNK_SECONDS / 2:
                    chunk *= 2
                progress("MaxWalkSAT", done, max_flips)
                if is_over() or done >= until:
                    break
            if is_over() or done >= goal or (done - improved > patience and not merge.violates_hard):
                break
        # the search remembers moves, but not how quantified parts followed them
        state.values[:] = best
        loops.follow(g, state)
        merge.add(state)
        in_vain = 0 if merge.total < lowest - 1e-9 else in_vain + 1
        if is_over() or (in_vain == MAX_IN_VAIN and not merge.violates_hard):
            break
    state.values[:] = merge.values
    loops.follow(g, state)
    n_violated_hard = int(g.is_hard[state.violated[: state.n_violated[0]]].sum())
    return Walk(state.values.copy(), int(state.n_violated[0]), n_violated_hard, done, time.monotonic() - began,
                limits.is_over())


def best_alone(arrays: GroundArrays) -> np.ndarray:
    """By variable, the best possible value for the features of this variable alone."""
    g = arrays.ground
    alone = np.flatnonzero(np.diff(g.begins) == 1)
    literal = g.begins[alone]
    owner, value = arrays.network.sets.values_of(g.set[literal])
    place = g.starts[g.var[literal]][owner] + value
    score = np.bincount(place, g.log_weight[alone][owner], len(g.domain)).astype(np.float64)
    score[~g.domain] = -np.inf
    var = np.repeat(np.arange(len(g.starts) - 1), np.diff(g.starts))
    # the first of the best values
    order = np.lexsort((np.arange(len(score)), -score, var))
    first = order[g.starts[:-1]]
    return np.asarray(first - g.starts[:-1], dtype=np.int32)


def new_gains(arrays: GroundArrays) -> Gains:
    """Gains for `walk_loops`, not filled yet."""
    sets = arrays.network.sets
    small, is_other = sets.smaller()
    # only now: taking complements can add sets
    values, begins = sets.flat()
    counts = np.diff(begins)[small]
    _, at = ragged_ranges(begins[small], counts)
    return Gains(np.zeros(len(arrays.ground.domain)), np.concatenate([[0], np.cumsum(counts)]), values[at],
                  np.where(is_other, -1.0, 1.0))


class _Components:
    """The best world so far, component by component."""

    def __init__(self, arrays: GroundArrays, weight: np.ndarray):
        g = arrays.ground
        self.label = number_rows(label_components(arrays.network))
        self.of_feature = self.label[g.var[g.begins[:-1]]] if arrays.n_features else np.zeros(0, dtype=np.int64)
        self.weight = weight
        self.heaviest = np.abs(g.log_weight).sum()
        self.score = np.full(int(self.label.max(initial=-1)) + 1, np.inf)
        self.values = np.zeros(len(self.label), dtype=np.int32)

    @property
    def total(self) -> float:
        """The score of the best world so far."""
        return float(self.score.sum())

    @property
    def violates_hard(self) -> bool:
        """Whether the best world so far violates a hard feature."""
        return bool(self.total > self.heaviest)

    def add(self, state: State) -> None:
        """Keep the components of a world that have a lower score than before."""
        if len(self.score) == 1 and state.score[0] >= self.score[0] - 1e-9:
            return
        score = np.bincount(self.of_feature, self.weight * (state.n_false == 0), len(self.score))
        # differences below the precision of a sum are no improvement
        is_better = score < self.score - 1e-9
        self.score[is_better] = score[is_better]
        chosen = is_better[self.label]
        self.values[chosen] = state.values[chosen]
