"""Compare settings on held-out pages of the training set; test pages are not used.

    python -m experiments.documents choose --seeds 3

There is one encoder per seed, trained without the held-out pages; all settings of methods start from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..runs import Result, load_results
from ..tables import mean, table
from .blocks import LONG, read_blocks, score
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
THRESHOLDS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
MEASURES = ("full", "long", "pairs", "rand")


def compare(experiment: Experiment, seeds: Sequence[int]) -> str:
    """Run what has no result yet; return a table of all settings, compared with Pair of the same seed and encoder."""
    held_out = replace(experiment, is_held_out=True)
    plain = {result.seed: result for result in _run(held_out, "pair", seeds)}
    rows = [[*_row("pair", "", list(plain.values())), "", ""]]
    for method, settings in GRID:
        tried = replace(held_out, settings=replace(experiment.settings, **settings),
                        tried=" ".join(f"{name}={value}" for name, value in settings.items()),
                        is_new_encoder=bool(set(settings) & set(experiment.settings.of_encoder())))
        results = _run(tried, method, seeds)
        rows.append([*_row(method, tried.tried, results), *(gain(results, plain, what) for what in ("full", "long"))])
    return table(["method", "setting", "full, %", "long, %", "pairs, %", "Rand index, %", "full over Pair",
                  "long over Pair"], rows) + "\n"


def thresholds(experiment: Experiment, method: str, seeds: Sequence[int]) -> str:
    """A table of thresholds for likely pairs, on held-out pages; the models must be trained."""
    held_out, rows = replace(experiment, is_held_out=True), []
    read = {seed: [(held_out.load(method, seed).log_odds(item)[1], item.page.block) for item in held_out.test_items]
            for seed in seeds}
    for threshold in THRESHOLDS:
        found = [[(read_blocks(odds, threshold), block) for odds, block in pages] for pages in read.values()]
        rows.append([title_of(method), f"{threshold:g}", *(
            mean((score(pages, least).f1 for pages in found), 1) for least in (1, LONG))])
    return table(["method", "threshold", "full, %", "long, %"], rows) + "\n"


def _run(experiment: Experiment, method: str, seeds: Sequence[int]) -> list[Result]:
    experiment.run([method], seeds)
    return [r for r in load_results(experiment.results) if experiment.is_own(r) and r.method == method
            and r.seed in seeds]


def _row(method: str, setting: str, results: Sequence[Result]) -> list[str]:
    return [title_of(method), setting, *(mean((r.get(what) for r in results), 1) for what in MEASURES)]
