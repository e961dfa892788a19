"""Settings chosen on the other splits only: leave one out.

    python -m experiments.relational choose uw_cse --method logicmp

For a split, every setting of a small grid is tried on the other splits of its data set, and the one with the highest
mean average precision there is taken. The lines printed say what each split would get, its own number not among those
averaged. What was chosen is kept in settings.json.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from logicmp.parse.files import write_whole

from .data import load_split, others, split_names
from .methods import run_method
from .training import Context, average_precision

CHOSEN = Path(__file__).with_name("settings.json")
# what the grids do not vary
FIXED: Mapping[str, Mapping[str, Any]] = {
    "logicmp": {"damping": 0.5},
    "gs": {"dim": 64, "rate": 4e-3},
    "expressgnn": {"dim": 64, "rate": 4e-3},
}
# five iterations of LogicMP, with messages summed or averaged
TEACHERS = ({"reduce": "sum", "scale": 1.0, "bias": -1.5, "damping": 0.5},
            {"reduce": "mean", "scale": 0.3, "bias": -0.5, "damping": 0.0})
GRIDS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "logicmp": {"scale": (0.03, 0.1, 0.3, 1.0, 3.0), "bias": (-3.0, -1.5, -0.5, 0.0), "iterations": (2, 5, 15),
                "reduce": ("sum", "mean")},
    "logicmp+weights": {"iterations": (1, 5), "positive": (1.0, 10.0)},
    "logicmp+gnn": {"teacher": TEACHERS, "free": (True, False)},
}
# methods that learn from the labels of the other splits
LEARN_FROM_OTHERS = ("logicmp+weights",)


def grid(method: str) -> Iterator[dict[str, Any]]:
    axes = GRIDS.get(method, {})
    for values in itertools.product(*axes.values()):
        found = dict(FIXED.get(method, {}))
        for name, value in zip(axes, values, strict=True):
            found |= value if isinstance(value, Mapping) else {name: value}
        yield found


def load_settings(split: str, method: str) -> dict[str, Any]:
    """What was chosen for a split, or what is fixed."""
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    if method == "logicmp+embedding":
        # the same teacher
        return {name: value for name, value in load_settings(split, "logicmp+gnn").items() if name != "free"}
    return dict(stored.get(method, {}).get(split, {}).get("settings", FIXED.get(method, {})))


def choose(data_set: str, method: str, context: Context,
           say: Callable[[str], None] = lambda text: None) -> dict[str, dict[str, Any]]:
    """Try the grid on the splits of a data set; for each split keep what was best on the others.

    A method that learns from the other splits is tried for each split anew, and learns without that one.
    """
    names = split_names(data_set)
    splits = {name: load_split(name, context.data) for name in names}

    @cache
    def value(k: int, name: str, without: str | None) -> float:
        tried = replace(context, settings=settings[k], without=without, curve=[], started=time.monotonic())
        return average_precision(splits[name], run_method(method, splits[name], tried))

    def value_for(k: int, name: str) -> float:
        without = name if method in LEARN_FROM_OTHERS else None
        return statistics.mean(value(k, other, without) for other in others(name))

    settings = list(grid(method))
    found: dict[str, list[float]] = {name: [] for name in names}
    for k, tried in enumerate(settings):
        for name in names:
            found[name].append(value_for(k, name))
        say(f"{tried}: {' '.join(f'{name} {found[name][-1]:.3f}' for name in names)}")
    chosen = {}
    for name in names:
        best = max(range(len(settings)), key=found[name].__getitem__)
        chosen[name] = {"settings": settings[best], "auc_pr_of_others": round(found[name][best], 4)}
    return chosen


def store(method: str, chosen: Mapping[str, Mapping[str, Any]]) -> None:
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    stored.setdefault(method, {}).update(chosen)
    write_whole(CHOSEN, json.dumps(stored, indent=1) + "\n", "settings")
