"""Run the joins in Spark: the same text as for DuckDB, for those who have a cluster.

Room: sql -> **ground** -> plan, execute.

    Spark("local[2]")                  two threads here
    Spark("spark://host:7077")         a cluster
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import LogicMPError
from ..limits import need
from ..normalize.cubes import Differ
from .engine import Share
from .join import Guard
from .patterns import Joined, Pattern
from .sql import Tables, join_sql, read_joined, table_columns


class Spark:
    """A Spark session, started with the first join.

    Args:
        master: where Spark runs.
    """

    def __init__(self, master: str = "local[*]"):
        for module in ("pyspark", "pyarrow", "pandas"):
            need(module, "spark", "engine 'spark'", "use --engine duckdb, or the built-in join: --engine torch")
        self.master = master
        self.tables = Tables()
        self._session: Any = None

    def join(self, patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
             conditions: Sequence[Differ], is_grouped: bool, share: Share) -> Joined:
        wanted, keep = list(wanted), list(keep)
        sources = self.tables.sources(patterns)
        session = self._start()
        import pyarrow

        with warnings.catch_warnings():
            # Spark checks the version of pandas, but these tables are Arrow's
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            for source in sources:
                session.createDataFrame(pyarrow.table(table_columns(source))).createOrReplaceTempView(source.table)
            found = session.sql(join_sql(patterns, sources, wanted, keep, conditions, is_grouped, share)).toArrow()
        guard(found.num_rows)
        # a column of one chunk is a view that torch warns about: copy it
        columns = {name: np.require(found.column(name).to_numpy(), requirements="W") for name in found.column_names}
        return read_joined(columns, patterns, wanted, keep, is_grouped)

    def _start(self) -> Any:
        if self._session is None:
            from pyspark.sql import SparkSession

            try:
                self._session = SparkSession.builder.master(self.master).appName("logicmp").config(
                    "spark.ui.enabled", "false").getOrCreate()
            except Exception as cause:
                raise LogicMPError(f"Spark does not start on {self.master!r}: {str(cause).splitlines()[0]}",
                                   "Spark needs Java; check --master and JAVA_HOME") from None
            self._session.sparkContext.setLogLevel("ERROR")
        return self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None
