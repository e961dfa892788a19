"""The compiled loops of MC-SAT: choose the rules to be kept, propagate, draw a world from those that keep them.

Stage: ground -> **infer**.  Needs numba.  Poon and Domingos 2006; SampleSAT: Wei, Erenrich and Selman 2004.

    kept  S(A) v S(B),  C(A)        unit propagation decides C(A); S(A) and S(B) are one component
    a component of few states       is listed, and one of its worlds drawn: exactly uniform
    a large one                     SampleSAT, then moves that go from one of its worlds to another
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..moves.loops import Ground, State, _literal, change, compiled, copy, find, move, propagate, repair

# SampleSAT: how many moves are those of simulated annealing, its temperature, and the noise of the others
ANNEALING = 0.5
TEMPERATURE = 0.3
NOISE = 0.5
# moves inside the worlds that keep the rules, for each variable of a component
MIXING = 20


class Room(NamedTuple):
    """Arrays that a step needs, made once."""

    domain: np.ndarray
    n_open: np.ndarray
    stack: np.ndarray
    old: np.ndarray
    # components as lists: the first variable of a root's list, and the one after each variable; -1 ends it
    parent: np.ndarray
    head: np.ndarray
    after: np.ndarray
    # the variables of one component, and a world of it
    members: np.ndarray
    kept: np.ndarray
    # by value: in how many worlds of a component
    n_worlds: np.ndarray


@compiled
def sample(g: Ground, s: State, r: Room, base: np.ndarray, is_hard: np.ndarray, log_weight: np.ndarray,
           table_first: np.ndarray, cells: np.ndarray, total: np.ndarray, square: np.ndarray, watch: np.ndarray,
           watched: np.ndarray, n_samples: int, max_states: int, max_flips: int, failures: np.ndarray,
           rng: np.random.Generator) -> None:
    """Make some steps of MC-SAT, and count the probability of each value given the rules that were kept.

    Args:
        base: the values that evidence and hard rules leave possible.
        table_first, cells: the tables, see `GroundArrays`.
        failures: how often SampleSAT found nothing, and how often it was asked.
    """
    for _ in range(n_samples):
        _choose(s, is_hard, log_weight, rng)
        _cut_tables(s, table_first, cells, rng)
        copy(base, r.domain)
        # the present world keeps all that was chosen, so that there is no contradiction
        propagate(g, s.listed, r.domain, r.n_open, r.stack, r.old)
        _find_components(g, s, r)
        for v in range(g.n_own):
            if r.head[v] >= 0:
                _draw_component(g, s, r, v, total, square, max_states, max_flips, failures, rng)
        for k in range(len(watch)):
            watched[k] += s.n_false[watch[k]] == 0


@compiled
def _choose(s: State, is_hard: np.ndarray, log_weight: np.ndarray, rng: np.random.Generator) -> None:
    """Keep each rule that is obeyed with probability 1 - exp(-w), and the hard ones always."""
    for f in range(len(log_weight)):
        kept = 1 if is_hard[f] else 0
        w = log_weight[f]
        # one that should not hold and does not, or should hold and does
        if (w < 0 and s.n_false[f] > 0) or (w > 0 and s.n_false[f] == 0):
            kept = (-1 if w > 0 else 1) if rng.random() < -np.expm1(-abs(w)) else 0
        s.listed[f] = kept
        s.weight[f] = kept


@compiled
def _cut_tables(s: State, table_first: np.ndarray, cells: np.ndarray, rng: np.random.Generator) -> None:
    """Draw a height below the log-weight of each table's present cell; cells below the height must not hold."""
    begin = table_first[0]
    for k in range(len(table_first) - 1):
        height = np.log1p(-rng.random())
        for f in range(table_first[k], table_first[k + 1]):
            if s.n_false[f] == 0:
                height += cells[f - begin]
        for f in range(table_first[k], table_first[k + 1]):
            s.listed[f] = cells[f - begin] < height
            s.weight[f] = s.listed[f]


@compiled
def _find_components(g: Ground, s: State, r: Room) -> None:
    """Lists of the variables that the chosen features tie together, in r.head and r.after; parts are left out."""
    for v in range(len(r.parent)):
        r.parent[v], r.head[v] = v, -1
    for f in range(len(s.listed)):
        if s.listed[f] <= 0 or r.n_open[f] < 2:
            continue
        root = -1
        for j in range(g.begins[f], g.begins[f + 1]):
            if _literal(g, r.domain, g.var[j], g.set[j]) == 0:
                other = find(r.parent, g.var[j])
                if root < 0:
                    root = other
                elif other != root:
                    # the lower number leads, so that the root is the user's own variable
                    root, other = min(root, other), max(root, other)
                    r.parent[other] = root
    for v in range(g.n_own - 1, -1, -1):
        root = find(r.parent, v)
        r.after[v] = r.head[root]
        r.head[root] = v


