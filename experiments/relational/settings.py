"""Settings chosen on the other splits only: leave one out.

    python -m experiments.relational choose uw_cse --method logicmp

For a split, every setting of a small grid is tried on the other splits of its data set, and the one with the highest
mean average precision there is taken. What was chosen, and what it was chosen from, is kept in settings.json.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from logicmp.parse.files import write_whole

from .data import load_split, others, split_names
from .methods import Context, average_precision, run_method

CHOSEN = Path(__file__).with_name("settings.json")
# fixed for each data set and method before any number was seen: what grid() varies comes on top
FIXED: Mapping[str, Mapping[str, Any]] = {
    "logicmp": {"damping": 0.5},
    "logicmp+weights": {"steps": 100},
}
GRIDS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "logicmp": {"scale": (0.1, 0.3, 1.0), "bias": (-3.0, -1.0, 0.0), "iterations": (5, 15), "reduce": ("sum", "mean")},
}


def grid(method: str) -> Iterator[dict[str, Any]]:
    axes = GRIDS.get(method, {})
    for values in itertools.product(*axes.values()):
        yield {**FIXED.get(method, {}), **dict(zip(axes, values, strict=True))}


def load_settings(split: str, method: str) -> dict[str, Any]:
    """What was chosen for a split, or what is fixed."""
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    return dict(stored.get(method, {}).get(split, {}).get("settings", FIXED.get(method, {})))


def choose(data_set: str, method: str, context: Context,
           say: Callable[[str], None] = lambda text: None) -> dict[str, dict[str, Any]]:
    """Try the grid on every split of a data set; for each split keep what was best on the others."""
    names = split_names(data_set)
    splits = {name: load_split(name, context.data) for name in names}
    tried: list[tuple[dict[str, Any], dict[str, float]]] = []
    for settings in grid(method):
        found = {name: average_precision(split, run_method(method, split, replace(context, settings=settings)))
                 for name, split in splits.items()}
        tried.append((settings, found))
        say(f"{settings}: {' '.join(f'{name} {value:.3f}' for name, value in found.items())}")
    chosen = {}
    for name in names:
        def value(entry: tuple[dict[str, Any], dict[str, float]], name: str = name) -> float:
            return statistics.mean(entry[1][other] for other in others(name))

        best = max(tried, key=value)
        chosen[name] = {"settings": best[0], "auc_pr_of_others": round(value(best), 4)}
    return chosen


def store(method: str, chosen: Mapping[str, Mapping[str, Any]]) -> None:
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    stored.setdefault(method, {}).update(chosen)
    write_whole(CHOSEN, json.dumps(stored, indent=1) + "\n", "settings")
