"""Evidence as columns: the facts of each predicate as integers, and the theory with their constants.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna, Bob)      columns: names (Anna, ...) codes (0, ...); names (Bob, ...) codes (0, ...)   values 1.0
    0.7 Smokes(Eve)         columns: names (Eve, ...) codes (0, ...)                                     values 0.7

Every column has its own list of names, so reading needs no list of all constants, and a theory with more constants, or
with the same constants in another order, can use the same facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import LogicMPError
from ..parse.numerals import Numerals, Positions, merge, positions
from ..parse.theory import Predicate, Theory

# keys that are looked up at once
PIECE = 2**20


@dataclass
class Column:
    """The constants of one argument: the distinct names in order of appearance, and the number of one for each fact."""

    names: Sequence[str]
    # int32
    codes: np.ndarray

    def indices(self, index: Mapping[str, int]) -> np.ndarray:
        """The position of each fact's constant, by the position of each name."""
        if isinstance(index, Positions):
            if index.names is self.names:
                return self.codes
            table = index.of(self.names)
        else:
            table = np.fromiter(map(index.__getitem__, self.names), dtype=np.int32, count=len(self.names))
        found: np.ndarray = table[self.codes]
        return found

    def take(self, chosen: np.ndarray) -> Column:
        """The column of some of the facts, in this order; names that no fact has are dropped."""
        codes = self.codes[chosen]
        known, first = np.unique(codes, return_index=True)
        order = known[np.argsort(first)]
        rank = np.zeros(len(self.names), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        if isinstance(self.names, Numerals):
            return Column(Numerals(self.names.numbers[order]), rank[codes])
        return Column([self.names[k] for k in order.tolist()], rank[codes])


def column(values: Iterable[str]) -> Column:
    """A column of these constants.

    >>> column(["Anna", "Bob", "Anna"]).codes.tolist()
    [0, 1, 0]
    """
    numbers = Numbers()
    codes = np.fromiter(map(numbers.__getitem__, values), dtype=np.int32)
    return Column(list(numbers), codes)


class Numbers(dict[str, int]):
    """A number for each name, the next one for a new name."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number

    def add(self, column: Column) -> np.ndarray:
        """The numbers of the names of a column, for each fact."""
        if not self:
            self.update(zip(column.names, range(len(column.names)), strict=True))
            if len(self) == len(column.names):
                return column.codes
            # a name stands twice
            self.clear()
        found: np.ndarray = np.fromiter(map(self.__getitem__, column.names), np.int32, len(column.names))[column.codes]
        return found


@dataclass
class FactTable:
    """All facts of one predicate, as columns."""

    predicate: Predicate
    # one for each argument; a multi-class fact has its label last
    columns: list[Column] = field(default_factory=list)
    # 1 true, 0 false, NaN unobserved, other values soft evidence
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    # the line of each fact; the lines of a second file continue the count of the first
    lines: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # whether other processes have the other facts
    is_share: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def args(self) -> list[tuple[str, ...]]:
        """The arguments of each fact as written; a multi-class fact has its label last."""
        written = [[c.names[k] for k in c.codes.tolist()] for c in self.columns]
        return list(zip(*written, strict=True)) if written else [()] * len(self)

    def take(self, chosen: np.ndarray) -> FactTable:
        """Some of the facts, in this order."""
        return replace(self, columns=[c.take(chosen) for c in self.columns], values=self.values[chosen],
                       lines=self.lines[chosen])

    def keep(self, chosen: np.ndarray) -> FactTable:
        """Like `take`, where every name stays in use."""
        return replace(self, columns=[Column(c.names, c.codes[chosen]) for c in self.columns],
                       values=self.values[chosen], lines=self.lines[chosen])

    def keys(self, without: Sequence[int] = ()) -> np.ndarray:
        """A number for each fact, equal for equal arguments; C(A,B) and C(B,A) of a symmetric predicate are equal.

        Args:
            without: arguments that do not count.
        """
        columns = [c for k, c in enumerate(self.columns) if k not in without]
        codes = [c.codes for c in columns]
        sizes = [len(c.names) for c in columns]
        if self.predicate.symmetric:
            index = positions(merge([c.names for c in columns]))
            codes = [c.indices(index) for c in columns]
            codes = [np.minimum(*codes), np.maximum(*codes)]
            sizes = [len(index)] * 2
        found, n = np.zeros(len(self), dtype=np.int64), 1
        for code, size in zip(codes, sizes, strict=True):
            if n * max(size, 1) >= 2**62:
                known, found = np.unique(found, return_inverse=True)
                n = len(known)
            found, n = found * size + code, n * max(size, 1)
        return found


class Growing:
    """The facts of one predicate while they are read, in pieces."""

    def __init__(self, predicate: Predicate):
        self.predicate = predicate
        self._numbers = [Numbers() for _ in range(len(predicate.arguments) + (predicate.labels is not None))]
        self.codes: list[list[np.ndarray]] = [[] for _ in self._numbers]
        self.values: list[np.ndarray] = []
        self.lines: list[np.ndarray] = []
        # the first table, whose columns stay as they are if no other facts follow
        self._only: FactTable | None = None
        self._share: FactTable | None = None

    @property
    def numbers(self) -> list[Numbers]:
        """By argument, a number for each name so far."""
        if self._only is not None:
            table, self._only = self._only, None
            self.add_columns(table.columns, table.values, table.lines, is_only=False)
        return self._numbers

    def add_columns(self, columns: list[Column], values: np.ndarray, lines: np.ndarray, is_only: bool = True) -> None:
        """Add the facts of a table."""
        if is_only and not self.values and self._only is None:
            self._only = FactTable(self.predicate, columns, values, lines)
            return
        self.add([numbers.add(column) for numbers, column in zip(self.numbers, columns, strict=True)], values, lines)

    @property
    def is_divided(self) -> bool:
        """Whether other processes have other facts of this predicate."""
        return self._share is not None

    def add_share(self, table: FactTable) -> None:
        """Add the share of this process; no other facts may follow or come before."""
        self._reject_more(self._share is not None)
        self._share = table

    def _reject_more(self, has_two_shares: bool = False) -> None:
        if has_two_shares or self._only is not None or self.values:
            name = self.predicate.name
            raise LogicMPError(f"divided facts of {name} must come from one table, and there are others",
                               f"write all facts of {name} into one folder of Parquet parts")

    def add(self, codes: list[np.ndarray], values: np.ndarray, lines: np.ndarray) -> None:
        for pieces, piece in zip(self.codes, codes, strict=True):
            pieces.append(piece)
        self.values.append(values)
        self.lines.append(lines)

    def add_one(self, args: tuple[str, ...], value: float, line: int) -> None:
        self.add([np.array([numbers[arg]], dtype=np.int32) for numbers, arg in zip(self.numbers, args, strict=True)],
                 np.array([value]), np.array([line]))

    def table(self) -> FactTable:
        """The facts in the order of their lines."""
        if self._share is not None:
            self._reject_more()
            return self._share
        if self._only is not None:
            return self._only
        columns = []
        for numbers, pieces in zip(self.numbers, self.codes, strict=True):
            columns.append(Column(list(numbers), np.concatenate([np.zeros(0, dtype=np.int32), *pieces])))
            # the pieces are no longer needed: release their memory, column by column
            numbers.clear()
            pieces.clear()
        lines = np.concatenate([np.zeros(0, dtype=np.int32), *self.lines])
        self.lines.clear()
        table = FactTable(self.predicate, columns, np.concatenate([np.zeros(0), *self.values]), lines)
        self.values.clear()
        is_sorted = bool((lines[1:] >= lines[:-1]).all())
        return table if is_sorted else table.take(np.argsort(lines, kind="stable"))


def first_of_each(keys: np.ndarray) -> np.ndarray | None:
    """For each row, the first row with an equal key; None if no two keys are equal.

    >>> first_of_each(np.array([7, 5, 7])).tolist()
    [0, 1, 0]
    """
    ordered = np.sort(keys)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    if not len(repeated):
        return None
    # in pieces: millions of keys need no tables of their own size
    pieces = []
    for start in range(0, len(keys), PIECE):
        piece = keys[start : start + PIECE]
        at = np.searchsorted(repeated, piece).clip(0, len(repeated) - 1)
        pieces.append(start + np.flatnonzero(repeated[at] == piece))
    rows = np.concatenate(pieces)
    _, first, number = np.unique(keys[rows], return_index=True, return_inverse=True)
    found = np.arange(len(keys), dtype=np.int32 if len(keys) < 2**31 else np.int64)
    found[rows] = rows[first[number]]
    return found


@dataclass
class Evidence:
    """All facts, by predicate, and the theory with the constants that the facts add to it.

    Attributes:
        theory: the theory with the constants that the facts add to it.
        tables: the facts by predicate.
        warnings: repeated facts and the like: not errors, but worth showing to the user.
    """

    theory: Theory
    tables: dict[str, FactTable]
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.tables.values()))
