"""Figures of results, the same for all experiments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from .files import need_matplotlib, write_figure

# colours that colour-blind readers can tell apart (Okabe and Ito)
RULES, PLAIN = "#0072b2", "#e69f00"


def draw_dots(panels: Mapping[str, Mapping[str, Sequence[float]]], ruled: Collection[str], title: str,
              path: Path) -> Path:
    """Draw the values of every method, one dot for each seed and a line at the mean; write it as PNG.

    Args:
        panels: by the name of a measure, and by the title of a method, the values of its seeds. Methods are drawn from
            top to bottom, in the order in which they come first.
        ruled: methods with rules.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(name for values in panels.values() for name in values))[::-1]
    figure = Figure(figsize=(8, 0.32 * len(methods) + 0.9), layout="constrained")
    for panel, (what, values) in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(),
                                     strict=True):
        for k, method in enumerate(methods):
            if method in values:
                panel.vlines(np.mean(values[method]), k - 0.35, k + 0.35, linewidth=3,
                             color=RULES if method in ruled else PLAIN)
                panel.plot(values[method], [k] * len(values[method]), "o", color="black", markersize=2.5)
        panel.set_yticks(range(len(methods)), methods, fontsize=8)
        panel.set_xlabel(what, fontsize=8)
        panel.tick_params(labelsize=8)
        # so that numbers with two decimals do not touch
        panel.locator_params(axis="x", nbins=5)
        panel.grid(axis="x", alpha=0.3)
    figure.suptitle(title, fontsize=9)
    return write_figure(figure, path)
