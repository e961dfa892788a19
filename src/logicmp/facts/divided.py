"""Facts divided over processes: each reads a table in pieces, and keeps the facts in its own range.

Room: stores, tables -> **facts** -> ground.

    Friends=friends/, two processes     rank 0 keeps Friends(x,y) of the first x, rank 1 those of the others
                                        both know all constants, in the order of one process

A table is read in several passes: to number its constants and count their facts, and to keep a share of the facts. No
process ever has all of them. Equal facts are in one share, because the range of one argument decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LogicMPError
from ..parse.numerals import MANY, Numbering, Numerals, is_narrow
from ..parse.theory import Predicate
from .columns import Column, Numbers
from .tables import constants_of, release_unused, split_columns, whole_numbers


@dataclass(frozen=True)
class Division:
    """The predicates whose facts are divided, and the share that this process keeps."""

    predicates: tuple[str, ...]
    rank: int
    size: int


def read_share(predicate: Predicate, pieces: Callable[[], Iterable[Any]], division: Division, what: str
               ) -> tuple[dict[str, Column], np.ndarray, np.ndarray, int]:
    """The facts of this process: their columns, values and rows, and how many rows the table has.

    Args:
        predicate: of the facts.
        pieces: yields the parts of a table in order, in every call.
        division: which share to keep.
        what: shown in errors: the name of the table.
    """
    _check(predicate)
    found = _count(predicate, pieces, what, _ranges(predicate, pieces, what))
    # the argument that splits the facts most evenly
    cuts = [_cut(counts, division.size) for counts in found.counts]
    axis = min(range(len(cuts)), key=lambda k: int(np.diff(cuts[k][1]).max()))
    (low, high), (before, after) = (part[division.rank : division.rank + 2].tolist() for part in cuts[axis])
    n = after - before
    codes = [np.empty(n, dtype=np.int32) for _ in predicate.arguments]
    rows = np.empty(n, dtype=np.int32 if found.n_rows < 2**31 else np.int64)
    truth = np.broadcast_to(1.0, n) if found.is_true else np.empty(n)
    start = done = 0
    for where, columns, values in _read(predicate, pieces, what):
        own = [known.find(columns.pop(name), where, name) for known, name in zip(found.known, list(columns),
                                                                               strict=True)]
        kept = np.flatnonzero((own[axis] >= low) & (own[axis] < high))
        if done + len(kept) > n or any(bool((number < 0).any()) for number in own):
            raise _changed(what)
        place = slice(done, done + len(kept))
        for code, number in zip(codes, own, strict=True):
            code[place] = number[kept]
        rows[place] = start + kept
        if not found.is_true:
            truth[place] = values[kept]
        start, done = start + len(values), done + len(kept)
    if (start, done) != (found.n_rows, n):
        raise _changed(what)
    names = {id(known): known.names() for known in found.known}
    return {name: Column(names[id(known)], code) for name, known, code in zip(
        found.header, found.known, codes, strict=True)}, truth, rows, found.n_rows


def _changed(what: str) -> LogicMPError:
    return LogicMPError(f"{what} changed while it was read", "run again when it is complete")


@dataclass(frozen=True)
class _Counted:
    """What the first reading finds."""

    header: list[str]
    # by argument; the same for arguments of one type
    known: list[_Wholes | _Names]
    # by argument, how many facts each name has
    counts: list[np.ndarray]
    n_rows: int
    is_true: bool


def _ranges(predicate: Predicate, pieces: Callable[[], Iterable[Any]], what: str) -> dict[str, tuple[int, int]] | None:
    """By type, the smallest and the largest constant; None if some are no whole numbers, or they are far apart."""
    found: dict[str, tuple[int, int]] = {}
    n_rows = 0
    for _, columns, values in _read(predicate, pieces, what):
        n_rows += len(values)
        for name, column in zip(predicate.types, columns.values(), strict=True):
            wholes = whole_numbers(column)
            if wholes is None:
                return None
            for x in wholes:
                if len(x):
                    low, high = int(x.min()), int(x.max())
                    low, high = (min(low, found[name][0]), max(high, found[name][1])) if name in found else (low, high)
                    found[name] = low, high
    return found if all(is_narrow(low, high, n_rows) for low, high in found.values()) else None


def _count(predicate: Predicate, pieces: Callable[[], Iterable[Any]], what: str,
           ranges: Mapping[str, tuple[int, int]] | None) -> _Counted:
    """Number the names of each argument, and count their facts."""
    known: list[_Wholes | _Names] = [_Names() if ranges is None else _Wholes(*ranges.get(name, (0, -1)))
                                     for name in predicate.types]
    counts = [np.zeros(0, dtype=np.int32) for _ in known]
    header, n_rows, is_true = [str(k) for k in range(len(known))], 0, True
    for where, columns, values in _read(predicate, pieces, what):
        uncertain = np.flatnonzero((values != 0) & (values != 1))
        if len(uncertain):
            raise LogicMPError(f"{what}, row {n_rows + int(uncertain[0]) + 1}: a fact of divided {predicate.name} must "
                               f"be true or false, got {values[uncertain[0]]:g}",
                               f"leave {predicate.name} out of --divide")
        header, n_rows, is_true = list(columns), n_rows + len(values), is_true and bool((values == 1).all())
        for k, name in enumerate(header):
            codes = known[k].add(columns.pop(name), where, name)
            if len(known[k]) > len(counts[k]):
                counts[k] = np.concatenate([counts[k], np.zeros(2 * len(known[k]) - len(counts[k]), dtype=np.int32)])
            np.add.at(counts[k], codes, np.int32(1))
    # arguments of one type have the same names, those of the first argument first
    of_type: dict[str, _Wholes | _Names] = {}
    for k, name in enumerate(predicate.types):
        own, counted = known[k], counts[k][: len(known[k])]
        first = of_type.setdefault(name, own)
        at = first.take(own)
        known[k], counts[k] = first, np.zeros(len(first), dtype=np.int32)
        counts[k][at] = counted
    return _Counted(header, known, counts, n_rows, is_true)


def _cut(counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the names of each process begin, with the end of the last one, and how many facts are before these names.

    >>> _cut(np.array([1, 4, 1, 2]), 2)
    (array([0, 2, 4]), array([0, 5, 8]))
    """
    before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    cuts = np.searchsorted(before, before[-1] * np.arange(size + 1) / size)
    cuts[-1] = len(counts)
    return cuts, before[cuts]


