"""Groups from scored pairs: correlation clustering of a sparse graph, as array operations.

Room: **groups** -> records, decoding.

    maximize  sum of weights of the pairs in one group, where an unscored pair weighs `unscored` (at most 0)

Groups are merged while that increases the sum: in each round all pairs of groups that are each other's best merge at
once. Then single elements move, in each round the best move of every group; then both again, until neither helps. The
starts are: all apart, and the components of the positive pairs, if they are small. Each component keeps the better of
its two results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

# elements of a component that is also a start
SMALL = 100
# rounds of single moves, of merging and moving, and merges of mutual best groups, below which others merge too
MAX_MOVES = 100
MAX_TURNS = 20
FEW = 0.3
# smaller gains, relative to the largest weight, are rounding errors
ROUNDING = 1e-12


@dataclass(frozen=True)
class PairGraph:
    """Scored pairs of elements: one < other, each pair once."""

    n: int
    one: np.ndarray
    other: np.ndarray
    # log-odds
    weights: np.ndarray
    # log-odds of every pair that is not listed
    unscored: float = 0.0
    max_size: int | None = None

    @cached_property
    def links(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each pair in both directions: source, target, weight."""
        return (np.append(self.one, self.other), np.append(self.other, self.one), np.append(self.weights, self.weights))

    @property
    def least(self) -> float:
        """The smallest gain that counts."""
        return ROUNDING * max(1.0, float(np.abs(self.weights).max(initial=0.0)))


def best_groups(graph: PairGraph) -> np.ndarray:
    """The group of each element, numbered in the order of their first elements.

    >>> one, other = np.array([0, 1, 0, 2]), np.array([1, 2, 2, 3])
    >>> best_groups(PairGraph(4, one, other, np.array([2.0, 3.0, -1.0, -2.0])))
    array([0, 0, 0, 1])
    """
    best = _improve(graph, np.arange(graph.n))
    if graph.max_size is None:
        is_positive = graph.weights > 0
        parts = find_components(graph.n, graph.one[is_positive], graph.other[is_positive])
        # components whose positive pairs are not all inside groups, which would be the best result; no group has
        # elements of two components
        bound = np.bincount(parts[graph.one], graph.weights.clip(0), graph.n)
        is_open = _objective(graph, best, parts) < bound - graph.least
        is_open &= np.bincount(parts, minlength=graph.n) <= SMALL
        rows = is_open[parts[graph.one]] & is_open[parts[graph.other]]
        part = replace(graph, one=graph.one[rows], other=graph.other[rows], weights=graph.weights[rows])
        whole = _improve(part, np.where(is_open[parts], parts, np.arange(graph.n)))
        gains = _objective(part, whole, parts) - _objective(part, best, parts)
        best = np.where((gains > graph.least)[parts] & is_open[parts], whole + graph.n, best)
    return renumber(best)


