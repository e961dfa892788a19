"""Measure a training step of every method on the same batches.

    python -m experiments.text speed

The methods take turns, batch by batch. Processor time is measured, not wall-clock time: other work on the machine is
excluded, or slows all methods alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from logicmp.limits import Progress, silent

from .encode import make_batches
from .methods import METHODS, load_settings, make_tagger
from .train import Data, train_step


def measure(data: Data, methods: Sequence[str] = tuple(METHODS), n_batches: int = 40, n_tokens: int = 500,
            hidden: int = 200, progress: Progress = silent) -> dict[str, Any]:
    """Mean seconds per step of each method, and the ratio to the plain tagger.

    The first pass builds plans and circuits, and is not counted.
    """
    torch.manual_seed(0)
    taggers = {name: make_tagger(name, data.vocabulary, load_settings(name), hidden)
               for name in dict.fromkeys(["blstm", *methods])}
    for tagger in taggers.values():
        tagger.train()
    # a rate of zero keeps the model unchanged at the same cost
    optimizers = {name: torch.optim.Adam(tagger.parameters(), lr=0.0, fused=True) for name, tagger in taggers.items()}
    batches = {name: make_batches(data.train.items_for(tagger.head), n_tokens, 0)[:n_batches]
               for name, tagger in taggers.items()}
    # methods over documents have other batches, of the same size
    n_batches = min(map(len, batches.values()))
    seconds: dict[str, list[float]] = {name: [] for name in taggers}
    for turn in range(2):
        for k in range(n_batches):
            for name, tagger in taggers.items():
                started = time.process_time()
                train_step(tagger, batches[name][k], optimizers[name], 0)
                if turn:
                    seconds[name].append(time.process_time() - started)
            progress("measuring" if turn else "warming up", k + 1, n_batches)
    total = {name: sum(found) for name, found in seconds.items()}
    return {"seconds": {name: round(statistics.mean(found), 5) for name, found in seconds.items()},
            "ratio": {name: round(total[name] / total["blstm"], 3) for name in seconds},
            "batches": n_batches, "tokens_per_batch": n_tokens}


def as_text(found: Mapping[str, Any]) -> str:
    lines = [f"{name:20} {found['seconds'][name] * 1e3:8.1f} ms   {ratio:.2f}x" for name, ratio
             in sorted(found["ratio"].items(), key=lambda entry: entry[1])]
    return "\n".join(lines) + "\n"
