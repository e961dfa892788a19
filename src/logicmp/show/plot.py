"""A plot of a mean-field run: its lower bound of log Z, and the expected violations of each rule."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LogicMPError
from ..files import write_whole
from ..limits import need

if TYPE_CHECKING:
    from ..inference.method import TraceLine

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
    data = io.BytesIO()
    figure.savefig(data, format=path.suffix[1:].lower(), dpi=150)
    write_whole(path, data.getvalue(), "the plot")


def _short(text: str, width: int = 60) -> str:
    # matplotlib reads '$' as the start of a formula
    text = text.replace("$", r"\$")
    return text if len(text) <= width else text[: width - 3] + "..."
