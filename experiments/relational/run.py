"""Run a method on a split with a seed, under a time limit."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from logicmp import CostError
from logicmp.errors import LimitError
from logicmp.inference.run import METHODS as CLASSICAL
from logicmp.show.progress import shown_progress

from ..checkpoint import Checkpoint
from ..runs import Result, unfinished
from .data import load_split
from .methods import run_method
from .settings import load_settings
from .training import Context, GivenUp, average_precision


@dataclass(frozen=True)
class Runner:
    """The work of `run_all`, with the options of a command."""

    data: str | None
    results: Path
    give_up: float | None = None

    def __call__(self, plan: Result) -> list[Result]:
        name = f"{plan.dataset}/{plan.split}"
        chosen = {} if plan.settings.get("is_plain") else load_settings(name, plan.method)
        # the settings of the plan, such as a schedule, override those of the split
        settings = {**chosen, **{key: value for key, value in plan.settings.items()
                                 if key not in ("max_seconds", "is_plain")}}
        max_seconds = plan.settings["max_seconds"]
        status, values, began = "done", {}, time.process_time()
        with shown_progress() as progress:
            context = Context(plan.seed, max_seconds, self.give_up, self.data, settings, progress=progress,
                              checkpoint=Checkpoint(unfinished(plan, self.results)))
            try:
                split = load_split(name, self.data)
                scores = run_method(plan.method, split, context)
                values["auc_pr"] = round(average_precision(split, scores), 4)
                if context.is_cut_short:
                    status = "> cap"
            except GivenUp as pace:
                status, values["expected"] = "> cap", round(pace.seconds)
            except LimitError as error:
                status = "> cap"
                print(f"{plan.title}: {error.message}", file=sys.stderr)
            except CostError as error:
                status = "too large"
                print(f"{plan.title}: {error.message}", file=sys.stderr)
        if plan.method in CLASSICAL:
            # these are compared by minutes, and the machine may be busy
            values["processor"] = round(time.process_time() - began, 1)
            values["notes"] = context.notes
        return [replace(plan, status=status, values={**values, "curve": context.curve},
                        settings={"max_seconds": max_seconds, **settings}, seconds=round(context.seconds, 2))]
