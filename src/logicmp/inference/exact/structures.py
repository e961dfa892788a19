"""The independent components of a ground network, grouped by structure, and the cost of summing each.

Room: inference/exact.

    Smokes(A) - Cancer(A)     Smokes(B) - Cancer(B)        two components of one structure: solved in one batch

Components that differ only in their numbers (weights, soft evidence) share a structure, its elimination order, and all
tensor operations.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...facts.supports import distinct
from ...ground.join import ragged_ranges
from ...ground.network import HARD, Network, label_components


@dataclass(frozen=True)
class Structure:
    """Components that are equal but for their numbers."""

    cards: tuple[int, ...]
    # each feature as its variables, numbered from 0 within a component, and the sets of values; none if it is proven
    # to be too wide without them
    features: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    is_hard: tuple[bool, ...]
    # [components, variables] and [components, features]: the numbers they have in the network
    variables: np.ndarray
    numbers: np.ndarray
    # the order in which to sum variables out, None if it needs too many cells; and the cells of all tables on the way
    order: tuple[int, ...] | None
    cells: int


def find_structures(network: Network, max_cells: int) -> tuple[list[Structure], np.ndarray]:
    """The components with features, grouped by structure; and the variables without features."""
    label = label_components(network)
    has_feature = np.zeros(len(label), dtype=bool)
    has_feature[network.var] = True
    alone = np.flatnonzero(~has_feature)
    order = np.argsort(label, kind="stable")
    order = order[has_feature[order]]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(label[order]) != 0])) if len(order) else np.zeros(0, int)
    sizes = np.diff(np.append(starts, len(order)))
    # a component's number and its variables' places within it
    component, place = np.zeros(len(label), dtype=np.int64), np.zeros(len(label), dtype=np.int64)
    component[order] = np.repeat(np.arange(len(starts)), sizes)
    place[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    lengths = np.diff(network.begins)
    at = component[network.var[network.begins[:-1]]] if network.n_features else np.zeros(0, dtype=np.int64)
    features = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[features], np.arange(len(starts) + 1))
    groups: dict[tuple[bytes, ...], list[int]] = {}
    _, literals = ragged_ranges(network.begins[:-1][features], lengths[features])
    ends = np.concatenate([[0], np.cumsum(lengths[features])])
    local, chosen, hard = place[network.var[literals]], network.set[literals], network.param[features] == HARD
    cards = network.cards[order]
    least = _least_cells(network, component, sizes, max_cells)
    for c, (first, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        f, g = bounds[c], bounds[c + 1]
        span = slice(ends[f], ends[g])
        key = (cards[first : first + size].tobytes(), local[span].tobytes(), chosen[span].tobytes(),
               lengths[features[f:g]].tobytes(), hard[f:g].tobytes())
        groups.setdefault(key, []).append(c)
    found = []
    for members in groups.values():
        c = members[0]
        f, g = int(bounds[c]), int(bounds[c + 1])
        shape = tuple(cards[starts[c] : starts[c] + sizes[c]].tolist())
        if least[c] > max_cells:
            found.append(Structure(shape, (), (), order[starts[members][:, None] + np.arange(sizes[c])],
                                   features[bounds[members][:, None] + np.arange(g - f)], None, int(least[c])))
            continue
        scopes = tuple((tuple(local[ends[k] : ends[k + 1]].tolist()), tuple(chosen[ends[k] : ends[k + 1]].tolist()))
                       for k in range(f, g))
        elimination, cells = elimination_order(shape, [scope for scope, _ in scopes], max_cells)
        found.append(Structure(
            shape, scopes, tuple(hard[f:g].tolist()),
            order[starts[members][:, None] + np.arange(sizes[c])],
            features[bounds[members][:, None] + np.arange(g - f)], elimination, cells))
    return found, alone


def _least_cells(network: Network, component: np.ndarray, sizes: np.ndarray, max_cells: int) -> np.ndarray:
    """A lower bound of the table cells of each component where that is above a limit, whatever the elimination order.

    Every pair of variables of a feature is in the table of the one that is summed out first. With p pairs and n
    variables, the tables have p / n variables besides their own on average, and at least n 2^(p/n + 1) cells.
    """
    is_pair = np.ones(max(len(network.var) - 1, 0), dtype=bool)
    is_pair[network.begins[1:-1] - 1] = False
    at = np.flatnonzero(is_pair)
    one, other = network.var[at].astype(np.int64), network.var[at + 1].astype(np.int64)

    def bound(variables: np.ndarray) -> np.ndarray:
        n_pairs = np.bincount(component[variables], minlength=len(sizes))
        return np.asarray(sizes * np.exp2(np.minimum(n_pairs / sizes + 1, 60)))

    # counting a pair twice gives more, so most networks need no sorting
    most = bound(one)
    if not (most > max_cells).any():
        return most
    return bound(distinct((np.minimum(one, other) << 32) | np.maximum(one, other)) >> 32)


def elimination_order(cards: Sequence[int], scopes: Sequence[Sequence[int]], max_cells: int
                      ) -> tuple[tuple[int, ...] | None, int]:
    """Sum out the variable with the smallest table first; None once all tables together have too many cells.

    >>> elimination_order([2, 2, 2], [(0, 1), (1, 2)], 100)
    ((0, 1, 2), 10)
    """
    near: list[set[int]] = [set() for _ in cards]
    for scope in set(map(tuple, scopes)):
        for v in scope:
            near[v].update(scope)
    for v, others in enumerate(near):
        others.discard(v)
    widest = max_cells.bit_length()

    def cost(v: int) -> int:
        # with more neighbours it is too wide in any case
        return cards[v] * math.prod(cards[u] for u in near[v]) if len(near[v]) <= widest else 2 ** len(near[v])

    heap = [(cost(v), v) for v in range(len(cards))]
    heapq.heapify(heap)
    order: list[int] = []
    is_done = [False] * len(cards)
    total = 0
    while heap:
        size, v = heapq.heappop(heap)
        if is_done[v] or size != cost(v):
            continue
        total += size
        if total > max_cells:
            return None, total
        is_done[v] = True
        order.append(v)
        for u in near[v]:
            near[u].update(near[v])
            near[u] -= {u, v}
        for u in near[v]:
            heapq.heappush(heap, (cost(u), u))
    return tuple(order), total
