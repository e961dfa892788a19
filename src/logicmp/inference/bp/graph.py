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
from itertools import combinations

import numpy as np

from ...ground.engine import Share, Shares
from ...ground.features import log_weights, queried_features
from ...ground.join import number_rows, ragged_ranges
from ...ground.network import HARD, Network, Sets
from ...ground.places import Places, find_places
from ...ground.quantifiers import deciding_literals

# the log-weight of an impossible value: outweighs all rules, but leaves ten digits of the numbers it is added to
IMPOSSIBLE = -1e6
# cells of one table
MAX_TABLE = 64
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


def build_graph(network: Network, possible: np.ndarray, scopes: Scopes | None = None, hard: float = IMPOSSIBLE
                ) -> tuple[Graph, tuple[Reading, ...]]:
    """The factors of a network, and the tables from which queried formulas can be read.

    Args:
        possible: for each value of each variable whether it is possible, see `propagate`.
        scopes: how many sets of variables each set stands for, if it is more than one; the shares of the features
            count all their groundings.
        hard: the log-weight of a hard feature.
    """
    gain = log_weights(network)
    if scopes is not None:
        # a feature stands for its groundings over all sets of variables that its own set stands for
        gain = gain / scopes(network.var, network.begins)
    gain[network.param == HARD] = hard
    heads = deciding_literals(network)
    is_own, is_unary = gain != 0, np.diff(network.begins) == 1
    if len(heads):
        # the deciding feature of a quantified part as a product with a head implies the other features that define it
        is_own &= ~np.isin(network.defines, network.var[heads])
    merged = _Scopes(network, np.flatnonzero(is_own & ~is_unary), queried_features(network))
    tables, readings = [], []
    for shape, rows, own, own_row, queried, queried_row in merged.tables():
        values, kind = _fill(network, gain, shape, rows, own, own_row)
        tables.append(Tables(values, kind, rows, _sizes(scopes, rows)))
        readings.append(Reading(queried, queried_row, _holds(network, queried, rows[queried_row], shape)))
    potentials = np.where(possible, network.potentials, 0.0)
    unary = np.flatnonzero(is_own & is_unary)
    literal = network.begins[unary]
    owner, value = network.sets.values_of(network.set[literal])
    potentials += np.bincount(network.starts[network.var[literal]][owner] + value, gain[unary][owner], len(potentials))
    potentials = np.where(possible, potentials.clip(IMPOSSIBLE, None), IMPOSSIBLE)
    if scopes is not None:
        potentials = rounded(potentials)
    products = _products(network, gain, merged.single, heads)
    if scopes is not None:
        products = replace(products, gain=rounded(products.gain), size=scopes(products.var, products.begins))
    graph = Graph(network.cards, potentials, _sizes(scopes, np.arange(len(network.cards))[:, None]), network.sets,
                  products, tuple(tables))
    return graph, tuple(readings)


