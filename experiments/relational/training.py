"""What every run gets besides its split, and the one loop all training goes through: Adam, watched, and resumable."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from ..runs import Checkpoint
from .data import Split


def average_precision(split: Split, scores: Tensor) -> float:
    """scikit-learn's average precision over all queries of a split, predicates pooled.

    Log-odds are compared to six decimals: beyond that rounding errors would order what the rules leave equal.
    """
    return float(average_precision_score(split.truth, scores.detach().double().round(decimals=6).numpy()))


class GivenUp(Exception):
    """A run that at its pace would be far over its limit.

    Args:
        seconds: what it would have taken for all of its iterations.
    """

    def __init__(self, seconds: float):
        super().__init__(f"at its pace {seconds:.0f} s")
        self.seconds = seconds


@dataclass
class Context:
    """What a run may use besides its split, and what it leaves behind."""

    seed: int = 0
    max_seconds: float = 600.0
    # when to look at the pace of a method with iterations of its own; never, unless given
    give_up: float | None = None
    data: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    # a split whose labels must not be used: settings are being chosen for it
    without: str | None = None
    # told (what, done, total)
    progress: Callable[[str, int, int], None] = lambda what, done, total: None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    # (seconds, average precision of the split's queries): for the learning curves, and read by nothing else
    curve: list[tuple[float, float]] = field(default_factory=list)
    is_cut_short: bool = False
    # that of the last step of training
    loss: float = math.nan
    started: float = field(default_factory=time.monotonic)

    def get(self, name: str, default: Any) -> Any:
        return self.settings.get(name, default)

    @property
    def seconds(self) -> float:
        """Since the start, those before an interruption included."""
        return time.monotonic() - self.started

    def mark(self, split: Split, scores: Tensor) -> None:
        self.curve.append((round(self.seconds, 2), round(average_precision(split, scores), 4)))


class Taught(Protocol):
    """Training whose aim changes: in `n` lessons, each of which is told that it begins."""

    n: int

    def begin(self, lesson: int) -> None: ...


def descend(module: nn.Module, losses: Callable[[], Iterable[Tensor]], split: Split, scores: Callable[[], Tensor],
            context: Context, steps: int, rate: float, lessons: Taught | None = None) -> Tensor:
    """Adam with a cosine schedule on a sum of losses, and the scores of the split's queries at the end.

    Args:
        losses: made one after the other, each with its gradient, so that only one graph is held.
        scores: of the queries, for the curve and the end.
        steps: shared by the lessons, where there are several.
    """
    each = steps if lessons is None else steps // lessons.n
    optimizer = torch.optim.Adam(module.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, each)
    first = 0
    # a checkpoint of other settings, or of another version of the network, is not gone on with
    belongs_to = {"settings": dict(context.settings), "steps": steps, "rate": rate,
                  "shapes": {name: list(x.shape) for name, x in module.state_dict().items()}}
    stood = context.checkpoint.load()
    if stood is not None and stood["belongs_to"] != belongs_to:
        print(f"{context.checkpoint.path} is of other settings: starting anew", file=sys.stderr)
    elif stood is not None:
        module.load_state_dict(stood["module"])
        optimizer.load_state_dict(stood["optimizer"])
        schedule.load_state_dict(stood["schedule"])
        torch.set_rng_state(stood["random"])
        context.curve[:] = [tuple(point) for point in stood["curve"]]
        context.started -= stood["seconds"]
        first = stood["step"]
    for step in range(first, steps):
        if lessons is not None and step % each == 0 and step // each < lessons.n:
            lessons.begin(step // each)
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
        context.checkpoint.save(belongs_to=belongs_to, module=module.state_dict(), optimizer=optimizer.state_dict(),
                                schedule=schedule.state_dict(), random=torch.get_rng_state(), curve=context.curve,
                                seconds=context.seconds, step=step + 1)
        if context.seconds > context.max_seconds:
            context.is_cut_short = True
            break
    with torch.no_grad():
        found = scores()
    context.mark(split, found)
    return found
