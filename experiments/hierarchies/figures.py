"""A figure of the results: AU(PRC) and exact match of each row, by data set.

    python -m experiments.hierarchies figure --out hierarchies.png
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import need_matplotlib, write_figure
from ..runs import Result
from .data import DATA_SETS
from .methods import ORDER, TITLES
from .results import rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# colours that colour-blind readers can tell apart (Okabe and Ito)
COLOURS = ("#bbbbbb", "#888888", "#e69f00", "#56b4e9", "#0072b2", "#009e73")
SHOWN = (("auprc", "AU(PRC)"), ("exact_match", "exact match, %"))


def draw(results: Sequence[Result], path: Path) -> Path:
    """Draw the figure and write it as PNG."""
    need_matplotlib()
    return write_figure(figure_of(results), path)


def figure_of(results: Sequence[Result]) -> Figure:
    """One panel for each data set and measure, one dot for each seed, a line at the mean."""
    from matplotlib.figure import Figure

    names = [name for name in DATA_SETS if any(r.split == name for r in results)]
    figure = Figure(figsize=(2.1 * len(names) + 1.4, 4.4), layout="constrained")
    panels = figure.subplots(len(SHOWN), len(names), squeeze=False)
    for column, name in enumerate(names):
        for (what, title), row in zip(SHOWN, panels, strict=True):
            panel = row[column]
            for k, (method, colour) in enumerate(zip(ORDER, COLOURS, strict=True)):
                values = [r.values[what] for r in rows_of(results, name, method)]
                if values:
                    panel.hlines(statistics.mean(values), k - 0.35, k + 0.35, color=colour, linewidth=3,
                                 label=TITLES[method])
                    panel.plot([k] * len(values), values, "o", color="black", markersize=2.5)
            panel.set_xticks([])
            panel.tick_params(labelsize=7)
            panel.margins(y=0.15)
            if column == 0:
                panel.set_ylabel(title, fontsize=8)
        panels[0][column].set_title(name, fontsize=9)
    lines = {label: handle for row in panels for panel in row
             for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=len(lines), fontsize=7,
                  frameon=False)
    return figure
