"""The compiled loops of SampleSAT: draw a world that satisfies all kept rules of a slice, almost uniformly.

Room: inference/sampling.  Needs numba.  Wei, Erenrich and Selman 2004.

    kept  S(A) v S(B),  C(A)        unit propagation: C(A) is true, its rule leaves the list
    a random world                  then annealing and repairs until no listed rule is violated
    moves among such worlds         a few for each variable: each leaves the uniform distribution unchanged
"""

from __future__ import annotations

import numpy as np

from ..moves import loops
from ..moves.arrays import Ground, State
from ..moves.loops import compiled, inlined
from .fields import HARD_WEIGHT, Fields, World
from .mcsat_loops import DROPPED, KEPT, Slice, is_open, start_step

# the share of simulated annealing moves, their temperature, and the noise of the other moves
ANNEALING = 0.5
TEMPERATURE = 0.3
NOISE = 0.5
# moves among the satisfying worlds, for each variable
MIXING = 5


@compiled
def keep_rules(g: Fields, s: World, r: Slice, listed: np.ndarray, rng: np.random.Generator) -> None:
    """Decide which rules a step keeps, then unit propagation: `listed` gets the kept rules that are still open.

    Args:
        listed: by feature, 1 if it must be false, -1 if it must be true, 0 if it does not matter any more.
    """
    start_step(r)
    w, p = 0.0, 1.0
    for f in range(len(g.weight)):
        if g.weight[f] != w:
            # neighbours have the same weight in most cases
            w = g.weight[f]
            p = np.exp(-abs(w))
        is_kept = w <= HARD_WEIGHT or ((w < 0) == (s.false[f] > 0) and rng.random() >= p)
        r.rules[f] = r.step[0] + (KEPT if is_kept else DROPPED)
        listed[f] = is_kept if w < 0 else -is_kept
    loops.copy(g.domain, r.allowed)
    for v in g.free:
        is_open(g, s, r, v, rng)
    for v in range(len(s.values)):
        r.trial[v] = _only_value(g, r, v)
    while _propagate(g, r, listed):
        pass


@inlined
def _only_value(g: Fields, r: Slice, v: int) -> int:
    """The value of a variable that is left, -1 if there are several."""
    n, only = 0, -1
    for x in range(g.starts[v + 1] - g.starts[v]):
        if r.allowed[g.starts[v] + x]:
            n, only = n + 1, x
    return only if n == 1 else -1


@compiled
def _propagate(g: Fields, r: Slice, listed: np.ndarray) -> bool:
    """Unit propagation once over all kept rules: true if a value was excluded. Satisfied rules leave the list.

    The values that are left alone are in r.trial.
    """
    has_changed = False
    for f in range(len(listed)):
        if listed[f] <= 0:
            continue
        n_open, at = 0, 0
        for j in range(g.begins[f], g.begins[f + 1]):
            v = g.var[j]
            x = r.trial[v]
            if x >= 0:
                is_false, is_open = not g.member[g.set[j], x], False
            elif g.starts[v + 1] - g.starts[v] == 2:
                is_false, is_open = False, True
            else:
                truth = loops.literal_truth(g, r.allowed, v, g.set[j])
                is_false, is_open = truth < 0, truth == 0
            if is_false:
                listed[f] = 0
                break
            if is_open:
                n_open, at = n_open + 1, j
        if listed[f] > 0 and n_open == 1:
            has_changed = True
            v = g.var[at]
            for x in range(g.starts[v + 1] - g.starts[v]):
                r.allowed[g.starts[v] + x] &= not g.member[g.set[at], x]
            r.trial[v] = _only_value(g, r, v)
    return has_changed


@compiled
def copy_literals(g: Fields, chosen: np.ndarray, ground: Ground) -> None:
    """Copy the literals of chosen features, and list them by variable; `begins` are given, `first` is zero."""
    m = 0
    for f in chosen:
        for j in range(g.begins[f], g.begins[f + 1]):
            ground.var[m], ground.set[m] = g.var[j], g.set[j]
            ground.first[g.var[j] + 1] += 1
            m += 1
    for v in range(1, len(ground.first)):
        ground.first[v] += ground.first[v - 1]
    # each count moves from the start to the end of its variable, which is the start of the next
    for k in range(len(chosen)):
        for j in range(ground.begins[k], ground.begins[k + 1]):
            at = ground.first[ground.var[j]]
            ground.feature[at], ground.chosen[at] = k, ground.set[j]
            ground.first[ground.var[j]] += 1
    for v in range(len(ground.first) - 1, 0, -1):
        ground.first[v] = ground.first[v - 1]
    ground.first[0] = 0


@compiled
def _random_value(g: Fields, r: Slice, v: int, rng: np.random.Generator) -> int:
    n, new = 0, 0
    for x in range(g.starts[v + 1] - g.starts[v]):
        if r.allowed[g.starts[v] + x]:
            n += 1
            if rng.random() * n < 1:
                new = x
    return new


@compiled
def search(g: Fields, ground: Ground, r: Slice, found: State, max_flips: int, rng: np.random.Generator) -> bool:
    """Draw a world that satisfies the listed features by SampleSAT from a random start; false if it finds none.

    Args:
        ground: the listed features, for the moves of the search.
        found: gets the world; its other values are given.
    """
    n = len(g.free)
    for v in g.free:
        found.values[v] = _random_value(g, r, v, rng)
    loops.follow(ground, found)
    for _ in range(max_flips):
        if found.n_violated[0] == 0:
            break
        if rng.random() < ANNEALING:
            v = g.free[int(rng.random() * n)]
            new = _random_value(g, r, v, rng)
            cost = loops.change(ground, found, None, v, new)
            if cost <= 0 or rng.random() < np.exp(-cost / TEMPERATURE):
                loops.move(ground, found, None, v, new)
        else:
            f = found.violated[int(rng.random() * found.n_violated[0])]
            v, new = loops.repair(ground, found, None, r.allowed, f, NOISE, rng)
            if v >= 0:
                loops.move(ground, found, None, v, new)
    r.failures[1] += 1
    if found.n_violated[0] > 0:
        r.failures[0] += 1
        return False
    # each of these moves leaves the uniform distribution unchanged
    for _ in range(MIXING * n):
        v = g.free[int(rng.random() * n)]
        new = _random_value(g, r, v, rng)
        if loops.change(ground, found, None, v, new) == 0:
            loops.move(ground, found, None, v, new)
    return True
