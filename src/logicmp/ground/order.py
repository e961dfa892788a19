"""The order in which to sum variables out of a ground network: in rounds of independent variables.

Room: **ground** -> elimination.

    A(1) - A(2) - A(3) - A(4)      round 0: A(1) and A(4), which have one neighbour each; then A(2); then A(3)
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

# microseconds per group of equal tables and per cell of one item, all passes together: only their ratio matters
GROUP_COST = 200.0
CELL_COST = 0.25
# neighbours up to which it is tested whether summing out a variable connects new pairs
MAX_CLIQUE = 8


@dataclass
class Order:
    """The variables in the order of elimination, with the neighbours that each has then."""

    scope: dict[int, tuple[int, ...]]
    # the components that need too many cells, by label, and the cells counted so far
    wide: dict[int, int]
    wave: dict[int, int]
    cost: float = 0.0

    @property
    def n_waves(self) -> int:
        return max(self.wave.values(), default=-1) + 1


def eliminate(cards: list[int], scopes: list[list[int]], label: np.ndarray, limit: int, max_cells: int) -> Order:
    """Sum out independent variables in rounds: those that connect no new pair, or whose tables are within the limit.

    If there is none, the variable with the smallest table.

    >>> eliminate([2, 2, 2], [[0, 1], [1, 2]], np.zeros(3, dtype=int), 0, 100).scope
    {0: (1,), 2: (1,), 1: ()}

    Args:
        cards: the number of values of each variable.
        scopes: the variables of each feature.
        label: the component of each variable.
        limit: cells of a table that may be made although it connects new pairs.
        max_cells: a component whose tables have more cells together is too wide.
    """
    near: list[set[int]] = [set() for _ in cards]
    for scope in {tuple(scope) for scope in scopes}:
        for v in scope:
            near[v].update(scope)
    for v, others in enumerate(near):
        others.discard(v)
    widest = max_cells.bit_length()
    total: dict[int, int] = defaultdict(int)
    wide: dict[int, int] = {}
    found: dict[int, tuple[int, ...]] = {}
    heap: list[tuple[int, int]] = []
    ready: set[int] = set()

    def cost(v: int) -> int:
        # with more neighbours it is too wide in any case
        return cards[v] * math.prod(cards[u] for u in near[v]) if len(near[v]) <= widest else 2 ** len(near[v])

    def look(v: int) -> None:
        others = near[v]
        if len(others) <= 1 or cost(v) <= limit or (
                len(others) <= MAX_CLIQUE and all(b in near[a] for a, b in itertools.combinations(others, 2))):
            ready.add(v)
        else:
            ready.discard(v)
            heapq.heappush(heap, (cost(v), v))

    def remove(v: int) -> None:
        size, component = cost(v), int(label[v])
        total[component] += size
        if total[component] > max_cells:
            wide[component] = total[component]
            return
        found[v] = tuple(near[v])
        for u in near[v]:
            near[u].update(near[v])
            near[u] -= {u, v}

    for v in range(len(cards)):
        look(v)
    while ready or heap:
        if ready:
            blocked: set[int] = set()
            chosen = []
            for v in sorted(ready, key=lambda v: (cost(v), v)):
                if v not in blocked:
                    chosen.append(v)
                    blocked |= near[v]
        else:
            size, v = heapq.heappop(heap)
            if v in found or int(label[v]) in wide or size != cost(v):
                continue
            chosen = [v]
        changed: set[int] = set()
        for v in chosen:
            ready.discard(v)
            if int(label[v]) not in wide:
                changed |= near[v]
                remove(v)
        for u in changed:
            if u not in found and int(label[u]) not in wide:
                look(u)
        ready = {v for v in ready if int(label[v]) not in wide}
    order = Order({v: scope for v, scope in found.items() if int(label[v]) not in wide}, wide, {})
    _measure(order, cards)
    return order


def _measure(order: Order, cards: list[int]) -> None:
    """The wave of each variable: its height in the tree of tables; and what all groups cost."""
    place = {v: k for k, v in enumerate(order.scope)}
    shapes = set()
    cells = 0
    for v, scope in order.scope.items():
        wave = order.wave.setdefault(v, 0)
        shapes.add((wave, cards[v], *sorted(cards[u] for u in scope)))
        cells += cards[v] * math.prod(cards[u] for u in scope)
        if scope:
            parent = min(scope, key=place.__getitem__)
            order.wave[parent] = max(order.wave.get(parent, 0), wave + 1)
    order.cost = GROUP_COST * len(shapes) + CELL_COST * cells
