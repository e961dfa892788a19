"""The messages of factors that are tables, in batches of one shape.

Room: inference/bp; used by messages.

    A <=> B, a table over binary variables      one number along each edge: the log-odds of the message
    other tables                                a vector along each edge, one number for each value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from .graph import IMPOSSIBLE, Tables

# cells of the tables that are updated at once, so that what is computed on the way stays small
PIECE = 2**17
# called with the loop for some tables and their number; returns the largest result
Share = Callable[[Callable[[int, int], float], int], float]


class Batch(Protocol):
    """Tables of one shape, and the messages that they sent last."""

    def add_to(self, belief: np.ndarray) -> None:
        """Add all messages to the log-potentials of the values."""

    def update(self, belief: np.ndarray, damping: float) -> float:
        """Send all messages once more; returns the largest change before damping."""

    def log_partition(self, belief: np.ndarray) -> float:
        """What the tables add to the Bethe approximation of log Z."""

    def joint(self, belief: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The log-probability of each cell of some tables, not normalized, [rows, cells]."""


def make_batch(table: Tables, starts: np.ndarray, size: np.ndarray, share: Share | None = None) -> Batch:
    """The messages of tables of one shape; all zero at first.

    Args:
        starts: where the values of each variable begin.
        size: the number of ground variables that each variable represents.
        share: runs compiled loops, None for numpy.
    """
    if any(card != 2 for card in table.shape):
        return Vectors(table, starts, size)
    return Binary(table, starts, size) if share is None else CompiledBinary(table, starts, size, share)


