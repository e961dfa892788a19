"""Read evidence: .db files of Alchemy, Tuffy and pracmln, and the `facts` of ExpressGNN.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna, Bob)       true            !Smokes(Bob)     false         label(T1) = B-PER   a multi-class value
    ?Smokes(Carl)            unobserved      0.7 Smokes(Eve)  soft          person = {Anna}     more constants (pracmln)

Lines that are true facts of one predicate are split at their commas. One regular expression reads other plain lines,
many at once. The reader of theories reads every other line, and finds the errors.
"""

from __future__ import annotations

import bisect
import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import checked
from ..errors import LogicMPError, RuleError, Source, Span, closest
from ..files import read_source, read_stdin, reject_path
from ..limits import Progress, silent
from ..parse.numerals import merge
from ..parse.reader import read_statements
from ..parse.resolve import unknown_constant, unknown_predicate, wrong_arity
from ..parse.syntax import Atom, Constant, Not, Variable
from ..parse.theory import Predicate, Theory
from ..parse.tokens import Defined, EmptyError, Include, Starred, Statement, UnexpectedError
from .columns import Column, Evidence, FactTable, Numbers, first_of_each
from .stores import is_store, read_store, store_name
from .tables import TABLES, read_table, release_unused, split_table_path, to_columns

# a constant that needs no quotes, as in the grammar
_CONSTANT = (r"(?:[A-Z][\w']*(?:-[\w']+)*|[^\W\d][\w']*(?:-[^\W\d][\w']*)*"
             r"|-?(?:\d+\.\d+|\.\d+|\d+)(?:[eE][-+]?\d+)?(?!\w)|\w[\w']*(?:\.[\w']+)+)")
PLAIN_FACT_CONSTANT = re.compile(_CONSTANT)
# one tuple for each line: soft evidence, sign, predicate and arguments of a plain fact; empty strings for other lines
MAX_PLAIN = 3
_LINES = re.compile(r"^(?:[ \t]*(?:(0?\.\d+|1\.0*|[01])[ \t]+)?([!?]?)[ \t]*([^\W\d]\w*)[ \t]*"
                    rf"\([ \t]*({_CONSTANT})[ \t]*" + rf"(?:,[ \t]*({_CONSTANT})[ \t]*" * (MAX_PLAIN - 1)
                    + ")?" * (MAX_PLAIN - 1) + r"\)[ \t]*|[^\n]*)$", re.MULTILINE)
# characters that are read at once
CHUNK = 2**18
_ARGUMENT = re.compile(r'[(,]\s*([^\s()",][^()",]*?)\s*(?=[,)])')
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_HINT = "write one fact per line: P(A), !P(A), ?P(A), 0.7 P(A), or label(T1) = B-PER for a multi-class predicate"
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
    table: Any


def _read_all(sources: Iterable[Source | _Table], theory: Theory, progress: Progress = silent) -> Evidence:
    """Read all files together, because a fact of one file can contradict a fact of another.

    Each source is released before the next one is read.
    """
    reader = _FactReader(theory)
    for source in sources:
        if isinstance(source, _Table):
            _add_table(source, reader)
            del source
            release_unused()
        else:
            _read(source, reader, progress)
            del source
    progress("indexing", 0, 0)
    return reader.finish()


def _add_table(table: _Table, reader: _FactReader) -> None:
    growing = reader.tables[table.predicate]
    columns, values = to_columns(growing.predicate, table.table, table.name)
    labels = growing.predicate.labels
    if labels is not None:
        name, last = list(columns.items())[-1]
        for k, label in enumerate(last.names):
            if label not in labels:
                row = int(np.argmax(last.codes == k)) + 1
                raise LogicMPError(f"{table.name}, row {row}, column {name!r}: {label!r} is not a label of "
                                   f"{table.predicate}", closest(label, labels, "label"))
    before = reader.open(_Rows(table.name, "", 1, tuple(columns), len(values)))
    last_row = before + len(values)
    lines = np.arange(before + 1, last_row + 1, dtype=np.int32 if last_row < 2**31 else np.int64)
    growing.add_columns(list(columns.values()), values, lines)


def _read(source: Source, reader: _FactReader, progress: Progress) -> None:
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


def _read_alike(lines: str, reader: _FactReader, first_line: int) -> int:
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


def _read_plain(found: list[tuple[str, ...]], reader: _FactReader, first_line: int) -> list[int]:
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


@dataclass(frozen=True)
class _Rows(Source):
    """A table in place of a text: its rows count as lines."""

    columns: tuple[str, ...] = ()
    n_rows: int = 0


