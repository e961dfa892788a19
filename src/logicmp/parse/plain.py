"""Most statements of most files, read line by line without the grammar's machinery.

Stage: text -> **parse** (statements) -> parse (theory).

    1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)     plain: read here
    person = {Anna, Bob}                           odd: left to the grammar

A line is plain if it is a whole statement of connectives, quantifiers, brackets, atoms, equalities and sets of labels;
names are matched by the grammar's own terminals. What is not plain, above all every error, is left to the grammar: a
reader that gives up is slow, never wrong.
"""

from __future__ import annotations

import re
from functools import cache

from ..errors import RuleError, Source, Span
from .grammar import WORDS, Enclosed, Statement, terminal
from .syntax import And, Atom, Constant, Equal, Exists, Forall, Formula, Iff, Implies, Not, Or, Term, Variable
from .weights import evaluate_weight

# more brackets, negations, quantifiers and arrows in one statement may be nested too deep
MAX_NESTED = 40
# an odd line that ends in another way may go on in the next one
_ENDS = (")", "]", "}", ".")


class _Odd(Exception):
    """Not plain: the grammar has to read it."""


def read_plain(source: Source, text: str, prac: bool) -> tuple[dict[int, list[Statement]], str]:
    """The plain statements, by the place where a run of such lines begins, and the text with `#` for each run.

    >>> runs, rest = read_plain(Source("", ""), "P(x) v Q\\nR v S\\nP(t!)\\n", False)
    >>> rest, {start: len(run) for start, run in runs.items()}
    ('#             \\nP(t!)\\n', {0: 2})
    """
    reader = _PlainReader(source, text, prac)
    runs: dict[int, list[Statement]] = {}
    rest: list[str] = []
    run: list[Statement] | None = None
    start, may_go_on = 0, False
    while start < len(text):
        end = text.find("\n", start) + 1
        line = text[start:end].strip()
        statement = None if may_go_on or not line else reader.statement(start)
        if statement is None and (line or run is None):
            if run is not None:
                rest[-1] = rest[-1][:-1] + "\n"
            run = None
            may_go_on = not line.endswith(_ENDS) if line else may_go_on
            rest.append(text[start:end])
        elif run is None:
            run = runs[start] = []
            rest.append("#".ljust(end - start))
        else:
            rest.append(" " * (end - start))
        if statement is not None and run is not None:
            run.append(statement)
        start = end
    if run is not None:
        rest[-1] = rest[-1][:-1] + "\n"
    return runs, "".join(rest)


class _Patterns:
    """Regular expressions made of the grammar's terminals; the groups' names are what was found."""

    def __init__(self) -> None:
        name = f"{terminal('NAME')}|{terminal('QVAR')}|{terminal('INT')}"
        item = f"(?:{terminal('LABEL')}|{terminal('INT')})"
        after = {"not_in": "NOT_IN", "in": "_IN", "or": "_OR", "and": "_AND", "implies": "IMPLIES", "iff": "IFF",
                 "unequal": "NEQ", "equal": "_EQ"}
        operators = "|".join(f"(?P<{key}>{terminal(of)})" for key, of in after.items())
        self.weight = _compile(f"(?P<weight>{terminal('WEIGHT')})")
        self.operand = _compile(f"(?:(?P<exists>{terminal('EXIST')})|(?P<forall>{terminal('FORALL')})"
                                f"|(?P<negated>{terminal('NOT')})|(?P<open>[(\\[])"
                                rf"|(?P<name>{name})(?P<applied>[ \t]*\()?)")
        self.operator = _compile(rf"(?:{operators}|(?P<close>[)\]])|(?P<end>(?P<dot>\.)?[ \t]*\n))")
        self.argument = _compile(rf"(\+)?[ \t]*({name})(?:[ \t]*([-+])[ \t]*(\d{{1,9}}))?[ \t]*([,)])")
        self.variable = _compile(f"({terminal('NAME')}|{terminal('QVAR')})([ \t]*,)?")
        self.set = _compile(rf"\{{[ \t]*({item}(?:[ \t]*,[ \t]*{item})*)[ \t]*\}}")
        self.name = _compile(f"({name})")


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"[ \t]*{pattern}")


@cache
def _patterns() -> _Patterns:
    return _Patterns()


