"""Read evidence: .db files of Alchemy, Tuffy and pracmln, and the `facts` of ExpressGNN.

Room: parse -> **facts** -> ground, layer.  Paper: the set O of observations.

    Friends(Anna, Bob)       true            !Smokes(Bob)     false         label(T1) = B-PER   a multi-class value
    ?Smokes(Carl)            unobserved      0.7 Smokes(Eve)  soft          person = {Anna}     more constants (pracmln)

One regular expression reads a plain line. The reader of theories reads every other line, and finds the errors.
"""

from __future__ import annotations

import bisect
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..arguments import checked
from ..errors import LogicMPError, RuleError, Source, Span, closest
from ..files import read_source, read_stdin
from ..parse.reader import read_statements
from ..parse.resolve import unknown_constant, unknown_predicate, wrong_arity
from ..parse.syntax import Atom, Constant, Not, Variable
from ..parse.theory import Theory
from ..parse.tokens import Defined, EmptyError, Include, Starred, Statement, UnexpectedError
from .columns import Evidence, FactTable

# a constant that needs no quotes, as in the grammar
_CONSTANT = (r"(?:[A-Z][\w']*(?:-[\w']+)*|[^\W\d][\w']*(?:-[^\W\d][\w']*)*"
             r"|-?(?:\d+\.\d+|\.\d+|\d+)(?:[eE][-+]?\d+)?(?!\w)|\w[\w']*(?:\.[\w']+)+)")
