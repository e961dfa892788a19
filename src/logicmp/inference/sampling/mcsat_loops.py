"""The compiled loops of MC-SAT: choose the rules to keep, propagate, draw a world that satisfies them.

Room: inference/sampling.  Needs numba.  Poon and Domingos 2006; SampleSAT: Wei, Erenrich and Selman 2004.

    kept  S(A) v S(B),  C(A)        unit propagation decides C(A); S(A) and S(B) are one component
    a component of few states       all its worlds are listed, and one is drawn: exactly uniform
    a large one                     SampleSAT, then moves from one of its worlds to another
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..moves.arrays import Cells, Ground, GroundArrays, State
from ..moves.loops import change, compiled, copy, find, literal_truth, move, repair
from .chains import Tally

# SampleSAT: the share of simulated annealing moves, their temperature, and the noise of the other moves
ANNEALING = 0.5
TEMPERATURE = 0.3
NOISE = 0.5
# moves among the satisfying worlds, for each variable of a component
MIXING = 20


class Workspace(NamedTuple):
    """Arrays that every step needs, made once, and the limits of a draw."""

    domain: np.ndarray
    # unit propagation: open literals by feature, features to look at, old values of one variable
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
    # components with more states are left to SampleSAT, which stops after this many flips
    max_states: int
    max_flips: int
    # how often SampleSAT found no world, and how often it ran
    failures: np.ndarray


def new_workspace(arrays: GroundArrays, max_states: int, max_flips: int) -> Workspace:
    """The workspace of all chains: a step leaves nothing in it for the next one."""
    network, n_features = arrays.network, arrays.n_features
    n, n_own, card = len(network.cards), network.n_own, int(network.cards.max(initial=1))
    return Workspace(
        arrays.ground.domain.copy(), np.zeros(n_features, dtype=np.int32), np.zeros(n_features + 1, dtype=np.int32),
        np.zeros(card, dtype=bool), np.zeros(n, dtype=np.int32), np.full(n, -1, dtype=np.int32),
        np.full(n, -1, dtype=np.int32), np.zeros(n_own, dtype=np.int32), np.zeros(n_own, dtype=np.int32),
        np.zeros(len(arrays.ground.domain), dtype=np.int64), max_states, max_flips, np.zeros(2, dtype=np.int64))


@compiled
def sample(g: Ground, s: State, r: Workspace, cells: Cells, tally: Tally, n_samples: int,
           rng: np.random.Generator) -> None:
    """Make some steps of MC-SAT, and count the probability of each value given the rules that were kept."""
    for _ in range(n_samples):
        _choose(g, s, rng)
        _cut_tables(s, cells, rng)
        copy(g.domain, r.domain)
        # the present world satisfies all that was chosen, so there is no contradiction
        propagate(g, s.listed, r.domain, r.n_open, r.stack, r.old)
        _find_components(g, s, r)
        for v in range(g.n_own):
            if r.head[v] >= 0:
                _draw_component(g, s, r, tally, v, rng)
        for k in range(len(tally.watch)):
            tally.watched[k] += s.n_false[tally.watch[k]] == 0


@compiled
def _choose(g: Ground, s: State, rng: np.random.Generator) -> None:
    """Keep each satisfied rule with probability 1 - exp(-w), and the hard ones always."""
    for f in range(len(g.log_weight)):
        kept = 1 if g.is_hard[f] else 0
        w = g.log_weight[f]
        # a feature that should be false and is, or should be true and is
        if (w < 0 and s.n_false[f] > 0) or (w > 0 and s.n_false[f] == 0):
            kept = (-1 if w > 0 else 1) if rng.random() < -np.expm1(-abs(w)) else 0
        s.listed[f] = kept
        s.weight[f] = kept


@compiled
def _cut_tables(s: State, cells: Cells, rng: np.random.Generator) -> None:
    """Draw a height below the log-weight of each table's present cell; cells below the height must be false."""
    begin = cells.first[0]
    for k in range(len(cells.first) - 1):
        height = np.log1p(-rng.random())
        for f in range(cells.first[k], cells.first[k + 1]):
            if s.n_false[f] == 0:
                height += cells.log_weight[f - begin]
        for f in range(cells.first[k], cells.first[k + 1]):
            s.listed[f] = cells.log_weight[f - begin] < height
            s.weight[f] = s.listed[f]


