"""Markdown tables, the same for all experiments."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from .runs import Result


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


def with_layer(results: Sequence[Result], shown: Mapping[str, tuple[str, float, int]]) -> str:
    """A row for each seed, their means, and the gains: every value of the model alone, then with the layer on top.

    Args:
        results: of several seeds; the value of `f1` without the layer is `f1_before`.
        shown: names of values, each with its title, the factor of its unit and its decimals.
    """
    columns = [(name, unit, digits) for what, (_, unit, digits) in shown.items() for name in (f"{what}_before", what)]
    header = ["seed", *(name for title, *_ in shown.values() for name in (title, "with the layer"))]
    rows = [[str(r.seed), *(f"{unit * r.values[name]:,.{digits}f}" for name, unit, digits in columns)] for r in results]
    means = [f"{unit * statistics.mean(r.values[name] for r in results):,.{digits}f}" for name, unit, digits in columns]
    gains = [cell for what, (_, unit, digits) in shown.items() for cell in (
        "", mean((unit * (r.values[what] - r.values[f"{what}_before"]) for r in results), digits))]
    return table(header, [*rows, ["mean", *means], ["gain", *gains]]) + "\n"
