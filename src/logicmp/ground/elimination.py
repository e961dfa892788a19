"""Plan exact inference on a ground network: which variables to sum out together, and where their tables come from.

Room: **ground** -> execute.  Paper: Eq. 1, its partition function Z.

    A(1) - A(2) - A(3) - A(4)     wave 0: sum out A(1) and A(4), tables [2, 2]; wave 1: A(2); wave 2: A(3)

Summing out a variable needs one table over it and its neighbours (its scope), and leaves a message over the neighbours.
A message goes to the table of the neighbour that is summed out next, so the tables form trees. Tables of one height
and shape are a group: a few tensor operations compute all of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .network import HARD, Network, label_components
from .order import Order, eliminate
from .reduce import Reduced

# a component whose tables have more cells together is too wide for the layer
MAX_CELLS = 2**20
# tables with at most this many cells may be made to get fewer waves; the cheapest choice is taken
SHORTCUTS = (0, 64, 1024)
# chains and trees with fewer waves need no shortcut
FEW_WAVES = 10


@dataclass(frozen=True, eq=False)
class Group:
    """Tables of one shape and height: [n, cells of the separators, values of the variables that are summed out]."""

    wave: int
    # the variables that are summed out, and those of the separators, [n] and [n, k]
    variables: np.ndarray
    separators: np.ndarray
    # values of the separator variables, and of the variable that is summed out
    shape: tuple[int, ...]
    n_values: int
    # where the group begins: in the values of all variables, in the messages, in the cells of all tables
    row: int
    message: int
    cell: int
    # the table of weights of each member (several members share one), and where these tables begin
    kind: np.ndarray
    n_kinds: int
    kind_cell: int
    # messages to add to each value, and to each cell: message cells, and where the list of each begins
    to_values: tuple[np.ndarray, np.ndarray] | None
    to_cells: tuple[np.ndarray, np.ndarray] | None
    # for each cell of each separator: a row of the parent's values, or [r] cells of the parent's table; None at a root
    parent_rows: np.ndarray | None
    parent_cells: np.ndarray | None

    @property
    def n(self) -> int:
        return len(self.variables)

    @property
    def n_states(self) -> int:
        """The cells of a separator."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Elimination:
    """The groups in the order in which they are computed, and the linear map from weights to their tables."""

    reduced: Reduced
    groups: tuple[Group, ...]
    n_rows: int
    n_messages: int
    n_cells: int
    # the first row of each variable; -1 if its component is too wide
    row_of: np.ndarray
    # tables of weights: entry k adds coefficient[k] * weights[weight[k]] to the cell at[k]; forbidden cells
    n_kind_cells: int
    at: np.ndarray
    weight: np.ndarray
    coefficient: np.ndarray
    forbidden: np.ndarray
    # number of components summed and too wide, the cells of the smallest that is too wide, the limit
    n_components: int
    n_wide: int
    wide_cells: int
    wide_variables: tuple[int, ...]
    max_cells: int

    @property
    def n_waves(self) -> int:
        return max((group.wave for group in self.groups), default=-1) + 1

    @property
    def width(self) -> int:
        """The cells of the largest table."""
        return max((group.n_states * group.n_values for group in self.groups), default=0)

    @property
    def network(self) -> Network:
        return self.reduced.network

    @property
    def has_wide_hard_rules(self) -> bool:
        """Whether a hard rule connects atoms of a component that is too wide."""
        network = self.network
        hard = network.begins[:-1][network.param == HARD]
        return bool((self.row_of[network.var[hard]] < 0).any())

    def __str__(self) -> str:
        n_variables = sum(group.n for group in self.groups)
        text = (f"exact on {self.n_components:,} of {self.n_components + self.n_wide:,} components: "
                f"{n_variables:,} variables in {self.n_waves:,} waves, {len(self.groups):,} groups of equal tables, "
                f"largest table {self.width:,} cells, {self.n_cells:,} cells per item")
        if self.n_wide:
            text += (f"\ntoo wide: {self.n_wide:,} component{'s' * (self.n_wide > 1)}; that of {self.names()} has "
                     f"{len(self.wide_variables):,} variables and needs more than {self.wide_cells:,} cells "
                     f"(limit {self.max_cells:,})")
        return text

    def names(self) -> str:
        """Some atoms of a component that is too wide."""
        found = [self.reduced.name(v) for v in self.wide_variables[:3]]
        return ", ".join(found) + (", ..." if len(self.wide_variables) > 3 else "")