@compiled
def _restrict(g: Ground, listed: np.ndarray, domain: np.ndarray, old: np.ndarray, v: int, chosen: int, keep: bool,
              n_open: np.ndarray, stack: np.ndarray, n_stack: int) -> int:
    """Keep the values inside (or outside) a set; features with one open literal left go on the stack."""
    begin, end = g.starts[v], g.starts[v + 1]
    n = 0
    for x in range(end - begin):
        old[x] = domain[begin + x]
        if g.member[chosen, x] != keep:
            domain[begin + x] = False
        n += domain[begin + x]
    if n == 0:
        return -1
    for j in range(g.first[v], g.first[v + 1]):
        f = g.feature[j]
        if listed[f] <= 0 or n_open[f] < 0:
            continue
        now = literal_truth(g, domain, v, g.chosen[j])
        if now == 0:
            continue
        if now < 0:
            n_open[f] = -1
            continue
        was_open = False
        for x in range(end - begin):
            was_open |= old[x] and not g.member[g.chosen[j], x]
        if was_open:
            n_open[f] -= 1
            if n_open[f] == 0:
                return -1
            if n_open[f] == 1:
                stack[n_stack] = f
                n_stack += 1
    return n_stack


@compiled
def propagate(g: Ground, listed: np.ndarray, domain: np.ndarray, n_open: np.ndarray, stack: np.ndarray,
              old: np.ndarray) -> bool:
    """Unit propagation: remove the values that the listed features exclude; false if a variable has none left.

    Args:
        listed: 1 for features that must be false, -1 for those that must be true.
        n_open: filled with the number of open literals of each feature that must be false, -1 if it cannot be true.
        stack, old: room for all features, and for the values of one variable.
    """
    n_stack = 0
    for f in range(len(listed)):
        n_open[f] = 0
        if listed[f] <= 0:
            continue
        for j in range(g.begins[f], g.begins[f + 1]):
            found = literal_truth(g, domain, g.var[j], g.set[j])
            if found < 0:
                n_open[f] = -1
                break
            n_open[f] += found == 0
        if n_open[f] == 0:
            return False
        if n_open[f] == 1:
            stack[n_stack] = f
            n_stack += 1
    for f in range(len(listed)):
        if listed[f] < 0:
            for j in range(g.begins[f], g.begins[f + 1]):
                n_stack = _restrict(g, listed, domain, old, g.var[j], g.set[j], True, n_open, stack, n_stack)
                if n_stack < 0:
                    return False
    while n_stack > 0:
        n_stack -= 1
        f = stack[n_stack]
        if n_open[f] != 1:
            continue
        for j in range(g.begins[f], g.begins[f + 1]):
            if literal_truth(g, domain, g.var[j], g.set[j]) == 0:
                n_stack = _restrict(g, listed, domain, old, g.var[j], g.set[j], False, n_open, stack, n_stack)
                break
        if n_stack < 0:
            return False
    return True


@compiled
def _find_components(g: Ground, s: State, r: Workspace) -> None:
    """List the variables that the chosen features tie together, in r.head and r.after, without quantified parts."""
    for v in range(len(r.parent)):
        r.parent[v], r.head[v] = v, -1
    for f in range(len(s.listed)):
        if s.listed[f] <= 0 or r.n_open[f] < 2:
            continue
        root = -1
        for j in range(g.begins[f], g.begins[f + 1]):
            if literal_truth(g, r.domain, g.var[j], g.set[j]) == 0:
                other = find(r.parent, g.var[j])
                if root < 0:
                    root = other
                elif other != root:
                    # the lower number becomes the root, so that no quantified part does
                    root, other = min(root, other), max(root, other)
                    r.parent[other] = root
    for v in range(g.n_own - 1, -1, -1):
        root = find(r.parent, v)
        r.after[v] = r.head[root]
        r.head[root] = v


