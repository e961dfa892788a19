"""Train the rows of a data set and measure them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from logicmp.limits import Progress, silent

from ..checkpoint import Checkpoint
from ..runs import Result, load_results, run_all, unfinished
from .data import DataSet, load_data
from .methods import HEADS, ORDER, READ_FROM
from .metrics import measure
from .model import SETTINGS, Models, Settings, train

RESULTS = Path(__file__).with_name("results")
# seconds between checkpoints of a run
SAVED_EVERY = 60.0


@dataclass(frozen=True)
class Experiment:
    """Options and data of a command."""

    data: str | None = None
    results: Path = RESULTS
    # train without the validation items and measure on them, to choose settings
    is_held_out: bool = False
    # settings that differ from the table's, such as {"epochs": 20}
    tried: dict[str, float] = field(default_factory=dict)
    # fewer epochs than the last, after which models are measured too
    stops: tuple[int, ...] = ()
    # how many seeds are trained at once
    together: int = 1
    progress: Progress = silent
    load: Callable[[str, str | None, bool], DataSet] = load_data
    # of generated data sets
    given: dict[str, Settings] = field(default_factory=dict)

    def settings(self, name: str) -> Settings:
        return replace((SETTINGS | self.given)[name], **self.tried)

    def plan(self, name: str, method: str, seed: int, stop: int | None = None) -> Result:
        tried = self.tried if stop is None else {**self.tried, "epochs": stop}
        variant = [*(["held-out"] if self.is_held_out else []), *(f"{key}={x}" for key, x in tried.items())]
        return Result("hmc", name, method, seed, " ".join(variant), settings={**asdict(self.settings(name)), **tried})

    def run(self, names: Sequence[str], methods: Sequence[str], seeds: Sequence[int], again: bool = False) -> None:
        """Run what has no stored result: all rows of some seeds, then those of the next."""
        for k in range(0, len(seeds), self.together):
            group = seeds[k : k + self.together]
            for name in names:
                plans = [self.plan(name, method, seed) for method in sorted(methods, key=ORDER.index) for seed in group
                         if method != "one-path" or has_one_path(self.load(name, self.data, self.is_held_out))]
                run_all(plans, partial(self.measure, group=group, again=again), self.results, again)

    def measure(self, plan: Result, group: Sequence[int], again: bool = False) -> list[Result]:
        """Train the model of a row for the seeds of a group without a result; measure it, and what is read from it."""
        method = READ_FROM.get(plan.method, plan.method)
        rows = [method, *(row for row, source in READ_FROM.items() if source == method)]
        stored = set() if again else {r.key for r in load_results(self.results)}
        seeds = [seed for seed in group
                 if any(self.plan(plan.split, row, seed).key not in stored for row in rows)]
        data, settings = self.load(plan.split, self.data, self.is_held_out), self.settings(plan.split)
        models, heads = make_models(data, settings, seeds), {row: HEADS[row](data.tree) for row in rows}
        # a run that measures on its way is not continued: measurements would be missing
        checkpoint = Checkpoint(None if self.stops else unfinished(plan, self.results), SAVED_EVERY)
        found = []

        def measure_models(losses: list[float]) -> None:
            stop = len(losses) if self.stops else None
            logits = models(data.test.features.expand(len(seeds), -1, -1))
            for row, head in heads.items():
                for seed, own in zip(seeds, logits, strict=True):
                    with torch.no_grad():
                        values = measure(head.logits(own), head.worlds(own), data.test.labels, data.tree.parent)
                    found.append(replace(self.plan(plan.split, row, seed, stop), values={**values, "loss": losses[-1]},
                                         seconds=round(checkpoint.seconds / len(seeds), 1)))

        what = f"{plan.split}, {method}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
        losses = train(models, heads[method], data, settings, checkpoint, {"seeds": seeds, **asdict(settings)},
                       self.progress, what, dict.fromkeys(self.stops, measure_models))
        measure_models(losses)
        return found


def has_one_path(data: DataSet) -> bool:
    """Whether every training item has exactly one path of labels, to a leaf: the row "one-path" needs it."""
    labels, leaves = data.train.labels, data.train.labels & data.tree.evidence["leaf"]
    # how many labels a path has that ends here
    length = torch.bincount(data.tree.pairs[1])
    return bool((leaves.sum(1) == 1).all() and ((leaves * length).sum(1) == labels.sum(1)).all())


def make_models(data: DataSet, settings: Settings, seeds: Sequence[int]) -> Models:
    """The models of some seeds, untrained."""
    sizes = (data.train.features.shape[1], settings.units, settings.units, len(data.tree))
    return Models(sizes, settings.dropout, seeds, getattr(torch, settings.dtype))


