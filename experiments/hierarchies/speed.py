"""Measure a training step of each row, on the items of a data set."""

from __future__ import annotations

import statistics
import time

from .data import DataSet
from .methods import HEADS, READ_FROM
from .model import Settings, Trainer
from .run import has_one_path, make_models

WARM_UP = 3


def measure_steps(data: DataSet, settings: Settings, repeat: int = 100) -> dict[str, float]:
    """The median processor time of a step in milliseconds, by row. Rows take turns, each with one seed."""
    rows = [row for row in HEADS if row not in READ_FROM and (row != "one-path" or has_one_path(data))]
    trainers = {row: Trainer(make_models(data, settings, [0]), HEADS[row](data.tree), data, settings) for row in rows}
    taken: dict[str, list[float]] = {row: [] for row in rows}
    order = next(iter(trainers.values())).order()
    for k in range(WARM_UP + repeat):
        first = k * settings.batch % (len(data.train) - settings.batch + 1)
        for row, trainer in trainers.items():
            start = time.process_time()
            trainer.step(order[:, first : first + settings.batch])
            if k >= WARM_UP:
                taken[row].append(1e3 * (time.process_time() - start))
    return {row: round(statistics.median(found), 3) for row, found in taken.items()}
