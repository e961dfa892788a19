"""Sequential steps as compiled loops: moves and repairs.

Room: inference/moves.  Needs numba, so methods import this file only when they run.

    values   S(A)=1 C(A)=0          n_false  of the feature  S(A) !C(A)  is 0: it is true, the rule is violated
    move(S(A), 0)                   n_false becomes 1; the score and the list of violated features follow
    with gains                      the change of the score is the difference of two gains: no feature is read

The time of a move is proportional to the occurrences of its variable; with gains it also reads the features with at
most one other false literal. Methods never move the variables of quantified parts: these follow their atoms.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.options import DefaultOptions

from .arrays import Gains, Ground, State

F = TypeVar("F", bound=Callable[..., Any])
# the sources of all loops and of the arrays that they read: numba's cache on disk notices changes of one file only
SOURCES = b"".join(path.read_bytes() for path in sorted(Path(__file__).parents[1].glob("*/*.py")))
# the loops allocate nothing, so references need no counting, which would take half of the time
OPTIONS: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def compiled(function: F, is_inlined: bool = False) -> F:
    """Compile a function at its first call, and cache the result on disk; it must not allocate arrays."""
    made = numba.njit(cache=True, nogil=True, forceinline=is_inlined, **OPTIONS)(function)
    cache_file = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = zlib.crc32(SOURCES), len(SOURCES)
    return cast(F, made)


def inlined(function: F) -> F:
    """Like `compiled`, and part of every caller: a call copies the pointers of all arrays, which takes 100 ns."""
    return compiled(function, is_inlined=True)


@compiled
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy element by element: numba allocates an array for `target[:] = source`."""
    for k in range(len(source)):
        target[k] = source[k]


@compiled
def refresh(g: Ground, s: State) -> None:
    """Count from scratch, after values, weights or lists were written from outside."""
    s.n_violated[0], s.score[0] = 0, 0.0
    for f in range(len(s.n_false)):
        n = 0
        for j in range(g.begins[f], g.begins[f + 1]):
            n += not g.member[g.set[j], s.values[g.var[j]]]
        s.n_false[f] = n
        if n == 0:
            s.score[0] += s.weight[f]
        s.place[f] = -1
        if (s.listed[f] > 0 and n == 0) or (s.listed[f] < 0 and n > 0):
            list_feature(s, f)


@inlined
def list_feature(s: State, f: int) -> None:
    """Add a feature to the list of violated ones."""
    s.place[f] = s.n_violated[0]
    s.violated[s.n_violated[0]] = f
    s.n_violated[0] += 1


@inlined
def unlist_feature(s: State, f: int) -> None:
    """Remove a feature from the list of violated ones."""
    s.n_violated[0] -= 1
    last = s.violated[s.n_violated[0]]
    s.violated[s.place[f]] = last
    s.place[last] = s.place[f]
    s.place[f] = -1


@inlined
def add(g: Ground, h: Gains, v: int, chosen: int, weight: float) -> None:
    """Add a weight to the gains of the values in a set, up to a constant."""
    start = g.starts[v]
    for k in range(h.begins[chosen], h.begins[chosen + 1]):
        h.value[start + h.members[k]] += h.sign[chosen] * weight


@inlined
def _move_one(g: Ground, s: State, h: Gains | None, v: int, new: int) -> None:
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
        if h is not None:
            for k in range(g.begins[f], g.begins[f + 1]):
                u = g.var[k]
                if u != v and (n_false == 0 or not g.member[g.set[k], s.values[u]]):
                    add(g, h, u, g.set[k], weight)
        if n_false == 1:
            continue
        s.score[0] += weight
        if s.listed[f] != 0:
            if now == (s.listed[f] > 0):
                list_feature(s, f)
            else:
                unlist_feature(s, f)


@inlined
def decided(g: Any, values: np.ndarray, false: np.ndarray, mask: int, a: int) -> int:
    """The value of a quantified part that follows from its atoms.

    Args:
        g: a Ground, or the Fields of sampling.
        false: by feature, how many literals are false, in the bits of the mask.
    """
    if g.decider[a] < 0:
        return 1
    others = (false[g.decider[a]] & mask) - (values[a] != g.inside[a])
    inside: int = g.inside[a]
    return 1 - inside if others == 0 else inside


