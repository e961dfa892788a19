"""Scores of a small model that was trained with the layer on top, by schedule and starting weight of the rule.

    python -m benchmarks train-through
    python -m benchmarks train-through --cases noise --schedules adaptive --weights 0.3 --seeds 1
    python -m benchmarks train-through --json trained.json      # skips the cells that the file already has

The elements of a world are points around the centre of their cluster (`draw_points` of `quality.py`), so a point far
from its centre is wrong in all its pairs. An MLP maps the coordinate differences of a pair to its log-odds. It is
trained with cross-entropy of the layer's output, end to end with the weight of `C(a,b) ^ C(b,c) => C(a,c)`, and scored
on other worlds: the F1 of pairs. Everything but the layer is the same for all cells of a case and seed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from logicmp import LogicMP, LogicMPError
from logicmp.execute.schedule import make_schedule
from logicmp.files import check_place, read_source, write_whole

from .measure import machine
from .quality import draw_points, f1

RULE = "C(a,b) ^ C(b,c) => C(a,c)"
# the model without a layer
NONE = "no layer"
N_TEST = 40


@dataclass(frozen=True)
class Case:
    """Worlds and budget of a training.

    Chosen here: all numbers, on seeds 0 to 2, by the scores of the model without a layer.
    """

    n: int = 32
    k: int = 6
    spread: float = 0.8
    worlds: int = 64
    batch: int = 8
    # of the model alone, and with the layer
    steps_before: int = 0
    steps: int = 300
    rate: float = 3e-3


CASES = {
    "correlated errors": Case(),
    "more noise, fewer steps": Case(spread=0.9, steps=200),
    "half of the steps without the layer": Case(steps_before=150, steps=150),
}


@dataclass(frozen=True)
class Cell:
    """One training: the schedule is `NONE` for the model alone."""

    case: str
    schedule: str
    weight: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.case}, {self.schedule}, weight {self.weight:g}, seed {self.seed}"


class PairModel(nn.Module):
    """Log-odds [worlds, n, n] of the pairs of points [worlds, n, d]; both orders of a pair have the same."""

    def __init__(self, d: int, hidden: int = 32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                    nn.Linear(hidden, 1))

    def forward(self, points: Tensor) -> Tensor:
        return torch.as_tensor(self.layers((points[:, :, None] - points[:, None]).abs()).squeeze(-1))


def draw_worlds(case: Case, n_worlds: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points [worlds, n, d], and which pairs are in one cluster, [worlds, n, n]."""
    rng = np.random.default_rng(seed)
    drawn = [draw_points(case.n, case.k, case.spread, rng) for _ in range(n_worlds)]
    labels = torch.from_numpy(np.stack([labels for labels, _ in drawn]))
    return torch.from_numpy(np.stack([points for _, points in drawn])).float(), labels[:, :, None] == labels[:, None]


def make_layer(schedule: str, weight: float) -> LogicMP | None:
    if schedule == NONE:
        return None
    return LogicMP(f"{weight:g} {RULE}", schedule=schedule, positive_weights=True)