@dataclass(frozen=True, slots=True)
class _Row(Span):
    """A row of a table, shown by its number, with the name of a column or without."""

    column_name: str | None = None

    @property
    def line(self) -> int:
        return self.start

    def show(self) -> str:
        column = "" if self.column_name is None else f", column {self.column_name!r}"
        return f" --> {self.source.name}, row {self.start}{column}"


class _Growing:
    """The facts of one predicate while they are read, in pieces."""

    def __init__(self, predicate: Predicate):
        self.predicate = predicate
        self._numbers = [Numbers() for _ in range(len(predicate.arguments) + (predicate.labels is not None))]
        self.codes: list[list[np.ndarray]] = [[] for _ in self._numbers]
        self.values: list[np.ndarray] = []
        self.lines: list[np.ndarray] = []
        # the first table, whose columns stay as they are if no other facts follow
        self._only: FactTable | None = None

    @property
    def numbers(self) -> list[Numbers]:
        """By argument, a number for each name so far."""
        if self._only is not None:
            table, self._only = self._only, None
            self.add_columns(table.columns, table.values, table.lines, is_only=False)
        return self._numbers

    def add_columns(self, columns: list[Column], values: np.ndarray, lines: np.ndarray, is_only: bool = True) -> None:
        """Add the facts of a table."""
        if is_only and not self.values and self._only is None:
            self._only = FactTable(self.predicate, columns, values, lines)
            return
        self.add([numbers.add(column) for numbers, column in zip(self.numbers, columns, strict=True)], values, lines)

    def add(self, codes: list[np.ndarray], values: np.ndarray, lines: np.ndarray) -> None:
        for pieces, piece in zip(self.codes, codes, strict=True):
            pieces.append(piece)
        self.values.append(values)
        self.lines.append(lines)

    def add_one(self, args: tuple[str, ...], value: float, line: int) -> None:
        self.add([np.array([numbers[arg]], dtype=np.int32) for numbers, arg in zip(self.numbers, args, strict=True)],
                 np.array([value]), np.array([line]))

    def table(self) -> FactTable:
        """The facts in the order of their lines."""
        if self._only is not None:
            return self._only
        columns = []
        for numbers, pieces in zip(self.numbers, self.codes, strict=True):
            columns.append(Column(list(numbers), np.concatenate([np.zeros(0, dtype=np.int32), *pieces])))
            # the pieces are no longer needed: release their memory, column by column
            numbers.clear()
            pieces.clear()
        lines = np.concatenate([np.zeros(0, dtype=np.int32), *self.lines])
        self.lines.clear()
        table = FactTable(self.predicate, columns, np.concatenate([np.zeros(0), *self.values]), lines)
        self.values.clear()
        is_sorted = bool((lines[1:] >= lines[:-1]).all())
        return table if is_sorted else table.take(np.argsort(lines, kind="stable"))


