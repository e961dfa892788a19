"""Facts from databases and from folders of Parquet parts, as Arrow tables: no Python object is made for a row.

Room: files, limits -> **facts** -> ground, layer.

    Friends=people.duckdb#friends                    a table in a file of DuckDB
    Friends=postgresql://host/db#friends             a table of PostgreSQL, read through ADBC
    Friends=postgresql://host/db#SELECT a, b FROM f  what a query returns
    Friends=parts/                                   all parts of a folder, as `write_parts` writes them
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LogicMPError
from ..files import write_whole
from ..limits import need

# names the parts of a folder, with their rows and checksums
LIST = "parts.json"
# rows that are read at once
PIECE = 2**20


def is_store(place: str) -> bool:
    """Whether a name is that of a database, or of a folder of parts.

    >>> is_store("people.duckdb#friends"), is_store("friends.csv")
    (True, False)
    """
    return "#" in place or place.startswith(("postgresql://", "postgres://")) or place.endswith("/")


def store_name(place: str) -> str:
    """The name of a store for messages: without user and password.

    >>> store_name("postgresql://me:secret@host/db#friends")
    'postgresql://host/db#friends'
    """
    return re.sub(r"//[^@/]*@", "//", place)


def read_store(place: str) -> Any:
    """The table of a database, or of all parts in a folder, as an Arrow table."""
    if place.endswith("/"):
        return read_parts(Path(place))
    where, what = _split(place)
    if where.startswith(("postgresql://", "postgres://")):
        with _reading_postgres(where, what) as cursor:
            return cursor.fetch_arrow_table()
    with _reading_duckdb(Path(where), what) as found:
        return found.to_arrow_table()


def store_pieces(place: str) -> Iterator[Any]:
    """The same table in pieces, in order; no more than one is in memory."""
    if place.endswith("/"):
        yield from _part_pieces(Path(place))
        return
    where, what = _split(place)
    if where.startswith(("postgresql://", "postgres://")):
        with _reading_postgres(where, what) as cursor:
            yield from _tables(cursor.fetch_record_batch())
        return
    with _reading_duckdb(Path(where), what) as found:
        yield from _tables(found.to_arrow_reader(PIECE))


def _split(place: str) -> tuple[str, str]:
    """The database, and the table or query."""
    where, _, what = place.partition("#")
    if not what:
        raise LogicMPError(f"{place!r} names a database, but no table", f"write {place}#TABLE, or {place}#SELECT ...")
    return where, what


def _query(what: str) -> str:
    """A query as it is, or all of a table."""
    if re.match(r"(select|with)\b", what, re.IGNORECASE):
        return what
    return "SELECT * FROM " + ".".join('"' + part.replace('"', '""') + '"' for part in what.split("."))


@contextmanager
def _reading_duckdb(path: Path, what: str) -> Iterator[Any]:
    """The result of a query, before it is read."""
    for module in ("duckdb", "pyarrow"):
        need(module, "sql", f"reading {str(path)!r}", "write the table as .csv")
    import duckdb

    if not path.is_file():
        raise LogicMPError(f"cannot read {str(path)!r}: there is no such file")
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            yield connection.sql(_query(what))
    except duckdb.Error as cause:
        raise LogicMPError(f"cannot read {what!r} from {str(path)!r}: {str(cause).splitlines()[0]}") from None


@contextmanager
def _reading_postgres(where: str, what: str) -> Iterator[Any]:
    """A cursor that has run a query."""
    for module in ("adbc_driver_postgresql", "pyarrow"):
        need(module, "sql", "reading from PostgreSQL", "write the table as .csv")
    from adbc_driver_postgresql import dbapi

    shown = store_name(where)
    try:
        with dbapi.connect(where) as connection, connection.cursor() as cursor:
            cursor.execute(_query(what))
            yield cursor
    except dbapi.Error as cause:
        raise LogicMPError(f"cannot read {what!r} from {shown!r}: {str(cause).splitlines()[0]}") from None


# parts


def write_parts(folder: Path, parts: Iterable[Mapping[str, np.ndarray]]) -> None:
    """Write tables as the parts of a folder, and then the list of them, so that a missing part is noticed.

    Args:
        folder: made if it does not exist.
        parts: by column, arrays of one length.
    """
    need("pyarrow", "tables", "writing Parquet files")
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for k, columns in enumerate(parts):
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(pyarrow.table(dict(columns)), sink)
        raw = sink.getvalue().to_pybytes()
        name = f"part-{k:05d}.parquet"
        write_whole(folder / name, raw, "a part")
        found.append({"name": name, "rows": len(next(iter(columns.values()), ())),
                      "sha256": hashlib.sha256(raw).hexdigest()})
    write_whole(folder / LIST, json.dumps({"parts": found}, indent=2) + "\n", "the list of parts")


def read_parts(folder: Path) -> Any:
    """All parts of a folder as one Arrow table; one that is missing or damaged is named.

    A folder without a list of parts is read as it is, all its .parquet files in order.
    """
    tables = []
    for path, raw in _parts(folder):
        with _reading_part(path, raw) as part:
            tables.append(part.read())
    import pyarrow

    try:
        return pyarrow.concat_tables(tables)
    except pyarrow.ArrowException as cause:
        raise LogicMPError(f"the parts in {str(folder)!r} have different columns: {cause}") from None


def _part_pieces(folder: Path) -> Iterator[Any]:
    first: list[str] = []
    for path, raw in _parts(folder):
        with _reading_part(path, raw) as part:
            first = first or part.schema_arrow.names
            if part.schema_arrow.names != first:
                raise LogicMPError(f"the parts in {str(folder)!r} have different columns: {', '.join(first)}, and "
                                   f"{', '.join(part.schema_arrow.names)} in {path.name}")
            yield from _tables(part.iter_batches(PIECE))


def _tables(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    for batch in batches:
        yield pyarrow.Table.from_batches([batch])


def _parts(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The parts of a folder, each with its content."""
    need("pyarrow", "tables", f"reading {str(folder)!r}", "write the table as .csv")
    if not folder.is_dir():
        raise LogicMPError(f"cannot read {str(folder)!r}: there is no such folder")
    listed = _listed(folder)
    names = sorted(p.name for p in folder.glob("*.parquet")) if listed is None else list(listed)
    if not names:
        raise LogicMPError(f"the folder {str(folder)!r} has no .parquet files")
    for name in names:
        path = folder / name
        try:
            raw = path.read_bytes()
        except OSError as cause:
            raise LogicMPError(f"the part {str(path)!r} is missing: {cause.strerror}",
                               f"write the folder again, or copy the part; {LIST} lists {len(names)} parts") from None
        if listed is not None and hashlib.sha256(raw).hexdigest() != listed[name]:
            raise LogicMPError(f"the part {str(path)!r} is damaged: its checksum is wrong",
                               "write the folder again, or copy the part")
        yield path, raw


@contextmanager
def _reading_part(path: Path, raw: bytes) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        yield parquet.ParquetFile(pyarrow.BufferReader(raw))
    except (OSError, pyarrow.ArrowException) as cause:
        raise LogicMPError(f"the part {str(path)!r} is damaged: {cause}") from None


def _listed(folder: Path) -> dict[str, str] | None:
    """The checksum of each part that the list names; None without a list."""
    if not (folder / LIST).exists():
        return None
    try:
        found = json.loads((folder / LIST).read_text(encoding="utf-8"))
        return {part["name"]: part["sha256"] for part in found["parts"]}
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise LogicMPError(f"cannot read the list of parts {str(folder / LIST)!r}: {cause}") from None
