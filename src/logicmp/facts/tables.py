"""Facts from tables: CSV and Parquet files, data frames, and columns of arrays.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends=friends.csv      a header, then one fact per row: one column for each argument, in order
    {"Friends": frame}       pandas, polars, pyarrow, any object with the Arrow interface, a dict of columns, an array
    a column "value"         1 true, 0 false, between them soft evidence, missing for unobserved; by default 1
    a column "score"         or "probability": what a model predicts, never certain; "logit" or "log_odds" likewise
"""

from __future__ import annotations

import csv
import difflib
import io
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LogicMPError, closest
from ..files import read_source
from ..limits import need
from ..parse.numerals import MANY, Numerals, number_in_order
from ..parse.theory import Predicate, Theory
from .columns import Column, Numbers

VALUE = "value"
# columns with a model's output: probabilities and log-odds
PROBABILITIES, LOG_ODDS = ("score", "probability"), ("logit", "log_odds")
SCORES = (*PROBABILITIES, *LOG_ODDS)
# a model's output is not an observation: a probability of 0 or 1 becomes soft evidence this close to it
CERTAIN = 1e-6
# larger log-odds lose their digits as probabilities
MAX_LOG_ODDS = 30.0
# how frames print a missing value
MISSING = ("None", "nan", "NaT", "<NA>")
# how the names of tables end
TABLES = (".csv", ".parquet")
# rows that are read at once
PIECE = 2**20


def split_table_path(path: str, theory: Theory) -> tuple[str, Path]:
    """The predicate and the file of `Friends=friends.csv`.

    >>> from logicmp import parse_theory
    >>> split_table_path("Friends=friends.csv", parse_theory("Friends(p, p)"))
    ('Friends', PosixPath('friends.csv'))
    """
    name, equals, file = path.partition("=")
    if not equals or name not in theory.predicate:
        if equals and name.isidentifier():
            raise LogicMPError(f"predicate {name!r} is not declared",
                               closest(name, list(theory.predicate), "predicate"))
        example = next(iter(theory.predicate), "P")
        raise LogicMPError(f"{path!r} is a table, and does not name its predicate", f"write {example}={path}")
    return name, Path(file)


def read_table(path: Path) -> Any:
    """The columns of a CSV or Parquet file, by name."""
    if path.suffix.lower() == ".parquet":
        need("pyarrow", "tables", f"reading {str(path)!r}", "write the table as .csv")
        from pyarrow import ArrowException, parquet

        try:
            return parquet.read_table(path)
        except (OSError, ArrowException) as cause:
            raise LogicMPError(f"cannot read {str(path)!r}: {cause}") from None
    plain = _read_plain_csv(path)
    if plain is not None:
        return plain
    rows = csv.reader(io.StringIO(read_source(path).text, newline=""), skipinitialspace=True)
    try:
        header = next(rows, [])
        # an empty line has no fields
        body = [row for row in rows if row]
    except csv.Error as cause:
        raise LogicMPError(f"cannot read {str(path)!r}: {cause}", f"line {rows.line_num}") from None
    for number, row in enumerate(body, 1):
        if len(row) != len(header):
            raise LogicMPError(f"{path}, row {number}: {len(row)} fields, but the header has {len(header)}",
                               'put a field that contains a comma in quotes: "a, b"')
    return dict(zip(header, zip(*body, strict=True), strict=True)) if body else dict.fromkeys(header, ())


def table_pieces(path: Path) -> Iterator[Any]:
    """The same columns in pieces, in order; of a Parquet file, no more than one is in memory."""
    if path.suffix.lower() != ".parquet":
        yield read_table(path)
        return
    need("pyarrow", "tables", f"reading {str(path)!r}", "write the table as .csv")
    from pyarrow import ArrowException, Table, parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches(PIECE):
            yield Table.from_batches([batch])
    except (OSError, ArrowException) as cause:
        raise LogicMPError(f"cannot read {str(path)!r}: {cause}") from None


def release_unused() -> None:
    """Return the memory of Arrow tables that are gone; Arrow keeps it for others."""
    if "pyarrow" in sys.modules:
        import pyarrow

        pyarrow.default_memory_pool().release_unused()


