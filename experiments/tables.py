"""Markdown tables, the same for all experiments."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence


def mean(values: Iterable[float | None], digits: int = 2) -> str:
    """The mean, with the standard deviation if there are several values; "-" without values.

    >>> mean([1.0, 2.0]), mean([1.0, None], 1), mean([None])
    ('1.50 ±0.71', '1.0', '-')
    """
    known = [x for x in values if x is not None]
    if not known:
        return "-"
    spread = f" ±{statistics.stdev(known):,.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):,.{digits}f}{spread}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns, except the first, are right-aligned.

    >>> print(table(["method", "F1"], [["crf", "90.5"]]))
    | method | F1 |
    |---|---:|
    | crf | 90.5 |
    """
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
