"""MaxWalkSAT: repair violated groundings one by one, and remember the best world on the way.

Room: inference/search; used by map.  Kautz, Selman and Jiang 1997.

    choose a violated grounding at random; change one of its atoms: a random one, or the one with the lowest cost

The loop itself is `loops.walk`. A rule with a negative weight is violated if its features are false.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ...limits import Limits, Progress, need
from ..moves.arrays import GroundArrays

# moves between two checks of the clock at first; doubled until they take about CHUNK_SECONDS
FIRST_CHUNK = 10_000
CHUNK_SECONDS = 0.1
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
    best, best_score = np.zeros_like(state.values), np.inf
    trail = np.zeros((TRAIL, 2), dtype=np.int32)
    done, chunk, start = 0, FIRST_CHUNK, time.monotonic()
    for restart in range(restarts):
        loops.random_world(g, state, 2, rng)
        goal = max_flips * (restart + 1) // restarts
        while True:
            before = time.monotonic()
            flips, best_score = loops.walk(g, state, best, best_score, min(chunk, goal - done), noise, trail, rng)
            done += flips
            if time.monotonic() - before < CHUNK_SECONDS / 2:
                chunk *= 2
            progress("MaxWalkSAT", done, max_flips)
            if state.n_violated[0] == 0 or done >= goal or limits.is_over():
                break
        if state.n_violated[0] == 0 or limits.is_over():
            break
    # the search remembers moves, but not how quantified parts followed them
    state.values[:] = best
    loops.follow(g, state)
    n_violated_hard = int(g.is_hard[state.violated[: state.n_violated[0]]].sum())
    return Walk(state.values.copy(), int(state.n_violated[0]), n_violated_hard, done, time.monotonic() - start,
                limits.is_over())