def _read_plain_csv(path: Path) -> Any:
    """A CSV file without quotes and spaces as an Arrow table, without Python objects; None for the careful reader.

    The careful reader also reads what is wrong here, and reports it.
    """
    if find_spec("pyarrow") is None or not path.is_file():
        return None
    import pyarrow
    from pyarrow import compute
    from pyarrow import csv as arrow_csv

    raw = path.read_bytes()
    if any(mark in raw for mark in (b'"', b", ", b"\n ", b"\r")) or raw.startswith((b" ", b"\xef\xbb\xbf", b"\n")):
        return None
    header = raw[: raw.find(b"\n")].decode("latin-1").split(",")
    text = {name: pyarrow.string() for name in header}
    try:
        table = arrow_csv.read_csv(pyarrow.BufferReader(raw), convert_options=arrow_csv.ConvertOptions(
            column_types=text, strings_can_be_null=False))
        if VALUE in header:
            column = table.column(VALUE)
            numbers = compute.cast(compute.if_else(compute.equal(column, ""), None, column), pyarrow.float64())
            table = table.set_column(header.index(VALUE), VALUE, numbers)
    except pyarrow.ArrowException:
        return None
    return table if len(set(table.column_names)) == len(table.column_names) else None


def to_columns(predicate: Predicate, table: Any, what: str) -> tuple[dict[str, Column], np.ndarray]:
    """The facts of a table: a column of constants for each argument, and the value of each fact.

    >>> from logicmp import parse_theory
    >>> found, values = to_columns(parse_theory("F(p, p)").predicate["F"], {"a": ["A", "B"], "b": [1, 1]}, "F")
    >>> {name: column.names for name, column in found.items()}, values.tolist()
    ({'a': ['A', 'B'], 'b': ['1']}, [1.0, 1.0])

    Args:
        table: an object with named columns, or a 2-d array.
        what: shown in errors: the name of the file or of the predicate.
    """
    arrays, values = split_columns(predicate, table, what)
    # each column is released when it has been read
    del table
    return {name: constants_of(arrays.pop(name), what, name) for name in list(arrays)}, values


def split_columns(predicate: Predicate, table: Any, what: str) -> tuple[dict[str, Any], np.ndarray]:
    """The columns of constants of a table as they are, in order, and the value of each fact."""
    arrays = columns_of(table, what)
    expected = [argument.type for argument in predicate.arguments] + ["label"] * (predicate.labels is not None)
    scored = value_column(list(arrays), len(expected), what)
    names = [name for name in arrays if name != scored]
    if len(names) != len(expected):
        raise LogicMPError(f"{what}: {len(names)} columns ({', '.join(map(repr, names))}), expected {len(expected)}, "
                           f"because {predicate}", _column_hint(names, len(expected)))
    lengths = {len(column) for column in arrays.values()}
    if len(lengths) > 1:
        raise LogicMPError(f"{what}: the columns have different lengths: "
                           f"{', '.join(f'{name!r} {len(column)}' for name, column in arrays.items())}")
    n = next(iter(lengths), 0)
    # one number for all facts
    values = np.broadcast_to(1.0, n) if scored is None else read_values(arrays.pop(scored), what, scored)
    return {name: arrays[name] for name in names}, values


def value_column(names: list[str], n_arguments: int, what: str) -> str | None:
    """The column with the values of the facts: "value", or a score if there are more columns than arguments.

    >>> value_column(["a", "b", "score"], 2, "Same"), value_column(["film", "score"], 2, "Rated")
    ('score', None)
    """
    if VALUE in names:
        return VALUE
    found = [name for name in names if name in SCORES] if len(names) > n_arguments else []
    if len(found) > 1 and len(names) - len(found) <= n_arguments:
        raise LogicMPError(f"{what}: the columns {found[0]!r} and {found[1]!r} both give the value of a fact",
                           "keep one of them")
    return found[0] if found else None


def _column_hint(names: list[str], n_expected: int) -> str:
    return (len(names) == n_expected + 1 and misspelt(names)) or (
        f"one column for each argument, in order, and a column {VALUE!r}, {', '.join(map(repr, SCORES[:2]))} or "
        f"{SCORES[2]!r} if not all facts are true")


def misspelt(names: list[str]) -> str:
    """A hint if the name of a column is almost that of one with values; else empty.

    >>> misspelt(["a", "b", "Scores"])
    "rename the column 'Scores' to 'score'"
    """
    close = [(name, *difflib.get_close_matches(name.lower(), (VALUE, *SCORES), 1)) for name in names]
    return next((f"rename the column {found[0]!r} to {found[1]!r}" for found in close[::-1] if len(found) > 1), "")


