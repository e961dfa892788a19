"""The compiled loops of MC-SAT: keep some of the satisfied rules, draw a world that satisfies those.

Room: inference/sampling.  Needs numba.  Poon and Domingos 2006.

    kept  S(A) v S(B),  C(A)        C(A) is frozen; S(A) and S(B) are one component
    a small component               all its worlds are listed, and one is drawn: exactly uniform
    a large one                     stays; then every atom is drawn given all others

Whether a rule is kept is decided when it is first looked at. In a large component that happens to few rules: the search
for the component of an atom ends at the first atom that is known to be in a large one. It starts at the rule where the
search of the last step ended: that one often leads to the large component again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..moves import loops
from ..moves.loops import compiled, inlined
from .chains import Tally
from .field_loops import draw_variable, move
from .fields import HARD_WEIGHT, Fields, Prepared, World

# variables and rules of a component that is listed
MAX_MEMBERS = 64
MAX_CLAUSES = 1024
# states that listing a component may take if no hard rule ties its members
FEW_STATES, STATES_PER_MEMBER = 64, 4
# what is known of a rule in a step; lower numbers are from earlier steps
DROPPED, KEPT, COLLECTED, ENDLESS = 0, 1, 2, 3
# what is known of a variable in a step
FROZEN, OPEN, MEMBER, LARGE = 0, 1, 2, 3
# the last number that fits into the byte of a mark, before the numbers start again
LAST = 252


class Slice(NamedTuple):
    """What a chain needs for a step: marks are 4 times the number of the step plus what is known, up to `LAST`."""

    step: np.ndarray
    # by feature, and by variable
    rules: np.ndarray
    variables: np.ndarray
    # by value, for open variables: whether the kept rules over the variable alone allow it
    allowed: np.ndarray
    # the variables of one component, the place of each, and the rules that tie them
    members: np.ndarray
    place: np.ndarray
    clauses: np.ndarray
    # the rules whose last member has a place, as lists: the first, and the one after each; -1 ends a list
    head: np.ndarray
    after: np.ndarray
    # the values of all variables, with other ones in the members of a component while it is listed
    trial: np.ndarray
    drawn: np.ndarray
    # by value: in how many worlds of a component
    n_worlds: np.ndarray
    # room for the probabilities of one variable
    p: np.ndarray
    # how often SampleSAT found no world, and how often it ran
    failures: np.ndarray
    # by variable: after how many of its rules the search for its component ended
    ended: np.ndarray


def new_slice(prepared: Prepared) -> Slice:
    """The workspace of one chain."""
    g, n = prepared.fields, len(prepared.network.cards)
    return Slice(np.zeros(1, dtype=np.int64), np.zeros(prepared.n_features, dtype=np.uint8),
                 np.zeros(n, dtype=np.uint8), np.zeros(len(g.base), dtype=bool), np.zeros(MAX_MEMBERS, dtype=np.int32),
                 np.zeros(n, dtype=np.int32), np.zeros(MAX_CLAUSES, dtype=np.int32),
                 np.zeros(MAX_MEMBERS, dtype=np.int32), np.zeros(MAX_CLAUSES, dtype=np.int32),
                 np.zeros(n, dtype=np.int32), np.zeros(MAX_MEMBERS, dtype=np.int32),
                 np.zeros(len(g.base), dtype=np.int32), np.zeros(int(prepared.network.cards.max(initial=1))),
                 np.zeros(2, dtype=np.int64), np.zeros(n, dtype=np.int64))


@compiled
def sample(g: Fields, s: World, r: Slice, tally: Tally, max_states: int, n_samples: int,
           rng: np.random.Generator) -> None:
    """Make some steps of MC-SAT, and count probabilities.

    Those of an atom that hard rules tie to others are counted given the kept rules, those of other atoms given all
    other atoms.
    """
    loops.copy(s.values, r.trial)
    for _ in range(n_samples):
        start_step(r)
        for v in g.free:
            if is_open(g, s, r, v, rng) and r.variables[v] == r.step[0] + OPEN:
                _draw_component(g, s, r, tally, v, max_states, rng)
        for v in g.free:
            known = np.int64(r.variables[v]) - r.step[0]
            if g.is_tied[v] and known != MEMBER:
                tally.total[g.starts[v] + s.values[v]] += 1
        for v in g.free:
            draw_variable(g, s, v, r.p, rng)
            if not g.is_tied[v]:
                for x in range(g.starts[v + 1] - g.starts[v]):
                    tally.total[g.starts[v] + x] += r.p[x]
        loops.copy(s.values, r.trial)
        for k in range(len(tally.watch)):
            tally.watched[k] += s.false[tally.watch[k]] == 0


@compiled
def start_step(r: Slice) -> None:
    """Forget what is known of rules and variables."""
    if r.step[0] == LAST:
        r.step[0] = 0
        for f in range(len(r.rules)):
            r.rules[f] = 0
        for v in range(len(r.variables)):
            r.variables[v] = 0
    r.step[0] += 4


@inlined
def _keeps(s: World, r: Slice, f: int, w: float, rng: np.random.Generator) -> bool:
    """Keep a satisfied rule with probability 1 - exp(-w), a hard one always; the answer is that of the whole step.

    Args:
        w: the weight of the feature.
    """
    known = r.rules[f]
    if known >= r.step[0]:
        is_kept: bool = known > r.step[0] + DROPPED
        return is_kept
    # a feature that should be false and is, or should be true and is
    is_kept = w <= HARD_WEIGHT or ((w < 0) == (s.false[f] > 0) and rng.random() >= np.exp(-abs(w)))
    r.rules[f] = r.step[0] + (KEPT if is_kept else DROPPED)
    return is_kept


@inlined
def is_open(g: Fields, s: World, r: Slice, v: int, rng: np.random.Generator) -> bool:
    """Whether the kept rules over a variable alone leave it several values."""
    if r.variables[v] >= r.step[0]:
        is_open: bool = r.variables[v] > r.step[0] + FROZEN
        return is_open
    start, n = g.starts[v], g.starts[v + 1] - g.starts[v]
    lowest = g.base[start + s.values[v]]
    for x in range(n):
        if g.domain[start + x] and g.base[start + x] < lowest:
            # not flat: draw a height below the present value
            lowest += np.log1p(-rng.random())
            break
    for x in range(n):
        r.allowed[start + x] = g.domain[start + x] and g.base[start + x] >= lowest
    for i in range(g.first[v], g.split[v]):
        f = g.feature[i]
        w = g.kind_weight[g.kind[i]]
        if _keeps(s, r, f, w, rng):
            for x in range(n):
                r.allowed[start + x] &= g.member[g.kind_set[g.kind[i]], x] == (w > 0)
    n_allowed = 0
    for x in range(n):
        n_allowed += r.allowed[start + x]
    r.variables[v] = r.step[0] + (OPEN if n_allowed > 1 else FROZEN)
    return n_allowed > 1


@inlined
def _draw_component(g: Fields, s: World, r: Slice, tally: Tally, root: int, max_states: int,
                    rng: np.random.Generator) -> None:
    """New values for the variables of a component, uniform over those that satisfy the kept rules, if it is small."""
    n, n_clauses = _collect(g, s, r, root, rng)
    n_worlds = 0
    if r.variables[root] == r.step[0] + MEMBER:
        # without hard rules, draws of single atoms do almost as much, for less
        limit = min(max_states, FEW_STATES + STATES_PER_MEMBER * n)
        for k in range(n):
            if g.is_tied[r.members[k]]:
                limit = max_states
        n_worlds = _list_worlds(g, s, r, n, n_clauses, limit, rng)
    if n_worlds == 0:
        for k in range(n):
            r.variables[r.members[k]] = r.step[0] + LARGE
        for k in range(n_clauses):
            r.rules[r.clauses[k]] = r.step[0] + ENDLESS
        return
    for k in range(n):
        v = r.members[k]
        if v >= g.n_own:
            # a quantified part follows its atoms
            continue
        move(g, s, v, r.drawn[k])
        r.trial[v] = r.drawn[k]
        if g.is_tied[v]:
            for place in range(g.starts[v], g.starts[v + 1]):
                tally.total[place] += r.n_worlds[place] / n_worlds


@inlined
def _collect(g: Fields, s: World, r: Slice, root: int, rng: np.random.Generator) -> tuple[int, int]:
    """Write the component of a variable to r.members and r.clauses; the variable is marked LARGE if it is too big."""
    step = r.step[0]
    r.members[0], r.place[root], r.variables[root] = root, 0, step + MEMBER
    n, n_clauses, k = 1, 0, 0
    while k < n:
        v = r.members[k]
        low, end = g.split[v], g.first[v + 1]
        for t in range(low, end):
            i = t + r.ended[v]
            if i >= end:
                i -= end - low
            f = g.feature[i]
            if not _keeps(s, r, f, g.kind_weight[g.kind[i]], rng) or r.rules[f] == step + COLLECTED:
                continue
            is_large = r.rules[f] == step + ENDLESS or n_clauses == len(r.clauses)
            is_satisfied = False
            begin = np.int64(g.begin[i])
            stop = begin + g.kind_length[g.kind[i]]
            for j in range(begin, stop):
                u = g.var[j]
                if is_open(g, s, r, u, rng):
                    is_large |= r.variables[u] == step + LARGE
                elif not g.member[g.set[j], s.values[u]]:
                    is_satisfied = True
                    break
            if is_satisfied:
                r.rules[f] = step + DROPPED
                continue
            for j in range(begin, stop):
                u = g.var[j]
                if r.variables[u] == step + OPEN and not is_large:
                    if n == len(r.members):
                        is_large = True
                        break
                    r.members[n], r.place[u], r.variables[u] = u, n, step + MEMBER
                    n += 1
            if is_large:
                r.ended[v] = i - low
                r.variables[root] = step + LARGE
                return n, n_clauses
            r.clauses[n_clauses] = f
            n_clauses += 1
            r.rules[f] = step + COLLECTED
        k += 1
    return n, n_clauses


@compiled
def _list_worlds(g: Fields, s: World, r: Slice, n: int, n_clauses: int, max_states: int,
                 rng: np.random.Generator) -> int:
    """List the worlds of a component, member by member, and draw one; returns how many, 0 if it takes too long."""
    for d in range(n):
        r.head[d] = -1
        for place in range(g.starts[r.members[d]], g.starts[r.members[d] + 1]):
            r.n_worlds[place] = 0
    for c in range(n_clauses):
        last = 0
        for j in range(g.begins[r.clauses[c]], g.begins[r.clauses[c] + 1]):
            if r.variables[g.var[j]] == r.step[0] + MEMBER:
                last = max(last, r.place[g.var[j]])
        r.after[c] = r.head[last]
        r.head[last] = c
    n_worlds, n_states, d = 0, 0, 0
    r.trial[r.members[0]] = -1
    while d >= 0:
        v = r.members[d]
        x = r.trial[v] + 1
        while x < g.starts[v + 1] - g.starts[v] and not r.allowed[g.starts[v] + x]:
            x += 1
        if x == g.starts[v + 1] - g.starts[v]:
            r.trial[v] = s.values[v]
            d -= 1
            continue
        r.trial[v] = x
        n_states += 1
        if n_states > max_states:
            n_worlds = 0
            break
        if _is_violated(g, r, r.head[d]):
            continue
        if d < n - 1:
            d += 1
            r.trial[r.members[d]] = -1
            continue
        n_worlds += 1
        is_drawn = rng.random() * n_worlds < 1
        for k in range(n):
            u = r.members[k]
            r.n_worlds[g.starts[u] + r.trial[u]] += 1
            if is_drawn:
                r.drawn[k] = r.trial[u]
    for k in range(n):
        r.trial[r.members[k]] = s.values[r.members[k]]
    return n_worlds


@compiled
def _is_violated(g: Fields, r: Slice, c: int) -> bool:
    """Whether one of the rules in a list is violated by the trial values."""
    while c >= 0:
        holds = True
        for j in range(g.begins[r.clauses[c]], g.begins[r.clauses[c] + 1]):
            if not g.member[g.set[j], r.trial[g.var[j]]]:
                holds = False
                break
        if holds:
            return True
        c = r.after[c]
    return False
