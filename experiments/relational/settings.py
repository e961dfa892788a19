"""Settings of a split, chosen on the other splits only (leave one out).

    python -m experiments.relational choose uw_cse --method logicmp

For each split, `choose` tries a small grid of settings on the other splits of the data set. It takes the settings with
the highest mean average precision there, the first of equals. If training is long the grid has rounds: each round
varies a few settings and starts from the best of the round before. Learning rates need no labels: the rate with the
lowest distillation loss on the split itself is taken. settings.json stores the chosen settings.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from logicmp.files import write_whole

from ..checkpoint import Checkpoint
from .data import load_split, others, split_names
from .methods import DETERMINISTIC, run_method
from .training import Context, average_precision

# settings that can be a cache key
Frozen = tuple[tuple[str, Any], ...]

CHOSEN = Path(__file__).with_name("settings.json")
# settings that no grid varies
FIXED: Mapping[str, Mapping[str, Any]] = {
    "logicmp": {"damping": 0.5},
    "logicmp+gnn": {"iterations": 5},
    "weights+gnn": {"rate": 1e-2, "moved": False, "queried": True, "top": 0.5, "added": True},
    "gs": {"dim": 64, "rate": 4e-3},
    "expressgnn": {"dim": 64, "rate": 4e-3},
    # 1,000 samples, and two chains to compare
    "gibbs": {"chains": 2, "samples": 500},
    "mc-sat": {"chains": 2, "samples": 500},
}
# training steps of every model: fewer where splits have more atoms (up to 920,000, 175,000 and 95,000)
STEPS: Mapping[str, int] = {"kinship": 60, "cora": 120, "uw_cse": 240}
TRAINED = ("logicmp+gnn", "weights+gnn", "gs", "expressgnn")


def fixed(split: str, method: str) -> dict[str, Any]:
    steps = {"steps": STEPS.get(split.split("/")[0], 60)} if method in TRAINED else {}
    return {**FIXED.get(method, {}), **steps}


@dataclass(frozen=True, eq=False)
class Round:
    """Settings to combine, and the method to try them with.

    Args:
        is_by_loss: take the lowest training loss on the split itself, which uses no labels.
    """

    method: str
    axes: Mapping[str, tuple[Any, ...]]
    is_by_loss: bool = False


GRIDS: Mapping[str, tuple[Round, ...]] = {
    "logicmp": (Round("logicmp", {"scale": (0.03, 0.1, 0.3, 1.0, 3.0), "bias": (-3.0, -1.5, -0.5, 0.0),
                                  "iterations": (2, 5, 15), "reduce": ("sum", "mean")}),),
    "logicmp+weights": (Round("logicmp+weights", {"iterations": (1, 5), "positive": (1.0, 10.0)}),),
    # first LogicMP's settings, scored by its own output (of equals, the weights of the protocol); then which atoms and
    # which model; then the learning rate; then the weights of atoms and how many models are averaged. Free vectors
    # train faster, so they try what does not depend on the model
    "logicmp+gnn": (
        Round("logicmp", {"scale": (1.0, 0.03, 0.1, 0.3, 3.0), "bias": (-1.5, -3.0, -0.5, 0.0),
                          "reduce": ("sum", "mean"), "damping": (0.5, 0.0), "lessons": (1, 3)}),
        Round("logicmp+embedding", {"queried": (False, True)}),
        Round("logicmp+gnn", {"free": (True, False), "added": (False, True)}),
        Round("logicmp+gnn", {"rate": (1e-2, 5e-3, 2e-2)}, is_by_loss=True),
        # in one round: averaging several models can make a setting good that is bad for one model
        Round("logicmp+gnn", {"moved": (True, False), "networks": (1, 3)}),
        Round("logicmp+embedding", {"top": (0.0, 0.5)}),
    ),
}
# methods that learn from the labels of the other splits
LEARN_FROM_OTHERS = ("logicmp+weights",)


def combinations(axes: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def load_settings(split: str, method: str) -> dict[str, Any]:
    """The settings chosen for a split, or the fixed ones."""
    stored = json.loads(CHOSEN.read_text()) if CHOSEN.exists() else {}
    if method == "logicmp+lessons":
        # LogicMP as it is distilled into the models, without a model
        return load_settings(split, "logicmp+gnn")
    if method.endswith("+embedding"):
        # it always has a free vector for each constant, and the released code has one model
        chosen = load_settings(split, method.replace("embedding", "gnn"))
        return {name: value for name, value in chosen.items() if name not in ("free", "networks", "added")}
    if method == "weights+gnn":
        return {**fixed(split, method), "teacher": load_settings(split, "logicmp+weights")}
    return dict(stored.get(method, {}).get(split, {}).get("settings", fixed(split, method)))


def choose(dataset: str, method: str, context: Context, say: Callable[[str], None] = lambda text: None,
           look_at: int | None = None, seeds: int = 1, from_round: int = 1) -> dict[str, dict[str, Any]]:
    """Try the grid on the splits of a data set; return for each split the best settings on the others.

    A method that learns from the other splits learns without the split the choice is for.

    Args:
        look_at: number of other splits to try, smallest first (default: all).
        seeds: number of seeds to average over, starting at the seed of the context.
        from_round: start at this round, with the stored settings.
    """
    names = split_names(dataset)
    splits = {name: load_split(name, context.data) for name in names}

    @cache
    def value(r: Round, settings: Frozen, name: str, without: str | None) -> float:
        found = []
        for seed in range(context.seed, context.seed + (1 if r.method in DETERMINISTIC else seeds)):
            tried = replace(context, seed=seed, settings=dict(settings), without=without, curve=[],
                            checkpoint=Checkpoint())
            scores = run_method(r.method, splits[name], tried)
            found.append(-tried.loss if r.is_by_loss else average_precision(splits[name], scores))
        return statistics.mean(found)

    def value_for(r: Round, settings: Frozen, name: str) -> float:
        if r.is_by_loss:
            return value(r, settings, name, None)
        without = name if method in LEARN_FROM_OTHERS else None
        smallest = sorted(others(name), key=lambda other: sum(splits[other].world.sizes.values()))[:look_at]
        return statistics.mean(value(r, settings, other, without) for other in smallest)

    rounds = GRIDS.get(method, ())
    first = fixed(dataset, method) | {axis: values[0] for r in rounds for axis, values in r.axes.items()}
    chosen = {name: load_settings(name, method) if from_round > 1 else {} for name in names}
    best: dict[str, tuple[Frozen, float]] = {name: (tuple({**first, **chosen[name]}.items()), 0.0) for name in names}
    for r in rounds[from_round - 1 :]:
        start = {name: dict(settings) for name, (settings, _) in best.items()}
        found: dict[str, float] = {}
        for varied in combinations(r.axes):
            for name in names:
                settings = tuple({**start[name], **varied}.items())
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