def build_elimination(reduced: Reduced, max_cells: int = MAX_CELLS) -> Elimination:
    """Plan to sum over the worlds of a network, component by component; those that need too many cells are left out."""
    network = reduced.network
    scopes = [scope.tolist() for scope in np.split(network.var, network.begins[1:-1])] if network.n_features else []
    label = label_components(network)
    found: list[Order] = []
    for limit in SHORTCUTS:
        found.append(eliminate(network.cards.tolist(), scopes, label, limit, max_cells))
        if limit == 0 and found[0].n_waves <= FEW_WAVES:
            break
    order = min(found, key=lambda o: (len(o.wide), o.cost))
    return _Builder(reduced, order, scopes, label, max_cells).build()


class _Key(NamedTuple):
    """What the tables of a group have in common; see `Group`, and `_n_merged`."""

    wave: int
    shape: tuple[int, ...]
    n_values: int
    n_merged: int


class _Builder:
    def __init__(self, reduced: Reduced, order: Order, scopes: list[list[int]], label: np.ndarray, max_cells: int):
        self.reduced, self.order, self.label, self.max_cells = reduced, order, label, max_cells
        self.network = reduced.network
        self.cards: list[int] = self.network.cards.tolist()
        place = {v: k for k, v in enumerate(order.scope)}
        # separators: the same order for all, so that equal shapes are found
        self.separator = {v: tuple(sorted(scope, key=lambda u: (self.cards[u], place[u])))
                          for v, scope in order.scope.items()}
        self.parent = {v: min(scope, key=place.__getitem__) for v, scope in order.scope.items() if scope}
        self.children: dict[int, list[int]] = defaultdict(list)
        for v, parent in self.parent.items():
            self.children[parent].append(v)
        # features at the variable of their scope that is summed out first
        self.features: dict[int, list[int]] = defaultdict(list)
        for f, scope in enumerate(scopes):
            if scope[0] in place:
                self.features[min(scope, key=place.__getitem__)].append(f)
        self._maps: dict[object, np.ndarray] = {}

    def build(self) -> Elimination:
        groups: dict[_Key, list[int]] = defaultdict(list)
        for v, separator in self.separator.items():
            groups[_Key(self.order.wave[v], tuple(self.cards[u] for u in separator), self.cards[v],
                        self._n_merged(v))].append(v)
        members = sorted(groups.items(), key=lambda entry: entry[0].wave)
        row, message, cell = 0, 0, 0
        self.row_of = np.full(len(self.cards), -1, dtype=np.int64)
        self.message_of, self.cell_of = (np.zeros(len(self.cards), dtype=np.int64) for _ in range(2))
        begins = []
        for key, variables in members:
            n_states, n_values = math.prod(key.shape), key.n_values
            begins.append((row, message, cell))
            count = np.arange(len(variables))
            self.row_of[variables] = row + n_values * count
            self.message_of[variables] = message + n_states * count
            self.cell_of[variables] = cell + n_states * n_values * count
            row += n_values * len(variables)
            message += n_states * len(variables)
            cell += n_states * n_values * len(variables)
        self.at: list[np.ndarray] = []
        self.weight: list[np.ndarray] = []
        self.coefficient: list[np.ndarray] = []
        self.forbidden: list[np.ndarray] = []
        self.n_kind_cells = 0
        found = tuple(self._group(key, variables, begin)
                      for (key, variables), begin in zip(members, begins, strict=True))
        wide = list(self.order.wide.items())
        inside = self.reduced.own & np.isin(self.label, [min(wide, key=lambda w: w[1])[0]]) if wide else np.zeros(0)
        exact = np.isin(np.unique(self.label), list(self.order.wide), invert=True)
        at, weight, forbidden = (np.concatenate([np.zeros(0, dtype=np.int64), *parts])
                                 for parts in (self.at, self.weight, self.forbidden))
        return Elimination(
            self.reduced, found, row, message, cell, self.row_of, self.n_kind_cells, at, weight,
            np.concatenate([np.zeros(0), *self.coefficient]), forbidden, int(exact.sum()), len(wide),
            min((cells for _, cells in wide), default=0), tuple(np.flatnonzero(inside).tolist()), self.max_cells)

    def _n_merged(self, v: int) -> int:
        """How many cells of the parent's table one cell of the separator stands for; 0 if its values are enough."""
        separator = self.separator[v]
        if len(separator) < 2:
            return 0
        parent = self.parent[v]
        return math.prod(self.cards[u] for u in self.separator[parent] if u not in separator)

    def _group(self, key: _Key, variables: list[int], begin: tuple[int, int, int]) -> Group:
        rows = cells = None
        if key.n_merged:
            cells = np.stack([self._cells_by_state(v).T + self.cell_of[self.parent[v]] for v in variables])
        elif key.shape:
            rows = np.concatenate([np.arange(self.cards[self.parent[v]]) + self.row_of[self.parent[v]]
                                   for v in variables])
        kind, n_kinds, kind_cell = self._kinds(variables)
        separators = np.array([self.separator[v] for v in variables]).reshape(len(variables), -1)
        return Group(key.wave, np.array(variables), separators, key.shape, key.n_values, *begin, kind, n_kinds,
                     kind_cell, self._to_values(variables), self._to_cells(variables), rows, cells)

    def _states(self, v: int) -> np.ndarray:
        """For each cell of the parent's table, the cell of the separator of v."""
        parent = self.parent[v]
        scope = (*self.separator[parent], parent)
        places = tuple(scope.index(u) for u in self.separator[v])
        cards = tuple(self.cards[u] for u in scope)
        key = (places, cards)
        if key not in self._maps:
            grid = np.indices(cards).reshape(len(cards), -1)
            found = np.zeros(grid.shape[1], dtype=np.int64)
            for place in places:
                found = found * cards[place] + grid[place]
            self._maps[key] = found
        return self._maps[key]

    def _cells_by_state(self, v: int) -> np.ndarray:
        """The cells of the parent's table for each cell of the separator of v, [states, r]."""
        states = self._states(v)
        return np.argsort(states, kind="stable").reshape(math.prod(self.cards[u] for u in self.separator[v]), -1)

    def _to_values(self, variables: list[int]) -> tuple[np.ndarray, np.ndarray] | None:
        """The message cells for each value of each variable, from the children whose separator it alone is."""
        lists: list[np.ndarray] = []
        for v in variables:
            own = [self.message_of[c] for c in self.children[v] if len(self.separator[c]) == 1]
            lists += list(np.array(own, dtype=np.int64) + np.arange(self.cards[v])[:, None])
        return _as_bags(lists)

    def _to_cells(self, variables: list[int]) -> tuple[np.ndarray, np.ndarray] | None:
        """The message cells for each cell of each table, from the other children."""
        lists: list[np.ndarray] = []
        for v in variables:
            own = [self.message_of[c] + self._states(c) for c in self.children[v] if len(self.separator[c]) > 1]
            n_cells = self.cards[v] * math.prod(self.cards[u] for u in self.separator[v])
            lists += list(np.stack(own, 1) if own else np.zeros((n_cells, 0), dtype=np.int64))
        return _as_bags(lists)

    # tables of weights

    def _kinds(self, variables: list[int]) -> tuple[np.ndarray, int, int]:
        """Which members have equal tables of weights; adds each table once."""
        network = self.network
        kinds: dict[tuple[object, ...], int] = {}
        number = np.zeros(len(variables), dtype=np.int64)
        first = self.n_kind_cells
        for k, v in enumerate(variables):
            scope = (*self.separator[v], v)
            found = []
            for f in self.features[v]:
                span = slice(network.begins[f], network.begins[f + 1])
                found.append((tuple(scope.index(u) for u in network.var[span].tolist()),
                              tuple(network.set[span].tolist()), int(network.param[f]), float(network.share[f])))
            key = tuple(sorted(found))
            if key not in kinds:
                kinds[key] = len(kinds)
                cards = tuple(self.cards[u] for u in scope)
                for places, sets, param, share in key:
                    cells = self.n_kind_cells + self._true_cells(cards, places, sets)
                    if param == HARD:
                        self.forbidden.append(cells)
                    else:
                        self.at.append(cells)
                        self.weight.append(np.full(len(cells), param))
                        self.coefficient.append(np.full(len(cells), -share))
                self.n_kind_cells += math.prod(cards)
            number[k] = kinds[key]
        return number, len(kinds), first

    def _true_cells(self, cards: tuple[int, ...], places: tuple[int, ...], sets: tuple[int, ...]) -> np.ndarray:
        """The cells of a table in which a product of literals is true."""
        key = (cards, places, sets)
        if key not in self._maps:
            axes = [np.arange(card) for card in cards]
            for place, number in zip(places, sets, strict=True):
                axes[place] = np.array(sorted(self.network.sets.members[number]), dtype=np.int64)
            self._maps[key] = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), cards).reshape(-1)
        return self._maps[key]


def _as_bags(lists: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Lists of numbers as one array, and where each begins; None if all are empty."""
    lengths = np.array([len(one) for one in lists])
    if not lengths.any():
        return None
    return np.concatenate(lists), lengths.cumsum() - lengths


def strides(shape: Sequence[int]) -> list[int]:
    """How far apart the cells of neighbouring values are, for each axis.

    >>> strides((2, 3, 4))
    [12, 4, 1]
    """
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]
