"""The paper's Figure 1: a page, its true pairs, the pairs, links and blocks of each method.

    python -m experiments.documents figures --pages 87147607
    python -m experiments.documents scores --out scores.png        the results of all seeds
    python -m experiments.documents page FILE.json --out page.png
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..figures import draw_dots
from ..files import need_matplotlib, write_figure
from ..runs import Result
from .blocks import count_violated, score
from .data import Page
from .features import Item, collate
from .heads import SpadeHead
from .methods import ORDER, Model
from .results import title_of
from .run import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("pair", "logicmp", "spade", "links")
# methods with rules
RULED = ("spade+rules", "links", "links+pairs", "slrelax", "logicmp", "slrelax+logicmp", "logicmp-symmetric",
         "pair+logicmp", "pair+logicmp+threshold", "logicmp+clustering")
# colours that colour-blind readers can tell apart (Okabe and Ito)
COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7")


@dataclass(frozen=True)
class Column:
    """What a method makes of a page: probabilities of pairs, blocks, and the most likely link of each word if any."""

    title: str
    q: np.ndarray
    labels: np.ndarray
    n_violated: int = 0
    links: np.ndarray | None = None


def models_for(experiment: Experiment, seed: int) -> dict[str, Model]:
    """The trained models of the methods in the figure."""
    need_matplotlib()
    return {method: experiment.load(method, seed) for method in SHOWN}


@torch.no_grad()
def column_of(item: Item, method: str, model: Model) -> Column:
    odds, links = model.log_odds(item)[1], None
    if isinstance(model.head, SpadeHead):
        batch = collate([item])
        links = model.head.relation(model.encoder(batch), batch)[0][0].argmax(-1).numpy()
    return Column(title_of(method), torch.sigmoid(odds).numpy(), model.blocks(item), count_violated(odds), links)


def draw_page(item: Item, models: Mapping[str, Model], path: Path) -> Path:
    """Draw the figure of a page and write it as PNG."""
    return write_figure(figure_of(item, [column_of(item, *entry) for entry in models.items()]), path, dpi=100)


def figure_of(item: Item, found: Sequence[Column]) -> Figure:
    """Top: the page and the matrices of pairs. Bottom: the page with the blocks of each method, and its links."""
    from matplotlib.figure import Figure

    page = item.page
    order = _by_block(page)
    columns = [Column("truth", page.truth.astype(float), page.block), *found]
    figure = Figure(figsize=(3.2 * (len(columns) + 1), 7.4), layout="constrained")
    rows = figure.subplots(2, len(columns) + 1, squeeze=False)
    _draw_blocks(rows[0][0], page, None)
    rows[0][0].set_title("page", fontsize=9)
    rows[1][0].axis("off")
    for k, column in enumerate(columns, 1):
        title, below = column.title, "true blocks"
        if k > 1:
            matched = score([(column.labels, page.block)])
            title += f"\n{column.n_violated:,} triples violated"
            below = f"{matched.matched} of {matched.true} blocks match, {matched.predicted} predicted"
        panel = rows[0][k]
        panel.imshow(column.q[np.ix_(order, order)], cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        panel.set_title(title, fontsize=9)
        panel.set_xticks([])
        panel.set_yticks([])
        _draw_blocks(rows[1][k], page, column.labels)
        if column.links is not None:
            _draw_links(rows[1][k], page, column.links)
        rows[1][k].set_title(below, fontsize=9)
    figure.suptitle(f"{page.name}: {len(page)} words; the matrices are ordered by true blocks, lines are links",
                    fontsize=10)
    return figure


def draw_scores(results: Sequence[Result], path: Path) -> Path:
    """Draw full and long of every method, one dot for each seed; write it as PNG."""
    panels = {f"F1 of blocks, {what}, %": {
        title_of(method): found for method in ORDER
        if (found := [r.values[what] for r in results if r.method == method and r.get(what) is not None])}
        for what in ("full", "long")}
    return draw_dots(panels, {title_of(method) for method in RULED},
                     "FUNSD: methods with rules in blue; a dot for each seed, a line at the mean", path)


def _draw_links(panel: Axes, page: Page, links: np.ndarray) -> None:
    """A line from each word to the previous word of its block, if any."""
    centres = (page.boxes[:, :2] + page.boxes[:, 2:]) / 2 * np.array(page.size)
    for word, earlier in enumerate(links.tolist()):
        if earlier != word:
            panel.plot(*zip(centres[earlier], centres[word], strict=True), color="black", linewidth=0.6)


def _by_block(page: Page) -> np.ndarray:
    """The order of words by block, so that true blocks are squares on the diagonal; models do not see this order."""
    return np.argsort(page.block, kind="stable")


def _draw_blocks(panel: Axes, page: Page, labels: np.ndarray | None) -> None:
    """The page, with a colour and a frame for each block."""
    from matplotlib.patches import Rectangle

    width, height = page.size
    if page.image is not None:
        from matplotlib.image import imread

        panel.imshow(imread(str(page.image)), cmap="gray", extent=(0, width, height, 0),
                     alpha=1.0 if labels is None else 0.55)
    else:
        for word, box in zip(page.words, page.boxes, strict=True):
            panel.text(box[0] * width, box[3] * height, word, fontsize=3.5, va="bottom", ha="left", color="#444444",
                       clip_on=True)
    pixels = page.boxes * np.array([width, height, width, height])
    for number, label in enumerate(dict.fromkeys([] if labels is None else labels.tolist())):
        colour = COLOURS[number % len(COLOURS)]
        members = pixels[labels == label]
        for x0, y0, x1, y1 in members:
            panel.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor=colour, alpha=0.3, linewidth=0))
        (x0, y0), (x1, y1) = members[:, :2].min(0), members[:, 2:].max(0)
        panel.add_patch(Rectangle((x0 - 2, y0 - 2), x1 - x0 + 4, y1 - y0 + 4, fill=False, edgecolor=colour,
                                  linewidth=0.8))
    panel.set_xlim(0, width)
    panel.set_ylim(height, 0)
    panel.set_aspect("equal")
    panel.set_xticks([])
    panel.set_yticks([])
