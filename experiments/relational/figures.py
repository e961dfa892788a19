"""Figures: AUC-PR by split, iterations and minutes, the speed ablation, and Smoke.

    python -m experiments.relational figures --data FOLDER

splits.png and minutes.png show the stored results. The other figures are computed here; the ablation takes minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks.ablation import VARIANTS, Variant, measure
from logicmp.execute.mean_field import Iteration
from logicmp.execute.worlds import world_tensors
from logicmp.inference.method import Problem
from logicmp.show.progress import shown_progress

from ..files import make_folder, need_matplotlib, write_figure
from ..runs import Result
from .data import SPLITS, Split, load_split, split_names
from .inference import layer_for
from .results import DATASETS, PAPER
from .settings import load_settings
from .training import Context, average_precision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# colours that colour-blind readers can tell apart (Okabe and Ito)
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00",
                                                "#cc79a7")
STYLES: Mapping[str, tuple[str, str]] = {
    "logicmp": (BLACK, "*"), "logicmp+lessons": (BLACK, "d"), "logicmp+weights": (RED, "o"),
    "logicmp+embedding": (SKY, "o"), "logicmp+gnn": (BLUE, "o"), "weights+embedding": (SKY, "p"),
    "weights+gnn": (BLUE, "p"), "gs": (GREEN, "o"), "expressgnn": (ORANGE, "o"),
    "gibbs": (PURPLE, "s"), "mc-sat": (PURPLE, "^"), "bp": (ORANGE, "D"), "lifted-bp": (SKY, "v"),
    "hl-mrf": (GREEN, "P"),
}
SPLIT_COLOURS = (ORANGE, SKY, GREEN, BLUE, RED)
TITLES = {"kinship": "Kinship", "uw_cse": "UW-CSE", "cora": "Cora"}
IMPROVEMENTS = ("optimized\ncontraction", "parallel\neinsum", "RuleOut")
MAX_ITERATIONS = 10
# minutes at the left end of the axis; shorter runs are drawn there
SHORTEST = 1 / 600


def draw_all(results: Sequence[Result], out: Path, data: str | None) -> Iterator[Path]:
    """Draw all figures into a folder and yield their paths; the figures that need no data come first."""
    need_matplotlib()
    make_folder(out)
    yield write_figure(draw_splits(results), out / "splits.png")
    yield write_figure(draw_minutes(results), out / "minutes.png")
    yield write_figure(draw_smoke(load_split("smoke/all", data)), out / "smoke.png")
    found = {}
    with shown_progress() as progress:
        names = [name for dataset in DATASETS for name in split_names(dataset)]
        for k, name in enumerate(names):
            found[name] = by_iteration(load_split(name, data), load_settings(name, "logicmp"))
            progress("iterations", k + 1, len(names))
    yield write_figure(draw_iterations(found), out / "iterations.png")
    seconds = measure_speed(load_split("uw_cse/language", data))
    yield write_figure(draw_speed("UW-CSE/language", seconds), out / "speed.png")


def _panels(n: int, width: float, height: float) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, n, squeeze=False)[0]


# AUC-PR by iterations

def by_iteration(split: Split, settings: Mapping[str, object], iterations: int = MAX_ITERATIONS) -> list[float]:
    """The average precision of `run_logicmp` after 1, 2, ... iterations."""
    context = Context(settings=settings)
    found: list[float] = []

    def watch(step: Iteration) -> None:
        if step.number:
            # [1, ...]: the layer's batch
            found.append(average_precision(split, split.pick({name: x[0] for name, x in step.logits.items()})))

    unary, evidence = world_tensors(split.world, torch.float32)
    with torch.no_grad():
        layer_for(split.world, context, iterations).run(
            {name: x + context.get("bias", -1.5) for name, x in unary.items()}, evidence, watch=watch)
    return found


def draw_iterations(found: Mapping[str, Sequence[float]]) -> Figure:
    """A panel for each data set: a thin line for each split, and their mean."""
    figure, panels = _panels(len(DATASETS), 12, 4.2)
    for panel, dataset in zip(panels, DATASETS, strict=True):
        lines = {name: found[name] for name in split_names(dataset) if name in found}
        panel.set_title(TITLES[dataset])
        if not lines:
            _write(panel, "nothing computed")
            continue
        for (name, values), colour in zip(lines.items(), SPLIT_COLOURS, strict=False):
            panel.plot(range(1, len(values) + 1), values, color=colour, linewidth=1, label=name.split("/")[1])
        mean = np.mean(list(lines.values()), axis=0)
        panel.plot(range(1, len(mean) + 1), mean, color=BLACK, linewidth=2.5, marker="o", markersize=4, label="mean")
        panel.set_xticks(range(1, len(mean) + 1))
        panel.set_xlabel("iterations T")
        panel.grid(alpha=0.3)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=8, frameon=False)
    panels[0].set_ylabel("AUC-PR")
    figure.suptitle("Inference without training; settings chosen on the other splits", fontsize=11)
    return figure


# AUC-PR by minutes

def mean_curve(curves: Sequence[Sequence[tuple[float, float]]],
               weights: Sequence[float] | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, weighted mean and standard deviation of step functions.

    Times start when all curves have begun, and are those at which a curve changes.

    >>> times, mean, spread = mean_curve([[(1, 0.2), (3, 0.4)], [(2, 0.6)]])
    >>> times.tolist(), mean.round(3).tolist(), spread.round(3).tolist()
    ([2.0, 3.0], [0.4, 0.5], [0.2, 0.1])
    """
    points = [np.array(sorted(map(tuple, curve)), dtype=float) for curve in curves]
    begin = max(curve[0, 0] for curve in points)
    times = np.unique(np.concatenate([curve[:, 0] for curve in points]))
    times = times[times >= begin]
    # [curves, times]
    values = np.stack([curve[np.searchsorted(curve[:, 0], times, "right") - 1, 1] for curve in points])
    mean = np.average(values, axis=0, weights=weights)
    return times, mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


