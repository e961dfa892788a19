"""Measure the cost of the layer: alone on every page, and in a training step compared with Pair."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from logicmp import LogicMP
from logicmp.limits import Progress, silent

from .blocks import RULE
from .features import Batch, Item, collate
from .methods import METHODS, SYMMETRIC, Model, Settings

PADDED = 512


def _ms(run: Callable[..., Any], *arguments: Any, repeat: int, **options: Any) -> float:
    """Milliseconds of the fastest of several calls."""
    taken = []
    for _ in range(repeat):
        start = time.perf_counter()
        run(*arguments, **options)
        taken.append(1000 * (time.perf_counter() - start))
    return min(taken)


def _step(model: Model, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    optimizer.zero_grad()
    model.loss(batch).backward()
    optimizer.step()


@torch.no_grad()
def measure_layer(items: Sequence[Item], iterations: int = 5, padded: int = PADDED,
                  progress: Progress = silent) -> dict[str, float]:
    """Median milliseconds per page, at its own size and padded; inputs are random."""
    found: dict[str, list[float]] = {}
    layers = {name: LogicMP(rule, iterations, schedule="paper")
              for name, rule in (("", RULE), (", symmetric", SYMMETRIC))}
    for k, item in enumerate(items):
        n = len(item.page)
        for name, layer in layers.items():
            for what, size, mask in (("at the page's size", n, None),
                                     (f"padded to {padded}", padded, torch.arange(padded)[None] < n)):
                logits = torch.randn(1, size, size)
                # the first call builds the plan
                layer(logits, mask=mask)
                found.setdefault(what + name, []).append(_ms(layer, logits, mask=mask, repeat=3))
        progress("the layer", k + 1, len(items))
    return {what: round(statistics.median(values), 2) for what, values in found.items()}


def measure_steps(items: Sequence[Item], encoder: Callable[[], nn.Module], settings: Settings, n_batches: int = 10,
                  progress: Progress = silent) -> dict[str, float]:
    """Mean milliseconds of a training step; the methods take turns on the same padded batches."""
    models = {name: Model(encoder(), METHODS[name], settings).train()
                for name in ("pair", "logicmp", "slrelax", "slrelax+logicmp", "logicmp-symmetric")}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=1e-4) for name, model in models.items()}
    found: dict[str, list[float]] = {name: [] for name in models}
    # batches of short to long pages; the first one is a warm-up
    order = sorted(items, key=lambda item: len(item.page))
    firsts = torch.linspace(0, max(0, len(order) - settings.batch), n_batches + 1).long().tolist()
    for k, first in enumerate(firsts):
        batch = collate(order[first : first + settings.batch])
        for name, model in models.items():
            # plan first: a plan is built once per size
            if model.layer is not None:
                model.layer.executor({"thing": batch.mask.shape[1]})
            taken = _ms(_step, model, optimizers[name], batch, repeat=2)
            if k:
                found[name].append(taken)
        progress("training steps", k + 1, len(firsts))
    return {name: round(statistics.mean(values), 1) for name, values in found.items()}


def measure(items: Sequence[Item], encoder: Callable[[], nn.Module], settings: Settings,
            progress: Progress = silent) -> dict[str, Any]:
    steps = measure_steps(items, encoder, settings, progress=progress)
    return {"layer_ms": measure_layer(items, progress=progress), "step_ms": steps,
            "step_ratio": round(steps["logicmp"] / steps["pair"], 3), "batch": settings.batch}
