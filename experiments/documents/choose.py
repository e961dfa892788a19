"""Compare settings on held-out pages of the training set; test pages are not used.

    python -m experiments.documents choose --seeds 3

There is one encoder per seed, trained without the held-out pages; all settings start from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..runs import Result, load_results
from ..tables import mean, table
from .results import gain, title_of
from .run import Experiment

# method: the setting, and values to try
GRID: dict[str, tuple[str, tuple[float, ...]]] = {
    "logicmp": ("weight", (0.1, 0.3, 1.0)),
    "slrelax": ("slrelax", (0.03, 0.1, 0.3)),
}


def compare(experiment: Experiment, seeds: Sequence[int]) -> str:
    """Run what has no result yet; return a table of all settings, compared with Pair of the same seed."""
    held_out = replace(experiment, is_held_out=True)
    plain = {result.seed: result for result in _run(held_out, "pair", seeds)}
    rows = [[*_row("pair", "", list(plain.values())), "", ""]]
    for method, (name, values) in GRID.items():
        for value in values:
            tried = replace(held_out, settings=replace(experiment.settings, **{name: value}), tried=f"{name}={value:g}")
            results = _run(tried, method, seeds)
            gains = [gain(results, plain, what) for what in ("full", "long")]
            rows.append([*_row(method, tried.tried, results), *gains])
    return table(["method", "setting", "full, %", "long, %", "full over Pair", "long over Pair"], rows) + "\n"


def _run(experiment: Experiment, method: str, seeds: Sequence[int]) -> list[Result]:
    experiment.run([method], seeds)
    return [r for r in load_results(experiment.results) if experiment.is_own(r) and r.method == method
            and r.seed in seeds]


def _row(method: str, setting: str, results: Sequence[Result]) -> list[str]:
    return [title_of(method), setting, *(mean((r.get(what) for r in results), 1) for what in ("full", "long"))]
