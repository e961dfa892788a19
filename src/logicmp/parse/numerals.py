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


def is_narrow(low: int, high: int, n: int) -> bool:
    """Whether a table by number pays for `n` whole numbers between these two."""
    return high - low < 4 * n + MANY and high < 2**62


class Numbering:
    """Numbers distinct whole numbers in order of appearance, piece by piece, by a table over their range.

    >>> numbering = Numbering(0, 9)
    >>> numbering.add(np.array([7, 3, 7])).tolist(), numbering.add(np.array([5, 3])).tolist()
    ([0, 1, 0], [2, 1])
    >>> numbering.numbers().tolist()
    [7, 3, 5]

    Args:
        low: the smallest number to come.
        high: the largest one.
    """

    def __init__(self, low: int, high: int):
        self._low = low
        # by number, -1 for new ones
        self._at: np.ndarray = np.full(high - low + 1, -1, dtype=np.int32)
        self._found: list[np.ndarray] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, values: np.ndarray) -> np.ndarray:
        """The numbers of some whole numbers, int32; new ones are numbered."""
        # int64: the difference of two small integers may not be one
        values = values.astype(np.int64) - self._low
        codes: np.ndarray = self._at[values]
        is_new = codes < 0
        if is_new.any():
            new = values[is_new]
            # from the last to the first: what is left is the first place of each
            self._at[new[::-1]] = np.arange(len(new) - 1, -1, -1, dtype=np.int32)
            first = new[self._at[new] == np.arange(len(new))]
            self._at[first] = np.arange(self._n, self._n + len(first), dtype=np.int32)
            self._n += len(first)
            self._found.append(first + self._low)
            codes[is_new] = self._at[new]
        return codes

    def find(self, values: np.ndarray) -> np.ndarray:
        """The numbers of some whole numbers, -1 for those that are not known."""
        values = values.astype(np.int64) - self._low
        inside = (values >= 0) & (values < len(self._at))
        if inside.all():
            found: np.ndarray = self._at[values]
            return found
        return np.where(inside, self._at[np.where(inside, values, 0)], np.int32(-1))

    def numbers(self) -> np.ndarray:
        """The distinct whole numbers in order."""
        if len(self._found) != 1:
            self._found = [np.concatenate([np.zeros(0, dtype=np.int64), *self._found])]
        return self._found[0]


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
    if is_narrow(low, high, n):
        numbering, done = Numbering(low, high), 0
        for column in columns:
            for start in range(0, len(column), PIECE):
                piece = column[start : start + PIECE]
                codes[done : done + len(piece)] = numbering.add(piece)
                done += len(piece)
        return numbering.numbers(), codes
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
