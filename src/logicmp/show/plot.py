"""Plots: a mean-field run (its lower bound of log Z, the violations of each rule), and methods beside each other."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LogicMPError
from ..files import write_whole
from ..limits import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..inference.method import TraceLine
    from .compare import Row

# with more rules, those with fewer violations share one line
MAX_LINES = 8
SUFFIXES = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Raise before a long run if its plot cannot be drawn."""
    if path.suffix.lower() not in SUFFIXES:
        raise LogicMPError(f"a plot must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {path.name!r}",
                           f"for example --plot {path.stem}.png")
    need("matplotlib", "plot", "--plot")


def draw_trace(path: Path, iterations: Sequence[TraceLine], rules: Sequence[str]) -> None:
    """Write a plot with two panels: the lower bound of log Z, and the expected violations of each rule."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    numbers = [i.number for i in iterations]
    above.plot(numbers, [i.elbo for i in iterations], marker=".", color="tab:blue")
    above.set_ylabel("lower bound of log Z")
    above.grid(alpha=0.3)
    order = sorted(range(len(rules)), key=lambda f: -max(i.violations[f] for i in iterations))
    for f in order[:MAX_LINES]:
        below.plot(numbers, [i.violations[f] for i in iterations], marker=".", label=_short(rules[f]))
    if len(order) > MAX_LINES:
        rest = [sum(i.violations[f] for f in order[MAX_LINES:]) for i in iterations]
        below.plot(numbers, rest, marker=".", color="gray", label=f"the other {len(order) - MAX_LINES} rules together")
    below.set_ylabel("expected violations")
    below.set_xlabel("iteration")
    below.grid(alpha=0.3)
    if order:
        below.legend(fontsize=8)
    _save(figure, path)


def draw_comparison(path: Path, rows: Sequence[Row]) -> None:
    """Write a plot with two panels: the answers of each method against those of the first, and seconds and memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    first = rows[0].answers or {}
    left.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
    for row in rows[1:]:
        both = [atom for atom in row.answers or {} if atom in first]
        if row.answers is not None and both:
            left.plot([first[atom] for atom in both], [row.answers[atom] for atom in both], ".", alpha=0.6,
                      label=row.method)
    left.set_xlabel(f"probability by {rows[0].method}")
    left.set_ylabel("probability by the others")
    left.set_aspect("equal")
    if any(row.answers for row in rows[1:]):
        left.legend(fontsize=8)
    right.barh([row.method for row in rows], [row.seconds for row in rows],
               color=["tab:blue" if row.answers is not None else "lightgray" for row in rows])
    right.invert_yaxis()
    right.set_xlabel("seconds, start and reading included (gray: no answers)")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    data = io.BytesIO()
    figure.savefig(data, format=path.suffix[1:].lower(), dpi=150)
    write_whole(path, data.getvalue(), "the plot")


def _short(text: str, width: int = 60) -> str:
    # matplotlib reads '$' as the start of a formula
    text = text.replace("$", r"\$")
    return text if len(text) <= width else text[: width - 3] + "..."
