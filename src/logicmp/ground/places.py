"""What one of several processes has: places of an array, numbered anew, and features of a ground network.

Room: engine -> **ground** -> execute, inference.

    rank 0 has rows over the places 0 to 5, rank 1 over 4 to 9
    sums          those at 4 and 5 are added up; no other value leaves its process
    statistics    a place counts where it is owned: 0 to 5 in rank 0, 6 to 9 in rank 1
    features      rank 0 keeps those with a variable of 0 to 4, rank 1 those with one of 5 to 9, some are in both
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .engine import Share, Shares

# places that the processes compare or add up at once: what they exchange takes memory of its own
PIECE = 2**17


@dataclass(frozen=True, eq=False)
class Places:
    """The places that this process has.

    Attributes:
        places: their numbers in all processes together, in order.
        is_own: which of them this process owns.
        shared: which of them, by position, other processes have, too.
        slots: the number of each shared one in the list of all shared places.
        n: the number of places in all processes.
        n_shared: the length of the list, the same in all processes.
        shares: the processes.
    """

    places: np.ndarray
    is_own: np.ndarray
    shared: np.ndarray
    slots: np.ndarray
    n: int
    n_shared: int
    shares: Shares

    def __len__(self) -> int:
        return len(self.places)

    def add_up(self, x: np.ndarray) -> np.ndarray:
        """Add up the values of shared places over all processes, in place; `x` is [places] or [places, ...]."""
        for at, slots, n in self.pieces():
            everywhere = np.zeros((n, *x.shape[1:]))
            everywhere[slots] = x[at]
            x[at] = self.shares.total(everywhere)[slots]
        return x

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """The shared places, some at once: those of this process, their numbers in a list of all, and its length."""
        for start in range(0, self.n_shared, PIECE):
            low, high = np.searchsorted(self.slots, np.array([start, start + PIECE], dtype=self.slots.dtype))
            yield self.shared[low:high], self.slots[low:high] - np.int32(start), min(PIECE, self.n_shared - start)

    def numbers(self) -> np.ndarray:
        """By number of a place in all processes, its number in this one; 0 for places that it does not have."""
        found = np.zeros(self.n, dtype=np.int32)
        found[self.places] = np.arange(len(self), dtype=np.int32)
        return found


@dataclass(frozen=True, eq=False)
class Owners:
    """Which process owns each variable of a ground network, whose variables have the same numbers in all processes.

    Attributes:
        atoms: the rank of each variable of atoms; those of quantified parts come after them, and are dealt out in turn.
        share: of this process.
    """

    atoms: np.ndarray
    share: Share

    @classmethod
    def by_range(cls, ends: Sequence[int], share: Share) -> Owners:
        """Divide the variables of each predicate into ranges, because neighbours are often in one rule.

        >>> Owners.by_range([4, 6], Share(0, 2)).atoms.tolist()
        [0, 0, 1, 1, 0, 1]

        Args:
            ends: the number after the last variable of each predicate, in order.
            share: of this process.
        """
        parts = [np.arange(n) * share.size // max(n, 1) for n in np.diff([0, *ends])]
        return cls(np.concatenate([np.zeros(0), *parts]).astype(np.min_scalar_type(share.size)), share)

    def of(self, var: np.ndarray) -> np.ndarray:
        """The rank that owns each variable."""
        n = len(self.atoms)
        found = self.atoms.take(var, mode="clip") if n else np.zeros(len(var), dtype=np.uint8)
        is_part = var >= n
        found[is_part] = var[is_part] % self.share.size
        return found

    def has(self, var: np.ndarray) -> np.ndarray:
        return np.asarray(self.of(var) == self.share.rank)

    def of_sets(self, var: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """The rank that owns each set of variables, which are sorted: that of one of them, another one in each set."""
        if len(begins) < 2:
            return np.zeros(0, dtype=self.atoms.dtype)
        first, counts = begins[:-1], np.diff(begins)
        return self.of(var[first + np.add.reduceat(var, first, dtype=np.int64) % counts])


def find_places(columns: Sequence[np.ndarray], n: int, width: int, shares: Shares) -> Places:
    """The places that the rows of a process read.

    Args:
        columns: of the rows; places are their numbers divided by `width`.
        n: the number of places in all processes.
        width: values of one place, which are kept together.
        shares: the processes.
    """
    rank, size = shares.share.rank, shares.share.size
    is_read = np.zeros(n, dtype=bool)
    for column in columns:
        is_read[column if width == 1 else column // width] = True
    found: list[list[np.ndarray]] = [[], [], [], []]
    n_places = n_shared = 0
    for start in range(0, n, PIECE):
        here = is_read[start : start + PIECE]
        last, first = shares.maxima(np.stack([np.where(here, rank, -1), np.where(here, size - 1 - rank, -1)]))
        first = size - 1 - first
        # the first process that reads a place owns it; those that nobody reads are divided
        owner = np.where(last < 0, (start + np.arange(len(here))) * size // n, first)
        is_shared = first < last
        at = np.flatnonzero(here | (owner == rank))
        parts = (start + at, owner[at] == rank, n_places + np.flatnonzero(is_shared[at]),
                 (n_shared + np.cumsum(is_shared) - 1)[at[is_shared[at]]])
        for pieces, part in zip(found, parts, strict=True):
            pieces.append(part if part.dtype == bool else part.astype(np.int32))
        n_places, n_shared = n_places + len(at), n_shared + int(is_shared.sum())
    none = [np.zeros(0, dtype=bool if k == 1 else np.int32) for k in range(4)]
    places, is_own, shared, slots = (np.concatenate([empty, *pieces]) for empty, pieces in zip(none, found,
                                                                                              strict=True))
    return Places(places, is_own, shared, slots, n, n_shared, shares)