class Binary:
    """Tables over binary variables; a message is the log-odds of its two values."""

    def __init__(self, table: Tables, starts: np.ndarray, size: np.ndarray):
        self.starts, self.size = starts, table.size
        self.values = np.ascontiguousarray(table.values.reshape(len(table.values), -1))
        self.kind = np.ascontiguousarray(table.kind, dtype=np.int32)
        self.var = np.ascontiguousarray(table.var, dtype=np.int32)
        # equal edges of each ground variable; most graphs have one
        self.counts: np.ndarray | None = table.size[:, None] / size[table.var]
        if bool((self.counts == 1).all()):
            self.counts = None
        self.sent = np.zeros(table.var.shape)

    def add_to(self, belief: np.ndarray) -> None:
        sent = self.sent if self.counts is None else self.counts * self.sent
        total = np.bincount(self.var.reshape(-1), sent.reshape(-1), len(self.starts) - 1)
        own = np.flatnonzero(total)
        belief[self.starts[own] + 1] += total[own]

    def odds(self, belief: np.ndarray) -> np.ndarray:
        """The log-odds of each binary variable; those of others are not read."""
        first = self.starts[:-1]
        return np.asarray(belief[first + 1] - belief[first])

    def _incoming(self, odds: np.ndarray, at: slice | np.ndarray) -> np.ndarray:
        return np.asarray((odds[self.var[at]] - self.sent[at]).clip(IMPOSSIBLE, -IMPOSSIBLE))

    def _pieces(self) -> Iterator[slice]:
        step = max(1, PIECE // self.values.shape[1])
        return (slice(first, first + step) for first in range(0, len(self.var), step))

    def update(self, belief: np.ndarray, damping: float) -> float:
        odds, change = self.odds(belief), 0.0
        for at in self._pieces():
            given = self._incoming(odds, at)
            for axis in range(given.shape[1]):
                # without the variable's own message: subtracting it later would cost digits
                halves = self._joint(at, given, axis).reshape(len(given), 2**axis, 2, -1)
                no, yes = (np.logaddexp.reduce(halves[:, :, k].reshape(len(given), -1), axis=1) for k in (0, 1))
                new = (yes - no).clip(IMPOSSIBLE, -IMPOSSIBLE)
                sent = self.sent[at, axis]
                change = max(change, largest_change(new, sent))
                sent *= damping
                sent += (1 - damping) * new
        return change

    def log_partition(self, belief: np.ndarray) -> float:
        odds, total = self.odds(belief), 0.0
        for at in self._pieces():
            given = self._incoming(odds, at)
            joint = np.logaddexp.reduce(self._joint(at, given), axis=1)
            joint -= np.logaddexp(0, given + self.sent[at]).sum(1)
            total += float((joint * self.size[at]).sum())
        return total

    def joint(self, belief: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self._joint(rows, self._incoming(self.odds(belief), rows))

    def _joint(self, at: slice | np.ndarray, given: np.ndarray, without: int = -1) -> np.ndarray:
        """The log-weight of each cell with the messages of all variables but one."""
        joint = self.values[self.kind[at]]
        for axis in range(given.shape[1]):
            if axis != without:
                joint.reshape(len(joint), 2**axis, 2, -1)[:, :, 1] += given[:, axis, None, None]
        return joint


class CompiledBinary(Binary):
    """The same messages by a compiled loop."""

    def __init__(self, table: Tables, starts: np.ndarray, size: np.ndarray, share: Share):
        super().__init__(table, starts, size)
        self.share = share

    def add_to(self, belief: np.ndarray) -> None:
        from .loops import add_sent

        counts = np.zeros((0, self.var.shape[1])) if self.counts is None else self.counts
        total = np.zeros(len(self.starts) - 1)
        add_sent(self.var, self.sent, counts, total)
        own = np.flatnonzero(total)
        belief[self.starts[own] + 1] += total[own]

    def update(self, belief: np.ndarray, damping: float) -> float:
        from .loops import send_tables

        odds = self.odds(belief)
        return self.share(lambda first, last: float(send_tables(
            first, last, self.values, self.kind, self.var, odds, self.sent, damping, -IMPOSSIBLE)), len(self.var))


class Vectors:
    """Tables of any shape; a message has a log-potential for each value, the largest of which is 0."""

    def __init__(self, table: Tables, starts: np.ndarray, size: np.ndarray):
        self.table = table
        self.at = [starts[table.var[:, axis], None] + np.arange(card) for axis, card in enumerate(table.shape)]
        self.counts = table.size[:, None] / size[table.var]
        self.sent = [np.zeros(at.shape) for at in self.at]

    def add_to(self, belief: np.ndarray) -> None:
        for axis, at in enumerate(self.at):
            counted = self.counts[:, axis, None] * self.sent[axis]
            belief += np.bincount(at.reshape(-1), counted.reshape(-1), len(belief))

    def _incoming(self, belief: np.ndarray, rows: slice | np.ndarray) -> list[np.ndarray]:
        found = [belief[at[rows]] - sent[rows] for at, sent in zip(self.at, self.sent, strict=True)]
        return [(x - x.max(1, keepdims=True)).clip(IMPOSSIBLE, None) for x in found]

    def _pieces(self) -> Iterator[slice]:
        step = max(1, PIECE // self.table.values[0].size) if len(self.table.values) else 1
        return (slice(first, first + step) for first in range(0, len(self.table.var), step))

    def update(self, belief: np.ndarray, damping: float) -> float:
        change = 0.0
        for rows in self._pieces():
            incoming = self._incoming(belief, rows)
            total = self._joint(incoming, rows)
            for axis, given in enumerate(incoming):
                new = _sum_all_but(total, axis) - given
                new = (new - new.max(1, keepdims=True)).clip(IMPOSSIBLE, None)
                sent = self.sent[axis][rows]
                change = max(change, largest_change(new, sent))
                sent *= damping
                sent += (1 - damping) * new
        return change

    def log_partition(self, belief: np.ndarray) -> float:
        total = 0.0
        for rows in self._pieces():
            incoming = self._incoming(belief, rows)
            joint = np.logaddexp.reduce(self._joint(incoming, rows).reshape(len(incoming[0]), -1), axis=1)
            shared = sum(np.logaddexp.reduce(x + sent[rows], axis=1)
                         for x, sent in zip(incoming, self.sent, strict=True))
            total += float(((joint - shared) * self.table.size[rows]).sum())
        return total

    def joint(self, belief: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self._joint(self._incoming(belief, rows), rows).reshape(len(rows), -1)

    def _joint(self, incoming: list[np.ndarray], rows: slice | np.ndarray) -> np.ndarray:
        values = self.table.values[self.table.kind[rows]]
        for axis, given in enumerate(incoming):
            shape = [len(given)] + [1] * len(incoming)
            shape[axis + 1] = given.shape[1]
            values += given.reshape(shape)
        return np.asarray(values)


def largest_change(new: np.ndarray, old: np.ndarray) -> float:
    """The largest change of a log-message; relative if the message is large, because floats have no more digits."""
    return float((np.abs(new - old) / np.maximum(1.0, np.abs(new))).max(initial=0.0))


def _sum_all_but(table: np.ndarray, axis: int) -> np.ndarray:
    """The log sum exp over all axes but the first and `axis` + 1."""
    moved = np.moveaxis(table, axis + 1, 1).reshape(len(table), table.shape[axis + 1], -1)
    top = moved.max(2)
    return np.asarray(top + np.log(np.exp(moved - top[..., None]).sum(2)))
