"""Collect facts: the lines of texts and the rows of tables, checked together into evidence.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna)                a predicate with another number of arguments: an error that shows the line
    P(A) in one file, !P(A) in another: an error that shows both lines

A line that is no plain fact is read by the reader of theories, which finds the errors.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import RuleError, Source, Span, closest
from ..parse.numerals import merge
from ..parse.reader import read_statements
from ..parse.resolve import unknown_constant, unknown_predicate, wrong_arity
from ..parse.syntax import Atom, Constant, Not, Variable
from ..parse.theory import Theory
from ..parse.tokens import Defined, EmptyError, Include, Starred, Statement, UnexpectedError
from .columns import Evidence, FactTable, Growing, first_of_each

# a constant that needs no quotes, as in the grammar
PLAIN_FACT_CONSTANT = re.compile(
    r"(?:[A-Z][\w']*(?:-[\w']+)*|[^\W\d][\w']*(?:-[^\W\d][\w']*)*"
    r"|-?(?:\d+\.\d+|\.\d+|\d+)(?:[eE][-+]?\d+)?(?!\w)|\w[\w']*(?:\.[\w']+)+)")
_ARGUMENT = re.compile(r'[(,]\s*([^\s()",][^()",]*?)\s*(?=[,)])')
_HINT = "write one fact per line: P(A), !P(A), ?P(A), 0.7 P(A), or label(T1) = B-PER for a multi-class predicate"


@dataclass(frozen=True)
class Rows(Source):
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


class FactReader:
    """Reads lines and rows one source after the other; the evidence of all of them is checked at the end."""

    def __init__(self, theory: Theory):
        # the files so far, and the number of lines before each of them
        self.sources: list[Source] = []
        self.before: list[int] = []
        self.n_lines = 0
        self.theory = theory
        self.tables = {predicate.name: Growing(predicate) for predicate in theory.predicates}
        # constants that the facts themselves declare, `person = {Anna}`
        self.declared: dict[str, dict[str, None]] = {}

    def open(self, source: Source) -> int:
        """Begin a file; return the number of lines before it."""
        self.sources.append(source)
        self.before.append(self.n_lines)
        self.n_lines += source.n_rows if isinstance(source, Rows) else source.text.count("\n") + 1
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
            odd = [arg for arg in _ARGUMENT.findall(line) if not PLAIN_FACT_CONSTANT.fullmatch(arg)]
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
            if len(table) or table.is_share:
                tables[name] = table
        theory = self.theory.with_constants({name: merge(parts) for name, parts in constants.items()})
        return Evidence(theory, tables, warnings)

    def _check_closed(self, table: FactTable, k: int, type_name: str, known: tuple[str, ...]) -> None:
        column = table.columns[k]
        unknown = set(column.names) - set(known)
        if unknown:
            row = next((i for i, code in enumerate(column.codes.tolist()) if column.names[code] in unknown), None)
            if row is None:
                # in the share of another process
                raise unknown_constant(min(unknown), type_name, known, None)
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
        what = "row" if isinstance(source, Rows) else "line"
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
        if isinstance(source, Rows):
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