@compiled
def _draw_component(g: Ground, s: State, r: Workspace, tally: Tally, root: int, rng: np.random.Generator) -> None:
    """New values for the variables of a component, uniform over those that satisfy the chosen rules."""
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
            n_states = min(n_states * size, r.max_states + 1)
        else:
            # decided by the chosen rules
            tally.total[g.starts[v] + s.values[v]] += 1
            tally.square[g.starts[v] + s.values[v]] += 1
        v = r.after[v]
    if n == 0:
        return
    if n_states <= r.max_states:
        n_worlds = _draw_listed(g, s, r, n, rng)
    else:
        n_worlds = 1
        _draw_by_search(g, s, r, n, rng)
    for i in range(n):
        for place in range(g.starts[r.members[i]], g.starts[r.members[i] + 1]):
            p = r.n_worlds[place] / n_worlds
            tally.total[place] += p
            tally.square[place] += p * p


@compiled
def _next_value(g: Ground, r: Workspace, v: int, x: int) -> int:
    """The possible value after x; -1 after the last."""
    for y in range(x + 1, g.starts[v + 1] - g.starts[v]):
        if r.domain[g.starts[v] + y]:
            return y
    return -1


@compiled
def _draw_listed(g: Ground, s: State, r: Workspace, n: int, rng: np.random.Generator) -> int:
    """Go through all worlds of a component like an odometer, draw one, count all; returns how many there are."""
    for i in range(n):
        move(g, s, r.members[i], _next_value(g, r, r.members[i], -1))
    n_worlds, i = 0, 0
    while i < n:
        if s.n_violated[0] == 0:
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
def _random_value(g: Ground, r: Workspace, v: int, rng: np.random.Generator) -> int:
    n, new = 0, 0
    for x in range(g.starts[v + 1] - g.starts[v]):
        if r.domain[g.starts[v] + x]:
            n += 1
            if rng.random() * n < 1:
                new = x
    return new


@compiled
def _draw_by_search(g: Ground, s: State, r: Workspace, n: int, rng: np.random.Generator) -> None:
    """SampleSAT from a random start, or the old world if it finds none; then moves among the worlds."""
    for i in range(n):
        r.kept[i] = s.values[r.members[i]]
    for i in range(n):
        move(g, s, r.members[i], _random_value(g, r, r.members[i], rng))
    for _ in range(r.max_flips):
        if s.n_violated[0] == 0:
            break
        if rng.random() < ANNEALING:
            v = r.members[int(rng.random() * n)]
            new = _random_value(g, r, v, rng)
            cost = change(g, s, v, new)
            if cost <= 0 or rng.random() < np.exp(-cost / TEMPERATURE):
                move(g, s, v, new)
        else:
            v, new = repair(g, s, r.domain, s.violated[int(rng.random() * s.n_violated[0])], NOISE, rng)
            if v >= 0:
                move(g, s, v, new)
    r.failures[1] += 1
    if s.n_violated[0] > 0:
        r.failures[0] += 1
        for i in range(n):
            move(g, s, r.members[i], r.kept[i])
    # each of these moves leaves the uniform distribution unchanged
    for _ in range(MIXING * n):
        v = r.members[int(rng.random() * n)]
        new = _random_value(g, r, v, rng)
        if change(g, s, v, new) == 0:
            move(g, s, v, new)
    for i in range(n):
        r.n_worlds[g.starts[r.members[i]] + s.values[r.members[i]]] += 1