PLAIN_FACT_CONSTANT = re.compile(_CONSTANT)
_PLAIN = re.compile(r"[ \t]*(?:(0?\.\d+|1\.0*|[01])[ \t]+)?([!?])?[ \t]*([^\W\d]\w*)[ \t]*"
                    rf"\([ \t]*({_CONSTANT}[ \t]*(?:,[ \t]*{_CONSTANT}[ \t]*)*)\)[ \t]*\Z")
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
    [1.0, 0.0]

    Args:
        text: one fact per line, as in a .db file.
        theory: declares the predicates; open types get new constants.
        name: shown in errors in place of a file name.
    """
    return _read_all([Source(name, text)], theory)


def _read_all(sources: Sequence[Source], theory: Theory) -> Evidence:
    """Read all files together, because a fact of one file can contradict a fact of another."""
    reader = _FactReader(theory)
    for source in sources:
        _read(source, reader)
    return reader.finish()


def _read(source: Source, reader: _FactReader) -> None:
    before = reader.open(source)
    text = source.text
    if "/*" in text:
        # keep newlines, so that line numbers stay right, and strings, which can contain the marks of a comment
        text = _STRING_OR_COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)
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
        row = tuple(map(str.strip, args.split(",")))
        if len(row) != len(table.predicate.arguments) or (soft and sign):
            slow(number, line)
            continue
        table.args.append(row)
        table.values.append(float(soft) if soft else _SIGNS[sign])
        table.lines.append(before + number)


class _FactReader:
    def __init__(self, theory: Theory):
        # the files so far, and the number of lines before each of them
        self.sources: list[Source] = []
        self.before: list[int] = []
        self.n_lines = 0
        self.theory = theory
        self.tables = {predicate.name: FactTable(predicate) for predicate in theory.predicates}
        # constants that the facts themselves declare, `person = {Anna}`
        self.declared: dict[str, dict[str, None]] = {}

    def open(self, source: Source) -> int:
        """Begin a file; return the number of lines before it."""
        self.sources.append(source)
        self.before.append(self.n_lines)
        self.n_lines += source.text.count("\n") + 1
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
        table.args.append(tuple(arg.name for arg in atom.args) + label)
        table.values.append(value)
        table.lines.append(self.before[-1] + number)

    def finish(self) -> Evidence:
        """Return the evidence: collect the constants, merge repeated facts and check for contradictions."""
        constants: dict[str, dict[str, None]] = {name: dict(known) for name, known in self.declared.items()}
        warnings: list[str] = []
        for table in self.tables.values():
            for k, argument in enumerate(table.predicate.arguments):
                column = dict.fromkeys(row[k] for row in table.args)
                known = self.theory.type[argument.type]
                if known.closed:
                    self._check_closed(table, k, column, (*known.constants, *self.declared.get(argument.type, ())))
                constants.setdefault(argument.type, {}).update(column)
            # C(A,B) and C(B,A) of a symmetric predicate are one fact
            atoms = [tuple(sorted(row)) for row in table.args] if table.predicate.symmetric else table.args
            if len(set(atoms)) != len(atoms):
                warnings.append(self._repeated(table, atoms))
            if table.predicate.is_categorical:
                self._check_one_value(table)
        theory = self.theory.with_constants({name: tuple(known) for name, known in constants.items()})
        return Evidence(theory, {name: table for name, table in self.tables.items() if table.args}, warnings)

    def _check_closed(self, table: FactTable, k: int, column: dict[str, None], known: tuple[str, ...]) -> None:
        unknown = column.keys() - set(known)
        if unknown:
            row = next(i for i, args in enumerate(table.args) if args[k] in unknown)
            raise unknown_constant(table.args[row][k], table.predicate.types[k], known, self._line(table.lines[row]))

    def _repeated(self, table: FactTable, atoms: list[tuple[str, ...]]) -> str:
        """Keep one of equal facts and return a warning; one atom with two values is an error that shows both lines."""
        first: dict[tuple[str, ...], int] = {}
        keep: list[int] = []
        again: list[int] = []
        for i, atom in enumerate(atoms):
            earlier = first.setdefault(atom, i)
            if earlier == i:
                keep.append(i)
                continue
            again.append(table.lines[i])
            one, other = table.values[earlier], table.values[i]
            if one != other and not (math.isnan(one) and math.isnan(other)):
                raise RuleError(f"{_atom(table, earlier)} is given two different values",
                                self._line(table.lines[earlier]), also=self._line(table.lines[i]))
        table.args = [table.args[i] for i in keep]
        table.values = [table.values[i] for i in keep]
        table.lines = [table.lines[i] for i in keep]
        count = "1 fact" if len(again) == 1 else f"{len(again)} facts"
        place = self._line(again[0])
        return (f"{place.source.name}: {count} of {table.predicate.name} {'is' if len(again) == 1 else 'are'} "
                f"given again, first on line {place.line}")

    def _check_one_value(self, table: FactTable) -> None:
        """Reject two true values of one categorical variable."""
        predicate = table.predicate
        values = predicate.functional if predicate.labels is None else (len(predicate.arguments),)
        first: dict[tuple[str, ...], int] = {}
        for i, args in enumerate(table.args):
            if table.values[i] == 1:
                earlier = first.setdefault(tuple(arg for k, arg in enumerate(args) if k not in values), i)
                if earlier != i:
                    raise RuleError(f"{_atom(table, earlier)} and {_atom(table, i)} cannot both be true",
                                    self._line(table.lines[earlier]), f"it is declared as {predicate}",
                                    self._line(table.lines[i]))

    def _line(self, number: int) -> Span:
        """Return the span of a line, by its number in all files together."""
        k = bisect.bisect_left(self.before, number) - 1
        source, number = self.sources[k], number - self.before[k]
        start, line = _start(source, number), source.line(number)
        return Span(source, start + len(line) - len(line.lstrip()), start + len(line.rstrip()))


def _start(source: Source, number: int) -> int:
    """Return the position where a line starts in the text."""
    start = 0
    for _ in range(number - 1):
        start = source.text.index("\n", start) + 1
    return start


def _atom(table: FactTable, row: int) -> Atom:
    args, n = table.args[row], len(table.predicate.arguments)
    return Atom(table.predicate.name, tuple(map(Constant, args[:n])), args[n:] or None)


@checked
def load_facts(paths: str | Path | Sequence[str | Path], theory: Theory) -> Evidence:
    """Read facts from files, from `-` (standard input), or from the file `facts` in a folder of ExpressGNN.

    Args:
        paths: one or several files, `-` for standard input, or ExpressGNN folders.
        theory: declares the predicates; open types get new constants.
    """
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    return _read_all([_source(path) for path in paths], theory)


def _source(path: str | Path) -> Source:
    if str(path) == "-":
        return read_stdin("facts are plain text in UTF-8")
    # os.path, because Path.is_dir raises an error for a name that is too long
    if os.path.isdir(path):
        path = Path(path)
        if not (path / "facts").is_file():
            raise LogicMPError(f"the folder {str(path)!r} has no file 'facts'")
        path = path / "facts"
    return read_source(Path(path))
