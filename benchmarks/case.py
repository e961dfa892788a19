"""What a case is made of.

A case makes tasks, one per setting. A task has sides that are measured in turns, a check that the sides which compute
the same thing agree (in float64), and ratios with the bar that each has to meet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .measure import Side

# relative to the largest value, in float64
TOLERANCE = 1e-9


class Disagreement(Exception):
    """Two sides that should compute the same thing do not: there is nothing to time."""


class Unavailable(Exception):
    """The case needs something that is not there."""


@dataclass(frozen=True)
class Ratio:
    """How one side compares with another: so many times faster, or at most so many times as much."""

    of: str
    beside: str
    at_least: float | None = None
    at_most: float | None = None
    # shown as the side's share of the other, not as a speed-up
    is_share: bool = False

    def value(self, medians: Mapping[str, float]) -> float:
        one, other = medians[self.of], medians[self.beside]
        return one / other if self.is_share else other / one

    def is_met(self, value: float) -> bool | None:
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most

    @property
    def bar(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}x"
        return "" if self.at_most is None else f"<= {self.at_most:g}x"


@dataclass(frozen=True)
class Task:
    """One setting of a case, ready to be measured."""

    setting: str
    sides: Mapping[str, Side]
    # the worst relative difference between sides that should agree
    check: Callable[[], float]
    ratios: tuple[Ratio, ...]
    # what is measured: "time" or "memory"
    measures: str = "time"
    # further things to say, from the medians
    notes: Callable[[Mapping[str, float]], dict[str, str]] = field(default=lambda medians: {})


@dataclass(frozen=True)
class Options:
    """What the command line chose: sizes instead of a case's own, and where the data sets are."""

    n: tuple[int, ...] = ()
    data: Path | None = None

    @property
    def data_folder(self) -> Path:
        chosen = self.data or os.environ.get("LOGICMP_DATA")
        if not chosen:
            raise Unavailable("needs the data sets: give --data, or set LOGICMP_DATA, to the folder with relational/")
        return Path(chosen)


@dataclass(frozen=True)
class Case:
    name: str
    about: str
    # the sizes it runs at unless the command line says otherwise
    n: tuple[int, ...]
    make: Callable[[int, Options], Iterator[Task]]

    def tasks(self, options: Options) -> Iterator[Task]:
        for n in (options.n if options.n and self.n else self.n) or (0,):
            yield from self.make(n, options)
