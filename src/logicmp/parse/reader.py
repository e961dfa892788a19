"""Text to statements, by recursive descent.

Room: errors -> **parse** (tokens, statements, theory) -> facts, normalize.

    "1.5 Smokes(x) => Cancer(x)"   ->   Statement(weight=1.5, formula=Implies(Atom, Atom))

The language is Alchemy's .mln with the additions of Tuffy, pracmln and ExpressGNN, and our own multi-class predicates,
offsets and symmetric predicates. From the strongest: not, ^, v, =>, <=>, quantifier; connectives are left-associative.
Whether a bare atom is a declaration or a rule is decided later, in resolve.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..errors import RuleError, Source, Span
from . import tokens as t
from .syntax import And, Atom, Constant, Equal, Exists, Forall, Iff, Implies, Not, Or, Term, Variable, children
from .tokens import Defined, Enclosed, Include, Marked, Starred, Statement, unexpected

# formulas and brackets inside each other; each takes at most two frames of the stack
MAX_DEPTH = 160

_BINDING = {"iff": 1, "implies": 2, "or": 3, "and": 4}
_COMPARISONS = {"in", "not_in", "equal", "unequal"}


def _compiled(pattern: str, spaces: str = t.SPACES_AND_NEWLINES) -> re.Pattern[str]:
    return re.compile(f"{spaces}(?:{pattern})")


# Phrases of tokens. The last group that matches names the phrase. Newlines before a phrase are skipped where no
# statement can end.
_TERM = f"{t.DOTTED}|{t.QUESTIONED}|{t.INT}|{t.NUMBER}|{t.STRING}"
_SIDE = rf"(?P<term>{_TERM})|(?P<name>{t.NAME})(?P<applied>{t.SPACES}(?:\*{t.SPACES_AND_NEWLINES})?\()?"
_start = _compiled("")
_annotation = re.compile(t.ANNOTATION)
_weight = re.compile(t.WEIGHT)
_include = re.compile(t.INCLUDE)
_directive = re.compile(t.DIRECTIVE)
_declaration = re.compile(rf"(\*)?{t.SPACES_AND_NEWLINES}(?!{t.EXISTS}|{t.FORALL}|{t.NOT})({t.NAME})[ \t\r\f]+"
                          rf"(?!{'|'.join(t.OPERATORS.values())})({t.NAME})")
_operand = _compiled(rf"(?P<exists>{t.EXISTS})|(?P<forall>{t.FORALL})|(?P<negated>{t.NOT})|(?P<open>[(\[])|(?P<star>\*)"
                     f"|{_SIDE}")
_side = _compiled(_SIDE)
_operator = _compiled("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in t.OPERATORS.items())
                      + rf"|(?P<close>[)\]])|(?P<end>(?:(?P<stop>\.){t.SPACES})?\n)|(?P<dot>\.)", t.SPACES)
_end_of_line = _compiled(r"\n", t.SPACES)
# every part is optional, so that the match ends where an argument goes wrong
_argument = _compiled(rf"(\+)?{t.SPACES}(?:({_TERM}|{t.NAME}){t.SPACES}"
                      rf"(?:({t.NOT}|\?)|([-+]){t.SPACES}({t.INT})?)?{t.SPACES}([,)])?)?")
_variable = _compiled(rf"({t.NAME}|{t.QUESTIONED})(?:{t.SPACES_AND_NEWLINES}(,))?")
_item = _compiled(rf"(\.\.\.|{t.DOTTED}|{t.INT}|{t.NUMBER}|{t.LABEL}|{t.STRING})(?:{t.SPACES_AND_NEWLINES},)?")
_opening, _closing, _opening_set, _closing_set = map(_compiled, (r"\(", r"\)", r"\{", r"\}"))

# the tokens that errors list as expected
_TERMS = ("a name", "a variable", "a number", "a string")
_OPERANDS = (*_TERMS, "'!'", "'('", "'['")
_CONNECTIVES = ("'^'", "'v'", "'=>'", "'<=>'")
_COMPARED = ("'='", "'!='", "'in'")


class _Side(NamedTuple):
    """An atom or a term, before it is known which: `P`, `P(x)`, `P*(x)`, `3`."""

    head: str
    # None without brackets
    args: tuple[Any, ...] | None
    is_starred: bool
    span: Span


@t.collector_paused()
def read_statements(source: Source, grammar: str = "auto") -> list[Statement | Include]:
    """The statements of a text; an error shows the first place that cannot be read, and why.

    >>> [str(statement.formula) for statement in read_statements(Source("", "P(x) v\\nQ(x)\\nR"))]
    ['P(x) v Q(x)', 'R']
    """
    t.check_readable(source)
    return _Reader(source, grammar == "prac" or (grammar == "auto" and t.is_prac(source.text))).statements()


class _Reader:
    """One method per kind of phrase; each starts at `at` and leaves `at` behind what it has read."""

    def __init__(self, source: Source, prac: bool):
        self.source = source
        self.text = t.join_lines(source.text) + "\n"
        self.prac = prac
        self.at = 0
        # where the statement starts
        self.first = 0
        # the token behind the operand just read: a connective, a comparison, a closing bracket or the end
        self.operator: re.Match[str]
        self.kind: str | None = None
        # the partner of the innermost open bracket
        self.closing = ""

    # statements

    def statements(self) -> list[Statement | Include]:
        found: list[Statement | Include] = []
        while (start := self.expect(_start).end()) < len(self.text):
            self.first = start
            found.append(self.include() if self.text[start] == "#" else self.statement(start))
        return found

    def include(self) -> Include:
        found = _include.match(self.text, self.at)
        if found is None:
            other = self.expect(_directive)
            raise t.unknown_directive(other[1], self.span(*other.span()))
        self.at = found.end()
        self.expect(_end_of_line, ["the end of the line"])
        return Include(found[1][1:-1], self.span(*found.span()))

    def statement(self, start: int) -> Statement:
        annotation = _annotation.match(self.text, start) if self.text[start] in "@[" else None
        if annotation is not None:
            self.at = start = annotation.end()
        weight = _weight.match(self.text, start)
        value, weight_span = None, None
        if weight is not None:
            self.at = weight.end()
            weight_span = self.span(start, self.at)
            value = t.evaluate_weight(weight[0], weight_span)
        elif annotation is None and (marked := _declaration.match(self.text, start)) is not None:
            return self.declaration(marked)
        formula = self.formula(1, 0)
        if self.kind == "dot":
            raise self.unexpected(["the end of the line"])
        if self.kind != "end":
            raise self.unexpected_operator()
        is_hard = self.operator["stop"] is not None
        span = self.span(start, self.operator.end("stop") if is_hard else formula.span.end)
        if is_hard and weight is not None:
            raise RuleError("a rule has a weight or a final '.', not both", span,
                            "remove the weight to make the rule hard, or the '.' to make it soft")
        if span.end - start > MAX_DEPTH:
            self.check_depth(formula)
        return Statement(formula, value, is_hard, span, weight_span)

    def declaration(self, found: re.Match[str]) -> Statement:
        """`symmetric Friends(person, person)`, from the bracket on."""
        star, word, name = found.groups()
        self.at = found.end()
        self.expect(_opening, ["'('"])
        args, end = self.arguments(), self.at
        self.expect(_end_of_line, ["the end of the line"])
        span = self.span(found.start(), end)
        if word != "symmetric":
            raise RuleError(f"{word} {name}(...) is neither a rule nor a declaration", span,
                            "write 'symmetric' before a symmetric predicate; functions are not supported, write "
                            "a predicate with a functional argument, such as motherOf(person, person!)")
        side = _Side(name, args, False, self.span(found.start(3), end))
        return Statement(self.atom(side, None, side.span), None, False, span, word=word, closed_world=star is not None)

    # formulas, in which Enclosed, Starred and Defined may still occur

    def formula(self, binding: int, depth: int) -> Any:
        """Operands joined by connectives that bind at least as strongly as `binding`."""
        left = self.operand(depth)
        while (strength := _BINDING.get(self.kind or "", 0)) >= binding:
            kind = self.kind
            start = left.span.start
            if kind == "and" or kind == "or":
                parts = [left]
                while self.kind == kind:
                    parts.append(self.operand(depth) if kind == "and" else self.formula(strength + 1, depth + 1))
                span = self.span(start, parts[-1].span.end)
                left = And(tuple(parts), span) if kind == "and" else Or(tuple(parts), span)
            else:
                right = self.formula(strength + 1, depth + 1)
                span = self.span(start, right.span.end)
                left = Implies(left, right, span) if kind == "implies" else Iff(left, right, span)
        return left

    def operand(self, depth: int) -> Any:
        found = _operand.match(self.text, self.at)
        if found is None:
            raise self.unexpected((*_OPERANDS, "a weight") if self.at == self.first else _OPERANDS)
        self.at = found.end()
        kind = found.lastgroup or ""
        if kind in ("applied", "name", "term"):
            return self.primary(found)
        start = found.start(kind)
        if kind == "star":
            side = self.side(self.expect(_side, _TERMS))
            return Starred(self.plain_atom(side, None, side.span), self.span(start, side.span.end))
        if depth >= MAX_DEPTH:
            end = self.span(len(self.source.text), len(self.source.text))
            raise t.unclosed(self.source, end) or _too_deep(self.span(start, start + 1))
        if kind == "negated":
            body = self.operand(depth + 1)
            return Not(body, self.span(start, body.span.end))
        if kind == "open":
            outer, self.closing = self.closing, t.PARTNER[self.text[start]]
            body = self.formula(1, depth + 1)
            if self.kind != "close" or self.operator["close"] != self.closing:
                raise self.unexpected_operator()
            self.closing = outer
            span = self.span(start, self.at)
            self.follow()
            return Enclosed(body, self.text[start], span)
        variables = self.variables()
        body = self.formula(1, depth + 1)
        quantifier = Exists if kind == "exists" else Forall
        return quantifier(variables, body, self.span(start, body.span.end))

    def variables(self) -> tuple[Variable, ...]:
        """The variables of a quantifier."""
        variables = []
        comma = ","
        while comma:
            found = self.expect(_variable, ["a name", "a variable"])
            name, comma = found.groups()
            variable = self.term(name, found.start(1), found.end(1))
            if not isinstance(variable, Variable):
                start = "'?' here" if self.prac else "a lower-case letter"
                raise RuleError(f"{name} is a constant and cannot be quantified", variable.span,
                                f"variables start with {start}")
            variables.append(variable)
        return tuple(variables)

    def primary(self, found: re.Match[str]) -> Any:
        """An atom or a comparison, from its first side on."""
        left = self.side(found, _COMPARED)
        kind = self.kind
        if kind not in _COMPARISONS:
            atom = self.atom(left, None, left.span)
            return Starred(atom, left.span) if left.is_starred else atom
        if kind in ("equal", "unequal"):
            compared = self.comparison(left)
        else:
            self.expect(_opening_set, ["'{'"])
            labels, span = self.labels(left)
            compared = self.plain_atom(left, labels, span)
        return Not(compared, compared.span) if kind in ("not_in", "unequal") else compared

    def comparison(self, left: _Side) -> Any:
        """`x = y`, `label(i) = B-PER` or `person = {Anna}`, from the right side on."""
        if self.kind == "equal" and (found := _opening_set.match(self.text, self.at)) is not None:
            self.at = found.end()
            items, span = self.labels(left)
            if left.args is not None or not _is_name(left.head):
                raise RuleError("'=' compares two terms", span, "write 'in' before a set of labels")
            if left.head == "not":
                raise RuleError("'not' is a word of the language and cannot name a type", span)
            return Defined(left.head, items, span)
        right = self.side(self.expect(_side, (*_TERMS, "'{'") if self.kind == "equal" else _TERMS))
        span = self.span(left.span.start, right.span.end)
        # label(i) = B-PER is the same as label(i) in {B-PER}
        if left.args is not None and not left.is_starred and right.args is None:
            return self.atom(left, (t.constant_name(right.head),), span)
        one, other = self.compared_term(left), self.compared_term(right)
        # the variable first, because a rule that starts with a number would read as weighted
        return Equal(other, one, span) if isinstance(one, Constant) else Equal(one, other, span)

    def compared_term(self, side: _Side) -> Term:
        if side.args is not None:
            raise RuleError("functions are not supported", side.span,
                            "write a predicate with a functional argument, such as motherOf(person, person!)")
        if side.head == "not":
            raise RuleError("'not' is a word of the language and cannot name a variable", side.span)
        return self.term(side.head, side.span.start, side.span.end)

    def side(self, found: re.Match[str], more: tuple[str, ...] = ()) -> _Side:
        """One side of a comparison, and the token behind it; errors expect `more` besides connectives."""
        kind = found.lastgroup
        group = "term" if kind == "term" else "name"
        args = self.arguments() if kind == "applied" else None
        side = _Side(found[group], args, args is not None and "*" in found["applied"],
                     self.span(found.start(group), self.at))
        self.follow((*more, "'('") if kind == "name" else more)
        return side

    def atom(self, side: _Side, labels: tuple[str, ...] | None, span: Span) -> Atom:
        name = side.head
        if not _is_name(name):
            raise RuleError(f"{name} is not a predicate", span)
        if name == "not" or (not side.args and name.lower() in t.WORDS):
            raise RuleError(f"{name!r} is a word of the language and cannot name a predicate", span)
        return Atom(name, side.args or (), labels, span)

    def plain_atom(self, side: _Side, labels: tuple[str, ...] | None, span: Span) -> Atom:
        if side.is_starred:
            raise RuleError("'*' before the bracket marks a declaration", span, f"write *{side.head}(...)")
        return self.atom(side, labels, span)

    def labels(self, left: _Side) -> tuple[tuple[str, ...], Span]:
        """The members of the set behind `in {` or `= {`, and the place of the whole comparison."""
        start, found = self.at - 1, []
        while (item := _item.match(self.text, self.at)) is not None:
            found.append(item[1])
            self.at = item.end()
        comma = ["','"] if found and self.text[self.at - 1] != "," else []
        self.expect(_closing_set, ["'}'", "a name", "a number", "a string", *comma])
        items = t.set_items(found, self.span(start, self.at))
        span = self.span(left.span.start, self.at)
        self.follow()
        return items, span

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of an atom, from behind the opening bracket to behind the closing one."""
        found = _closing.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            return ()
        args: list[Any] = []
        end = ","
        while end == ",":
            found = self.expect(_argument)
            plus, name, mark, sign, distance, end = found.groups()
            first, last = found.span(2)
            if end is None or (plus and (mark or sign)) or (sign and not distance):
                raise self.unexpected_in_argument(found, not args)
            if plus is not None:
                args.append(self.term(name, found.start(1), last, per_constant=True))
            elif mark is not None:
                args.append(self.marked(name, self.span(first, last), mark, found.start(3)))
            elif sign is not None:
                if distance[0] == "-" or len(distance) > t.MAX_DIGITS:
                    raise RuleError("this is not an offset", self.span(*found.span(5)), "write i+1 or i-1")
                args.append(self.term(name, first, found.end(5), offset=int(sign + distance)))
            else:
                args.append(self.term(name, first, last))
        return tuple(args)

    def marked(self, name: str, span: Span, mark: str, at: int) -> Marked:
        if mark not in "!?":
            raise unexpected(self.source, at, (), "'!' marks exactly one, '?' at most one")
        if not _is_name(name):
            raise RuleError(f"{name} is not the name of a type", span)
        return Marked(name, mark, span)

    def unexpected_in_argument(self, found: re.Match[str], is_first: bool) -> RuleError:
        plus, name, mark, sign, distance, _ = found.groups()
        if name is None:
            return self.unexpected((*_TERMS, "')'") if is_first and not plus else _TERMS)
        if plus and (mark or sign):
            self.at = found.start(3 if mark else 4)
        elif sign and not distance:
            return self.unexpected(["a number"])
        return self.unexpected(["','", "')'"] if plus or mark or sign else ["','", "')'", "'!'"])

    def term(self, name: str, start: int, end: int, offset: int = 0, per_constant: bool = False) -> Term:
        span = Span(self.source, start, end)
        if name[0] == "?":
            return Variable(name[1:], "", offset, per_constant, span)
        is_lower = not self.prac and not name[0].isupper()
        if is_lower and "." in name and _is_name(name[0]):
            raise t.UnexpectedError("a variable has no dots", span, f'put a constant in quotes: "{name}"')
        if is_lower and _is_name(name):
            return Variable(name, "", offset, per_constant, span)
        if offset or per_constant:
            raise t.UnexpectedError(f"{name} is a constant: only a variable can have an offset or '+'", span,
                                    "variables start with a lower-case letter")
        return Constant(t.constant_name(name), "", span)

    # tokens

    def expect(self, pattern: re.Pattern[str], expected: Iterable[str] = ()) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.unexpected(expected)
        self.at = found.end()
        return found

    def follow(self, more: Iterable[str] = ()) -> None:
        """Read the token behind an operand; errors expect `more` besides connectives."""
        found = _operator.match(self.text, self.at)
        if found is None:
            raise self.unexpected((*self.after_operand(), *more))
        self.operator, self.kind, self.at = found, found.lastgroup, found.end()

    def after_operand(self) -> list[str]:
        return [*_CONNECTIVES, *([f"'{self.closing}'"] if self.closing else ["'.'", "the end of the line"])]

    def unexpected(self, expected: Iterable[str]) -> RuleError:
        return unexpected(self.source, self.at, expected)

    def unexpected_operator(self) -> RuleError:
        return unexpected(self.source, self.operator.start(), self.after_operand())

    def span(self, start: int, end: int) -> Span:
        return Span(self.source, start, end)

    def check_depth(self, formula: Any) -> None:
        """Reject nesting that would exhaust the stack of whoever walks down the formula."""
        level = [formula]
        for _ in range(MAX_DEPTH):
            level = [part for node in level
                     for part in ((node.body,) if isinstance(node, Enclosed) else children(node))]
        for node in level:
            raise _too_deep(node.span)


def _is_name(token: str) -> bool:
    return not (token[0] in '-"?' or token[0].isdecimal() or "." in token)


def _too_deep(span: Span) -> RuleError:
    return RuleError(f"this formula is nested more than {MAX_DEPTH} deep", span, "split the rule")
