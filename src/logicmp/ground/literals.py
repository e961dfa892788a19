"""Literals of a ground network, and the sets of values in which they are true.

Room: ground.

    city(A) in {Berlin, Paris} ^ city(A) != Paris        simplified  city(A) in {Berlin}
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ..errors import CostError
from .join import ragged_ranges

# of the table of all sets and values
MAX_CELLS = 2**28


class Sets:
    """The sets of values in literals, by number: 0 is {1} and 1 is {0} of a variable with two values.

    >>> sets = Sets()
    >>> sets.of(3, {0, 2})
    2
    >>> [a.tolist() for a in sets.flat()]
    [[1, 0, 0, 2], [0, 1, 2, 4]]
    >>> sets.table().astype(int).tolist()
    [[0, 1, 0], [1, 0, 0], [1, 0, 1]]
    """

    def __init__(self) -> None:
        self.cards: list[int] = []
        self.members: list[frozenset[int]] = []
        self._numbers: dict[tuple[int, frozenset[int]], int] = {}
        self._single: dict[int, np.ndarray] = {}
        self._flat: tuple[np.ndarray, np.ndarray] | None = None
        self.of(2, {1})
        self.of(2, {0})

    def of(self, card: int, members: set[int] | frozenset[int]) -> int:
        """The number of a set of values of a variable with `card` values."""
        key = (card, frozenset(members))
        if key not in self._numbers:
            self._numbers[key] = len(self.cards)
            self.cards.append(card)
            self.members.append(key[1])
            self._flat = None
        return self._numbers[key]

    def single(self, card: int) -> np.ndarray:
        """The numbers of {0}, {1}, ..., {card - 1}."""
        if card not in self._single:
            self._single[card] = np.array([self.of(card, {value}) for value in range(card)], dtype=np.int64)
        return self._single[card]

    def complement(self, numbers: np.ndarray) -> np.ndarray:
        """The number of each set's complement."""
        found, inverse = np.unique(numbers, return_inverse=True)
        return np.array([self.of(self.cards[k], frozenset(range(self.cards[k])) - self.members[k])
                         for k in found.tolist()], dtype=np.int64)[inverse]

    def intersect(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The numbers of the intersections, pair by pair; -1 where the intersection is empty."""
        pairs, inverse = np.unique(np.stack([one, other]), axis=1, return_inverse=True)
        found = []
        for a, b in pairs.T.tolist():
            common = self.members[a] & self.members[b]
            found.append(self.of(self.cards[a], common) if common else -1)
        return np.array(found, dtype=np.int64)[inverse.reshape(-1)]

    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """The values of all sets, one set after the other, and where each set begins."""
        if self._flat is None:
            begins = np.cumsum([0, *map(len, self.members)])
            values = itertools.chain.from_iterable(map(sorted, self.members))
            self._flat = np.fromiter(values, np.int64, int(begins[-1])), begins
        return self._flat

    def values_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values in each of some sets, as two columns: the place in `numbers`, and the value.

        >>> [a.tolist() for a in Sets().values_of(np.array([1, 0, 0]))]
        [[0, 1, 2], [0, 1, 1]]
        """
        values, begins = self.flat()
        owner, at = ragged_ranges(begins[numbers], np.diff(begins)[numbers])
        return owner, values[at]

    def smaller(self) -> tuple[np.ndarray, np.ndarray]:
        """For each set itself or its complement, the one with fewer values, and whether it is the complement.

        Of a variable with two values it is always {1}.
        """
        values, begins = self.flat()
        n_inside, numbers = np.diff(begins), np.arange(len(self.cards))
        n_outside = np.array(self.cards) - n_inside
        has_zero = np.append(values, -1)[begins[:-1]] == 0
        is_other = (n_outside < n_inside) | ((n_outside == n_inside) & has_zero)
        numbers[is_other] = self.complement(numbers[is_other])
        return numbers, is_other

    def table(self, numbers: np.ndarray | None = None) -> np.ndarray:
        """Which values are in which set, [sets, values]; of all sets, or of those with these numbers."""
        numbers = np.arange(len(self.members)) if numbers is None else numbers
        shape = len(numbers), int(np.array(self.cards)[numbers].max(initial=0))
        if shape[0] * shape[1] > MAX_CELLS:
            raise CostError(f"the rules use {shape[0]:,} sets of up to {shape[1]:,} values: a table of more than "
                            f"{MAX_CELLS:,} cells", None, "use mean-field, which needs no such table")
        found = np.zeros(shape, dtype=bool)
        found[self.values_of(numbers)] = True
        return found

    def indicator(self, k: int) -> np.ndarray:
        """One for each value in a set, zero for the others."""
        found = np.zeros(self.cards[k])
        found[list(self.members[k])] = 1
        return found


@dataclass(frozen=True)
class Literals:
    """Products of literals: literal j is true if variable `var[j]` has a value in `set[j]`."""

    n: int
    # which product each literal belongs to
    row: np.ndarray
    var: np.ndarray
    set: np.ndarray

    @staticmethod
    def none(n: int) -> Literals:
        empty = np.zeros(0, dtype=np.int64)
        return Literals(n, empty, empty, empty)

    @staticmethod
    def joined(parts: list[Literals]) -> Literals:
        """All literals of the same products."""
        return Literals(parts[0].n, *(np.concatenate([getattr(part, name) for part in parts])
                                      for name in ("row", "var", "set")))

    @staticmethod
    def stacked(parts: list[Literals]) -> Literals:
        """The products of all parts, one part after the other."""
        starts = np.cumsum([0, *(part.n for part in parts)])
        rows = [part.row + start for part, start in zip(parts, starts, strict=False)]
        return Literals(int(starts[-1]), np.concatenate([np.zeros(0, dtype=np.int64), *rows]),
                        *(np.concatenate([np.zeros(0, dtype=np.int64), *(getattr(part, name) for part in parts)])
                          for name in ("var", "set")))

    @property
    def counts(self) -> np.ndarray:
        return np.bincount(self.row, minlength=self.n)

    def keep(self, mask: np.ndarray) -> Literals:
        """The products that a mask selects, renumbered."""
        new = np.cumsum(mask) - 1
        chosen = mask[self.row]
        return Literals(int(mask.sum()), new[self.row[chosen]], self.var[chosen], self.set[chosen])

    def take(self, products: np.ndarray) -> Literals:
        """The products with these numbers, in this order; a number may occur more than once."""
        order = np.argsort(self.row, kind="stable")
        counts = self.counts
        starts = counts.cumsum() - counts
        owner, place = ragged_ranges(starts[products], counts[products])
        return Literals(len(products), owner, self.var[order[place]], self.set[order[place]])


def simplify(literals: Literals, sets: Sets) -> tuple[Literals, np.ndarray]:
    """Merge the literals of one variable in one product, and drop the products that contradict themselves.

    Returns the literals sorted by product and variable, and which products are left.
    """
    possible = np.ones(literals.n, dtype=bool)
    row, var, chosen = _sorted(literals)
    while True:
        again = (row[1:] == row[:-1]) & (var[1:] == var[:-1])
        # of three in a row, merge the first two now and the third in the next round
        again &= ~np.concatenate([[False], again[:-1]]) if len(again) else again
        at = np.flatnonzero(again)
        if not len(at):
            found = Literals(literals.n, row, var, chosen)
            return found if possible.all() else found.keep(possible), possible
        merged = sets.intersect(chosen[at], chosen[at + 1])
        possible[row[at[merged < 0]]] = False
        chosen[at] = merged
        stay = np.ones(len(row), dtype=bool)
        stay[at + 1] = False
        stay &= possible[row]
        row, var, chosen = row[stay], var[stay], chosen[stay]


def _sorted(literals: Literals) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Product, variable and set of the literals, sorted."""
    columns = literals.row, literals.var, literals.set
    bits = [int(column.max(initial=0)).bit_length() for column in columns]
    if sum(bits) > 62:
        order = np.lexsort(columns[::-1])
        return columns[0][order], columns[1][order], columns[2][order]
    # sorting numbers is many times faster than sorting places
    keys = columns[0].astype(np.int64)
    for column, width in zip(columns[1:], bits[1:], strict=True):
        keys = (keys << width) | column
    keys.sort()
    var = (keys >> bits[2]) & ((1 << bits[1]) - 1)
    return keys >> (bits[1] + bits[2]), var.astype(np.int32), (keys & ((1 << bits[2]) - 1)).astype(np.int32)
