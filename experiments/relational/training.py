"""The context of a run, and the training loop of all methods: Adam, with progress and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from logicmp.limits import Progress, silent

from ..checkpoint import Checkpoint
from .data import Split


def average_precision(split: Split, scores: Tensor) -> float:
    """scikit-learn's average precision over all queries of a split, predicates pooled.

    Log-odds are rounded to six decimals, so that rounding errors do not order atoms that the rules leave equal.
    """
    return float(average_precision_score(split.truth, scores.detach().double().round(decimals=6).numpy()))


class GivenUp(Exception):
    """Raised when a run would take far longer than its limit.

    Args:
        seconds: the time that all iterations would take at the present pace.
    """

    def __init__(self, seconds: float):
        super().__init__(f"would take {seconds:.0f} s")
        self.seconds = seconds


@dataclass
class Context:
    """Options of a run, and what it records besides its scores."""

    seed: int = 0
    max_seconds: float = 600.0
    # when to check the pace of a classical method, in seconds; None: never
    give_up: float | None = None
    data: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    # a split whose labels must not be used, because settings are being chosen for it
    without: str | None = None
    progress: Progress = silent
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    # (seconds, average precision of the queries), for the learning curves only
    curve: list[tuple[float, float]] = field(default_factory=list)
    is_cut_short: bool = False
    # of a classical method: rounds, R-hat, what did not converge
    notes: list[str] = field(default_factory=list)
    # of the last training step
    loss: float = math.nan

    def get(self, name: str, default: Any) -> Any:
        return self.settings.get(name, default)

    @property
    def seconds(self) -> float:
        """Since the start, time before an interruption included."""
        return self.checkpoint.seconds

    def mark(self, split: Split, scores: Tensor) -> None:
        self.curve.append((round(self.seconds, 2), round(average_precision(split, scores), 4)))


def descend(module: nn.Module, losses: Callable[[], Iterable[Tensor]], split: Split, scores: Callable[[], Tensor],
            context: Context, steps: int, rate: float) -> Tensor:
    """Minimize a sum of losses with Adam and a cosine schedule; return the final scores of the queries.

    Args:
        losses: yields the losses one by one; each graph is freed before the next is built.
        scores: scores of the queries, for the curve and the result.
    """
    optimizer = torch.optim.Adam(module.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    first = 0
    made_with = {"settings": dict(context.settings), "steps": steps, "rate": rate,
                 "shapes": {name: list(x.shape) for name, x in module.state_dict().items()}}
    # settings are chosen again and again: a checkpoint made with others is worthless
    before = context.checkpoint.load(made_with, restart=True)
    if before is not None:
        module.load_state_dict(before["module"])
        optimizer.load_state_dict(before["optimizer"])
        schedule.load_state_dict(before["schedule"])
        torch.set_rng_state(before["random"])
        context.curve[:] = [tuple(point) for point in before["curve"]]
        first = before["step"]
    for step in range(first, steps):
        optimizer.zero_grad()
        context.loss = 0.0
        for loss in losses():
            loss.backward()
            context.loss += loss.item()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        context.progress("training", step + 1, steps)
        if step % max(1, steps // 10) == 0:
            with torch.no_grad():
                context.mark(split, scores())
        context.checkpoint.save(module=module.state_dict(), optimizer=optimizer.state_dict(), step=step + 1,
                                schedule=schedule.state_dict(), random=torch.get_rng_state(), curve=context.curve)
        if context.seconds > context.max_seconds:
            context.is_cut_short = True
            break
    with torch.no_grad():
        found = scores()
    context.mark(split, found)
    return found
