"""Compare settings on held-out pages of the training set; test pages are not used.

    python -m experiments.documents choose --seeds 3

There is one encoder per seed, trained without the held-out pages; all settings of methods start from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logicmp import LogicMP

from ..runs import Result, load_results
from ..tables import mean, table
from .blocks import LONG, RULE, cluster_blocks, count_violated, read_blocks, score
from .methods import SYMMETRIC
from .results import gain, title_of
from .run import Experiment

# methods, each with settings to try
GRID: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("logicmp", {"weight": 0.3, "late": 0.0}),
    ("logicmp", {"weight": 1.0, "late": 0.7}),
    ("logicmp", {"schedule": "adaptive", "weight": 1.0, "late": 0.7}),
    ("spade", {}),
    *(("links", {"pairs": share}) for share in (0.0, 0.1, 1.0)),
    ("links+pairs", {"pairs": 0.1}),
)
# settings of the encoder, or of all rows alike, each with all of BUDGET_ROWS
BUDGETS: Sequence[Mapping[str, Any]] = (
    {}, *({"average": 0.0, **more} for more in ({}, {"epochs": 100}, {"hidden": 0.3}, {"dropout": 0.2},
                                              {"row_epochs": 30})), {"epochs": 100})
BUDGET_ROWS = ("pair", "logicmp", "spade", "links")
# log-odds above which a pair is likely
THRESHOLDS = (-1.0, 0.0, 1.0)
WEIGHTS = (0.03, 0.1, 0.3, 1.0)
MEASURES = ("full", "long", "pairs", "rand")


def compare(experiment: Experiment, seeds: Sequence[int]) -> str:
    """Run what has no result yet; return a table of all settings, compared with Pair of the same seed and encoder."""
    held_out = replace(experiment, is_held_out=True)
    plain = {result.seed: result for result in _run(held_out, "pair", seeds)}
    rows = [[*_row("pair", "", list(plain.values())), "", ""]]
    for method, settings in GRID:
        tried = _with(held_out, settings)
        results = _run(tried, method, seeds)
        rows.append([*_row(method, tried.tried, results), *(gain(results, plain, what) for what in ("full", "long"))])
    return table(["method", "setting", "full, %", "long, %", "pairs, %", "Rand index, %", "full over Pair",
                  "long over Pair"], rows) + "\n"


def budgets(experiment: Experiment, seeds: Sequence[int]) -> str:
    """Train some rows with other budgets and regularization, all alike; return a table."""
    held_out, rows = replace(experiment, is_held_out=True), []
    for settings in BUDGETS:
        tried = _with(held_out, settings)
        rows += [_row(method, tried.tried, _run(tried, method, seeds)) for method in BUDGET_ROWS]
    return table(["method", "setting of all rows", "full, %", "long, %", "pairs, %", "Rand index, %"], rows) + "\n"


def _with(experiment: Experiment, settings: Mapping[str, Any]) -> Experiment:
    """The experiment with other settings, under a variant of its own."""
    return replace(experiment, settings=replace(experiment.settings, **settings),
                   tried=" ".join(f"{name}={value}" for name, value in settings.items()),
                   is_new_encoder=bool(set(settings) & set(experiment.settings.of_encoder())))


@torch.no_grad()
def strengths(experiment: Experiment, seeds: Sequence[int]) -> str:
    """A table of rules of several strengths on trained Pair models, not trained themselves, with several thresholds."""
    held_out, rows = replace(experiment, is_held_out=True), []
    plain = {seed: [held_out.load("pair", seed).log_odds(item)[0] for item in held_out.test_items] for seed in seeds}
    triples = sum(len(item.page) ** 3 for item in held_out.test_items)
    for name, layer in _layers():
        above = {seed: [layer(odds) for odds in pages] for seed, pages in plain.items()}
        reads: list[Callable[[Tensor], np.ndarray]] = [partial(read_blocks, threshold=t) for t in THRESHOLDS]
        cells = []
        for read in (*reads, cluster_blocks):
            found = [[(read(odds), item.page.block) for odds, item in zip(pages, held_out.test_items, strict=True)]
                     for pages in above.values()]
            cells.append(" and ".join(f"{np.mean([score(pages, n).f1 for pages in found]):.1f}" for n in (1, LONG)))
        violated = np.mean([sum(map(count_violated, pages)) / triples for pages in above.values()])
        rows.append([name, *cells, f"{1e6 * violated:,.0f}"])
    return table(["rule on Pair, untrained; full and long, %", *(f"above {t:g}" for t in THRESHOLDS), "best clustering",
                  "violated, ppm"], rows) + "\n"


def _layers() -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    yield "none", torch.Tensor.clone
    for name, rule in (("", RULE), (", symmetric", SYMMETRIC)):
        yield f"adaptive{name}", LogicMP(rule, schedule="adaptive")
        for weight in WEIGHTS:
            yield f"weight {weight:g}{name}", LogicMP(rule.replace(RULE, f"{weight} {RULE}"), schedule="paper")


def _run(experiment: Experiment, method: str, seeds: Sequence[int]) -> list[Result]:
    experiment.run([method], seeds)
    return [r for r in load_results(experiment.results) if experiment.is_own(r) and r.method == method
            and r.seed in seeds]


def _row(method: str, setting: str, results: Sequence[Result]) -> list[str]:
    return [title_of(method), setting, *(mean((r.get(what) for r in results), 1) for what in MEASURES)]