def _equal_shares(results: Sequence[Result]) -> list[float]:
    """Weights that give every split the same share, however many seeds it has."""
    splits = [r.split for r in results]
    return [1 / splits.count(split) for split in splits]


def draw_minutes(results: Sequence[Result]) -> Figure:
    """A panel for each data set: learning curves, and a marker for each method without a curve; no variants."""
    figure, panels = _panels(len(DATASETS), 13, 4.8)
    handles = {}
    for panel, dataset in zip(panels, DATASETS, strict=True):
        here = [r for r in results if r.dataset == dataset and not r.variant]
        panel.set_title(TITLES[dataset])
        if not here:
            _write(panel, "no results stored")
            continue
        paper = statistics.mean(v for v in PAPER["ExpressGNN w/ LogicMP"][dataset] if v is not None)
        handles["paper: ExpressGNN w/ LogicMP"] = panel.axhline(paper, color="#666666", linestyle="--", linewidth=1.2)
        notes = []
        for method in sorted({r.method for r in here}, key=_place):
            runs = [r for r in here if r.method == method]
            known = [r for r in runs if r.get("auc_pr") is not None]
            if not known:
                notes.append(f"{method}: {', '.join(sorted({r.status for r in runs}))}")
                continue
            n_splits = len({r.split for r in known})
            if n_splits < len(SPLITS[dataset]):
                notes.append(f"{method}: {n_splits} of {len(SPLITS[dataset])} splits")
            handles[method] = _draw_method(panel, method, known)
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, position: f"{value:g}")
        panel.xaxis.set_minor_formatter(lambda value, position: "")
        panel.set_xlabel("\n".join(["minutes", *notes]), fontsize=9)
        panel.set_ylim(0, 1.03)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("AUC-PR, mean over splits and seeds")
    if handles:
        order = sorted(handles, key=_place)
        figure.legend([handles[name] for name in order], order, loc="outside lower center", ncols=6, fontsize=8,
                      title="band: standard deviation over splits and seeds; open marker: stopped at the time limit",
                      title_fontsize=8, frameon=False)
    return figure