class _FactReader:
    def __init__(self, theory: Theory):
        # the files so far, and the number of lines before each of them
        self.sources: list[Source] = []
        self.before: list[int] = []
        self.n_lines = 0
        self.theory = theory
        self.tables = {predicate.name: _Growing(predicate) for predicate in theory.predicates}
        # constants that the facts themselves declare, `person = {Anna}`
        self.declared: dict[str, dict[str, None]] = {}

    def open(self, source: Source) -> int:
        """Begin a file; return the number of lines before it."""
        self.sources.append(source)
        self.before.append(self.n_lines)
        self.n_lines += source.n_rows if isinstance(source, _Rows) else source.text.count("\n") + 1
        return self.before[-1]

    def slow_line(self, number: int, line: str) -> None:
        """Read a line that is not a plain fact: empty, a comment, a declaration, a soft fact, or an error."""
        stripped = line.strip()
        if not stripped or stripped.startswith("//"):
            return
        if set(stripped) == {"-"}:
            raise RuleError("several databases in one file are not supported", self._line(self.before[-1] + number),
                            "put each database in its own file")
        unknown = stripped.startswith("?")
        shown = Source(self.sources[-1].name, line.replace("?", " ", 1) if unknown else line, number)
        try:
            for statement in read_statements(shown, "prac"):
                self._statement(statement, number, unknown)
        except RuleError as error:
            raise self._shown_as_written(error, line, number) from None

    def _shown_as_written(self, error: RuleError, line: str, number: int) -> RuleError:
        """The error of one line, with the line as the user wrote it, and with what a fact may be."""
        if isinstance(error, EmptyError):
            return RuleError("this is not a fact", self._line(self.before[-1] + number), _HINT)
        span, hint = error.span, error.hint
        if span is not None:
            start = _start(self.sources[-1], number)
            span = Span(self.sources[-1], start + span.start, start + span.end)
        if isinstance(error, UnexpectedError):
            odd = [arg for arg in _ARGUMENT.findall(line) if not re.fullmatch(_CONSTANT, arg)]
            hint = f'put the constant in quotes: "{odd[0]}"' if odd and "?" not in odd[0] else _HINT
        return RuleError(error.message, span, hint)

    def _statement(self, statement: Statement | Include, number: int, unknown: bool) -> None:
        if isinstance(statement, Include):
            raise RuleError("facts cannot include files", statement.span, "give several files instead")
        formula, value = statement.formula, 1.0
        if isinstance(formula, Defined):
            if formula.name not in self.theory.type:
                raise RuleError(f"type {formula.name!r} is not used by any predicate", formula.span,
                                closest(formula.name, list(self.theory.type), "type"))
            self.declared.setdefault(formula.name, {}).update(dict.fromkeys(formula.items))
            return
        if isinstance(formula, Not):
            formula, value = formula.body, 0.0
        is_marked = statement.is_hard or statement.word is not None or (
            unknown and (value != 1 or statement.weight is not None))
        if isinstance(formula, Starred) or not isinstance(formula, Atom) or is_marked:
            raise RuleError("this is not a fact", statement.span, _HINT)
        if statement.weight is not None:
            if not 0 <= statement.weight <= 1:
                raise RuleError(f"soft evidence must be a probability, got {statement.weight:g}", statement.weight_span,
                                "write a number between 0 and 1 before the atom")
            value = statement.weight if value else 1 - statement.weight
        self._fact(formula, math.nan if unknown else value, number)

    def _fact(self, atom: Atom, value: float, number: int) -> None:
        table = self.tables.get(atom.predicate)
        if table is None:
            raise unknown_predicate(atom.predicate, self.tables, atom.span)
        predicate = table.predicate
        if len(atom.args) != len(predicate.arguments):
            raise wrong_arity(predicate, len(atom.args), atom.span)
        for arg in atom.args:
            if isinstance(arg, Variable) or not isinstance(arg, Constant):
                raise RuleError("a fact has only constants", atom.span)
        if (atom.labels is None) != (predicate.labels is None) or len(atom.labels or "1") != 1:
            raise RuleError(f"{predicate.name} is {'not ' * (predicate.labels is None)}multi-class", atom.span,
                            f"it is declared as {predicate}; a fact names one label, as in label(T1) = B-PER")
        label = tuple(atom.labels or ())
        if label and label[0] not in (predicate.labels or ()):
            raise RuleError(f"{label[0]!r} is not a label of {predicate.name}", atom.span,
                            closest(label[0], predicate.labels or (), "label"))
        table.add_one(tuple(arg.name for arg in atom.args) + label, value, self.before[-1] + number)

    def finish(self) -> Evidence:
        """Return the evidence: collect the constants, merge repeated facts and check for contradictions."""
        constants: dict[str, list[Sequence[str]]] = {name: [tuple(known)] for name, known in self.declared.items()}
        warnings: list[str] = []
        tables: dict[str, FactTable] = {}
        for name in self.tables:
            table = self.tables[name].table()
            for k, (column, argument) in enumerate(zip(table.columns, table.predicate.arguments, strict=False)):
                known = self.theory.type[argument.type]
                if known.closed:
                    self._check_closed(table, k, argument.type,
                                       (*known.constants, *self.declared.get(argument.type, ())))
                constants.setdefault(argument.type, []).append(column.names)
            first = first_of_each(table.keys())
            if first is not None:
                table, warning = self._without_repeated(table, first)
                warnings.append(warning)
            if table.predicate.is_categorical:
                self._check_one_value(table)
            if len(table):
                tables[name] = table
        theory = self.theory.with_constants({name: merge(parts) for name, parts in constants.items()})
        return Evidence(theory, tables, warnings)

    def _check_closed(self, table: FactTable, k: int, type_name: str, known: tuple[str, ...]) -> None:
        column = table.columns[k]
        unknown = set(column.names) - set(known)
        if unknown:
            row = next(i for i, code in enumerate(column.codes.tolist()) if column.names[code] in unknown)
            raise unknown_constant(column.names[column.codes[row]], type_name, known, self._line(table.lines[row], k))

    def _without_repeated(self, table: FactTable, first: np.ndarray) -> tuple[FactTable, str]:
        """Keep one of equal facts and return a warning; one atom with two values is an error that shows both lines."""
        is_again = first != np.arange(len(table), dtype=first.dtype)
        rows = np.flatnonzero(is_again)
        one, again_value = table.values[first[rows]], table.values[rows]
        differ = (one != again_value) & ~(np.isnan(one) & np.isnan(again_value))
        if differ.any():
            other = int(rows[np.argmax(differ)])
            raise RuleError(f"{_atom(table, first[other])} is given two different values",
                            self._line(table.lines[first[other]]), also=self._line(table.lines[other]))
        again = table.lines[is_again]
        count = "1 fact" if len(again) == 1 else f"{len(again)} facts"
        source, number = self._place(again[0])
        what = "row" if isinstance(source, _Rows) else "line"
        return table.keep(np.flatnonzero(~is_again)), (
            f"{source.name}: {count} of {table.predicate.name} {'is' if len(again) == 1 else 'are'} "
            f"given again, first on {what} {number}")

    def _check_one_value(self, table: FactTable) -> None:
        """Reject two true values of one categorical variable."""
        predicate = table.predicate
        values = predicate.functional if predicate.labels is None else (len(predicate.arguments),)
        true = table.take(np.flatnonzero(table.values == 1))
        first = first_of_each(true.keys(without=values))
        if first is not None:
            other = int(np.argmax(first != np.arange(len(true))))
            one = int(first[other])
            raise RuleError(f"{_atom(true, one)} and {_atom(true, other)} cannot both be true",
                            self._line(true.lines[one]), f"it is declared as {predicate}",
                            self._line(true.lines[other]))

    def _place(self, number: int) -> tuple[Source, int]:
        """Return the file of a line and its number there, by its number in all files together."""
        k = bisect.bisect_left(self.before, number) - 1
        return self.sources[k], int(number) - self.before[k]

    def _line(self, number: int, argument: int | None = None) -> Span:
        """Return the span of a line, by its number in all files together."""
        source, number = self._place(number)
        if isinstance(source, _Rows):
            return _Row(source, number, number, None if argument is None else source.columns[argument])
        start, line = _start(source, number), source.line(number)
        return Span(source, start + len(line) - len(line.lstrip()), start + len(line.rstrip()))


