"""A benchmark case, its tasks and its ratios.

A case makes one task per setting. A task has the functions to measure (`sides`: the layer and its baselines), a check
that they compute the same values (in float64), and the ratios to report, each with its target.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .measure import Side

# largest allowed difference, relative to the largest value, in float64
TOLERANCE = 1e-9


class Disagreement(Exception):
    """Two functions that must compute the same values do not, so their times cannot be compared."""


class Unavailable(Exception):
    """The case needs data that is missing."""


@dataclass(frozen=True)
class Ratio:
    """How one function compares with its baseline: a speed-up, or a cost (its share of the baseline's value)."""

    of: str
    baseline: str
    at_least: float | None = None
    at_most: float | None = None
    # a cost instead of a speed-up
    is_share: bool = False

    def value(self, medians: Mapping[str, float]) -> float:
        one, other = medians[self.of], medians[self.baseline]
        return one / other if self.is_share else other / one

    def is_met(self, value: float) -> bool | None:
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}x"
        return "" if self.at_most is None else f"<= {self.at_most:g}x"


@dataclass(frozen=True)
class Task:
    """One setting of a case, ready to measure."""

    setting: str
    sides: Mapping[str, Side]
    # returns the largest relative difference between functions that must agree
    check: Callable[[], float]
    ratios: tuple[Ratio, ...]
    # "time" or "memory"
    measures: str = "time"
    # makes notes for the report from the medians
    notes: Callable[[Mapping[str, float]], dict[str, str]] = field(default=lambda medians: {})


@dataclass(frozen=True)
class Options:
    """Options of the command line: sizes that replace a case's own, and the folder of the data sets."""

    n: tuple[int, ...] = ()
    data: Path | None = None

    @property
    def data_folder(self) -> Path:
        chosen = self.data or os.environ.get("LOGICMP_DATA")
        if not chosen:
            raise Unavailable("needs data sets: pass --data or set LOGICMP_DATA, the folder with relational/")
        return Path(chosen)


@dataclass(frozen=True)
class Case:
    name: str
    about: str
    # default sizes; empty if the case has no size
    n: tuple[int, ...]
    make: Callable[[int, Options], Iterator[Task]]

    def tasks(self, options: Options) -> Iterator[Task]:
        for n in (options.n if options.n and self.n else self.n) or (0,):
            yield from self.make(n, options)
