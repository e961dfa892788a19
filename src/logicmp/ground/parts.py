"""Write the rows of every join to a folder, as Parquet parts by a variable.

Room: sql -> **ground** -> show.

    rows/list-00/join.sql                 the join
    rows/list-00/part-00000.parquet       its rows with x % 4 = 0: a column for each variable and each place
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..facts.stores import write_parts
from ..files import write_whole
from ..normalize.cubes import Differ
from .engine import Engine, Share
from .join import Guard
from .patterns import Joined, Pattern
from .sql import COUNT, PLACE, Tables, column_names, join_sql


class Written:
    """An engine whose rows are written; of each join one part is in memory while it is made.

    Args:
        engine: makes the rows.
        folder: gets one folder for each join.
        n_parts: how many parts each join has.
    """

    def __init__(self, engine: Engine, folder: Path, n_parts: int):
        self.engine, self.folder, self.n_parts = engine, folder, n_parts
        self.tables = Tables()
        # of every join so far
        self.rows: list[int] = []

    def join(self, patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
             conditions: Sequence[Differ], is_grouped: bool, share: Share) -> Joined:
        wanted, keep = list(wanted), list(keep)
        text = join_sql(patterns, self.tables.sources(patterns), wanted, keep, conditions, is_grouped)
        names = column_names(patterns)
        parts: list[Joined] = []

        def made() -> Iterator[dict[str, np.ndarray]]:
            for k in range(self.n_parts):
                part = self.engine.join(patterns, wanted, keep, guard, conditions, is_grouped, Share(k, self.n_parts))
                parts.append(part)
                columns = {**{names[n]: part.columns[n] for n in keep},
                           **{f"{PLACE}{j}": part.places[j] for j in wanted}}
                if part.counts is not None or not columns:
                    columns[COUNT] = np.array([part.n]) if part.counts is None else part.counts.astype(np.int64)
                yield columns

        folder = self.folder / f"list-{len(self.rows):02d}"
        write_parts(folder, made())
        write_whole(folder / "join.sql", text + ";\n", "the join")
        self.rows.append(sum(part.n for part in parts))
        return Joined(self.rows[-1], {n: np.concatenate([p.columns[n] for p in parts]) for n in keep},
                      {j: np.concatenate([p.places[j] for p in parts]) for j in wanted},
                      None if parts[0].counts is None else np.concatenate(
                          [p.counts for p in parts if p.counts is not None]))

    def close(self) -> None:
        self.engine.close()