def columns_of(table: Any, what: str) -> dict[str, Any]:
    """The columns of a table by name: arrays, or columns of pandas or pyarrow."""
    if hasattr(table, "to_frame"):
        # a series
        table = table.to_frame()
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return {str(k): table[:, k] for k in range(table.shape[1])}
    if isinstance(table, Mapping):
        for name, column in table.items():
            if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
                raise LogicMPError(f"{what}: column {name!r} is a {type(column).__name__}; expected a list or an array")
        return {str(name): _array(column) for name, column in table.items()}
    is_pandas = hasattr(table, "iloc")
    if hasattr(table, "__arrow_c_stream__") and not is_pandas and find_spec("pyarrow") is not None:
        return _arrow_columns(table, what)
    if hasattr(table, "collect") and not hasattr(table, "__arrow_c_stream__"):
        raise LogicMPError(f"{what}: expected a table, got a {type(table).__name__}, which is not computed yet",
                           "call .collect() on it")
    names = list(table.columns) if is_pandas or isinstance(getattr(table, "columns", None), list) else []
    if names and all(hasattr(table[name], "to_numpy") for name in names):
        return {str(name): _array(table[name]) for name in names}
    if hasattr(table, "__arrow_c_stream__"):
        need("pyarrow", "tables", f"{what}: reading a {type(table).__name__}", "pass a dict of columns")
    raise LogicMPError(f"{what}: expected a table, got a {type(table).__name__}",
                       "pass a DataFrame, a dict of columns, or a 2-d array")


def _arrow_columns(table: Any, what: str) -> dict[str, Any]:
    import pyarrow

    try:
        found = pyarrow.table(table)
    except (TypeError, ValueError, pyarrow.ArrowException) as cause:
        raise LogicMPError(f"{what}: cannot read this {type(table).__name__} as a table: {cause}") from None
    return {name: found.column(k) for k, name in enumerate(found.column_names)}


def _array(column: Any) -> Any:
    """A column as an array, or as it is if it can number its own values."""
    if hasattr(column, "dictionary_encode") or hasattr(column, "factorize") or isinstance(column, np.ndarray):
        return column
    if hasattr(column, "to_numpy"):
        return np.asarray(column.to_numpy())
    found = np.empty(len(column), dtype=object)
    found[:] = list(column)
    return found


def constants_of(column: Any, what: str, name: str) -> Column:
    """The names in a column, each once, and the number of one for each row."""
    values, codes = _numbered(column)
    if isinstance(values, np.ndarray):
        return Column(Numerals(values), codes)
    for k, value in enumerate(values):
        # nearly all values are strings or whole numbers
        if type(value) is int or (type(value) is str and value):
            continue
        is_missing = not value if isinstance(value, str) else str(value) in MISSING
        if is_missing or not isinstance(value, (str, int)) or isinstance(value, bool):
            why = "the constant is missing" if is_missing else f"expected a name or a whole number, got {value!r}"
            raise LogicMPError(f"{what}, row {int(np.argmax(codes == k)) + 1}, column {name!r}: {why}",
                               "remove the row, or fill it in" if is_missing else "convert the column to strings")
    return Column([value if type(value) is str else str(value) for value in values], codes)


def numbered(column: Any) -> tuple[list[Any], np.ndarray]:
    """The distinct values of a column in order of appearance, and the number of each row's value."""
    values, codes = _numbered(column)
    return values if isinstance(values, list) else values.tolist(), codes


def _numbered(column: Any) -> tuple[list[Any] | np.ndarray, np.ndarray]:
    """Like `numbered`, with many whole numbers as an array."""
    if hasattr(column, "dictionary_encode"):
        return _arrow_numbered(column)
    whole = whole_numbers(column)
    if whole is not None:
        return _numbered_integers(whole)
    if hasattr(column, "factorize"):
        codes, known = column.factorize(use_na_sentinel=False)
        return known.tolist(), codes.astype(np.int32)
    rows = column.tolist()
    numbers = Numbers()
    codes = np.fromiter(map(numbers.__getitem__, rows), dtype=np.int32, count=len(rows))
    return list(numbers), codes