def own_range(n: int, share: Share) -> slice:
    """The factors of one process, of n: neighbours stay together.

    >>> [own_range(5, Share(rank, 2)) for rank in range(2)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(n * share.rank // share.size, n * (share.rank + 1) // share.size)


def take_factors(graph: Graph, shares: Shares) -> tuple[Graph, Places, Places]:
    """The factors of one process with their variables, numbered anew, and the places of variables and of values."""
    products, share = graph.products, shares.share
    own = own_range(len(products.gain), share)
    begins = products.begins[own.start : own.stop + 1]
    literal = slice(int(begins[0]), int(begins[-1]))
    var, head_var = products.var[literal], products.head_var[own]
    tables = [Tables(t.values, *(x[own_range(len(t.kind), share)] for x in (t.kind, t.var, t.size)))
              for t in graph.tables]
    variables = find_places([var, head_var[head_var >= 0], *(t.var.reshape(-1) for t in tables)], len(graph.cards), 1,
                            shares)
    number, at = variables.numbers(), variables.places
    starts = np.cumsum(graph.cards) - graph.cards
    # a variable without factors has its values in one process, too
    values = find_places([ragged_ranges(starts[at], graph.cards[at])[1]], len(graph.potentials), 1, shares)
    part = Products(begins - begins[0], number[var], products.set[literal], products.gain[own],
                    np.where(head_var >= 0, number[head_var], -1), products.head_set[own], products.size[own])
    own_tables = tuple(replace(t, var=number[t.var]) for t in tables)
    return (replace(graph, cards=graph.cards[at], potentials=graph.potentials[values.places], size=graph.size[at],
                    products=part, tables=own_tables), variables, values)


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


# shape, variables of each table, its features and their tables, the features to read from it and their tables
_Batch = tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class _Scopes:
    """Which features share a table.

    Args:
        own: the features of the theory.
        queried: the features of queried formulas, which must not change how those of the theory are merged.
    """

    def __init__(self, network: Network, own: np.ndarray, queried: np.ndarray):
        self.network = network
        self.counts = np.diff(network.begins)
        self.own, self.queried = own, queried
        # by number of variables, the scopes of that size, [scopes, variables]; numbers continue from size to size
        self.rows: dict[int, np.ndarray] = {}
        self.first: dict[int, int] = {}
        # a set of variables as the sum of random numbers modulo 2^64, one for each variable
        self.codes = np.random.default_rng(0).integers(2**64, size=len(network.cards), dtype=np.uint64)
        scope = np.zeros(network.n_features, dtype=np.int64)
        n = 0
        for size in np.unique(self.counts[own]).tolist():
            features = own[self.counts[own] == size]
            example, number = self._number(features, size)
            self.rows[size], self.first[size] = self._columns(features[example], size), n
            scope[features] = n + number
            n += len(example)
        self.n = n
        self.scope = self._widest()[scope[own]]
        self.queried, self.queried_scope = self._readable()
        n_features = np.bincount(self.scope, minlength=n)
        is_read = np.bincount(self.queried_scope, minlength=n) > 0
        self.is_table = (n_features > 1) & self._is_small() | (n_features > 0) & (is_read | (self._n_cells() == 4))
        # features that are factors of their own
        self.single = own[~self.is_table[self.scope]]

    def _columns(self, features: np.ndarray, size: int) -> np.ndarray:
        """The variables of features with `size` literals."""
        return np.asarray(self.network.var[self.network.begins[features][:, None] + np.arange(size)])

    def _number(self, features: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """One feature of each scope, in the order in which they come, and the scope of each feature."""
        code = np.zeros(len(features), dtype=np.uint64)
        for k in range(size):
            code += self.codes[self.network.var[self.network.begins[features] + k]]
        _, example, number = np.unique(code, return_index=True, return_inverse=True)
        # neighbours in the list of features share variables
        order = np.argsort(example)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return example[order], rank[number.reshape(-1)]

    def _n_cells(self) -> np.ndarray:
        cells = [self.network.cards[rows].astype(np.float64).prod(1) for rows in self.rows.values()]
        return np.concatenate([np.zeros(0), *cells])

    def _is_small(self) -> np.ndarray:
        return self._n_cells() <= MAX_TABLE

    def _widest(self) -> np.ndarray:
        """For each scope the one to merge it with: the only widest scope that contains it, or itself."""
        is_small = self._is_small()
        found = [np.zeros((2, 0), dtype=np.int64)]
        for size, rows in self.rows.items():
            for larger, others in self.rows.items():
                if 1 < size < larger:
                    wide = np.flatnonzero(is_small[self.first[larger] : self.first[larger] + len(others)])
                    part, whole = _parts(rows, others[wide], self.codes)
                    found.append(np.stack([part + self.first[size], wide[whole] + self.first[larger]]))
        part, whole = np.concatenate(found, axis=1)
        is_widest = ~np.isin(np.arange(self.n), part)
        part, whole = part[is_widest[whole]], whole[is_widest[whole]]
        into = np.arange(self.n)
        into[part] = np.where(np.bincount(part, minlength=self.n)[part] == 1, whole, part)
        return into

    def _readable(self) -> tuple[np.ndarray, np.ndarray]:
        """The queried features whose variables are all in one small scope with features, and that scope."""
        is_small = self._is_small() & (np.bincount(self.scope, minlength=self.n) > 0)
        scope = np.full(len(self.queried), -1, dtype=np.int64)
        sizes = self.counts[self.queried]
        for size in np.unique(sizes[sizes > 1]).tolist():
            chosen = np.flatnonzero(sizes == size)
            example, number = self._number(self.queried[chosen], size)
            rows = self._columns(self.queried[chosen[example]], size)
            inside = np.full(len(example), -1, dtype=np.int64)
            # the smallest scope comes last, and counts
            for larger in sorted((k for k in self.rows if k >= size), reverse=True):
                wide = np.flatnonzero(is_small[self.first[larger] : self.first[larger] + len(self.rows[larger])])
                part, whole = _parts(rows, self.rows[larger][wide], self.codes)
                inside[part] = wide[whole] + self.first[larger]
            scope[chosen] = inside[number]
        return self.queried[scope >= 0], scope[scope >= 0]

    def tables(self) -> list[_Batch]:
        found: list[_Batch] = []
        for size, rows in self.rows.items():
            chosen = np.flatnonzero(self.is_table[self.first[size] : self.first[size] + len(rows)])
            cards = self.network.cards[rows[chosen]]
            kinds = number_rows(*cards.T) if len(chosen) else chosen
            for kind in range(int(kinds.max(initial=-1)) + 1):
                at = chosen[kinds == kind]
                place = np.full(self.n, -1, dtype=np.int64)
                place[at + self.first[size]] = np.arange(len(at))
                own, queried = place[self.scope] >= 0, place[self.queried_scope] >= 0
                found.append((tuple(cards[kinds == kind][0].tolist()), rows[at], self.own[own],
                              place[self.scope[own]], self.queried[queried], place[self.queried_scope[queried]]))
        return found


def _parts(small: np.ndarray, large: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a row of `small` and a row of `large` that contains it; rows are sorted, those of `small` differ.

    >>> codes = np.random.default_rng(0).integers(2**64, size=10, dtype=np.uint64)
    >>> [a.tolist() for a in _parts(np.array([[1, 2], [1, 9]]), np.array([[1, 2, 3], [0, 1, 9]]), codes)]
    [[0, 1], [0, 1]]

    Args:
        codes: a random number for each variable; the sum of those of a row identifies it.
    """
    parts, wholes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    # without rows, a large scope would still have very many choices of columns
    width = large.shape[1] if len(small) and len(large) else 0
    own = codes[small].sum(1, dtype=np.uint64)
    order = np.argsort(own)
    own = own[order]
    # most rows contain none: the last bits of the code exclude them before a search
    bits = np.uint64((1 << (16 * len(own)).bit_length()) - 1)
    is_there = np.zeros(int(bits) + 1, dtype=bool)
    is_there[own & bits] = True
    columns = [codes[large[:, k]] for k in range(width)]
    for axes in combinations(range(width), small.shape[1]):
        code = columns[axes[0]].copy()
        for k in axes[1:]:
            code += columns[k]
        at = np.flatnonzero(is_there[code & bits])
        found = np.searchsorted(own, code[at]).clip(None, len(own) - 1)
        is_equal = own[found] == code[at]
        parts.append(order[found[is_equal]])
        wholes.append(at[is_equal])
    return np.concatenate(parts), np.concatenate(wholes)
