"""Tables out: columns as a frame of pandas, polars or pyarrow, or as the bytes of a CSV or Parquet file.

Room: **facts** -> inference, learning, constrain, cli.

    make_frame({"atom": [...], "probability": [...]}, "polars")
    table_bytes(columns, ".parquet")
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..limits import need

# kind of a frame -> its module and the extra that installs it
KINDS = {"pandas": ("pandas", "pandas"), "polars": ("polars", "polars"), "arrow": ("pyarrow", "tables")}


def kind_of(table: Any) -> str:
    """Which kind of frame a table is, so that an answer can be of the same kind; "dict" for everything else.

    >>> kind_of({"a": [1]})
    'dict'
    """
    package = type(table).__module__.partition(".")[0]
    return {"pandas": "pandas", "polars": "polars", "pyarrow": "arrow"}.get(package, "dict")


def make_frame(columns: Mapping[str, Any], kind: str) -> Any:
    """A frame with these columns: lists and arrays.

    Args:
        columns: by name, all of one length.
        kind: "pandas", "polars", "arrow", or "dict" for a dict of arrays.
    """
    if kind == "dict":
        return {name: np.asarray(column) for name, column in columns.items()}
    need(*KINDS[kind], f"to_{kind}")
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(dict(columns))
    # polars and pyarrow find the types of Python values, not those of an array of objects
    plain = {name: column.tolist() if isinstance(column, np.ndarray) and column.dtype == object else column
             for name, column in columns.items()}
    if kind == "polars":
        import polars

        return polars.DataFrame(plain)
    import pyarrow

    return pyarrow.table(plain)


def table_bytes(columns: Mapping[str, Any], ending: str) -> bytes:
    """The columns as a file.

    >>> table_bytes({"rule": ["P(x)"], "weight": [0.5]}, ".csv")
    b'rule,weight\\nP(x),0.5\\n'

    Args:
        columns: by name, all of one length.
        ending: ".csv" or ".parquet".
    """
    if ending == ".parquet":
        need("pyarrow", "tables", "writing a .parquet file", "write the table as .csv")
        from pyarrow import parquet

        raw = io.BytesIO()
        parquet.write_table(make_frame(columns, "arrow"), raw)
        return raw.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    rows = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values())
    writer.writerows(zip(*rows, strict=True))
    return text.getvalue().encode()
