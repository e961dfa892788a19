"""Settings of the rows, compared on pages of the training set; test pages are not read.

    python -m experiments.documents choose --seeds 3

Every seed has one encoder, trained without the held-out pages, and the settings part from there as the rows do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .results import Result, load_results, title_of, with_spread
from .run import Experiment, run_all

# by row: the setting, and what is tried
GRID: dict[str, tuple[str, tuple[float, ...]]] = {
    "logicmp": ("weight", (0.1, 0.3, 1.0)),
    "slrelax": ("slrelax", (0.03, 0.1, 0.3)),
}


def compare(experiment: Experiment, seeds: Sequence[int]) -> str:
    """Run what has no result yet, and say how each setting does beside Pair of the same seed."""
    held_out = replace(experiment, is_held_out=True)
    run_all(held_out, ["pair"], seeds)
    plain = {result.seed: result for result in _found(held_out, "pair", seeds)}
    lines = ["| row | setting | full | long | full over Pair | long over Pair |", "|---|---|---|---|---|---|",
             _line("pair", "", list(plain.values()), plain)]
    for method, (name, values) in GRID.items():
        for value in values:
            tried = replace(held_out, settings=replace(experiment.settings, **{name: value}), tried=f"{name}={value:g}")
            run_all(tried, [method], seeds)
            lines.append(_line(method, tried.tried, _found(tried, method, seeds), plain))
    return "\n".join(lines) + "\n"


def _found(experiment: Experiment, method: str, seeds: Sequence[int]) -> list[Result]:
    return [r for r in load_results(experiment.results_folder) if r.method == method and r.seed in seeds]


def _line(method: str, setting: str, results: Sequence[Result], plain: dict[int, Result]) -> str:
    full, long = ([getattr(r, name) for r in results] for name in ("full", "long"))
    gains = ["", ""]
    if setting:
        gains = [with_spread([getattr(r, name) - getattr(plain[r.seed], name) for r in results], 2)
                 for name in ("full", "long")]
    return f"| {title_of(method)} | {setting} | {with_spread(full)} | {with_spread(long)} | {gains[0]} | {gains[1]} |"
