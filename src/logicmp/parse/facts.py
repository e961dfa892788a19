"""Ground facts: .db files of Alchemy, Tuffy and pracmln, and the `facts` of ExpressGNN.

Stage: text + theory -> **parse** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna, Bob)       true            !Smokes(Bob)     false         label(T1) = B-PER   a multi-class value
    ?Smokes(Carl)            unknown         0.7 Smokes(Eve)  soft          person = {Anna}     more constants (pracmln)

A plain line takes a fast path, one regular expression; whatever does not match it goes through the grammar of
theories, for the odd cases and for the errors.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import LogicMPError, RuleError, Source, Span
from .files import read_source
from .reader import Defined, Include, Starred, Statement, read_statements
from .resolve import unknown_constant, unknown_predicate, wrong_arity
from .syntax import Atom, Constant, Not, Variable
from .theory import Predicate, Theory

_PLAIN = re.compile(r"[ \t]*(?:(0?\.\d+|1\.0*|[01])[ \t]+)?([!?])?[ \t]*([^\W\d]\w*)[ \t]*\(([^()\"'?+*!={}/\n]*)\)[ \t]*\Z")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SIGNS = {"": 1.0, "!": 0.0, "?": math.nan}


@dataclass
class FactTable:
    """All facts of one predicate, column by column."""

    predicate: Predicate
    # the arguments as written; a multi-class fact has its label last
    args: list[tuple[str, ...]] = field(default_factory=list)
    # 1 true, 0 false, NaN unknown, in between soft
    values: list[float] = field(default_factory=list)
    # the line each fact stands on
    lines: list[int] = field(default_factory=list)


@dataclass
class Facts:
    """What was read: the tables, and the theory with the constants that the facts brought along."""

    theory: Theory
    tables: dict[str, FactTable]
    # facts that are there twice, and the like: nothing is wrong, but the user may want to know
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(table.args) for table in self.tables.values())

    @staticmethod
    def from_file(path: str | Path, theory: Theory) -> Facts:
        return parse_source(read_source(Path(path)), theory)


def parse_facts(text: str, theory: Theory, name: str = "<facts>") -> Facts:
    """Read ground facts and check them against a theory.

    >>> from logicmp.parse import parse_theory
    >>> theory = parse_theory("person = {Anna, Bob}\\nSmokes(person)")
    >>> parse_facts("Smokes(Anna)\\n!Smokes(Bob)", theory).tables["Smokes"].values
    [1.0, 0.0]
    """
    return parse_source(Source(name, text), theory)


def parse_source(source: Source, theory: Theory) -> Facts:
    text = source.text
    if "/*" in text:
        # newlines stay, so that line numbers do
        text = _BLOCK_COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    reader = _FactReader(source, theory)
    plain, tables, slow = _PLAIN.match, reader.tables, reader.slow_line
    for number, line in enumerate(text.split("\n"), 1):
        found = plain(line)
        if found is None:
            slow(number, line)
            continue
        soft, sign, name, args = found.groups("")
        table = tables.get(name)
        if table is None or table.predicate.labels is not None:
            slow(number, line)
            continue
        row = tuple(args.replace(" ", "").split(",")) if args else ()
        if len(row) != len(table.predicate.arguments) or "" in row or "\t" in args or (soft and sign):
            slow(number, line)
            continue
        table.args.append(row)
        table.values.append(float(soft) if soft else _SIGNS[sign])
        table.lines.append(number)
    return reader.finish()


class _FactReader:
    def __init__(self, source: Source, theory: Theory):
        self.source = source
        self.theory = theory
        self.tables = {predicate.name: FactTable(predicate) for predicate in theory.predicates}
        # constants that the facts themselves declare, `person = {Anna}`
        self.declared: dict[str, dict[str, None]] = {}

    def slow_line(self, number: int, line: str) -> None:
        """A line that is not a plain fact: empty, a comment, a declaration, a soft fact, or an error."""
        stripped = line.strip()
        if not stripped or stripped.startswith("//"):
            return
        unknown = stripped.startswith("?")
        shown = Source(self.source.name, line.replace("?", " ", 1) if unknown else line, number)
        for statement in read_statements(shown, "prac"):
            self._statement(statement, number, unknown)

    def _statement(self, statement: Statement | Include, number: int, unknown: bool) -> None:
        if isinstance(statement, Include):
            raise RuleError("facts cannot include files", statement.span, "give several files instead")
        formula, value = statement.formula, 1.0
        if isinstance(formula, Defined):
            if formula.name not in self.theory.type:
                raise RuleError(f"type {formula.name!r} is not used by any predicate", formula.span,
                                f"types: {', '.join(self.theory.type)}")
            self.declared.setdefault(formula.name, {}).update(dict.fromkeys(formula.items))
            return
        if isinstance(formula, Not):
            formula, value = formula.body, 0.0
        if isinstance(formula, Starred) or not isinstance(formula, Atom) or statement.is_hard:
            raise RuleError("this is not a fact", statement.span, "a fact is an atom with constants, or its negation")
        if statement.weight is not None:
            if not 0 <= statement.weight <= 1:
                raise RuleError(f"soft evidence is a probability, not {statement.weight:g}", statement.weight_span,
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
                            f"its labels: {', '.join(predicate.labels or ())}")
        table.args.append(tuple(arg.name for arg in atom.args) + label)
        table.values.append(value)
        table.lines.append(number)

    def finish(self) -> Facts:
        """Collect the constants, and look for facts that are there twice."""
        constants: dict[str, dict[str, None]] = {name: dict(known) for name, known in self.declared.items()}
        warnings: list[str] = []
        for table in self.tables.values():
            for k, argument in enumerate(table.predicate.arguments):
                column = dict.fromkeys(row[k] for row in table.args)
                known = self.theory.type[argument.type]
                if known.closed:
                    self._check_closed(table, k, column, (*known.constants, *self.declared.get(argument.type, ())))
                constants.setdefault(argument.type, {}).update(column)
            if len(set(table.args)) != len(table.args):
                warnings += self._repeated(table)
        theory = self.theory.with_constants({name: tuple(known) for name, known in constants.items()})
        return Facts(theory, {name: table for name, table in self.tables.items() if table.args}, warnings)

    def _check_closed(self, table: FactTable, k: int, column: dict[str, None], known: tuple[str, ...]) -> None:
        unknown = column.keys() - set(known)
        if unknown:
            row = next(i for i, args in enumerate(table.args) if args[k] in unknown)
            raise unknown_constant(table.args[row][k], table.predicate.types[k], known, self._line(table.lines[row]))

    def _repeated(self, table: FactTable) -> list[str]:
        """A fact given twice is kept once; the same atom with two values is an error that shows both lines."""
        first: dict[tuple[str, ...], int] = {}
        keep: list[int] = []
        for i, args in enumerate(table.args):
            earlier = first.setdefault(args, i)
            if earlier == i:
                keep.append(i)
            elif table.values[i] != table.values[earlier] and not (
                    math.isnan(table.values[i]) and math.isnan(table.values[earlier])):
                raise RuleError(f"{table.predicate.name}({', '.join(args)}) is given two different values",
                                self._line(table.lines[earlier]), also=self._line(table.lines[i]))
        repeated = len(table.args) - len(keep)
        table.args = [table.args[i] for i in keep]
        table.values = [table.values[i] for i in keep]
        table.lines = [table.lines[i] for i in keep]
        return [f"{self.source.name}: {repeated} facts of {table.predicate.name} are given more than once"]

    def _line(self, number: int) -> Span:
        start = 0
        for _ in range(number - 1):
            start = self.source.text.index("\n", start) + 1
        line = self.source.line(number)
        return Span(self.source, start + len(line) - len(line.lstrip()), start + len(line.rstrip()))


def load_facts(path: str | Path, theory: Theory) -> Facts:
    """Read the facts of a file, or of the `facts` file in a folder of ExpressGNN."""
    path = Path(path)
    if path.is_dir():
        if not (path / "facts").is_file():
            raise LogicMPError(f"the folder {str(path)!r} has no file 'facts'")
        path = path / "facts"
    return Facts.from_file(path, theory)