def _start(source: Source, number: int) -> int:
    """Return the position where a line starts in the text."""
    start = 0
    for _ in range(number - 1):
        start = source.text.index("\n", start) + 1
    return start


def _atom(table: FactTable, row: int) -> Atom:
    args, n = table.take(np.array([row])).args[0], len(table.predicate.arguments)
    return Atom(table.predicate.name, tuple(map(Constant, args[:n])), args[n:] or None)


@checked
def load_facts(paths: str | Path | Sequence[str | Path] | Mapping[str, Any], theory: Theory,
               progress: Progress = silent) -> Evidence:
    """Read facts from files, from `-` (standard input), from a folder of ExpressGNN, or from tables.

    Args:
        paths: one or several files, `-` for standard input, ExpressGNN folders, or `Friends=friends.csv` for the table
            of a predicate; or a mapping from predicates to data frames (pandas, polars, pyarrow, or any object with the
            Arrow interface), dicts of columns or 2-d arrays, with one column for each argument, and a column "value" if
            not all facts are true.
        theory: declares the predicates; open types get new constants.
        progress: called with "reading", the characters of a text that were read, and all of them.
    """
    if isinstance(paths, Mapping):
        for name in paths:
            if name not in theory.predicate:
                raise unknown_predicate(name, theory.predicate, None)
        return _read_all([_Table(name, name, table) for name, table in paths.items()], theory)
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    progress("reading", 0, 0)
    return _read_all((_source(path, theory) for path in paths), theory, progress)


def _source(path: str | Path, theory: Theory) -> Source | _Table:
    if str(path) == "-":
        return read_stdin("facts are plain text in UTF-8")
    if str(path).lower().endswith(TABLES):
        name, file = split_table_path(str(path), theory)
        return _Table(str(file), name, read_table(file))
    if "=" in str(path) and is_store(str(path).partition("=")[2]):
        name, place = str(path).partition("=")[::2]
        split_table_path(f"{name}=", theory)
        return _Table(store_name(place), name, read_store(place))
    # os.path, because Path.is_dir raises an error for a name that is too long
    if os.path.isdir(path):
        path = Path(path)
        if not (path / "facts").is_file():
            raise LogicMPError(f"the folder {str(path)!r} has no file 'facts'")
        path = path / "facts"
    return read_source(Path(path))
