"""Compiled moves that keep the scores of all values up to date, and draws from these scores.

Room: inference/sampling.  Needs numba.  Used by the loops of gibbs and mc-sat.

    false literals of S(A) !C(A)   0: the feature adds its weight to the scores of S(A)=1 and of C(A)=0
                                   1: to that of the false literal alone, which would make it true
                                   2 or more: to none

A draw takes constant time. A move takes time proportional to the occurrences of its variable. It first counts in all of
them, without a branch that cannot be predicted, then updates the scores that change.
"""

from __future__ import annotations

import numpy as np

from ..moves.loops import compiled, decided, inlined
from .fields import Fields, World


@compiled
def fill(g: Fields, s: World, kind: int, rng: np.random.Generator) -> None:
    """Give every variable its first possible value (kind 0), the last (1), or a random one (above 1)."""
    for v in range(len(s.values)):
        n = 0
        for x in range(g.starts[v + 1] - g.starts[v]):
            if g.domain[g.starts[v] + x]:
                n += 1
                if n == 1 or kind == 1 or (kind > 1 and rng.random() * n < 1):
                    s.values[v] = x


@compiled
def refresh(g: Fields, s: World) -> None:
    """Compute counts and scores from the values."""
    half = 4 * s.false.itemsize
    for k in range(len(g.base)):
        s.score[k] = g.base[k]
    for f in range(len(s.false)):
        n, places = 0, 0
        for j in range(g.begins[f], g.begins[f + 1]):
            if not g.member[g.set[j], s.values[g.var[j]]]:
                n, places = n + 1, places ^ (j - g.begins[f])
        s.false[f] = n | (places << half)
        if n < 2:
            for j in range(g.begins[f], g.begins[f + 1]):
                if n == 0 or not g.member[g.set[j], s.values[g.var[j]]]:
                    add(g, s, g.var[j], g.set[j], g.weight[f])


@inlined
def count_mask(s: World) -> int:
    """The bits of `false` that count."""
    return (1 << (4 * s.false.itemsize)) - 1


@inlined
def add(g: Fields, s: World, v: int, chosen: int, weight: float) -> None:
    """Add a weight to the scores of the values in a set, up to a constant."""
    x = g.single[chosen]
    if x >= 0:
        s.score[g.starts[v] + x] += g.sign[chosen] * weight
    else:
        for x in range(g.starts[v + 1] - g.starts[v]):
            if g.member[chosen, x]:
                s.score[g.starts[v] + x] += weight


@inlined
def _change(g: Fields, s: World, v: int, new: int) -> None:
    """Give one variable a value."""
    old, n = s.values[v], 0
    half, mask = 4 * s.false.itemsize, count_mask(s)
    for i in range(g.first[v], g.first[v + 1]):
        kind = g.kind[i]
        now = g.member[g.kind_set[kind], new]
        if g.member[g.kind_set[kind], old] == now:
            continue
        false = np.int64(s.false[g.feature[i]])
        s.false[g.feature[i]] = (false + 1 - 2 * now) ^ (g.kind_place[kind] << half)
        # if at most one of the other literals is false, scores change
        s.found[n] = i
        n += (false & mask) - now <= 1
    for k in range(n):
        i = s.found[k]
        kind = g.kind[i]
        now = g.member[g.kind_set[kind], new]
        others = np.int64(s.false[g.feature[i]])
        if not now:
            others = (others - 1) ^ (g.kind_place[kind] << half)
        weight = g.kind_weight[kind] if now else -g.kind_weight[kind]
        begin = np.int64(g.begin[i])
        if others & mask:
            # the only false one of the others gains or loses the weight, else all of them
            only = begin + (others >> half)
            add(g, s, g.var[only], g.set[only], weight)
        else:
            for j in range(begin, begin + g.kind_length[kind]):
                if g.var[j] != v:
                    add(g, s, g.var[j], g.set[j], weight)
    s.values[v] = new


@compiled
def move(g: Fields, s: World, v: int, new: int) -> None:
    """Give a variable a value, and quantified parts theirs."""
    if s.values[v] == new:
        return
    _change(g, s, v, new)
    for k in range(g.follow_first[v], g.follow_first[v + 1]):
        value = decided(g, s.values, s.false, count_mask(s), g.follows[k])
        if value != s.values[g.follows[k]]:
            _change(g, s, g.follows[k], value)


@compiled
def _change_counts(g: Fields, s: World, v: int, new: int) -> float:
    """Like `_change`, but only the counts change; returns what it adds to the log-probability."""
    old, mask = s.values[v], count_mask(s)
    delta: float = g.base[g.starts[v] + new] - g.base[g.starts[v] + old]
    for i in range(g.first[v], g.first[v + 1]):
        kind = g.kind[i]
        now = g.member[g.kind_set[kind], new]
        if g.member[g.kind_set[kind], old] == now:
            continue
        f = g.feature[i]
        if now:
            s.false[f] -= 1
            if s.false[f] & mask == 0:
                delta += g.kind_weight[kind]
        else:
            if s.false[f] & mask == 0:
                delta -= g.kind_weight[kind]
            s.false[f] += 1
    s.values[v] = new
    return delta


@compiled
def attempt(g: Fields, s: World, v: int, new: int) -> float:
    """Like `move`, but no scores change, so it must be taken back; returns what it adds to the log-probability."""
    if s.values[v] == new:
        return 0.0
    delta = _change_counts(g, s, v, new)
    for k in range(g.follow_first[v], g.follow_first[v + 1]):
        value = decided(g, s.values, s.false, count_mask(s), g.follows[k])
        if value != s.values[g.follows[k]]:
            delta += _change_counts(g, s, g.follows[k], value)
    return delta


@compiled
def draw(score: np.ndarray, n: int, rng: np.random.Generator) -> int:
    """Turn log-weights into probabilities in place, and draw one of them."""
    top, best = -np.inf, 0
    for k in range(n):
        if score[k] > top:
            top, best = score[k], k
    z = 0.0
    for k in range(n):
        score[k] = np.exp(score[k] - top)
        z += score[k]
    left = rng.random() * z
    drawn = -1
    for k in range(n):
        if drawn < 0 and left < score[k]:
            drawn = k
        left -= score[k]
        score[k] /= z
    # rounding may leave nothing drawn
    return drawn if drawn >= 0 else best


@inlined
def draw_variable(g: Fields, s: World, v: int, p: np.ndarray, rng: np.random.Generator) -> None:
    """Draw a variable given all others; `p` gets the probabilities of its values."""
    start, n = g.starts[v], g.starts[v + 1] - g.starts[v]
    if g.follow_first[v] < g.follow_first[v + 1]:
        # quantified parts follow the variable, so every value must be tried
        old, total = s.values[v], 0.0
        for x in range(n):
            p[x] = -np.inf
            if g.domain[start + x]:
                total += attempt(g, s, v, x)
                p[x] = total
        attempt(g, s, v, old)
        new = draw(p, n, rng)
    elif n == 2:
        odds = s.score[start + 1] - s.score[start]
        # of two numbers that sum to one, compute the small one
        small = np.exp(-abs(odds))
        small /= 1 + small
        p[0], p[1] = (small, 1 - small) if odds > 0 else (1 - small, small)
        new = int(rng.random() < p[1])
    else:
        for x in range(n):
            p[x] = s.score[start + x]
        new = draw(p, n, rng)
    if new != s.values[v]:
        move(g, s, v, new)
