"""Where the rows of a join come from: the built-in join, or an engine of SQL; all of them, or one share.

Room: facts, normalize -> **ground** -> plan, execute.

    Grounding()                               the built-in join, all rows
    Grounding(make_engine("duckdb", 2e9))     the same rows from DuckDB, within 2 GB
    Grounding(BuiltIn(), shares)              of each join the rows with x % 2 = rank; the other process has the others
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


@dataclass(frozen=True)
class Share:
    """The rows of one process: those where a variable modulo `size` is `rank`."""

    rank: int = 0
    size: int = 1


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

    def union(self, keys: np.ndarray) -> np.ndarray:
        """The distinct numbers of all processes, sorted."""
        ...

    def agree(self, flag: bool) -> bool:
        """Whether the flag is set in at least one process."""
        ...

    def largest(self, x: float) -> float:
        """The largest number of all processes."""
        ...

    def add_up(self, x: Any) -> Any:
        """A tensor summed over all processes; its gradient is that of the sum."""
        ...

    def copy(self, x: Any) -> Any:
        """A tensor that all processes have, for use with their own rows; gradients are summed over all processes."""
        ...


class Alone:
    """One process has all rows."""

    share = Share()

    def total(self, x: np.ndarray) -> np.ndarray:
        return x

    def union(self, keys: np.ndarray) -> np.ndarray:
        return keys

    def agree(self, flag: bool) -> bool:
        return flag

    def largest(self, x: float) -> float:
        return x

    def add_up(self, x: Any) -> Any:
        return x

    def copy(self, x: Any) -> Any:
        return x


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
        """The rows of this process."""
        return self.engine.join(patterns, list(wanted), list(keep), guard, conditions, is_grouped, self.shares.share)


def choose_variable(patterns: Sequence[Pattern], share: Share) -> str:
    """The variable that splits the rows of a join most evenly, by the rows of each pattern alone.

    >>> hub = Pattern(("x", "y"), (np.array([0, 0, 0, 1]), np.array([0, 1, 2, 3])), (4, 4))
    >>> choose_variable([hub], Share(0, 2))
    'y'
    """
    best: tuple[float, str] | None = None
    for name in dict.fromkeys(n for p in patterns for n in p.names):
        load: np.ndarray | float = 1.0
        for p in patterns:
            if name in p.names:
                own = np.bincount(p.column(name) % share.size, minlength=share.size)
                load = load * (own / max(p.n, 1))
        largest = float(np.max(load) / max(float(np.sum(load)), 1e-300))
        if best is None or largest < best[0] - 1e-9:
            best = largest, name
    assert best is not None
    return best[1]


def take_share(patterns: Sequence[Pattern], share: Share) -> Sequence[Pattern]:
    """The patterns with those rows whose join is the share."""
    if share.size == 1:
        return patterns
    name = choose_variable(patterns, share)
    return [p.take(np.flatnonzero(p.column(name) % share.size == share.rank)) if name in p.names else p
            for p in patterns]


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
