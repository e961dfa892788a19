"""MaxWalkSAT as a compiled loop: the cost of every value of every variable is kept up to date.

Room: inference/search.  Needs numba, so it is imported only when MaxWalkSAT runs.

    field of a value       the weights of the features that are true if its variable has it, up to a constant
    change of the score    the difference of two fields: no feature is read
    a move                 reads the features of its variable, and updates the fields of their last false literal, or
                           of all their literals if none is false

numba caches the compiled code on disk by this file's date: touch it when `moves/arrays.py` or `moves/loops.py` change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..moves.arrays import Ground, State
from ..moves.loops import compiled, copy, decided, list_feature, step_toward, unlist_feature


class Fields(NamedTuple):
    """What each value adds to the score, and the sets of values in short: a set or its complement."""

    # by value of each variable
    value: np.ndarray
    # the members of set k are members[begins[k]] and on; -1 if they are those of its complement
    begins: np.ndarray
    members: np.ndarray
    sign: np.ndarray


@compiled
def _add(g: Ground, h: Fields, v: int, chosen: int, weight: float) -> None:
    start = g.starts[v]
    for k in range(h.begins[chosen], h.begins[chosen + 1]):
        h.value[start + h.members[k]] += h.sign[chosen] * weight


@compiled
def fill_fields(g: Ground, s: State, h: Fields) -> None:
    """Compute all fields from scratch: rounding errors of moves end here."""
    for k in range(len(h.value)):
        h.value[k] = 0.0
    for f in range(len(s.n_false)):
        if s.n_false[f] > 1:
            continue
        for j in range(g.begins[f], g.begins[f + 1]):
            if s.n_false[f] == 0 or not g.member[g.set[j], s.values[g.var[j]]]:
                _add(g, h, g.var[j], g.set[j], s.weight[f])


@compiled
def _move_one(g: Ground, s: State, h: Fields, v: int, new: int) -> None:
    old = s.values[v]
    s.values[v] = new
    for j in range(g.first[v], g.first[v + 1]):
        was, now = g.member[g.chosen[j], old], g.member[g.chosen[j], new]
        if was == now:
            continue
        f = g.feature[j]
        s.n_false[f] += -1 if now else 1
        # of the other literals
        n_false = s.n_false[f] if now else s.n_false[f] - 1
        if n_false > 1:
            continue
        weight = s.weight[f] if now else -s.weight[f]
        for k in range(g.begins[f], g.begins[f + 1]):
            u = g.var[k]
            if u != v and (n_false == 0 or not g.member[g.set[k], s.values[u]]):
                _add(g, h, u, g.set[k], weight)
        if n_false == 1:
            continue
        s.score[0] += weight
        if s.listed[f] != 0:
            if now == (s.listed[f] > 0):
                list_feature(s, f)
            else:
                unlist_feature(s, f)


@compiled
def move(g: Ground, s: State, h: Fields, v: int, new: int) -> None:
    """Give a variable a value, and update the quantified parts that follow it."""
    if s.values[v] == new:
        return
    _move_one(g, s, h, v, new)
    for j in range(g.follow_first[v], g.follow_first[v + 1]):
        a = g.follows[j]
        value = decided(g, s, a)
        if value != s.values[a]:
            _move_one(g, s, h, a, value)


@compiled
def change(g: Ground, s: State, h: Fields, v: int, new: int) -> float:
    """What a move would add to the score."""
    old = s.values[v]
    if g.follow_first[v] == g.follow_first[v + 1]:
        difference: float = h.value[g.starts[v] + new] - h.value[g.starts[v] + old]
        return difference
    before: float = s.score[0]
    move(g, s, h, v, new)
    after: float = s.score[0]
    move(g, s, h, v, old)
    s.score[0] = before
    return after - before


@compiled
def _repair(g: Ground, s: State, h: Fields, f: int, noise: float, rng: np.random.Generator) -> tuple[int, int]:
    """The best move that repairs a violated feature, or with probability `noise` a random one; -1 if there is none."""
    is_random = rng.random() < noise
    wants = s.listed[f] < 0
    n, best, best_v, best_new = 0, np.inf, -1, 0
    for j in range(g.begins[f], g.begins[f + 1]):
        v = g.var[j]
        if g.member[g.set[j], s.values[v]] == wants:
            continue
        low, high = 0, g.starts[v + 1] - g.starts[v]
        if v >= g.n_own:
            v, low = step_toward(g, s, g.domain, v, rng)
            if v < 0:
                continue
            high = low + 1
        for x in range(low, high):
            if g.var[j] == v and not (g.domain[g.starts[v] + x] and g.member[g.set[j], x] == wants):
                continue
            cost = 0.0 if is_random else change(g, s, h, v, x)
            if cost < best:
                best, best_v, best_new, n = cost, v, x, 1
            elif cost == best:
                # of equally good moves, each with the same probability
                n += 1
                if rng.random() * n < 1:
                    best_v, best_new = v, x
    return best_v, best_new


@compiled
def walk(g: Ground, s: State, h: Fields, best: np.ndarray, best_score: float, max_flips: int, noise: float,
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
        v, new = _repair(g, s, h, f, noise, rng)
        if v < 0:
            continue
        move(g, s, h, v, new)
        if n_trail < len(trail):
            trail[n_trail, 0], trail[n_trail, 1] = v, new
        n_trail += 1
    return max_flips, best_score, found


@compiled
def descend(g: Ground, s: State, h: Fields) -> int:
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