def train(case: Case, layer: LogicMP | None, seed: int) -> PairModel:
    """Train a model with the layer on top; the seed determines worlds, batches and initial parameters."""
    points, truth = draw_worlds(case, case.worlds, 2 * seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PairModel(points.shape[-1])
    parameters = [*model.parameters(), *(layer.parameters() if layer else ())]
    optimizer = torch.optim.Adam(parameters, lr=case.rate)
    counted = ~torch.eye(case.n, dtype=torch.bool)
    for step in range(case.steps_before + case.steps):
        chosen = torch.randint(case.worlds, (case.batch,), generator=generator)
        logits = model(points[chosen])
        logits = layer(logits) if layer and step >= case.steps_before else logits
        loss = functional.binary_cross_entropy_with_logits(logits[:, counted], truth[chosen][:, counted].float())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return model


def score(case: Case, model: PairModel, layer: LogicMP | None, seed: int) -> float:
    """The mean F1 of pairs over worlds that were not used in training."""
    points, truth = draw_worlds(case, N_TEST, 2 * seed + 1)
    counted = ~np.eye(case.n, dtype=bool)
    with torch.no_grad():
        logits = model(points)
        likely = ((layer(logits) if layer else logits) > 0).numpy()
    return statistics.fmean(f1(a[counted], b[counted]) for a, b in zip(likely, truth.numpy(), strict=True))


def run_cell(cell: Cell, case: Case) -> dict[str, Any]:
    layer = make_layer(cell.schedule, cell.weight)
    start = time.perf_counter()
    model = train(case, layer, cell.seed)
    return {"f1": round(score(case, model, layer, cell.seed), 4), "weight": layer.weights[0].item() if layer else None,
            "seconds": round(time.perf_counter() - start, 2)}


def run_cells(cells: Sequence[Cell], stored: dict[str, Any], keep: Callable[[], None], say: Callable[[str], None]
              ) -> None:
    """Add the missing cells to `stored`; a cell whose case or schedule had other settings is computed again."""
    for cell in cells:
        schedule = cell.schedule if cell.schedule == NONE else str(make_schedule(cell.schedule))
        made_with = {"case": asdict(CASES[cell.case]), "schedule": schedule}
        if stored["cells"].get(cell.name, {}).get("made_with") != made_with:
            stored["cells"][cell.name] = {"made_with": made_with, **run_cell(cell, CASES[cell.case])}
            keep()
            say(f"{cell.name}: {stored['cells'][cell.name]['f1']:.3f}")


def plan(cases: Sequence[str], schedules: Sequence[str], weights: Sequence[float], seeds: Sequence[int]
         ) -> Iterator[Cell]:
    for case in cases:
        for seed in seeds:
            yield Cell(case, NONE, 0.0, seed)
            yield from (Cell(case, schedule, weight, seed) for schedule in schedules for weight in weights)


def as_markdown(stored: dict[str, Any], cases: Sequence[str], schedules: Sequence[str], weights: Sequence[float],
                seeds: Sequence[int]) -> str:
    """A row for each case and starting weight: mean F1 of each schedule, and the weights after training."""
    def cells(case: str, schedule: str, weight: float) -> list[dict[str, Any]]:
        return [stored["cells"][Cell(case, schedule, weight, seed).name] for seed in seeds]

    lines = [f"| training data | starting weight | {NONE} | {' | '.join(schedules)} | "
             f"{' | '.join(f'{name}, weight after' for name in schedules)} |",
             "|---|--:|--:|" + "--:|" * (2 * len(schedules))]
    for case in cases:
        for weight in weights:
            found = [cells(case, schedule, weight) for schedule in schedules]
            scores = [statistics.fmean(cell["f1"] for cell in each) for each in (cells(case, NONE, 0.0), *found)]
            after = [statistics.fmean(cell["weight"] for cell in each) for each in found]
            lines.append(f"| {case} | {weight:g} | {' | '.join(f'{x:.3f}' for x in scores)} | "
                         f"{' | '.join(f'{x:.2f}' for x in after)} |")
    return "\n".join(lines)


def _read(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {"cells": {}}
    try:
        stored = json.loads(read_source(path).text)
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or "cells" not in stored:
        raise LogicMPError(f"{str(path)!r} has no cells", "give a new file, or one that this command wrote")
    return stored


def main(arguments: list[str] | None = None, show: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks train-through", description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", default=[""], metavar="CASE",
                        help="cases whose name contains one of these (default: all)")
    parser.add_argument("--schedules", default="paper,adaptive", metavar="S,S",
                        help="names of schedules (default: paper,adaptive)")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.1, 0.3, 1.0], metavar="W",
                        help="starting weights of the rule, above 0 (default: 0.1 0.3 1)")
    parser.add_argument("--seeds", type=int, default=3, metavar="K", help="number of seeds (default: 3)")
    parser.add_argument("--first-seed", type=int, default=100, metavar="N", help="the first of them (default: 100)")
    parser.add_argument("--threads", type=int, metavar="T", help="threads of torch (default: torch's own)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store cells there; skip those that it has")
    chosen = parser.parse_args(arguments)
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    if chosen.seeds < 1 or chosen.first_seed < 0:
        raise LogicMPError("--seeds must be at least 1 and --first-seed at least 0")
    if not all(0 < weight < math.inf for weight in chosen.weights):
        raise LogicMPError("--weights must be above 0")
    cases = [name for name in CASES if any(part in name for part in chosen.cases)]
    if not cases:
        raise LogicMPError("no case is chosen", f"available cases: {', '.join(CASES)}")
    schedules = chosen.schedules.split(",")
    for name in schedules:
        # report a wrong name before training starts
        make_schedule(name)
    grid = cases, schedules, chosen.weights, range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    check_place(chosen.json)
    stored = _read(chosen.json)
    # of the last run that added to the file
    stored["machine"] = machine()

    def keep() -> None:
        if chosen.json:
            write_whole(chosen.json, json.dumps(stored, indent=1) + "\n", "scores")

    run_cells(list(plan(*grid)), stored, keep, lambda text: print(text, file=sys.stderr))
    show(as_markdown(stored, *grid))
    return 0
