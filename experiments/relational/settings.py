"""Settings chosen on the other splits only: leave one out.

    python -m experiments.relational choose uw_cse --method logicmp

For a split, every setting of a small grid is tried on the other splits of its data set, and the one with the highest
mean average precision there is taken; the first of those equal. Where training is long the grid has rounds: each varies
a few settings and goes on from the best so far. The lines printed give what each split found on the others, its own
number not among those averaged. How fast a network learns needs no labels: the rate is taken that brings it nearest to
what it is taught, on the split itself. What was chosen is kept in settings.json.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from logicmp.files import write_whole

from .data import load_split, others, split_names
from .methods import DETERMINISTIC, run_method
from .training import Context, average_precision

Settings = tuple[tuple[str, Any], ...]

CHOSEN = Path(__file__).with_name("settings.json")
# what the grids do not vary
FIXED: Mapping[str, Mapping[str, Any]] = {
    "logicmp": {"damping": 0.5},
    "logicmp+gnn": {"iterations": 5},
    "gs": {"dim": 64, "rate": 4e-3},
    "expressgnn": {"dim": 64, "rate": 4e-3},
}
# how long every network learns: the fewer steps, the more atoms (up to 920,000, 175,000 and 95,000 in a split)
STEPS: Mapping[str, int] = {"kinship": 60, "cora": 120, "uw_cse": 240}
NETWORKS = ("logicmp+gnn", "gs", "expressgnn")


def fixed(split: str, method: str) -> dict[str, Any]:
    steps = {"steps": STEPS.get(split.split("/")[0], 60)} if method in NETWORKS else {}
    return {**FIXED.get(method, {}), **steps}


@dataclass(frozen=True, eq=False)
class Round:
    """Settings of which every combination is tried, and the method they are tried with.

    Args:
        is_by_loss: the lowest loss of training on the split itself decides, which no label has a part in.
    """

    method: str
    axes: Mapping[str, tuple[Any, ...]]
    is_by_loss: bool = False


GRIDS: Mapping[str, tuple[Round, ...]] = {
    "logicmp": (Round("logicmp", {"scale": (0.03, 0.1, 0.3, 1.0, 3.0), "bias": (-3.0, -1.5, -0.5, 0.0),
                                  "iterations": (2, 5, 15), "reduce": ("sum", "mean")}),),
    "logicmp+weights": (Round("logicmp+weights", {"iterations": (1, 5), "positive": (1.0, 10.0)}),),
    # the teacher by its own output, from what `logicmp` may have (of equals the one with the weights of the protocol);
    # how fast networks learn; which network, what it learns from and how many are averaged
    "logicmp+gnn": (
        Round("logicmp", {"scale": (1.0, 0.03, 0.1, 0.3, 3.0), "bias": (-1.5, -3.0, -0.5, 0.0),
                          "reduce": ("sum", "mean"), "damping": (0.5, 0.0), "lessons": (1, 3)}),
        Round("logicmp+gnn", {"rate": (1e-2, 5e-3, 2e-2)}, is_by_loss=True),
        Round("logicmp+gnn", {"free": (True, False)}),
        # together: the mean of several networks can afford what leads one of them astray
        Round("logicmp+gnn", {"moved": (True, False), "networks": (1, 3)}),
    ),
}
# methods that learn from the labels of the other splits
LEARN_FROM_OTHERS = ("logicmp+weights",)


def combinations(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def load_settings(split: str, method: str) -> dict[str, Any]:
    """What was chosen for a split, or what is fixed."""
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    if method == "logicmp+lessons":
        # the teacher of the networks, and nothing else
        return load_settings(split, "logicmp+gnn")
    if method == "logicmp+embedding":
        # taught the same way; a free vector for each constant is what it is, and the released code has one network
        chosen = load_settings(split, "logicmp+gnn")
        return {name: value for name, value in chosen.items() if name not in ("free", "networks")}
    return dict(stored.get(method, {}).get(split, {}).get("settings", fixed(split, method)))


def choose(data_set: str, method: str, context: Context, say: Callable[[str], None] = lambda text: None,
           look_at: int | None = None, seeds: int = 1, from_round: int = 1) -> dict[str, dict[str, Any]]:
    """Try the grid on the splits of a data set; for each split keep what was best on the others.

    A method that learns from the other splits is tried for each split anew, and learns without that one.

    Args:
        look_at: on how many of the other splits, the smallest first; on all unless given.
        seeds: how many are tried, from that of the context on.
        from_round: the rounds before it are not tried again; what was chosen then is gone on from.
    """
    names = split_names(data_set)
    splits = {name: load_split(name, context.data) for name in names}

    @cache
    def value(r: Round, settings: Settings, name: str, without: str | None) -> float:
        found = []
        for seed in range(context.seed, context.seed + (1 if r.method in DETERMINISTIC else seeds)):
            tried = replace(context, seed=seed, settings=dict(settings), without=without, curve=[],
                            started=time.monotonic())
            scores = run_method(r.method, splits[name], tried)
            found.append(-tried.loss if r.is_by_loss else average_precision(splits[name], scores))
        return statistics.mean(found)

    def value_for(r: Round, settings: Settings, name: str) -> float:
        if r.is_by_loss:
            return value(r, settings, name, None)
        without = name if method in LEARN_FROM_OTHERS else None
        looked_at = sorted(others(name), key=lambda other: sum(splits[other].world.sizes.values()))[:look_at]
        return statistics.mean(value(r, settings, other, without) for other in looked_at)

    rounds = GRIDS.get(method, ())
    first = fixed(data_set, method) | {axis: values[0] for r in rounds for axis, values in r.axes.items()}
    if from_round > 1:
        chosen = {name: load_settings(name, method) for name in names}
    else:
        chosen = {name: {} for name in names}
    best: dict[str, tuple[Settings, float]] = {name: (tuple({**first, **chosen[name]}.items()), 0.0) for name in names}
    for r in rounds[from_round - 1 :]:
        stood = {name: dict(settings) for name, (settings, _) in best.items()}
        found: dict[str, float] = {}
        for varied in combinations(r.axes):
            for name in names:
                settings = tuple({**stood[name], **varied}.items())
                score = value_for(r, settings, name)
                say(f"{name}, {r.method}, {varied}: {score:.4f}")
                if score > found.get(name, -math.inf):
                    found[name] = score
                    best[name] = settings, score
    return {name: {"settings": dict(settings), "auc_pr_of_others": round(score, 4)}
            for name, (settings, score) in best.items()}


def store(method: str, chosen: Mapping[str, Mapping[str, Any]]) -> None:
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    stored.setdefault(method, {}).update(chosen)
    write_whole(CHOSEN, json.dumps(stored, indent=1) + "\n", "settings")
