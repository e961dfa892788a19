"""Where the rows of a join come from: the built-in join, or an engine of SQL; all of them, or one share.

Room: facts, normalize -> **ground** -> plan, execute.

    Grounding()                               the built-in join, all rows
    Grounding(make_engine("duckdb", 2e9))     the same rows from DuckDB, within 2 GB
    Grounding(BuiltIn(), shares)              of each join the rows with x < 500; the other process has the others
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..errors import LogicMPError
from ..normalize.cubes import Differ
from .join import Guard
from .patterns import Joined, Pattern, join_patterns

ENGINES = ("torch", "duckdb", "spark")
# ranges of a variable that are counted to cut its values into parts, and values that are counted at once
MAX_BINS, PIECE = 2**16, 2**20


@dataclass(frozen=True)
class Share:
    """A part of the rows: those where a variable modulo `size` is `rank`, or lies in a range.

    Ranges keep neighbours together: facts are often in order, and then few atoms are in two parts.
    """

    rank: int = 0
    size: int = 1
    by_range: bool = False


class Engine(Protocol):
    """Makes the rows of a join."""

    def join(self, patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
             conditions: Sequence[Differ], is_grouped: bool, share: Share) -> Joined:
        """All bindings that are in every pattern, and in the share.

        Args:
            patterns: each has at least one variable.
            wanted: patterns whose places are needed.
            keep: variables whose columns are needed.
            guard: called with the number of rows so far.
            conditions: pairs of terms that differ in every row.
            is_grouped: whether each binding of `keep` may be returned once, with the number of its rows.
            share: which of the rows.
        """
        ...

    def close(self) -> None:
        """Release what the engine has opened."""
        ...


class Shares(Protocol):
    """The processes that have a share of the rows each, and what they have to tell each other."""

    share: Share

    def total(self, x: np.ndarray) -> np.ndarray:
        """The sum over all processes."""
        ...

    def gather(self, x: np.ndarray) -> list[np.ndarray]:
        """The arrays of all processes, of any lengths, by rank."""
        ...

    def union(self, keys: np.ndarray) -> np.ndarray:
        """The distinct numbers of all processes, sorted."""
        ...

    def agree(self, flag: bool) -> bool:
        """Whether the flag is set in at least one process."""
        ...

    def largest(self, x: float) -> float:
        """The largest number of all processes."""
        ...

    def maxima(self, x: np.ndarray) -> np.ndarray:
        """The largest integer of all processes, place by place."""
        ...

    def add_up(self, x: Any) -> Any:
        """A tensor summed over all processes; its gradient is that of the sum."""
        ...

    def copy(self, x: Any) -> Any:
        """A tensor that all processes have, for use with their own rows; gradients are summed over all processes."""
        ...

    def all_reduce(self, x: Any) -> Any:
        """Like `add_up` without a record for gradients; `x` may be overwritten."""
        ...


class Alone:
    """One process has all rows."""

    share = Share()

    def total(self, x: np.ndarray) -> np.ndarray:
        return x

    def gather(self, x: np.ndarray) -> list[np.ndarray]:
        return [x]

    def union(self, keys: np.ndarray) -> np.ndarray:
        return keys

    def agree(self, flag: bool) -> bool:
        return flag

    def largest(self, x: float) -> float:
        return x

    def maxima(self, x: np.ndarray) -> np.ndarray:
        return x

    def add_up(self, x: Any) -> Any:
        return x

    def copy(self, x: Any) -> Any:
        return x

    def all_reduce(self, x: Any) -> Any:
        return x


# one for all: torch.compile traces no constructor of it
ALONE = Alone()


class BuiltIn:
    """The join of patterns.py, which sorts columns."""

    def join(self, patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
             conditions: Sequence[Differ], is_grouped: bool, share: Share) -> Joined:
        return join_patterns(take_share(patterns, share), wanted, keep, guard, conditions)

    def close(self) -> None:
        return None


@dataclass(frozen=True)
class Grounding:
    """How the rows of rules are made, and which of them this process has."""

    engine: Engine = field(default_factory=BuiltIn)
    shares: Shares = field(default_factory=Alone)

    def join(self, patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
             conditions: Sequence[Differ] = (), is_grouped: bool = False) -> Joined:
        """The rows of this process: if a pattern is a share of its rows already, all that it has."""
        share = Share() if any(p.is_share for p in patterns) else self.shares.share
        return self.engine.join(patterns, list(wanted), list(keep), guard, conditions, is_grouped, share)


def choose_variable(patterns: Sequence[Pattern], share: Share) -> tuple[str, int, int]:
    """The variable that splits the rows of a join most evenly, by the rows of each pattern alone, and its part.

    The part is the remainder and the number of parts; of a share by ranges, the smallest and the last but one value.

    >>> hub = Pattern(("x", "y"), (np.array([0, 0, 0, 1]), np.array([0, 1, 2, 3])), (4, 4))
    >>> choose_variable([hub], Share(0, 2)), choose_variable([hub], Share(0, 2, by_range=True))
    (('y', 0, 2), ('y', 0, 2))
    """
    best: tuple[float, str, int, int] | None = None
    for name in dict.fromkeys(n for p in patterns for n in p.names):
        size = max(p.size(name) for p in patterns if name in p.names)
        step = -(-size // MAX_BINS) if share.by_range else 1
        n_bins = -(-size // step) if share.by_range else share.size
        load = np.ones(n_bins)
        for p in patterns:
            if name in p.names:
                load *= _count(p.column(name), n_bins, step if share.by_range else None) / max(p.n, 1)
        low, high = share.rank, share.size
        if share.by_range:
            ends = np.cumsum(load)
            cuts = np.searchsorted(ends, ends[-1] * np.arange(1, share.size) / share.size - 1e-12) + 1
            cuts = np.concatenate([[0], cuts.clip(0, n_bins), [n_bins]])
            load = np.add.reduceat(np.append(load, 0.0), cuts[:-1]) * (cuts[1:] > cuts[:-1])
            low, high = int(cuts[share.rank]) * step, int(cuts[share.rank + 1]) * step
        largest = float(np.max(load) / max(float(np.sum(load)), 1e-300))
        if best is None or largest < best[0] - 1e-9:
            best = largest, name, low, high
    assert best is not None
    return best[1:]


def _count(column: np.ndarray, n_bins: int, step: int | None) -> np.ndarray:
    """How many values each bin has, by ranges of `step` values, or by the remainder; in pieces, to save memory."""
    found = np.zeros(n_bins, dtype=np.int64)
    for start in range(0, len(column), PIECE):
        piece = column[start : start + PIECE]
        found += np.bincount(piece % n_bins if step is None else piece // step, minlength=n_bins)
    return found


def take_share(patterns: Sequence[Pattern], share: Share) -> Sequence[Pattern]:
    """The patterns with those rows whose join is the share."""
    if share.size == 1:
        return patterns
    name, low, high = choose_variable(patterns, share)

    def inside(column: np.ndarray) -> np.ndarray:
        return (column >= low) & (column < high) if share.by_range else column % high == low

    return [p.take(np.flatnonzero(inside(p.column(name)))) if name in p.names else p for p in patterns]


def make_engine(name: str, memory: int | None = None, master: str = "local[*]") -> Engine:
    """The engine of this name.

    Args:
        name: "torch" for the built-in join, "duckdb" or "spark".
        memory: bytes that DuckDB may use before it writes to disk; None for most of what the machine has.
        master: where Spark runs.
    """
    if name == "torch":
        return BuiltIn()
    if name == "duckdb":
        from .duckdb import DuckDB

        return DuckDB(memory)
    if name == "spark":
        from .spark import Spark

        return Spark(master)
    raise LogicMPError(f"unknown engine {name!r}", f"available engines: {', '.join(ENGINES)}")