@compiled
def _draw_component(g: Ground, s: State, r: Room, root: int, total: np.ndarray, square: np.ndarray, max_states: int,
                    max_flips: int, failures: np.ndarray, rng: np.random.Generator) -> None:
    """New values for the variables of a component, uniform over those that keep the chosen rules."""
    n, n_states = 0, 1
    v = r.head[root]
    while v >= 0:
        size = 0
        for place in range(g.starts[v], g.starts[v + 1]):
            size += r.domain[place]
            r.n_worlds[place] = 0
        if size > 1:
            r.members[n] = v
            n += 1
            n_states = min(n_states * size, max_states + 1)
        else:
            # decided by what was chosen
            total[g.starts[v] + s.values[v]] += 1
            square[g.starts[v] + s.values[v]] += 1
        v = r.after[v]
    if n == 0:
        return
    if n_states <= max_states:
        n_worlds = _draw_listed(g, s, r, n, rng)
    else:
        n_worlds = 1
        _draw_by_search(g, s, r, n, max_flips, failures, rng)
    for i in range(n):
        for place in range(g.starts[r.members[i]], g.starts[r.members[i] + 1]):
            p = r.n_worlds[place] / n_worlds
            total[place] += p
            square[place] += p * p


@compiled
def _next_value(g: Ground, r: Room, v: int, x: int) -> int:
    """The possible value after x; -1 after the last."""
    for y in range(x + 1, g.starts[v + 1] - g.starts[v]):
        if r.domain[g.starts[v] + y]:
            return y
    return -1


@compiled
def _draw_listed(g: Ground, s: State, r: Room, n: int, rng: np.random.Generator) -> int:
    """Go through all worlds of a component like an odometer, draw one, count all. Returns how many there are."""
    for i in range(n):
        move(g, s, r.members[i], _next_value(g, r, r.members[i], -1))
    n_worlds, i = 0, 0
    while i < n:
        if s.n_broken[0] == 0:
            n_worlds += 1
            is_drawn = rng.random() * n_worlds < 1
            for k in range(n):
                value = s.values[r.members[k]]
                r.n_worlds[g.starts[r.members[k]] + value] += 1
                if is_drawn:
                    r.kept[k] = value
        i = 0
        while i < n:
            v = r.members[i]
            new = _next_value(g, r, v, s.values[v])
            move(g, s, v, new if new >= 0 else _next_value(g, r, v, -1))
            if new >= 0:
                break
            i += 1
    for k in range(n):
        move(g, s, r.members[k], r.kept[k])
    return n_worlds


@compiled
def _random_value(g: Ground, r: Room, v: int, rng: np.random.Generator) -> int:
    n, new = 0, 0
    for x in range(g.starts[v + 1] - g.starts[v]):
        if r.domain[g.starts[v] + x]:
            n += 1
            if rng.random() * n < 1:
                new = x
    return new


@compiled
def _draw_by_search(g: Ground, s: State, r: Room, n: int, max_flips: int, failures: np.ndarray,
                    rng: np.random.Generator) -> None:
    """SampleSAT from a random start; where it finds nothing, the old world stays. Then moves among the worlds."""
    for i in range(n):
        r.kept[i] = s.values[r.members[i]]
    for i in range(n):
        move(g, s, r.members[i], _random_value(g, r, r.members[i], rng))
    for _ in range(max_flips):
        if s.n_broken[0] == 0:
            break
        if rng.random() < ANNEALING:
            v = r.members[int(rng.random() * n)]
            new = _random_value(g, r, v, rng)
            cost = change(g, s, v, new)
            if cost <= 0 or rng.random() < np.exp(-cost / TEMPERATURE):
                move(g, s, v, new)
        else:
            v, new = repair(g, s, r.domain, s.broken[int(rng.random() * s.n_broken[0])], NOISE, rng)
            if v >= 0:
                move(g, s, v, new)
    failures[1] += 1
    if s.n_broken[0] > 0:
        failures[0] += 1
        for i in range(n):
            move(g, s, r.members[i], r.kept[i])
    # each keeps the uniform distribution as it is
    for _ in range(MIXING * n):
        v = r.members[int(rng.random() * n)]
        new = _random_value(g, r, v, rng)
        if change(g, s, v, new) == 0:
            move(g, s, v, new)
    for i in range(n):
        r.n_worlds[g.starts[r.members[i]] + s.values[r.members[i]]] += 1