def whole_numbers(column: Any) -> list[np.ndarray] | None:
    """The pieces of a column of whole numbers; None for any other column."""
    if hasattr(column, "dictionary_encode"):
        import pyarrow

        if not pyarrow.types.is_integer(column.type) or column.null_count:
            return None
        return [chunk.to_numpy() for chunk in (column.chunks if hasattr(column, "chunks") else [column])]
    return [column] if isinstance(column, np.ndarray) and column.dtype.kind in "iu" else None


def _arrow_numbered(column: Any) -> tuple[list[Any] | np.ndarray, np.ndarray]:
    import pyarrow

    whole = whole_numbers(column)
    if whole is not None:
        return _numbered_integers(whole)
    chunks = column.chunks if hasattr(column, "chunks") else [column]

    def plain(part: Any) -> Any:
        if pyarrow.types.is_dictionary(part.type):
            return pyarrow.DictionaryArray.from_arrays(part.indices, plain(part.dictionary)).dictionary_decode()
        is_text = pyarrow.types.is_string(part.type) or pyarrow.types.is_string_view(part.type)
        # a column can have more than 2 GB of text
        return part.cast(pyarrow.large_string()) if is_text else part

    # one array, encoded at once: to merge the dictionaries of many pieces takes ten times as long
    parts = [plain(part) for part in chunks]
    whole = pyarrow.concat_arrays(parts or [pyarrow.nulls(0)]).dictionary_encode(null_encoding="encode")
    names = whole.dictionary
    if len(names) >= MANY and pyarrow.types.is_large_string(names.type) and not names.null_count:
        try:
            numbers = names.cast(pyarrow.int64())
        except pyarrow.ArrowException:
            numbers = None
        # "07" and "7" are two names of one number
        if numbers is not None and numbers.cast(names.type).equals(names):
            return numbers.to_numpy(), whole.indices.to_numpy()
    return names.to_pylist(), whole.indices.to_numpy()


def _numbered_integers(columns: list[np.ndarray]) -> tuple[list[int] | np.ndarray, np.ndarray]:
    values, codes = number_in_order(columns)
    return _listed(values), codes


def _listed(values: np.ndarray) -> list[int] | np.ndarray:
    return values.tolist() if len(values) < MANY or int(values.max()) >= 2**62 else values.astype(np.int64)


def read_values(column: Any, what: str, name: str = VALUE) -> np.ndarray:
    """The value of each fact, NaN where it is missing; scores and log-odds become probabilities between 0 and 1.

    >>> read_values([0, 0.5, None], "Same", "logit").round(3).tolist()
    [0.5, 0.622, nan]
    """
    rows = _numbers(column, what, name)
    if name in LOG_ODDS:
        with np.errstate(over="ignore"):
            inside = 1 / (1 + np.exp(-rows.clip(-MAX_LOG_ODDS, MAX_LOG_ODDS)))
        return np.where(np.isinf(rows), rows > 0, inside)
    outside = ~np.isnan(rows) & ((rows < 0) | (rows > 1))
    if outside.any():
        row = int(np.argmax(outside))
        raise LogicMPError(f"{what}, row {row + 1}, column {name!r}: expected a number between 0 and 1, got "
                           f"{rows[row]:g}", _value_hint(name))
    return rows if name == VALUE else rows.clip(CERTAIN, 1 - CERTAIN)


def _value_hint(name: str) -> str:
    if name == VALUE:
        return "1 true, 0 false, between them soft evidence, empty for unobserved"
    return "a probability, empty for unobserved; name the column 'logit' if it has log-odds"


def _numbers(column: Any, what: str, name: str) -> np.ndarray:
    """A column of numbers, NaN where one is missing."""
    if hasattr(column, "to_pylist"):
        # the dictionaries of pyarrow lose missing values in to_numpy
        column = _array(column.to_pylist()) if column.null_count else column
    rows = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if rows.dtype.kind not in "fiub":
        found = np.empty(len(rows))
        for k, x in enumerate(rows.tolist()):
            try:
                found[k] = np.nan if x is None or x == "" or str(x) == "<NA>" else float(x)
            except (TypeError, ValueError):
                kind = "a number" if name in LOG_ODDS else "a number between 0 and 1"
                raise LogicMPError(f"{what}, row {k + 1}, column {name!r}: expected {kind}, got {x!r}",
                                   _value_hint(name)) from None
        rows = found
    return rows.astype(np.float64)
