"""Constants that are whole numbers, 8 bytes each: no string is made before it is shown.

Room: **parse** -> facts.

    Friends=friends/      10^7 people named by numbers: 80 MB of names, which took 1.5 GB as strings with their index

A sequence of strings in every other respect, and equal to the tuple of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, overload

import numpy as np

# fewer names than these are strings
MANY = 2**12
# rows that are numbered at once
PIECE = 2**20


class Numerals(Sequence[str]):
    """The decimal numerals of distinct whole numbers.

    >>> names = Numerals(np.array([7, 3]))
    >>> list(names), names.positions["3"], names == ("7", "3")
    (['7', '3'], 1, True)
    """

    def __init__(self, numbers: np.ndarray):
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        return tuple(map(str, self.numbers[at].tolist())) if isinstance(at, slice) else str(self.numbers[at])

    def __iter__(self) -> Iterator[str]:
        return map(str, self.numbers.tolist())

    def __contains__(self, name: object) -> bool:
        return name in self.positions

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numerals):
            return np.array_equal(self.numbers, other.numbers)
        return isinstance(other, (tuple, list)) and len(other) == len(self) and all(
            a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    @cached_property
    def positions(self) -> Positions:
        """The position of each name."""
        return Positions(self)


class Positions(Mapping[str, int]):
    """The position of each name of `Numerals`; they are found for many numbers at once."""

    def __init__(self, names: Numerals):
        self.names = names
        numbers = names.numbers
        low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, -1)
        self._low, self._at, self._sorted = low, np.zeros(0, dtype=np.int32), None
        if high - low < 4 * len(numbers) + MANY:
            # by number, -1 for numbers that are no names
            self._at = np.full(high - low + 1, -1, dtype=np.int32)
            self._at[numbers - low] = np.arange(len(numbers), dtype=np.int32)
        else:
            order = np.argsort(numbers)
            self._sorted = numbers[order], order.astype(np.int32)

    def of(self, names: Sequence[str]) -> np.ndarray:
        """The positions of names, each of which must be known."""
        given = names.numbers if isinstance(names, Numerals) else np.array([_number(name) for name in names])
        at = self.find(given) if given.dtype.kind == "i" else np.full(len(names), -1)
        if len(at) and int(at.min()) < 0:
            raise KeyError(names[int(at.argmin())])
        return at

    def find(self, numbers: np.ndarray) -> np.ndarray:
        """The positions of numbers, -1 for those that are no names."""
        if self._sorted is not None:
            known, order = self._sorted
            at = np.searchsorted(known, numbers).clip(0, len(known) - 1)
            return np.where(known[at] == numbers, order[at], np.int32(-1))
        inside = (numbers >= self._low) & (numbers < self._low + len(self._at))
        return np.where(inside, self._at[np.where(inside, numbers - self._low, 0)] if len(self._at) else -1,
                        np.int32(-1))

    def __getitem__(self, name: str) -> int:
        number = _number(name)
        at = -1 if number is None else int(self.find(np.array([number]))[0])
        if at < 0:
            raise KeyError(name)
        return at

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _number(name: Any) -> int | None:
    """The number whose numeral is this name; None for `07`, `+7` and other names."""
    if not isinstance(name, str) or not name.lstrip("-").isdecimal():
        return None
    number = int(name)
    return number if str(number) == name and abs(number) < 2**62 else None


def number_in_order(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct whole numbers of some columns in order of appearance, and for each row the number of its value.

    >>> [found.tolist() for found in number_in_order([np.array([7, 3]), np.array([7, 5])])]
    [[7, 3, 5], [0, 1, 0, 2]]
    """
    columns = [column for column in columns if len(column)]
    n = sum(map(len, columns))
    codes = np.empty(n, dtype=np.int32)
    if not n:
        return np.zeros(0, dtype=np.int64), codes
    low, high = min(int(column.min()) for column in columns), max(int(column.max()) for column in columns)
    if high - low < 4 * n + 1024 and high < 2**62:
        pieces = [column[start : start + PIECE] for column in columns for start in range(0, len(column), PIECE)]
        ends = np.cumsum([len(piece) for piece in pieces]).tolist()
        # from the last row to the first: what is left is the first row of each value
        first: np.ndarray = np.full(high - low + 1, n, dtype=np.int32 if n < 2**31 else np.int64)
        for piece, end in zip(reversed(pieces), reversed(ends), strict=True):
            # int64: the difference of two small integers may not be one
            first[piece[::-1].astype(np.int64) - low] = np.arange(end - 1, end - 1 - len(piece), -1)
        known = np.flatnonzero(first < n)
        known = known[np.argsort(first[known])]
        first[known] = np.arange(len(known))
        for piece, end in zip(pieces, ends, strict=True):
            codes[end - len(piece) : end] = first[piece.astype(np.int64) - low]
        known += low
        return known, codes
    values, at, found = np.unique(np.concatenate(columns), return_index=True, return_inverse=True)
    order = np.argsort(at)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return values[order], rank[found.reshape(-1)]


def merge(parts: Sequence[Sequence[str]]) -> tuple[str, ...] | Numerals:
    """The distinct names of several lists, in order of appearance.

    >>> merge([("B", "A"), ["A", "C"]])
    ('B', 'A', 'C')
    """
    parts = [part for part in parts if len(part)]
    if any(isinstance(part, Numerals) for part in parts):
        if len(parts) == 1 or all(part is parts[0] for part in parts):
            return parts[0]  # type: ignore[return-value]
        found = [part.numbers if isinstance(part, Numerals) else [_number(name) for name in part] for part in parts]
        if all(isinstance(part, np.ndarray) or None not in part for part in found):
            return Numerals(number_in_order([np.asarray(part, dtype=np.int64) for part in found])[0])
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def positions(names: Sequence[str]) -> Mapping[str, int]:
    """The position of each of some distinct names."""
    return names.positions if isinstance(names, Numerals) else {name: i for i, name in enumerate(names)}
