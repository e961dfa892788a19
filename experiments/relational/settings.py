"""Settings chosen on the other splits only: leave one out.

    python -m experiments.relational choose uw_cse --method logicmp

For a split, every setting of a small grid is tried on the other splits of its data set, and the one with the highest
mean average precision there is taken; the first of those equal. Where training is long the grid has rounds: each varies
a few settings and goes on from the best so far. The lines printed give what each split found on the others, its own
number not among those averaged. What was chosen is kept in settings.json.
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

Settings = tuple[tuple[str, Any], ...]

CHOSEN = Path(__file__).with_name("settings.json")
# what the grids do not vary
FIXED: Mapping[str, Mapping[str, Any]] = {
    "logicmp": {"damping": 0.5},
    "logicmp+gnn": {"bias": -1.5, "damping": 0.5},
    "gs": {"dim": 64, "rate": 4e-3},
    "expressgnn": {"dim": 64, "rate": 4e-3},
}
# rounds of axes; within a round every combination is tried
Rounds = tuple[Mapping[str, tuple[Any, ...]], ...]
GRIDS: Mapping[str, Rounds] = {
    "logicmp": ({"scale": (0.03, 0.1, 0.3, 1.0, 3.0), "bias": (-3.0, -1.5, -0.5, 0.0), "iterations": (2, 5, 15),
                 "reduce": ("sum", "mean")},),
    "logicmp+weights": ({"iterations": (1, 5), "positive": (1.0, 10.0)},),
    # the teacher, then the network, then how it is trained, then how many are averaged
    "logicmp+gnn": ({"reduce": ("sum", "mean"), "scale": (0.3, 3.0)}, {"free": (True, False)}, {"moved": (True, False)},
                    {"dim": (128, 64)}, {"steps": (60, 120)}, {"rate": (2e-3, 5e-4)}, {"networks": (1, 3)}),
}
# methods that learn from the labels of the other splits
LEARN_FROM_OTHERS = ("logicmp+weights",)


def combinations(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


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
    def value(settings: Settings, name: str, without: str | None) -> float:
        tried = replace(context, settings=dict(settings), without=without, curve=[], started=time.monotonic())
        return average_precision(splits[name], run_method(method, splits[name], tried))

    def value_for(settings: Settings, name: str) -> float:
        without = name if method in LEARN_FROM_OTHERS else None
        return statistics.mean(value(settings, other, without) for other in others(name))

    rounds = GRIDS.get(method, ())
    first = dict(FIXED.get(method, {})) | {axis: values[0] for axes in rounds for axis, values in axes.items()}
    best: dict[str, tuple[Settings, float]] = {name: (tuple(first.items()), -1.0) for name in names}
    for axes in rounds:
        stood = {name: dict(settings) for name, (settings, _) in best.items()}
        for varied in combinations(axes):
            for name in names:
                settings = tuple({**stood[name], **varied}.items())
                found = value_for(settings, name)
                say(f"{name}: {dict(settings)}: {found:.4f}")
                if found > best[name][1]:
                    best[name] = settings, found
    return {name: {"settings": dict(settings), "auc_pr_of_others": round(found, 4)}
            for name, (settings, found) in best.items()}


def store(method: str, chosen: Mapping[str, Mapping[str, Any]]) -> None:
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    stored.setdefault(method, {}).update(chosen)
    write_whole(CHOSEN, json.dumps(stored, indent=1) + "\n", "settings")
