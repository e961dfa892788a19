"""Put the layer on trained Pair models without training it: what a schedule makes of predictions of a real model.

    python -m experiments.documents untrained --schedule adaptive --seeds 3

The rule has no weight and the layer has its defaults, so nothing is chosen. Results are stored by schedule; a value
that ends in `_before` is that of Pair alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from logicmp import LogicMP

from ..runs import Result, load_results, run_all
from ..tables import with_layer
from .blocks import LONG, RULE, Score, count_violated, read_blocks, score
from .features import Item
from .run import Experiment

SHOWN = {"full": ("full, %", 1, 1), "long": ("long, %", 1, 1), "pairs": ("pairs, %", 1, 1),
         "violated": ("violated, ppm", 1e6, 0)}


def score_pairs(log_odds: Sequence[Tensor], items: Sequence[Item]) -> dict[str, float]:
    """F1 of blocks, of long blocks and of pairs of two words, in percent; the share of violated triples."""
    found = [(read_blocks(odds), item.page.block) for odds, item in zip(log_odds, items, strict=True)]
    matched = predicted = true = 0
    for odds, item in zip(log_odds, items, strict=True):
        likely, same = odds.clone().fill_diagonal_(-1.0) > 0, item.truth.clone().fill_diagonal_(0.0) > 0
        matched += int((likely & same).sum())
        predicted, true = predicted + int(likely.sum()), true + int(same.sum())
    violated = sum(map(count_violated, log_odds)) / sum(len(item.page) ** 3 for item in items)
    return {"full": round(score(found).f1, 3), "long": round(score(found, LONG).f1, 3),
            "pairs": round(Score(matched, predicted, true).f1, 3), "violated": violated}


def compare(experiment: Experiment, seeds: Sequence[int], schedule: str | None = None, again: bool = False) -> str:
    """Measure seeds without a stored result; return a table of Pair alone and with the layer, by seed."""
    layer = LogicMP(RULE) if schedule is None else LogicMP(RULE, schedule=schedule)

    def measure(plan: Result) -> list[Result]:
        model, items = experiment.load("pair", plan.seed), experiment.test_items
        before = [model.log_odds(item)[0] for item in items]
        with torch.no_grad():
            after = [layer(odds) for odds in before]
        values = score_pairs(after, items)
        values |= {f"{name}_before": value for name, value in score_pairs(before, items).items()}
        return [replace(plan, values=values, settings={**plan.settings, "layer": str(layer.options.schedule)})]

    plans = [replace(plan, variant=" ".join(filter(None, [plan.variant, f"schedule={schedule or 'default'}"])))
             for plan in (experiment.plan("pair+layer", seed) for seed in seeds)]
    run_all(plans, measure, experiment.results, again)
    keys = {plan.key for plan in plans}
    return with_layer([r for r in load_results(experiment.results) if r.key in keys], SHOWN)