def _check(predicate: Predicate) -> None:
    if predicate.is_categorical or predicate.symmetric or not predicate.arguments:
        raise LogicMPError(f"facts of {predicate} cannot be divided over processes: "
                           f"{'both orders are one atom' if predicate.symmetric else 'its atoms depend on each other'}"
                           if predicate.arguments else f"facts of {predicate} cannot be divided: it has one atom",
                           f"leave {predicate.name} out of --divide")


def _read(predicate: Predicate, pieces: Callable[[], Iterable[Any]], what: str
          ) -> Iterator[tuple[str, dict[str, Any], np.ndarray]]:
    """Each piece: its place for errors, its columns as they are, and the value of each fact."""
    start = 0
    for piece in pieces():
        where = f"{what}, rows after {start:,}" if start else what
        columns, values = split_columns(predicate, piece, where)
        del piece
        yield where, columns, values
        start += len(values)
    release_unused()


class _Wholes:
    """Constants that are whole numbers, in order of appearance."""

    def __init__(self, low: int, high: int):
        self._low, self._high = low, high
        self._numbering = Numbering(low, high)

    def __len__(self) -> int:
        return len(self._numbering)

    def add(self, column: Any, what: str, name: str) -> np.ndarray:
        wholes = whole_numbers(column) or []
        if any(len(x) and (int(x.min()) < self._low or int(x.max()) > self._high) for x in wholes):
            raise _changed(what)
        return np.concatenate([np.zeros(0, dtype=np.int32), *map(self._numbering.add, wholes)])

    def find(self, column: Any, what: str, name: str) -> np.ndarray:
        return np.concatenate([np.zeros(0, dtype=np.int32), *map(self._numbering.find, whole_numbers(column) or ())])

    def take(self, other: Any) -> np.ndarray:
        return self._numbering.add(other._numbering.numbers())

    def names(self) -> Sequence[str]:
        numbers = self._numbering.numbers()
        return Numerals(numbers) if len(numbers) >= MANY else list(map(str, numbers.tolist()))


class _Names:
    """Constants of any kind, likewise."""

    def __init__(self) -> None:
        self._numbers = Numbers()

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, column: Any, what: str, name: str) -> np.ndarray:
        return self._numbers.add(constants_of(column, what, name))

    def find(self, column: Any, what: str, name: str) -> np.ndarray:
        found = constants_of(column, what, name)
        known = np.fromiter((self._numbers.get(x, -1) for x in found.names), np.int32, len(found.names))
        return np.asarray(known[found.codes])

    def take(self, other: Any) -> np.ndarray:
        return np.fromiter(map(self._numbers.__getitem__, list(other._numbers)), np.int32, len(other))

    def names(self) -> Sequence[str]:
        return list(self._numbers)