def draw_splits(results: Sequence[Result]) -> Figure:
    """A panel for each data set: the mean over seeds of each LogicMP method and split, and the paper's as bars."""
    figure, panels = _panels(len(DATASETS), 13, 4)
    methods = [method for method in STYLES if method.startswith(("logicmp", "weights"))
               and any(r.method == method for r in results)]
    for panel, dataset in zip(panels, DATASETS, strict=True):
        for method, paper in PAPER.items():
            if "LogicMP" in method:
                panel.bar(SPLITS[dataset], [v or 0 for v in paper[dataset]], color="#dddddd", label=f"paper: {method}")
        for k, method in enumerate(methods):
            found = [(x + (k - len(methods) / 2 + 0.5) / 10, statistics.mean(values), statistics.pstdev(values))
                     for x, split in enumerate(SPLITS[dataset])
                     if (values := [r.get("auc_pr") for r in results
                                    if (r.dataset, r.split, r.method, r.variant) == (dataset, split, method, "")])]
            colour, shape = STYLES[method]
            panel.errorbar(*zip(*found, strict=True) if found else ((), ()), color=colour, marker=shape,
                           linestyle="none", label=method)
        panel.set_title(TITLES[dataset])
        panel.set_ylim(0, 1.03)
    panels[0].set_ylabel("AUC-PR, mean and standard deviation of seeds")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=8, fontsize=8,
                  frameon=False)
    return figure


def _place(method: str) -> int:
    return list(STYLES).index(method) if method in STYLES else len(STYLES)


def _draw_method(panel: Axes, method: str, runs: Sequence[Result]) -> object:
    """The curve of one method, ending in its marker, or the marker alone."""
    colour, shape = STYLES.get(method, ("#666666", "h"))
    shares = _equal_shares(runs)
    minutes = float(np.average([r.seconds for r in runs], weights=shares)) / 60
    value = float(np.average([r.get("auc_pr") for r in runs], weights=shares))
    line = "none"
    if all(r.get("curve") for r in runs):
        times, mean, spread = mean_curve([r.get("curve") for r in runs], shares)
        times = np.maximum(times / 60, SHORTEST)
        panel.plot(times, mean, color=colour, drawstyle="steps-post", linewidth=1.8)
        panel.fill_between(times, np.clip(mean - spread, 0, 1), np.clip(mean + spread, 0, 1), step="post",
                           color=colour, alpha=0.13, linewidth=0)
        # the longest run has ended
        minutes, value, line = times[-1], mean[-1], "-"
    is_cut = any(r.status == "> cap" for r in runs)
    size = 13 if shape == "*" else 7
    panel.plot([max(minutes, SHORTEST)], [value], color=colour, marker=shape, markersize=size, linestyle="none",
               markerfacecolor="white" if is_cut else colour, zorder=3)
    # filled in the legend: only panels tell which runs were stopped
    (handle,) = panel.plot([], [], color=colour, marker=shape, markersize=size, linestyle=line)
    return handle


def _write(panel: Axes, text: str) -> None:
    panel.text(0.5, 0.5, text, transform=panel.transAxes, ha="center", va="center", color="#666666")
    panel.set_xticks([])
    panel.set_yticks([])


# the speed ablation

def measure_speed(split: Split) -> dict[Variant, float]:
    """Seconds of one update for each variant of the ablation; their outputs must agree."""
    found = {}
    with shown_progress() as progress:
        for k, variant in enumerate(VARIANTS):
            found[variant] = measure(Problem(split.world), variant)
            progress("speed ablation", k + 1, len(VARIANTS))
    return found