class _PlainReader:
    """Recursive descent, one method per level of precedence; `operator` is what follows the operand just read."""

    def __init__(self, source: Source, text: str, prac: bool):
        self.source = source
        self.text = text
        self.prac = prac
        self.patterns = _patterns()
        self.at = 0
        self.nested = 0
        self.operator: re.Match[str]
        self.kind: str | None = None

    def statement(self, start: int) -> Statement | None:
        """The statement in the line that starts here, or nothing if it is odd."""
        self.at, self.nested = start, 0
        try:
            weight = self.patterns.weight.match(self.text, start)
            if weight is None:
                value, weight_span = None, None
            else:
                weight_span = Span(self.source, weight.start("weight"), weight.end())
                value = evaluate_weight(weight["weight"], weight_span)
                self.at = weight.end()
            formula = self.formula()
        except (_Odd, RuleError):
            return None
        is_hard = self.kind == "end" and self.operator["dot"] is not None
        if self.kind != "end" or (is_hard and weight is not None):
            return None
        start = _place(formula).start if weight_span is None else weight_span.start
        end = self.operator.end("dot") if is_hard else _place(formula).end
        return Statement(formula, value, is_hard, Span(self.source, start, end), weight_span)

    def formula(self) -> Formula:
        left = self.implication()
        while self.kind == "iff":
            self.deeper()
            right = self.implication()
            left = Iff(left, right, self.span(left, right))
        return left

    def implication(self) -> Formula:
        left = self.disjunction()
        while self.kind == "implies":
            self.deeper()
            right = self.disjunction()
            left = Implies(left, right, self.span(left, right))
        return left

    def disjunction(self) -> Formula:
        parts = [self.conjunction()]
        while self.kind == "or":
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts), self.span(parts[0], parts[-1]))

    def conjunction(self) -> Formula:
        parts = [self.operand()]
        while self.kind == "and":
            parts.append(self.operand())
        return parts[0] if len(parts) == 1 else And(tuple(parts), self.span(parts[0], parts[-1]))

    def operand(self) -> Formula:
        found = self.patterns.operand.match(self.text, self.at)
        if found is None:
            raise _Odd
        self.at = found.end()
        kind = found.lastgroup
        if kind == "applied":
            return self.atom(found["name"], found.start("name"))
        if kind == "name":
            return self.bare(found["name"], found.start("name"))
        self.deeper()
        start = found.start(str(kind))
        if kind == "negated":
            body = self.operand()
            return Not(body, Span(self.source, start, _place(body).end))
        if kind == "open":
            return self.enclosed(start)
        variables = self.variables()
        body = self.formula()
        quantifier = Exists if kind == "exists" else Forall
        return quantifier(variables, body, Span(self.source, start, _place(body).end))

    def enclosed(self, start: int) -> Formula:
        body = self.formula()
        if self.kind != "close" or self.text[start] + self.operator["close"] not in ("()", "[]"):
            raise _Odd
        span = Span(self.source, start, self.at)
        self.follow()
        return Enclosed(body, self.text[start], span)  # type: ignore[return-value]

    def variables(self) -> tuple[Variable, ...]:
        found: list[Variable] = []
        while True:
            name, comma = self.next(self.patterns.variable).groups()
            end = self.at - len(comma or "")
            variable = self.term(name, end - len(name), end)
            if not isinstance(variable, Variable):
                raise _Odd
            found.append(variable)
            if comma is None:
                return tuple(found)

    def atom(self, name: str, start: int) -> Formula:
        """An atom with arguments; the reader stands behind its bracket."""
        if name[0] == "?" or self.is_number(name) or name == "not":
            raise _Odd
        args: list[Term] = []
        more = ","
        while more == ",":
            found = self.next(self.patterns.argument)
            plus, arg, sign, distance, more = found.groups()
            first, end = found.span(2)
            if plus is None and sign is None:
                args.append(self.term(arg, first, end))
            elif plus is None:
                args.append(self.term(arg, first, found.end(4), offset=int(sign + distance)))
            elif sign is None:
                args.append(self.term(arg, found.start(1), end, per_constant=True))
            else:
                raise _Odd
        end = self.at
        self.follow()
        kind = self.kind
        if kind not in ("in", "not_in", "equal", "unequal"):
            return Atom(name, tuple(args), None, Span(self.source, start, end))
        if kind in ("in", "not_in"):
            items = self.next(self.patterns.set)[1].split(",")
            labels = tuple(dict.fromkeys(item.strip(" \t") for item in items))
        else:
            labels = (self.next(self.patterns.name)[1],)
        span = Span(self.source, start, self.at)
        self.follow()
        atom = Atom(name, tuple(args), labels, span)
        return Not(atom, span) if kind in ("not_in", "unequal") else atom

    def bare(self, name: str, start: int) -> Formula:
        """A name without arguments: one side of an equality, or an atom."""
        if name.lower() in WORDS:
            raise _Odd
        left = self.term(name, start, self.at)
        self.follow()
        kind = self.kind
        if kind not in ("equal", "unequal"):
            if name[0] == "?" or self.is_number(name):
                raise _Odd
            return Atom(name, (), None, left.span)
        other = self.next(self.patterns.name)[1]
        right = self.term(other, self.at - len(other), self.at)
        if other == "not":
            raise _Odd
        span = Span(self.source, start, self.at)
        self.follow()
        equal = Equal(right, left, span) if isinstance(left, Constant) else Equal(left, right, span)
        return Not(equal, span) if kind == "unequal" else equal

    def term(self, name: str, start: int, end: int, offset: int = 0, per_constant: bool = False) -> Term:
        span = Span(self.source, start, end)
        if name[0] == "?":
            return Variable(name[1:], "", offset, per_constant, span)
        if not (self.prac or name[0].isupper() or self.is_number(name)):
            return Variable(name, "", offset, per_constant, span)
        if offset or per_constant:
            raise _Odd
        return Constant(name, "", span)

    @staticmethod
    def is_number(name: str) -> bool:
        return name[0] == "-" or name[0].isdecimal()

    def next(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """What stands here, which must be this."""
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _Odd
        self.at = found.end()
        return found

    def follow(self) -> None:
        """Read what follows an operand: a connective, a comparison, a closing bracket or the end of the line."""
        self.operator = self.next(self.patterns.operator)
        self.kind = self.operator.lastgroup

    def deeper(self) -> None:
        self.nested += 1
        if self.nested > MAX_NESTED:
            raise _Odd

    def span(self, first: Formula, last: Formula) -> Span:
        return Span(self.source, _place(first).start, _place(last).end)


def _place(formula: Formula) -> Span:
    assert formula.span is not None, "everything read here has its place"
    return formula.span
