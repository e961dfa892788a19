"""Facts from tables: CSV and Parquet files, data frames, and columns of arrays.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends=friends.csv      a header, then one fact per row: one column for each argument, in order
    {"Friends": frame}       pandas, polars, pyarrow, a dict of columns, or a 2-d array
    a column "value"         1 true, 0 false, between them soft evidence, missing for unobserved; by default 1
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LogicMPError, closest
from ..files import read_source
from ..limits import need
from ..parse.theory import Predicate, Theory
from .columns import Column, Numbers

VALUE = "value"
# how the names of tables end
TABLES = (".csv", ".parquet")


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


def to_columns(predicate: Predicate, table: Any, what: str) -> tuple[list[Column], np.ndarray]:
    """The facts of a table: a column of constants for each argument, and the value of each fact.

    >>> from logicmp import parse_theory
    >>> found, values = to_columns(parse_theory("F(p, p)").predicate["F"], {"a": ["A", "B"], "b": [1, 1]}, "F")
    >>> [column.names for column in found], values.tolist()
    ([['A', 'B'], ['1']], [1.0, 1.0])

    Args:
        table: an object with named columns, or a 2-d array.
        what: shown in errors: the name of the file or of the predicate.
    """
    arrays = _arrays(table, what)
    expected = [argument.type for argument in predicate.arguments] + ["label"] * (predicate.labels is not None)
    names = [name for name in arrays if name != VALUE]
    if len(names) != len(expected):
        raise LogicMPError(f"{what}: {len(names)} columns ({', '.join(map(repr, names))}), expected {len(expected)}, "
                           f"because {predicate}", "one column for each argument, in order, and a column 'value' if "
                           "not all facts are true")
    lengths = {len(column) for column in arrays.values()}
    if len(lengths) > 1:
        raise LogicMPError(f"{what}: the columns have different lengths: "
                           f"{', '.join(f'{name!r} {len(column)}' for name, column in arrays.items())}")
    found = [_constants(arrays[name], f"{what}, ", name) for name in names]
    n = next(iter(lengths), 0)
    return found, _values(arrays[VALUE], what) if VALUE in arrays else np.ones(n)


def _arrays(table: Any, what: str) -> dict[str, np.ndarray]:
    """The columns of a table by name, as arrays; anything whose columns have `to_numpy` will do."""
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return {str(k): table[:, k] for k in range(table.shape[1])}
    if isinstance(table, Mapping):
        return {str(name): _array(column) for name, column in table.items()}
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is None or not hasattr(table, "__getitem__") or callable(names):
        raise LogicMPError(f"{what}: expected a table, got a {type(table).__name__}",
                           "pass a DataFrame, a dict of columns, or a 2-d array")
    if all(isinstance(name, str) or hasattr(table, "iloc") for name in names):
        return {str(name): _array(table[name]) for name in names}
    raise LogicMPError(f"{what}: the columns of this {type(table).__name__} have no names")


def _array(column: Any) -> np.ndarray:
    if hasattr(column, "to_numpy"):
        return np.asarray(column.to_numpy())
    if isinstance(column, np.ndarray):
        return column
    found = np.empty(len(column), dtype=object)
    found[:] = list(column)
    return found


def _constants(column: np.ndarray, what: str, name: str) -> Column:
    if column.dtype.kind in "iu":
        known, first, codes = np.unique(column, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return Column([str(value) for value in known[order].tolist()], rank[codes.reshape(-1)])
    values: Sequence[Any] = column.tolist()
    numbers = Numbers()
    codes = np.fromiter(map(numbers.__getitem__, values), dtype=np.int32, count=len(values))
    for key in list(numbers):
        is_missing = key is None or key != key or (isinstance(key, str) and not key) or str(key) == "<NA>"
        is_odd = not isinstance(key, (str, int)) or isinstance(key, bool)
        if is_missing or (is_odd and not is_missing):
            row = int(np.argmax(codes == numbers[key])) + 1
            why = "the constant is missing" if is_missing else f"expected a name or a whole number, got {key!r}"
            raise LogicMPError(f"{what}row {row}, column {name!r}: {why}",
                               "remove the row, or fill it in" if is_missing else "convert the column to strings")
    return Column([str(key) for key in numbers], codes)


def _values(column: np.ndarray, what: str) -> np.ndarray:
    try:
        found = np.array([np.nan if x is None or x == "" else float(x) for x in column.tolist()], dtype=np.float64)
    except (TypeError, ValueError) as cause:
        raise LogicMPError(f"{what}, column {VALUE!r}: {cause}",
                           "1 true, 0 false, between them soft evidence") from None
    outside = ~np.isnan(found) & ((found < 0) | (found > 1))
    if outside.any():
        row = int(np.argmax(outside))
        raise LogicMPError(f"{what}, row {row + 1}, column {VALUE!r}: expected a number between 0 and 1, got "
                           f"{found[row]:g}", "1 true, 0 false, between them soft evidence, empty for unobserved")
    return found