def find_components(n: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The smallest element that each element is connected to.

    >>> find_components(5, np.array([3, 1]), np.array([1, 4]))
    array([0, 1, 2, 1, 1])
    """
    labels = np.arange(n)
    while True:
        low = np.minimum(labels[one], labels[other])
        linked = labels.copy()
        for ends in (one, other):
            np.minimum.at(linked, labels[ends], low)
        while not np.array_equal(linked, linked[linked]):
            linked = linked[linked]
        linked = linked[labels]
        if np.array_equal(linked, labels):
            return labels
        labels = linked


def confidences(graph: PairGraph, labels: np.ndarray) -> np.ndarray:
    """The probability of each element's group, given the groups of all other elements.

    An element can be in every group that it has a scored pair with, and alone.
    """
    at, group, total = _sums(graph, labels, np.ones(graph.n, dtype=bool))
    own, sizes = labels[at] == group, np.bincount(labels, minlength=graph.n)
    if graph.max_size is not None:
        fits = own | (sizes[group] < graph.max_size)
        at, group, total, own = at[fits], group[fits], total[fits], own[fits]
    # without a scored pair to its own group; an element that is alone has the sum 0
    mine = graph.unscored * (sizes[labels] - 1.0)
    mine[at[own]] = total[own]
    top = np.maximum(mine, 0)
    np.maximum.at(top, at, total)
    others = np.bincount(at[~own], np.exp(total[~own] - top[at[~own]]), graph.n)
    alone = np.where(sizes[labels] > 1, np.exp(-top), 0.0)
    chosen = np.exp(mine - top)
    found: np.ndarray = chosen / (chosen + others + alone)
    return found


def renumber(labels: np.ndarray) -> np.ndarray:
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number]


def _objective(graph: PairGraph, labels: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The sum of the weights inside groups, by component."""
    inside = labels[graph.one] == labels[graph.other]
    scored = np.bincount(parts[graph.one[inside]], graph.weights[inside] - graph.unscored, graph.n)
    sizes = np.bincount(labels, minlength=graph.n)
    part = np.zeros(graph.n, dtype=np.int64)
    part[labels] = parts
    found: np.ndarray = scored + np.bincount(part, graph.unscored * sizes * (sizes - 1) / 2, graph.n)
    return found


def _improve(graph: PairGraph, labels: np.ndarray) -> np.ndarray:
    labels = _move(graph, _merge(graph, labels))
    for _ in range(MAX_TURNS):
        merged = _merge(graph, labels)
        if np.array_equal(merged, labels):
            break
        labels = _move(graph, merged)
    return labels


def _merge(graph: PairGraph, labels: np.ndarray) -> np.ndarray:
    """Merge groups while that has a gain."""
    n, sizes = graph.n, np.bincount(labels, minlength=graph.n)
    rows = _between(graph, sizes, labels[graph.one], labels[graph.other], np.ones(len(graph.one)), graph.weights)
    for turn in range(n):
        one, other, _, _, gain = rows
        is_better = gain > graph.least
        if graph.max_size is not None:
            is_better &= sizes[one] + sizes[other] <= graph.max_size
        can = np.flatnonzero(is_better)
        if not len(can):
            break
        # only the best rows of a group can be chosen
        most = np.zeros(n)
        for ends in (one[can], other[can]):
            np.maximum.at(most, ends, gain[can])
        can = can[(gain[can] == most[one[can]]) | (gain[can] == most[other[can]])]
        can = can[np.argsort(-gain[can], kind="stable")]
        can = can[_choose(n, one[can], other[can], turn)]
        step = np.arange(n)
        step[other[can]] = one[can]
        sizes[one[can]] += sizes[other[can]]
        sizes[other[can]] = 0
        labels = step[labels]
        # rows of other groups stay as they are
        changed = np.zeros(n, dtype=bool)
        changed[one[can]] = changed[other[can]] = True
        is_changed = changed[one] | changed[other]
        moved = (step[one], step[other], *rows[2:4])
        again = _between(graph, sizes, *(x[is_changed] for x in moved))
        rows = tuple(np.append(x[~is_changed], y) for x, y in zip(rows, again, strict=True))
    return labels


def _between(graph: PairGraph, sizes: np.ndarray, one: np.ndarray, other: np.ndarray, counts: np.ndarray,
             weights: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rows between groups, one for two groups: both groups, pairs, sum of weights, and the gain of merging them."""
    apart = one != other
    keys, number = np.unique((np.minimum(one, other) * graph.n + np.maximum(one, other))[apart], return_inverse=True)
    counts, weights = (np.bincount(number, x[apart], len(keys)) for x in (counts, weights))
    one, other = np.divmod(keys, graph.n)
    return one, other, counts, weights, weights + graph.unscored * (sizes[one] * sizes[other] - counts)


def _choose(n: int, one: np.ndarray, other: np.ndarray, turn: int) -> np.ndarray:
    """Which pairs of groups merge, from the best gain to the worst: a group is in one of them at most."""
    rank, best = np.arange(len(one)), np.full(n, len(one))
    for ends in (one, other):
        np.minimum.at(best, ends, rank)
    chosen: np.ndarray = (best[one] == rank) & (best[other] == rank)
    if chosen.sum() >= FEW * (best < len(one)).sum():
        return chosen
    # long chains of best groups: half of the groups, which change from turn to turn, take the best one of the others
    coin = (np.arange(n) * 2654435761 >> (7 + turn % 16)) & 1
    is_best = (best[one] == rank) | (best[other] == rank)
    taken = np.full(n, len(one))
    pairs = is_best & (coin[one] != coin[other])
    for ends in (one[pairs], other[pairs]):
        np.minimum.at(taken, ends, rank[pairs])
    mixed: np.ndarray = pairs & (taken[one] == rank) & (taken[other] == rank)
    return mixed if mixed.any() else chosen


def _sums(graph: PairGraph, labels: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sum of weights from each active element to each group that it has a pair with: element, group, sum."""
    source, target, weights = graph.links
    rows = np.flatnonzero(active[source])
    keys, number = np.unique(source[rows] * graph.n + labels[target[rows]], return_inverse=True)
    at, group = np.divmod(keys, graph.n)
    sizes = np.bincount(labels, minlength=graph.n)[group] - (labels[at] == group)
    total = np.bincount(number, weights[rows] - graph.unscored, len(keys)) + graph.unscored * sizes
    return at, group, total


def _move(graph: PairGraph, labels: np.ndarray) -> np.ndarray:
    """Move single elements to other groups or to new ones while that has a gain."""
    n, labels, active = graph.n, labels.copy(), np.ones(graph.n, dtype=bool)
    source, target, _ = graph.links
    for _ in range(MAX_MOVES):
        sizes = np.bincount(labels, minlength=n)
        at, group, total = _sums(graph, labels, active)
        own = labels[at] == group
        mine = graph.unscored * (sizes[labels] - 1.0)
        mine[at[own]] = total[own]
        # to another group with room, or to a group of its own, number n
        fits = ~own if graph.max_size is None else ~own & (sizes[group] < graph.max_size)
        leaving = np.flatnonzero(active & (sizes[labels] > 1))
        element, goal = np.append(at[fits], leaving), np.append(group[fits], np.full(len(leaving), n))
        gain = np.append(total[fits], np.zeros(len(leaving))) - mine[element]
        rows = np.flatnonzero(gain > graph.least)
        if not len(rows):
            break
        rows = rows[np.argsort(-gain[rows], kind="stable")]
        element, goal = element[rows], goal[rows]
        chosen = _choose_moves(graph, labels, element, goal)
        element, goal = element[chosen], goal[chosen]
        is_new = goal == n
        goal[is_new] = np.flatnonzero(sizes == 0)[: is_new.sum()]
        changed = np.zeros(n, dtype=bool)
        changed[labels[element]] = changed[goal] = True
        labels[element] = goal
        active = changed[labels]
        active[source[active[target]]] = True
    return labels


def _choose_moves(graph: PairGraph, labels: np.ndarray, element: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Which moves are made at once, from the best gain to the worst, so that none changes the gain of another."""
    n, rank = graph.n, np.arange(len(element))
    source, target, _ = graph.links
    # the best move of each element, if it is better than those of the elements that it has a pair with
    first = np.full(n, len(rank))
    np.minimum.at(first, element, rank)
    near = np.full(n, len(rank))
    np.minimum.at(near, source, first[target])
    chosen: np.ndarray = (first[element] == rank) & (near[element] > rank)
    if graph.unscored or graph.max_size is not None:
        # sizes count: one move for each group
        best = np.full(n + 1, len(rank))
        for group in (labels[element], goal):
            np.minimum.at(best, group[chosen], rank[chosen])
        chosen &= (best[labels[element]] == rank) & ((best[goal] == rank) | (goal == n))
    return chosen
