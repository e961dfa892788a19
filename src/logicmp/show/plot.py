"""Pictures of a run: the bound that mean field climbs, and the violations that are left."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LogicMPError
from ..files import write_whole

if TYPE_CHECKING:
    from ..inference.method import Iteration


# beyond this many rules, only those with the most violations have a line of their own
MAX_LINES = 8
SUFFIXES = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse what cannot be drawn before the work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise LogicMPError(f"cannot draw {path.name!r}", f"the name ends in {', '.join(SUFFIXES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise LogicMPError("--plot needs matplotlib, which is not installed", 'pip install "logicmp[plot]"') from None


def draw_trace(path: Path, iterations: Sequence[Iteration], rules: Sequence[str]) -> None:
    """Two panels over the iterations: the lower bound of log Z, and expected violations by rule."""
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
    write_whole(path, data.getvalue(), "a plot")


def _short(text: str, width: int = 60) -> str:
    # '$' would start a formula of matplotlib's own
    text = text.replace("$", r"\$")
    return text if len(text) <= width else text[: width - 3] + "..."
