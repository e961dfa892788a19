"""Read evidence: .db files of Alchemy, Tuffy and pracmln, and the `facts` of ExpressGNN.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna, Bob)       true            !Smokes(Bob)     false         label(T1) = B-PER   a multi-class value
    ?Smokes(Carl)            unobserved      0.7 Smokes(Eve)  soft          person = {Anna}     more constants (pracmln)

Lines that are true facts of one predicate are split at their commas. One regular expression reads other plain lines,
many at once. The reader of theories reads every other line, and finds the errors.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import checked
from ..errors import LogicMPError, Source, closest
from ..files import read_source, read_stdin, reject_path
from ..limits import Progress, silent
from ..parse.resolve import unknown_predicate
from ..parse.theory import Theory
from .collect import PLAIN_FACT_CONSTANT, FactReader, Rows
from .columns import Evidence, FactTable
from .divided import Division, read_share
from .stores import is_store, read_store, store_name, store_pieces
from .tables import TABLES, read_table, release_unused, split_table_path, table_pieces, to_columns

# one tuple for each line: soft evidence, sign, predicate and arguments of a plain fact; empty strings for other lines
MAX_PLAIN = 3
_CONSTANT = PLAIN_FACT_CONSTANT.pattern
_LINES = re.compile(r"^(?:[ \t]*(?:(0?\.\d+|1\.0*|[01])[ \t]+)?([!?]?)[ \t]*([^\W\d]\w*)[ \t]*"
                    rf"\([ \t]*({_CONSTANT})[ \t]*" + rf"(?:,[ \t]*({_CONSTANT})[ \t]*" * (MAX_PLAIN - 1)
                    + ")?" * (MAX_PLAIN - 1) + r"\)[ \t]*|[^\n]*)$", re.MULTILINE)
# characters that are read at once
CHUNK = 2**18
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SIGNS = {"": 1.0, "!": 0.0, "?": math.nan}


@checked
def parse_facts(text: str, theory: Theory, name: str = "<facts>") -> Evidence:
    """Read facts from a text and check them against a theory.

    >>> from logicmp import parse_theory
    >>> theory = parse_theory("person = {Anna, Bob}\\nSmokes(person)")
    >>> parse_facts("Smokes(Anna)\\n!Smokes(Bob)", theory).tables["Smokes"].values
    array([1., 0.])

    Args:
        text: one fact per line, as in a .db file.
        theory: declares the predicates; open types get new constants.
        name: shown in errors in place of a file name.
    """
    reject_path(text, "load_facts({}, theory)")
    return _read_all([Source(name, text)], theory)


@dataclass(frozen=True)
class _Table:
    """The table of one predicate, with its name for errors."""

    name: str
    predicate: str
    # called once, so that nothing else keeps the table
    read: Callable[[], Any]
    # the same table in pieces, from the start in every call
    pieces: Callable[[], Iterable[Any]]


def _read_all(sources: Iterable[Source | _Table], theory: Theory, progress: Progress = silent,
              division: Division | None = None) -> Evidence:
    """Read all files together, because a fact of one file can contradict a fact of another.

    Each source is released before the next one is read.
    """
    reader = FactReader(theory)
    for source in sources:
        if isinstance(source, _Table):
            if division is not None and source.predicate in division.predicates:
                _add_share(source, reader, division)
            else:
                _add_table(source, reader)
            release_unused()
        else:
            _read(source, reader, progress)
            del source
    for name in () if division is None else division.predicates:
        if name not in theory.predicate:
            raise unknown_predicate(name, theory.predicate, None)
        if not reader.tables[name].is_divided:
            raise LogicMPError(f"facts of {name} cannot be divided over processes: they are in no table",
                               f"write them as a table: {name}=folder/ or {name}=file.parquet")
    progress("indexing", 0, 0)
    return reader.finish()


def _add_table(table: _Table, reader: FactReader) -> None:
    growing = reader.tables[table.predicate]
    columns, values = to_columns(growing.predicate, table.read(), table.name)
    labels = growing.predicate.labels
    if labels is not None:
        name, last = list(columns.items())[-1]
        for k, label in enumerate(last.names):
            if label not in labels:
                row = int(np.argmax(last.codes == k)) + 1
                raise LogicMPError(f"{table.name}, row {row}, column {name!r}: {label!r} is not a label of "
                                   f"{table.predicate}", closest(label, labels, "label"))
    before = reader.open(Rows(table.name, "", 1, tuple(columns), len(values)))
    last_row = before + len(values)
    lines = np.arange(before + 1, last_row + 1, dtype=np.int32 if last_row < 2**31 else np.int64)
    growing.add_columns(list(columns.values()), values, lines)


def _add_share(table: _Table, reader: FactReader, division: Division) -> None:
    growing = reader.tables[table.predicate]
    columns, values, rows, n_rows = read_share(growing.predicate, table.pieces, division, table.name)
    before = reader.open(Rows(table.name, "", 1, tuple(columns), n_rows))
    rows += before + 1
    growing.add_share(FactTable(growing.predicate, list(columns.values()), values, rows, is_share=True))


def _read(source: Source, reader: FactReader, progress: Progress) -> None:
    before = reader.open(source)
    text = source.text
    if "/*" in text:
        # keep newlines, so that line numbers stay right, and strings, which can contain the marks of a comment
        text = _STRING_OR_COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)
    start, number = 0, 1
    while start <= len(text):
        progress("reading", start, len(text))
        # whole lines, few enough that the strings found in them stay in cache
        end = text.find("\n", start + CHUNK)
        end = len(text) if end < 0 else end
        lines = text[start:end]
        n_alike = _read_alike(lines, reader, before + number)
        if n_alike:
            start, number = end + 1, number + n_alike
            continue
        found = _LINES.findall(lines)
        odd = _read_plain(found, reader, before + number)
        if odd:
            written = lines.split("\n")
            for k in odd:
                reader.slow_line(number + k, written[k])
        start, number = end + 1, number + len(found)
    progress("reading", len(text), len(text))


def _read_alike(lines: str, reader: FactReader, first_line: int) -> int:
    """Add true facts of one predicate, if the lines are nothing else; return their number, 0 if nothing was read.

    Splitting such lines at their commas takes a third of the time of a regular expression.
    """
    # the last line of a file is empty
    is_last = lines.endswith("\n")
    lines = lines[:-1] if is_last else lines
    start = lines[: lines.find("(") + 1]
    table = reader.tables.get(start[:-1])
    if table is None or table.predicate.labels is not None or not lines.endswith(")"):
        return 0
    n, n_args = lines.count("\n") + 1, len(table.predicate.arguments)
    if not (lines.count(")\n" + start) == n - 1 == lines.count("(") - 1 == lines.count(")") - 1):
        return 0
    if lines.count(", ") == n * (n_args - 1):
        lines = lines.replace(", ", ",")
    raw = np.frombuffer(lines.encode(), dtype=np.uint8)
    commas, ends = np.flatnonzero(raw == ord(",")), np.append(np.flatnonzero(raw == ord("\n")), len(raw))
    if len(commas) != n * (n_args - 1) or not n_args:
        return 0
    # every line has its own commas
    if not bool((np.searchsorted(ends, commas) == np.repeat(np.arange(n), n_args - 1)).all()):
        return 0
    names = lines[len(start) : -1].replace(")\n" + start, ",").split(",")
    known = [len(numbers) for numbers in table.numbers]
    codes = [np.fromiter(map(numbers.__getitem__, names[k::n_args]), dtype=np.int32, count=n)
             for k, numbers in enumerate(table.numbers)]
    added = [list(itertools.islice(reversed(numbers), len(numbers) - n_known))
             for numbers, n_known in zip(table.numbers, known, strict=True)]
    if not all(PLAIN_FACT_CONSTANT.fullmatch(name) for column in added for name in column):
        # not a fact, or one that needs more care
        for numbers, column in zip(table.numbers, added, strict=True):
            for name in column:
                del numbers[name]
        return 0
    table.add(codes, np.ones(n), first_line + np.arange(n))
    return n + is_last


def _read_plain(found: list[tuple[str, ...]], reader: FactReader, first_line: int) -> list[int]:
    """Add the plain facts among these lines; return the numbers of the other lines."""
    softs, signs, names, *args = zip(*found, strict=True)
    odd: list[int] = []
    kinds = set(names)
    for name in kinds:
        rows = None if len(kinds) == 1 else [k for k, other in enumerate(names) if other == name]
        pick = _all if rows is None else itemgetter(*rows) if len(rows) > 1 else itemgetter(slice(rows[0], rows[0] + 1))
        table = reader.tables.get(name)
        n = 0 if table is None else len(table.predicate.arguments)
        soft, sign, columns = pick(softs), pick(signs), [pick(column) for column in args]
        is_plain = (table is not None and table.predicate.labels is None and 1 <= n <= MAX_PLAIN
                    and all(map(all, columns[:n])) and not any(map(any, columns[n:]))
                    and not (any(soft) and any(x and y for x, y in zip(soft, sign, strict=True))))
        if not is_plain or table is None:
            odd += range(len(found)) if rows is None else rows
            continue
        n_rows = len(sign)
        values = (np.fromiter(map(float, soft), dtype=np.float64, count=n_rows) if all(soft) else
                  np.array([float(x) if x else _SIGNS[y] for x, y in zip(soft, sign, strict=True)])
                  if any(soft) or any(sign) else np.ones(n_rows))
        # four bytes for a line number, unless there are two thousand million lines
        size = np.int32 if first_line + len(found) < 2**31 else np.int64
        lines = (np.arange(n_rows) if rows is None else np.array(rows)) + first_line
        table.add([np.fromiter(map(numbers.__getitem__, column), dtype=np.int32, count=n_rows)
                   for numbers, column in zip(table.numbers, columns, strict=False)], values, lines.astype(size))
    return sorted(odd)


def _all(column: tuple[str, ...]) -> tuple[str, ...]:
    return column


@checked
def load_facts(paths: str | Path | Sequence[str | Path] | Mapping[str, Any], theory: Theory,
               progress: Progress = silent, division: Division | None = None) -> Evidence:
    """Read facts from files, from `-` (standard input), from a folder of ExpressGNN, or from tables.

    Args:
        paths: one or several files, `-` for standard input, ExpressGNN folders, or `Friends=friends.csv` for the table
            of a predicate; or a mapping from predicates to data frames (pandas, polars, pyarrow, or any object with the
            Arrow interface), dicts of columns or 2-d arrays, with one column for each argument, and a column "value" if
            not all facts are true.
        theory: declares the predicates; open types get new constants.
        progress: called with "reading", the characters of a text that were read, and all of them.
        division: the predicates whose facts are divided over processes, and the share to keep; their facts come from
            tables, and are true or false.
    """
    if isinstance(paths, Mapping):
        for name in paths:
            if name not in theory.predicate:
                raise unknown_predicate(name, theory.predicate, None)
        return _read_all([_Table(name, name, partial(paths.__getitem__, name), partial(_one_piece, paths, name))
                          for name in paths], theory, division=division)
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    progress("reading", 0, 0)
    return _read_all((_source(path, theory) for path in paths), theory, progress, division)


def _one_piece(tables: Mapping[str, Any], name: str) -> tuple[Any]:
    return (tables[name],)


def _source(path: str | Path, theory: Theory) -> Source | _Table:
    if str(path) == "-":
        return read_stdin("facts are plain text in UTF-8")
    if str(path).lower().endswith(TABLES):
        name, file = split_table_path(str(path), theory)
        return _Table(str(file), name, partial(read_table, file), partial(table_pieces, file))
    if "=" in str(path) and is_store(str(path).partition("=")[2]):
        name, place = str(path).partition("=")[::2]
        split_table_path(f"{name}=", theory)
        return _Table(store_name(place), name, partial(read_store, place), partial(store_pieces, place))
    # os.path, because Path.is_dir raises an error for a name that is too long
    if os.path.isdir(path):
        path = Path(path)
        if not (path / "facts").is_file():
            raise LogicMPError(f"the folder {str(path)!r} has no file 'facts'")
        path = path / "facts"
    return read_source(Path(path))
