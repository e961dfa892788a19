"""The cost of mean field with all premises open: rules over every atom that they reach, an iteration and its memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from benchmarks.sparse import MAX_PREMISES, knowledge_graph

from ..runs import Result
from .data import FILES


@dataclass(frozen=True)
class Speed:
    """The work of `run_all`, with the option of a command."""

    data: str | None
    max_premises: float = MAX_PREMISES

    def plan(self) -> Result:
        return Result("fb15k-237", "train", "speed", settings={"max_premises": self.max_premises})

    def __call__(self, plan: Result) -> list[Result]:
        start = time.monotonic()
        for file in ("rules.mln", "train.db"):
            FILES.read(file, self.data)
        folder = FILES.folder(self.data)
        values = knowledge_graph(folder / "rules.mln", folder / "train.db", self.max_premises)
        return [replace(plan, values={name: round(x, 4) for name, x in values.items()},
                        seconds=round(time.monotonic() - start, 1))]