@compiled
def move(g: Ground, s: State, h: Gains | None, v: int, new: int) -> None:
    """Give a variable a value, and update the quantified parts that follow it."""
    if s.values[v] == new:
        return
    _move_one(g, s, h, v, new)
    for j in range(g.follow_first[v], g.follow_first[v + 1]):
        a = g.follows[j]
        value = decided(g, s.values, s.n_false, -1, a)
        if value != s.values[a]:
            _move_one(g, s, h, a, value)


@inlined
def change(g: Ground, s: State, h: Gains | None, v: int, new: int) -> float:
    """What a move would add to the score."""
    old = s.values[v]
    if g.follow_first[v] < g.follow_first[v + 1]:
        before: float = s.score[0]
        move(g, s, h, v, new)
        after: float = s.score[0]
        move(g, s, h, v, old)
        # restore the last digit too, however often this is tried
        s.score[0] = before
        return after - before
    total = 0.0
    if h is not None:
        total = h.value[g.starts[v] + new] - h.value[g.starts[v] + old]
    else:
        for j in range(g.first[v], g.first[v + 1]):
            n = s.n_false[g.feature[j]]
            if n > 1:
                continue
            was, now = g.member[g.chosen[j], old], g.member[g.chosen[j], new]
            if now and not was and n == 1:
                total += s.weight[g.feature[j]]
            elif was and not now and n == 0:
                total -= s.weight[g.feature[j]]
    return total


@compiled
def step_toward(g: Ground, s: State, domain: np.ndarray, a: int, rng: np.random.Generator) -> tuple[int, int]:
    """A move that brings a quantified part closer to its other value; -1 if there is none."""
    wants, chosen = True, 0
    while a >= g.n_own:
        f = g.decider[a]
        if f < 0:
            return -1, 0
        hold = s.n_false[f] - (s.values[a] != g.inside[a]) == 0
        n, found = 0, -1
        for j in range(g.begins[f], g.begins[f + 1]):
            v = g.var[j]
            if v != a and g.member[g.set[j], s.values[v]] == hold:
                n += 1
                if rng.random() * n < 1:
                    found = j
        if found < 0:
            return -1, 0
        a, chosen, wants = g.var[found], g.set[found], not hold
    n, new = 0, -1
    for x in range(g.starts[a + 1] - g.starts[a]):
        if domain[g.starts[a] + x] and g.member[chosen, x] == wants:
            n += 1
            if rng.random() * n < 1:
                new = x
    return (a, new) if new >= 0 else (-1, 0)


@inlined
def repair(g: Ground, s: State, h: Gains | None, domain: np.ndarray, f: int, noise: float,
           rng: np.random.Generator) -> tuple[int, int]:
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
            v, low = step_toward(g, s, domain, v, rng)
            if v < 0:
                continue
            high = low + 1
        for x in range(low, high):
            if g.var[j] == v and not (domain[g.starts[v] + x] and g.member[g.set[j], x] == wants):
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
def random_world(g: Ground, s: State, kind: int, rng: np.random.Generator) -> None:
    """Fill a state: the first possible value of every variable (kind 0), the last (1), or a random one (above 1)."""
    for v in range(g.n_own):
        n = 0
        for x in range(g.starts[v + 1] - g.starts[v]):
            if g.domain[g.starts[v] + x]:
                n += 1
                if n == 1 or kind == 1 or (kind > 1 and rng.random() * n < 1):
                    s.values[v] = x
    follow(g, s)


@compiled
def follow(g: Ground, s: State) -> None:
    """Give all quantified parts the values that follow from their atoms, and count everything from scratch."""
    refresh(g, s)
    for a in g.parts:
        value = decided(g, s.values, s.n_false, -1, a)
        if value != s.values[a]:
            _move_one(g, s, None, a, value)
    # the score once more, without rounding errors from the moves
    refresh(g, s)


@compiled
def literal_truth(g: Any, domain: np.ndarray, v: int, chosen: int) -> int:
    """1 if a literal is true for all values in the domain, -1 if for none, 0 otherwise; g is a Ground or Fields."""
    some, some_not = False, False
    for x in range(g.starts[v + 1] - g.starts[v]):
        if domain[g.starts[v] + x]:
            if g.member[chosen, x]:
                some = True
            else:
                some_not = True
    return 0 if some and some_not else 1 if some else -1


@compiled
def find(parent: np.ndarray, v: int) -> int:
    """The representative of a variable's group; shortens the path to it."""
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v
