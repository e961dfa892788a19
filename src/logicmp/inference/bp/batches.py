"""The messages of factors that are tables, in batches of one shape.

Room: inference/bp; used by messages.

    A <=> B over binary variables       one number along each edge: the log-odds of the message
    other tables                        a vector along each edge, one number for each value
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from .graph import IMPOSSIBLE, Tables

# tables that are updated at once, so that what is computed on the way stays in the cache
PIECE = 2**15


class Batch(Protocol):
    """Tables of one shape, and the messages that they sent last."""

    def add_to(self, belief: np.ndarray) -> None:
        """Add all messages to the log-potentials of the values."""

    def update(self, belief: np.ndarray, damping: float) -> float:
        """Send all messages once more; returns the largest change before damping."""

    def log_partition(self, belief: np.ndarray) -> float:
        """What the tables add to the Bethe approximation of log Z."""

    def joint(self, belief: np.ndarray) -> np.ndarray:
        """The log-probability of each cell, not normalized, [tables, cells]."""


def make_batch(table: Tables, starts: np.ndarray, size: np.ndarray) -> Batch:
    """The messages of tables of one shape; all zero at first.

    Args:
        starts: where the values of each variable begin.
        size: the number of ground variables that each variable represents.
    """
    return (Pairs if table.values.shape[1:] == (2, 2) else Vectors)(table, starts, size)


class Pairs:
    """Tables over two binary variables; a message is the log-odds of its two values."""

    def __init__(self, table: Tables, starts: np.ndarray, size: np.ndarray):
        self.table, self.starts = table, starts
        self.var = [np.ascontiguousarray(column, dtype=np.int64) for column in table.var.T]
        # equal edges of each ground variable; most graphs have one
        counts = [table.size / size[var] for var in self.var]
        self.counts = None if all(bool((count == 1).all()) for count in counts) else counts
        self.sent = [np.zeros(len(table.var)) for _ in range(2)]

    def add_to(self, belief: np.ndarray) -> None:
        total = np.zeros(len(self.starts) - 1)
        for k, (var, sent) in enumerate(zip(self.var, self.sent, strict=True)):
            total += np.bincount(var, sent if self.counts is None else self.counts[k] * sent, len(total))
        own = np.flatnonzero(total)
        belief[self.starts[own] + 1] += total[own]

    def _odds(self, belief: np.ndarray) -> np.ndarray:
        """The log-odds of each binary variable; those of others are not read."""
        first = self.starts[:-1]
        return np.asarray(belief[first + 1] - belief[first])

    def _incoming(self, odds: np.ndarray, at: slice) -> list[np.ndarray]:
        return [(odds[var[at]] - sent[at]).clip(IMPOSSIBLE, -IMPOSSIBLE)
                for var, sent in zip(self.var, self.sent, strict=True)]

    def _pieces(self) -> Iterator[slice]:
        return (slice(first, first + PIECE) for first in range(0, len(self.table.var), PIECE))

    def update(self, belief: np.ndarray, damping: float) -> float:
        odds, change = self._odds(belief), 0.0
        for at in self._pieces():
            values = self.table.values[at]
            for k, given in enumerate(reversed(self._incoming(odds, at))):
                own = values if k == 0 else values.swapaxes(1, 2)
                new = np.logaddexp(own[:, 1, 0], own[:, 1, 1] + given)
                new -= np.logaddexp(own[:, 0, 0], own[:, 0, 1] + given)
                new.clip(IMPOSSIBLE, -IMPOSSIBLE, out=new)
                sent = self.sent[k][at]
                change = max(change, largest_change(new, sent))
                sent *= damping
                new *= 1 - damping
                sent += new
        return change

    def log_partition(self, belief: np.ndarray) -> float:
        odds, total = self._odds(belief), 0.0
        for at in self._pieces():
            incoming = self._incoming(odds, at)
            joint = np.logaddexp.reduce(self._joint(at, incoming), axis=1)
            for given, sent in zip(incoming, self.sent, strict=True):
                joint -= np.logaddexp(0, given + sent[at])
            total += float((joint * self.table.size[at]).sum())
        return total

    def joint(self, belief: np.ndarray) -> np.ndarray:
        everything = slice(None)
        return self._joint(everything, self._incoming(self._odds(belief), everything))

    def _joint(self, at: slice, incoming: list[np.ndarray]) -> np.ndarray:
        joint = self.table.values[at].reshape(-1, 4).copy()
        joint[:, 2:] += incoming[0][:, None]
        joint[:, 1::2] += incoming[1][:, None]
        return joint


class Vectors:
    """Tables of any shape; a message has a log-potential for each value, the largest of which is 0."""

    def __init__(self, table: Tables, starts: np.ndarray, size: np.ndarray):
        self.table = table
        self.at = [starts[table.var[:, axis], None] + np.arange(card)
                   for axis, card in enumerate(table.values.shape[1:])]
        self.counts = table.size[:, None] / size[table.var]
        self.sent = [np.zeros(at.shape) for at in self.at]

    def add_to(self, belief: np.ndarray) -> None:
        for axis, at in enumerate(self.at):
            counted = self.counts[:, axis, None] * self.sent[axis]
            belief += np.bincount(at.reshape(-1), counted.reshape(-1), len(belief))

    def _incoming(self, belief: np.ndarray) -> list[np.ndarray]:
        found = [belief[at] - sent for at, sent in zip(self.at, self.sent, strict=True)]
        return [(x - x.max(1, keepdims=True)).clip(IMPOSSIBLE, None) for x in found]

    def update(self, belief: np.ndarray, damping: float) -> float:
        incoming, change = self._incoming(belief), 0.0
        total = self._joint(incoming)
        for axis, given in enumerate(incoming):
            new = _sum_all_but(total, axis) - given
            new = (new - new.max(1, keepdims=True)).clip(IMPOSSIBLE, None)
            change = max(change, largest_change(new, self.sent[axis]))
            self.sent[axis] = (1 - damping) * new + damping * self.sent[axis]
        return change

    def log_partition(self, belief: np.ndarray) -> float:
        incoming = self._incoming(belief)
        joint = np.logaddexp.reduce(self._joint(incoming).reshape(len(self.table.var), -1), axis=1)
        shared = sum(np.logaddexp.reduce(x + sent, axis=1) for x, sent in zip(incoming, self.sent, strict=True))
        return float(((joint - shared) * self.table.size).sum())

    def joint(self, belief: np.ndarray) -> np.ndarray:
        return self._joint(self._incoming(belief)).reshape(len(self.table.var), -1)

    def _joint(self, incoming: list[np.ndarray]) -> np.ndarray:
        values = self.table.values
        for axis, given in enumerate(incoming):
            shape = [len(given)] + [1] * len(incoming)
            shape[axis + 1] = given.shape[1]
            values = values + given.reshape(shape)
        return values


def largest_change(new: np.ndarray, old: np.ndarray) -> float:
    """The largest change of a log-message; relative if the message is large, because floats have no more digits."""
    return float((np.abs(new - old) / np.maximum(1.0, np.abs(new))).max(initial=0.0))


def _sum_all_but(table: np.ndarray, axis: int) -> np.ndarray:
    """The log sum exp over all axes but the first and `axis` + 1."""
    moved = np.moveaxis(table, axis + 1, 1).reshape(len(table), table.shape[axis + 1], -1)
    top = moved.max(2)
    return np.asarray(top + np.log(np.exp(moved - top[..., None]).sum(2)))