def draw_speed(title: str, seconds: Mapping[Variant, float]) -> Figure:
    """A bar for each variant, and the improvements it has."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.9 + 0.45 * len(seconds)), layout="constrained")
    bars, marks = figure.subplots(1, 2, width_ratios=(3, 1.3), sharey=True)
    places = range(len(seconds))
    drawn = bars.barh(places, list(seconds.values()), color=[BLUE if all(v.improvements) else SKY for v in seconds],
                      height=0.65)
    fastest = min(seconds.values())
    bars.bar_label(drawn, [f"{s:.2g} s  ({s / fastest:.0f}x)" for s in seconds.values()], padding=4, fontsize=9)
    bars.set_xscale("log")
    bars.set_xlim(fastest / 3, max(seconds.values()) * 12)
    bars.set_yticks(places, [variant.name for variant in seconds], fontsize=9)
    bars.invert_yaxis()
    bars.set_xlabel("seconds per mean-field update (log scale)")
    bars.set_title(f"{title}, {torch.get_num_threads()} thread{'s' * (torch.get_num_threads() > 1)}", fontsize=11)
    bars.grid(axis="x", alpha=0.3)
    bars.set_axisbelow(True)
    for row, variant in enumerate(seconds):
        for column, has in enumerate(variant.improvements):
            marks.plot(column, row, marker="o", markersize=9, color=BLACK, markerfacecolor=BLACK if has else "white")
    marks.set_xticks(range(len(IMPROVEMENTS)), IMPROVEMENTS, fontsize=8)
    marks.xaxis.tick_top()
    marks.set_xlim(-0.6, len(IMPROVEMENTS) - 0.4)
    marks.set_xlabel("filled: with, open: without", fontsize=8)
    marks.tick_params(length=0, labelleft=False)
    marks.spines[:].set_visible(False)
    return figure


# Smoke

def draw_smoke(split: Split) -> Figure:
    """The evidence, and the probabilities of mean field; queries have a dot, red if true."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    unary, evidence = world_tensors(split.world, torch.float32)
    with torch.no_grad():
        odds = layer_for(split.world, Context(settings={"scale": 1.0}), 15).run(unary, evidence)
    constants = split.theory.type["person"].constants
    order = np.argsort(constants)
    labels = [constants[k] for k in order]
    # one grid for all predicates, a row for each constant, with an empty column between predicates
    columns: dict[str, list[int]] = {}
    for predicate in sorted(split.theory.predicates, key=lambda predicate: -len(predicate.types)):
        begin = max((places[-1] + 2 for places in columns.values()), default=0)
        columns[predicate.name] = list(range(begin, begin + (len(labels) if len(predicate.types) == 2 else 1)))
    observed, predicted, queried = (np.full((len(labels), max(max(columns.values())) + 1), np.nan) for _ in range(3))
    for name, places in columns.items():
        values = split.world.values[name]
        # a predicate without unobserved atoms has no output
        q = torch.sigmoid(odds[name]).numpy() if name in odds else values
        truth = np.full(values.shape, np.nan)
        if name in split.queries:
            truth[tuple(place.numpy() for place in split.queries[name].places)] = split.queries[name].truth
        for grid, part in ((observed, values), (predicted, q), (queried, truth)):
            grid[:, places] = part[np.ix_(order, order)] if part.ndim == 2 else part[order, None]

    colours = {"unobserved": "#d9d9d9", "observed false": "#440154", "observed true": "#fde725"}
    dots = {"query, true": {"markersize": 6, "markerfacecolor": RED, "markeredgecolor": "white"},
            "query, false": {"markersize": 3, "markerfacecolor": "white", "markeredgecolor": "white"}}
    figure = Figure(figsize=(12.5, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.imshow(observed, cmap=ListedColormap(list(colours.values())), vmin=-1, vmax=1)
    shown = right.imshow(predicted, cmap="viridis", vmin=0, vmax=1)
    for truth, style in zip((1, 0), dots.values(), strict=True):
        rows, places = np.nonzero(queried == truth)
        right.plot(places, rows, marker="o", linestyle="none", **style)
    for panel, title in ((left, "evidence"), (right, "mean field")):
        panel.set_title(title, fontsize=10)
        ticks = {place: label for name, places in columns.items()
                 for place, label in zip(places, labels if len(places) > 1 else [f"{name}(x)"], strict=True)}
        panel.set_xticks(list(ticks), list(ticks.values()), fontsize=8)
        panel.set_yticks(range(len(labels)), labels, fontsize=8)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        panel.set_ylabel("x")
        panel.set_xlabel(", ".join(f"y of {name}(x, y)" for name, places in columns.items() if len(places) > 1))
    figure.colorbar(shown, ax=right, pad=0.02, shrink=0.8).set_label("predicted probability")
    handles = [Patch(color=colour) for colour in colours.values()]
    handles += [Line2D([], [], marker="o", linestyle="none", **{**style, "markeredgecolor": "#666666"})
                for style in dots.values()]
    figure.legend(handles, [*colours, *dots], loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    auc = average_precision(split, split.pick(odds))
    figure.suptitle(f"Smoke: AUC-PR {auc:.3f}, all weights 1, no training", fontsize=12)
    return figure
