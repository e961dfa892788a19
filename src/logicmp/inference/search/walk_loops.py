"""MaxWalkSAT as a compiled loop: the cost of every value of every variable is kept up to date.

Room: inference/search.  Needs numba, so it is imported only when MaxWalkSAT runs.

    gain of a value        the weights of the features that are true if its variable has it, up to a constant
    change of the score    the difference of two gains: no feature is read
    a move                 reads the features of its variable, and updates the gains of their last false literal, or
                           of all their literals if none is false
"""

from __future__ import annotations

import numpy as np

from ..moves.arrays import Gains, Ground, State
from ..moves.loops import add, change, compiled, copy, move, repair


@compiled
def fill_gains(g: Ground, s: State, h: Gains) -> None:
    """Compute all gains from scratch: rounding errors of moves end here."""
    for k in range(len(h.value)):
        h.value[k] = 0.0
    for f in range(len(s.n_false)):
        if s.n_false[f] > 1:
            continue
        for j in range(g.begins[f], g.begins[f + 1]):
            if s.n_false[f] == 0 or not g.member[g.set[j], s.values[g.var[j]]]:
                add(g, h, g.var[j], g.set[j], s.weight[f])


@compiled
def walk(g: Ground, s: State, h: Gains, best: np.ndarray, best_score: float, max_flips: int, noise: float,
         trail: np.ndarray, rng: np.random.Generator) -> tuple[int, float, int]:
    """Repair violated features one by one; `best` becomes the world of lowest score.

    Returns the number of flips, that score, and the flip at which it was found, -1 if it is no better than before.

    Args:
        trail: room for the moves since `best`, [n, 2]; repeating them is cheaper than copying the world.
    """
    n_trail, found = len(trail) + 1, -1
    for flip in range(max_flips + 1):
        if s.score[0] < best_score - 1e-9:
            best_score, found = s.score[0], flip
            if n_trail > len(trail):
                copy(s.values, best)
            else:
                for k in range(n_trail):
                    best[trail[k, 0]] = trail[k, 1]
            n_trail = 0
        if s.n_violated[0] == 0 or flip == max_flips:
            return flip, best_score, found
        f = s.violated[int(rng.random() * s.n_violated[0])]
        v, new = repair(g, s, h, g.domain, f, noise, rng)
        if v < 0:
            continue
        move(g, s, h, v, new)
        if n_trail < len(trail):
            trail[n_trail, 0], trail[n_trail, 1] = v, new
        n_trail += 1
    return max_flips, best_score, found


@compiled
def descend(g: Ground, s: State, h: Gains) -> int:
    """Give each variable in turn the value of lowest score; returns how many moved."""
    n_moved = 0
    for v in range(g.n_own):
        if g.first[v] == g.first[v + 1]:
            continue
        best, new = -1e-9, -1
        for x in range(g.starts[v + 1] - g.starts[v]):
            if x != s.values[v] and g.domain[g.starts[v] + x]:
                cost = change(g, s, h, v, x)
                if cost < best:
                    best, new = cost, x
        if new >= 0:
            move(g, s, h, v, new)
            n_moved += 1
    return n_moved
