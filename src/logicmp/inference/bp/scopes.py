"""Which features share a table, and of several processes, which of them makes the table.

Room: inference/bp.

    A => B, B => A, A ^ B => C        one table over A, B, C
    rank 0 owns A, rank 1 B and C     all three features are known to who owns B; they go to the owner of the table

A process has all features with a variable that it owns, see `Owners`. So of each set of variables that it owns one of,
it knows all larger sets, and all processes that know a set decide alike which larger one it is merged with.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import combinations

import numpy as np

from ...ground.engine import Shares
from ...ground.join import number_rows, ragged_ranges
from ...ground.network import Network

# cells of one table
MAX_TABLE = 64
# features that are sent at once
PIECE = 2**18

# shape, variables of each table, its features and their tables, the features to read from it and their tables
Batch = tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class SharedTables:
    """Which features share a table.

    Args:
        own: the features of the theory that are factors, of two variables or more.
        queried: the features of queried formulas, which must not change how those of the theory are merged.
    """

    def __init__(self, network: Network, own: np.ndarray, queried: np.ndarray):
        self.network = network
        self.all_queried = queried
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

    @cached_property
    def owner(self) -> np.ndarray:
        """The rank that owns each scope."""
        owners = self.network.owners
        assert owners is not None
        found = [owners.of_sets(rows.reshape(-1), np.arange(0, rows.size + 1, size))
                 for size, rows in self.rows.items()]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def feature_owner(self, features: np.ndarray) -> np.ndarray:
        """The rank that owns the variables of each feature."""
        network, counts = self.network, self.counts[features]
        assert network.owners is not None
        return network.owners.of_sets(network.var[ragged_ranges(network.begins[features], counts)[1]],
                                      np.concatenate([[0], np.cumsum(counts)]))

    @cached_property
    def is_here(self) -> np.ndarray:
        """Whether this process makes the table of each scope, or its products."""
        owners = self.network.owners
        return np.ones(self.n, dtype=bool) if owners is None else np.equal(self.owner, owners.share.rank)

    @property
    def single(self) -> np.ndarray:
        """The features that are factors of their own, in this process."""
        return np.asarray(self.own[~self.is_table[self.scope] & self.is_here[self.scope]])

    @property
    def unread(self) -> np.ndarray:
        """The queried features without a table to read them from, those that this process owns."""
        found = np.setdiff1d(self.all_queried, self.queried)
        owners = self.network.owners
        return found if owners is None else np.asarray(found[self.feature_owner(found) == owners.share.rank])

    def owned(self, literals: np.ndarray) -> np.ndarray:
        """Of some literals, those in features that this process owns."""
        owners = self.network.owners
        if owners is None:
            return literals
        features = np.searchsorted(self.network.begins, literals, "right") - 1
        return np.asarray(literals[self.feature_owner(features) == owners.share.rank])

    def collect(self, shares: Shares) -> SharedTables:
        """Bring the features whose scope is merged with another one to the process that owns that one.

        Their owner sends them; who owns one of their variables has them already.
        """
        network, owners = self.network, self.network.owners
        assert owners is not None
        feature = np.concatenate([self.own, self.queried])
        is_queried = np.arange(len(feature)) >= len(self.own)
        to = self.owner[np.concatenate([self.scope, self.queried_scope])]
        rank = owners.share.rank
        at = np.flatnonzero(to != rank)
        at = at[self.feature_owner(feature[at]) == rank]
        found: list[list[np.ndarray]] = [[], [], []]
        for start in range(0, int(shares.largest(len(at))), PIECE):
            chosen = at[start : start + PIECE]
            sent, counts = feature[chosen], self.counts[feature[chosen]]
            literal = ragged_ranges(network.begins[sent], counts)[1]
            columns = [to[chosen], is_queried[chosen], counts, network.param[sent], network.rule[sent]]
            for about, share, literals in zip(*(shares.gather(x) for x in (
                    np.stack([column.astype(np.int64) for column in columns], axis=1), network.share[sent],
                    np.stack([network.var[literal], network.set[literal]], axis=1))), strict=True):
                owner = np.repeat(np.arange(len(about)), about[:, 2])
                is_known = np.bincount(owner, owners.has(literals[:, 0]), len(about)) > 0
                is_mine = (about[:, 0] == rank) & ~is_known
                for pieces, piece in zip(found, (about[is_mine], share[is_mine], literals[is_mine[owner]]),
                                         strict=True):
                    pieces.append(piece)
        if not any(len(piece) for piece in found[0]):
            return self
        about, share, literals = (np.concatenate(pieces) for pieces in found)
        n = network.n_features
        more = n + np.arange(len(about))
        network = replace(
            network, begins=np.concatenate([network.begins, network.begins[-1] + np.cumsum(about[:, 2])]),
            var=np.concatenate([network.var, literals[:, 0]]), set=np.concatenate([network.set, literals[:, 1]]),
            param=np.concatenate([network.param, about[:, 3]]), share=np.concatenate([network.share, share]),
            rule=np.concatenate([network.rule, about[:, 4]]),
            defines=np.concatenate([network.defines, np.full(len(about), -1)]))
        return SharedTables(network, np.concatenate([self.own, more[about[:, 1] == 0]]),
                            np.concatenate([self.all_queried, more[about[:, 1] == 1]]))

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
                # of two, the same one in all processes
                order = np.argsort(self.codes[self.rows[larger][wide[whole]]].sum(1, dtype=np.uint64))[::-1]
                inside[part[order]] = wide[whole[order]] + self.first[larger]
            scope[chosen] = inside[number]
        return self.queried[scope >= 0], scope[scope >= 0]

    def tables(self) -> list[Batch]:
        found: list[Batch] = []
        for size, rows in self.rows.items():
            chosen = np.flatnonzero((self.is_table & self.is_here)[self.first[size] : self.first[size] + len(rows)])
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
