"""Run the joins in DuckDB, within a memory limit: what does not fit is written to a folder that is removed afterwards.

Room: sql -> **ground** -> plan, execute.

    DuckDB(500_000_000)      joins use 500 MB, and then the folder for temporary files (TMPDIR)
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CostError, LogicMPError
from ..limits import machine_memory, need, shown_bytes
from ..normalize.cubes import Differ
from .engine import Share
from .join import Guard
from .patterns import Joined, Pattern
from .sql import Tables, join_sql, read_joined, table_columns

# rows that are read from a result at once
PIECE = 2**18
# of the memory that the machine has, if there is no limit
MEMORY_SHARE = 0.5


class DuckDB:
    """DuckDB in this process; `close` removes its temporary files.

    Args:
        memory: bytes that a join may use before it writes to disk; None for half of what the machine has.
        folder: where temporary files go, in a folder of their own; None for the system's folder.
        max_spill: bytes of temporary files; None for all that the disk has.
    """

    def __init__(self, memory: int | None = None, folder: Path | None = None, max_spill: int | None = None):
        for module in ("duckdb", "pyarrow"):
            need(module, "sql", "engine 'duckdb'", "use the built-in join: --engine torch")
        self.memory, self.folder, self.max_spill = memory, folder, max_spill
        # the most bytes of temporary files that were seen while results were read
        self.spilled = 0
        self.tables = Tables()
        self._open: tuple[Any, Path] | None = None

    def join(self, patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
             conditions: Sequence[Differ], is_grouped: bool, share: Share) -> Joined:
        wanted, keep = list(wanted), list(keep)
        sources = self.tables.sources(patterns)
        text = join_sql(patterns, sources, wanted, keep, conditions, is_grouped, share)
        with self.connected() as connection:
            for source in sources:
                # shares the memory of the columns
                connection.register(source.table, pyarrow_table(table_columns(source)))
            columns = _read(connection, text, guard, self._measure)
        return read_joined(columns, patterns, wanted, keep, is_grouped)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """The connection, with our limits; an error closes it and removes its folder."""
        duckdb = _duckdb()
        connection, spill = self._open or self._connect()
        try:
            yield connection
        except (duckdb.OutOfMemoryException, duckdb.IOException) as cause:
            error = self._full(spill, cause)
            self.close()
            raise error from None
        except BaseException:
            self.close()
            raise

    def _connect(self) -> tuple[Any, Path]:
        try:
            spill = Path(tempfile.mkdtemp(prefix="logicmp-", dir=self.folder))
        except OSError as cause:
            raise LogicMPError(f"DuckDB has no folder for temporary files: {cause}",
                               "set TMPDIR to a folder that can be written") from None
        memory = self.memory or int(MEMORY_SHARE * machine_memory())
        settings: dict[str, Any] = {"temp_directory": str(spill), "threads": _n_threads(),
                                    "preserve_insertion_order": False, "memory_limit": f"{max(memory // 1000, 1)}KB"}
        connection = _duckdb().connect(":memory:", config=settings)
        if self.max_spill is not None:
            # among the settings of connect it has no effect
            connection.execute(f"SET max_temp_directory_size = '{max(self.max_spill // 1000, 1)}KB'")
        self._open = connection, spill
        # where nobody closes it, the end of the program does
        weakref.finalize(self, _remove, *self._open)
        return self._open

    def close(self) -> None:
        """Remove the temporary files; the next join opens a new connection."""
        if self._open is not None:
            _remove(*self._open)
            self._open = None

    def _measure(self) -> None:
        if self._open is not None:
            self.spilled = max(self.spilled, _size(self._open[1]))

    def _full(self, spill: Path, cause: Exception) -> LogicMPError:
        first = str(cause).splitlines()[0]
        # of DuckDB's errors, those of temporary files
        if isinstance(cause, _duckdb().OutOfMemoryException) and "offload" not in first:
            return CostError(f"a join needs more memory than DuckDB may use: {first}", None, "raise --max-memory")
        most = "" if self.max_spill is None else f", limit {shown_bytes(self.max_spill)}"
        return LogicMPError(f"DuckDB cannot write more temporary files to {str(spill)!r} "
                            f"({shown_bytes(shutil.disk_usage(spill).free)} free on this disk{most}): {first}",
                            "set TMPDIR to a folder on a larger disk, or raise --max-memory")


def _duckdb() -> Any:
    import duckdb

    return duckdb


def _n_threads() -> int:
    """As many threads as the others of this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else os.cpu_count() or 1


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _remove(connection: Any, spill: Path) -> None:
    connection.close()
    shutil.rmtree(spill, ignore_errors=True)


def pyarrow_table(columns: dict[str, np.ndarray]) -> Any:
    """A table of pyarrow over these columns."""
    import pyarrow

    return pyarrow.table(columns)


def _read(connection: Any, text: str, guard: Guard, measure: Callable[[], None]) -> dict[str, np.ndarray]:
    """The columns of a result, in pieces, so that too many rows are noticed before they are in memory."""
    reader = connection.sql(text).to_arrow_reader(PIECE)
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in reader.schema.names}
    is_counted = "n" in pieces
    total = 0
    for batch in reader:
        total += batch.num_rows
        guard(total if not is_counted else 0)
        measure()
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            pieces[name].append(column.to_numpy())
    found = {}
    for name in list(pieces):
        found[name] = np.concatenate([np.zeros(0, dtype=np.int32 if name != "n" else np.int64), *pieces.pop(name)])
    return found
