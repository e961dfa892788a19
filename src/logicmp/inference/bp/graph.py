"""The ground network as factors for belief propagation: products of literals, and small tables.

Room: inference/bp.

    1.5 Smokes(A) => Cancer(A)      a product: e^-1.5 where Smokes(A) !Cancer(A), 1 elsewhere
    1 Smokes(A) <=> Cancer(A)       two features over the same variables: one table of four cells
    part <=> EXIST y Friends(A,y)   a product with a head: !part is true iff !Friends(A,B) !Friends(A,C) ... is

Features over the same variables are one factor, because two of them would already be a loop. A feature over some of
the variables of exactly one small table becomes part of that table. A feature of one literal is part of the
log-potentials of its variable. A factor over two binary variables is always a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...ground.engine import ALONE, Share, Shares
from ...ground.features import log_weights, queried_features
from ...ground.join import ragged_ranges
from ...ground.literals import Sets
from ...ground.network import HARD, Network
from ...ground.places import Places, find_places
from ...ground.quantifiers import deciding_literals, deciding_sides
from .scopes import SharedTables

# the log-weight of an impossible value: outweighs all rules, but leaves ten digits of the numbers it is added to
IMPOSSIBLE = -1e6
# features whose cells are listed at once
PIECE = 2**20


@dataclass(frozen=True)
class Products:
    """Factors with the log-weight `gain` where all their literals are true, and 0 elsewhere."""

    # factor f has the literals begins[f] to begins[f+1]
    begins: np.ndarray
    var: np.ndarray
    set: np.ndarray
    gain: np.ndarray
    # a literal that is true iff the product is, instead of a gain; variable -1 if there is none
    head_var: np.ndarray
    head_set: np.ndarray
    # the number of ground factors that each represents
    size: np.ndarray

    @property
    def owner(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.gain)), np.diff(self.begins))


@dataclass(frozen=True)
class Tables:
    """Factors of one shape, as tables of log-weights; equal tables are kept once."""

    # [kinds, values of the first variable, of the second, ...]
    values: np.ndarray
    # of each factor
    kind: np.ndarray
    # [factors, variables]
    var: np.ndarray
    size: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[1:]


@dataclass(frozen=True)
class Reading:
    """Features of queried formulas that can be read from a batch of tables."""

    feature: np.ndarray
    # the table of each, and the cells where it is true, [features, cells]
    row: np.ndarray
    holds: np.ndarray


@dataclass(frozen=True)
class Readings:
    """Where this process reads the features of queried formulas: by batch of tables; and those without a table."""

    # whose features they are
    network: Network
    tables: tuple[Reading, ...]
    # their literals are treated as independent
    alone: np.ndarray


@dataclass(frozen=True)
class Graph:
    """Variables and factors, each of which may represent several equal ones."""

    cards: np.ndarray
    # finite: IMPOSSIBLE for impossible values
    potentials: np.ndarray
    size: np.ndarray
    sets: Sets
    products: Products
    tables: tuple[Tables, ...]

    @property
    def n_factors(self) -> int:
        return len(self.products.gain) + sum(len(table.var) for table in self.tables)

    @property
    def n_edges(self) -> int:
        """The number of messages in each direction."""
        return (len(self.products.var) + int((self.products.head_var >= 0).sum())
                + sum(table.var.size for table in self.tables))

    @property
    def n_ground(self) -> tuple[int, int, int]:
        """The number of variables, of factors and of edges that these stand for."""
        products = self.products
        n_edges = products.size @ (np.diff(products.begins) + (products.head_var >= 0))
        n_edges += sum(table.var.shape[1] * table.size.sum() for table in self.tables)
        n_factors = products.size.sum() + sum(table.size.sum() for table in self.tables)
        return round(self.size.sum()), round(n_factors), round(n_edges)


# called with variables and where each set of them begins; returns how many such sets each stands for
Scopes = Callable[[np.ndarray, np.ndarray], np.ndarray]


def build_graph(network: Network, possible: np.ndarray, scopes: Scopes | None = None, hard: float = IMPOSSIBLE,
                shares: Shares = ALONE) -> tuple[Graph, Readings]:
    """The factors of a network, of one process if it is divided, and where queried formulas can be read.

    Args:
        possible: for each value of each variable whether it is possible, see `propagate`.
        scopes: how many sets of variables each set stands for, if it is more than one; the shares of the features
            count all their groundings.
        hard: the log-weight of a hard feature.
        shares: the processes that have the other features.
    """
    sides = deciding_sides(network, shares)
    heads = deciding_literals(network, sides)
    gain = _gains(network, scopes, hard)
    is_own, is_unary = gain != 0, np.diff(network.begins) == 1
    if len(sides):
        # the deciding feature of a quantified part as a product with a head implies the other features that define it
        is_own &= ~np.isin(network.defines, sides // 2)
    added = _unary(network, gain, np.flatnonzero(is_own & is_unary))
    potentials = np.where(possible, network.potentials, 0.0) + (shares.total(added) if network.owners else added)
    del added
    merged = SharedTables(network, np.flatnonzero(is_own & ~is_unary), queried_features(network))
    if network.owners is not None:
        merged = merged.collect(shares)
        network, gain = merged.network, _gains(merged.network, scopes, hard)
    tables, readings = [], []
    for shape, rows, own, own_row, queried, queried_row in merged.tables():
        values, kind = _fill(network, gain, shape, rows, own, own_row)
        tables.append(Tables(values, kind, rows, _sizes(scopes, rows)))
        readings.append(Reading(queried, queried_row, _holds(network, queried, rows[queried_row], shape)))
    potentials = np.where(possible, potentials.clip(IMPOSSIBLE, None), IMPOSSIBLE)
    if scopes is not None:
        potentials = rounded(potentials)
    products = _products(network, gain, merged.single, merged.owned(heads))
    if scopes is not None:
        products = replace(products, gain=rounded(products.gain), size=scopes(products.var, products.begins))
    graph = Graph(network.cards, potentials, _sizes(scopes, np.arange(len(network.cards))[:, None]), network.sets,
                  products, tuple(tables))
    return graph, Readings(network, tuple(readings), merged.unread)


def _gains(network: Network, scopes: Scopes | None, hard: float) -> np.ndarray:
    """The log-weight of each feature where it is true."""
    gain = log_weights(network)
    if scopes is not None:
        # a feature stands for its groundings over all sets of variables that its own set stands for
        gain = gain / scopes(network.var, network.begins)
    gain[network.param == HARD] = hard
    return gain


def _unary(network: Network, gain: np.ndarray, features: np.ndarray) -> np.ndarray:
    """What features with one variable add to the log-potentials of all values."""
    literal = network.begins[features]
    owner, value = network.sets.values_of(network.set[literal])
    return np.bincount(network.starts[network.var[literal]][owner] + value, gain[features][owner],
                       len(network.potentials))


def own_range(n: int, share: Share) -> slice:
    """The factors of one process, of n: neighbours stay together.

    >>> [own_range(5, Share(rank, 2)) for rank in range(2)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(n * share.rank // share.size, n * (share.rank + 1) // share.size)


def take_factors(graph: Graph, readings: Readings, share: Share) -> tuple[Graph, Readings]:
    """The factors of one process, with what it reads, of a graph that all processes have."""
    products = graph.products
    own = own_range(len(products.gain), share)
    begins = products.begins[own.start : own.stop + 1]
    literal = slice(int(begins[0]), int(begins[-1]))
    part = Products(begins - begins[0], products.var[literal], products.set[literal], products.gain[own],
                    products.head_var[own], products.head_set[own], products.size[own])
    tables, found = [], []
    for t, reading in zip(graph.tables, readings.tables, strict=True):
        at = own_range(len(t.kind), share)
        tables.append(Tables(t.values, t.kind[at], t.var[at], t.size[at]))
        is_own = (reading.row >= at.start) & (reading.row < at.stop)
        found.append(Reading(reading.feature[is_own], reading.row[is_own] - at.start, reading.holds[is_own]))
    alone = readings.alone[own_range(len(readings.alone), share)]
    return replace(graph, products=part, tables=tuple(tables)), Readings(readings.network, tuple(found), alone)


def take_variables(graph: Graph, shares: Shares) -> tuple[Graph, Places, Places]:
    """A graph with the variables of its factors, numbered anew, and the places of variables and of values."""
    products = graph.products
    head_var = products.head_var
    variables = find_places([products.var, head_var[head_var >= 0], *(t.var.reshape(-1) for t in graph.tables)],
                            len(graph.cards), 1, shares)
    number, at = variables.numbers(), variables.places
    starts = np.cumsum(graph.cards) - graph.cards
    # a variable without factors has its values in one process, too
    values = find_places([ragged_ranges(starts[at], graph.cards[at])[1]], len(graph.potentials), 1, shares)
    part = replace(products, var=number[products.var], head_var=np.where(head_var >= 0, number[head_var], -1))
    tables = tuple(replace(t, var=number[t.var]) for t in graph.tables)
    return (replace(graph, cards=graph.cards[at], potentials=graph.potentials[values.places], size=graph.size[at],
                    products=part, tables=tables), variables, values)


def _sizes(scopes: Scopes | None, rows: np.ndarray) -> np.ndarray:
    """How many sets of variables each row of variables stands for."""
    if scopes is None:
        return np.ones(len(rows))
    return scopes(rows.reshape(-1), rows.shape[1] * np.arange(len(rows) + 1))


def rounded(x: np.ndarray) -> np.ndarray:
    """Twelve digits of each number, of small ones twelve decimals: equal sums in another order are then equal."""
    power = 40 - np.frexp(x)[1].clip(0, None)
    return np.asarray(np.ldexp(np.round(np.ldexp(x, power)), -power))


def _products(network: Network, gain: np.ndarray, single: np.ndarray, heads: np.ndarray) -> Products:
    """The features that are factors of their own, and the quantified parts, whose heads are the negated `heads`."""
    defining = np.searchsorted(network.begins, heads, "right") - 1
    chosen = np.concatenate([single, defining])
    counts = np.diff(network.begins)[chosen]
    owner, literal = ragged_ranges(network.begins[chosen], counts)
    is_body = ~np.isin(literal, heads)
    lengths = np.bincount(owner[is_body], minlength=len(chosen))
    literal = literal[is_body]
    none = np.full(len(single), -1, dtype=np.int64)
    head_set = network.sets.complement(network.set[heads])
    return Products(np.concatenate([[0], np.cumsum(lengths)]), network.var[literal], network.set[literal],
                    np.concatenate([gain[single], np.zeros(len(heads))]), np.concatenate([none, network.var[heads]]),
                    np.concatenate([none, head_set]), np.ones(len(chosen)))


def _fill(network: Network, gain: np.ndarray, shape: tuple[int, ...], rows: np.ndarray, own: np.ndarray,
          own_row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different tables of some features, and which of them each row has; a piece of the rows at a time.

    Args:
        rows: the variables of each table.
        own: the features, and `own_row` the table of each.
    """
    n_cells = math.prod(shape)
    order = np.argsort(own_row, kind="stable")
    own, own_row = own[order], own_row[order]
    known, kinds = Distinct(), []
    for first in range(0, len(rows), max(1, PIECE // n_cells)):
        last = min(len(rows), first + max(1, PIECE // n_cells))
        chosen = slice(*np.searchsorted(own_row, [first, last]))
        features, row = own[chosen], own_row[chosen] - first
        at, cell = np.nonzero(_holds(network, features, rows[own_row[chosen]], shape))
        values = np.bincount(row[at] * n_cells + cell, gain[features[at]], (last - first) * n_cells)
        kinds.append(known.number(rounded(values.clip(IMPOSSIBLE, None)).reshape(-1, n_cells)))
    return known.rows(n_cells).reshape(-1, *shape), np.concatenate([np.zeros(0, dtype=np.int32), *kinds])


class Distinct:
    """Different rows of numbers, each with a number of its own."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, rows: np.ndarray) -> np.ndarray:
        """The number of each row; a row that is new gets the next one."""
        codes = np.random.default_rng(0).integers(2**64, size=rows.shape[1], dtype=np.uint64)
        # zero has two signs
        codes = mix((rows + 0.0).view(np.uint64) + codes).sum(1, dtype=np.uint64)
        _, example, place = np.unique(codes, return_index=True, return_inverse=True)
        found = [self._numbers.setdefault(row.tobytes(), len(self._numbers)) for row in rows[example] + 0.0]
        return np.array(found, dtype=np.int32)[place.reshape(-1)]

    def rows(self, width: int) -> np.ndarray:
        return np.frombuffer(b"".join(self._numbers), dtype=np.float64).reshape(-1, width)


def mix(x: np.ndarray) -> np.ndarray:
    """Hashes of 64 bits, in place: sums of them do not depend on the sums of x (Stafford's variant 13).

    Of a million different sums, two are equal with probability 1e-7.
    """
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _holds(network: Network, features: np.ndarray, rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The cells of a table over the variables in `rows` where a feature is true, [features, cells]."""
    owner, literal = ragged_ranges(network.begins[features], np.diff(network.begins)[features])
    axis = (rows[owner] == network.var[literal][:, None]).argmax(1)
    used, place = np.unique(network.set[literal], return_inverse=True)
    table = network.sets.table(used)
    allowed = np.ones((len(features), len(shape), max(shape)), dtype=bool)
    allowed[owner, axis, : table.shape[1]] = table[place]
    holds = np.ones((len(features), 1), dtype=bool)
    for k, card in enumerate(shape):
        holds = (holds[:, :, None] & allowed[:, k, None, :card]).reshape(len(features), holds.shape[1] * card)
    return holds
