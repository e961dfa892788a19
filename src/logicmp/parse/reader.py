"""Text to statements, by recursive descent.

Stage: text -> **parse** (tokens, statements, theory) -> normalize.

    "1.5 Smokes(x) => Cancer(x)"   ->   Statement(weight=1.5, formula=Implies(Atom, Atom))

The language is Alchemy's .mln with the additions of Tuffy, pracmln and ExpressGNN, and our own multi-class predicates,
offsets and symmetric predicates. From the strongest: not, ^, v, =>, <=>, quantifier; connectives are left-associative.
Whether a bare atom is a declaration or a rule is decided later, in resolve.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..errors import RuleError, Source, Span
from .syntax import And, Atom, Constant, Equal, Exists, Forall, Iff, Implies, Not, Or, Term, Variable, children
from .tokens import (
    DIRECTIVE,
    EXISTS,
    FORALL,
    INCLUDE,
    INT,
    LABEL,
    MAX_DIGITS,
    NAME,
    NOT,
    NUMBER,
    OPERATORS,
    PARTNER,
    QUESTIONED,
    SPACES,
    SPACES_AND_NEWLINES,
    STRING,
    WEIGHT,
    WORDS,
    Defined,
    Enclosed,
    Include,
    Marked,
    Starred,
    Statement,
    UnexpectedError,
    check_readable,
    collector_paused,
    constant_name,
    evaluate_weight,
    is_prac,
    join_lines,
    set_items,
    unclosed,
    unexpected,
)

# formulas and brackets inside each other, each of which takes two frames of the stack
MAX_DEPTH = 160

_BINDING = {"iff": 1, "implies": 2, "or": 3, "and": 4}
_COMPARISONS = {"in", "not_in", "equal", "unequal"}

_TERM = f"{QUESTIONED}|{INT}|{NUMBER}|{STRING}"
_SIDE = rf"(?P<name>{NAME})(?P<applied>{SPACES}(?:\*{SPACES_AND_NEWLINES})?\()?|(?P<term>{_TERM})"
_OPERATORS = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in OPERATORS.items())


def _compiled(pattern: str, spaces: str = SPACES_AND_NEWLINES) -> re.Pattern[str]:
    return re.compile(f"{spaces}{pattern}")


# The name of the last group is what was found. Spaces before it are skipped, newlines only where no statement can end.
_start = re.compile(SPACES_AND_NEWLINES)
_weight = re.compile(WEIGHT)
_include = re.compile(INCLUDE)
_directive = re.compile(DIRECTIVE)
_declaration = re.compile(rf"(\*)?{SPACES_AND_NEWLINES}(?!{EXISTS}|{FORALL}|{NOT})({NAME})[ \t\r\f]+"
                          rf"(?!{'|'.join(OPERATORS.values())})({NAME})")
_operand = _compiled(rf"(?:(?P<exists>{EXISTS})|(?P<forall>{FORALL})|(?P<negated>{NOT})|(?P<open>[(\[])|(?P<star>\*)"
                     rf"|{_SIDE})")
_side = _compiled(f"(?:{_SIDE})")
_operator = _compiled(rf"(?:{_OPERATORS}|(?P<close>[)\]])|(?P<end>(?:(?P<stop>\.){SPACES})?\n)|(?P<dot>\.))", SPACES)
_end_of_line = _compiled(r"\n", SPACES)
# all of it is optional, so that a match ends where an argument goes wrong
_argument = _compiled(rf"(\+)?{SPACES}(?:({NAME}|{_TERM}){SPACES}(?:({NOT}|\?)|([-+]){SPACES}({INT})?)?{SPACES}"
                      r"([,)])?)?")
_variable = _compiled(rf"({NAME}|{QUESTIONED})(?:{SPACES_AND_NEWLINES}(,))?")
_item = _compiled(rf"(\.\.\.|{INT}|{NUMBER}|{LABEL}|{STRING})(?:{SPACES_AND_NEWLINES},)?")
_opens = _compiled(r"\(")
_closes = _compiled(r"\)")
_opens_set = _compiled(r"\{")
_closes_set = _compiled(r"\}")

# what errors say was expected
_TERMS = ("a name", "a variable", "a number", "a string")
_OPERANDS = (*_TERMS, "'!'", "'('", "'['")
_CONNECTIVES = ("'^'", "'v'", "'=>'", "'<=>'")
_COMPARED = ("'='", "'!='", "'in'")


@collector_paused()
def read_statements(source: Source, grammar: str = "auto") -> list[Statement | Include]:
    """The statements of a text; an error shows the first place that cannot be read, and why.

    >>> [str(statement.formula) for statement in read_statements(Source("", "P(x) v\\nQ(x)\\nR"))]
    ['P(x) v Q(x)', 'R']
    """
    check_readable(source)
    return _Reader(source, grammar == "prac" or (grammar == "auto" and is_prac(source.text))).statements()


class _Reader:
    """One method per kind of phrase; each starts at `at` and leaves `at` behind what it has read."""

    def __init__(self, source: Source, prac: bool):
        self.source = source
        self.text = join_lines(source.text) + "\n"
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
        while (start := self.next(_start).end()) < len(self.text):
            self.first = start
            found.append(self.include() if self.text[start] == "#" else self.statement(start))
        return found

    def include(self) -> Include:
        found = _include.match(self.text, self.at)
        if found is None:
            other = self.next(_directive)
            raise RuleError(f"the directive {other[1]} is not supported", self.span(*other.span()),
                            'known: #include "file"')
        self.at = found.end()
        self.end_of_line()
        return Include(found[1][1:-1], self.span(*found.span()))

    def statement(self, start: int) -> Statement:
        weight = _weight.match(self.text, start)
        value, weight_span = None, None
        if weight is not None:
            self.at = weight.end()
            weight_span = self.span(start, self.at)
            value = evaluate_weight(weight[0], weight_span)
        elif (marked := _declaration.match(self.text, start)) is not None:
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
        self.expect(_opens, ["'('"])
        args, end = self.arguments(), self.at
        self.end_of_line()
        span = self.span(found.start(), end)
        if word != "symmetric":
            raise RuleError(f"{word} {name}(...) is neither a rule nor a declaration", span,
                            "write 'symmetric' before a symmetric predicate; functions are not supported, write "
                            "a predicate with a functional argument, such as motherOf(person, person!)")
        atom = self.atom(name, args, None, self.span(found.start(3), end))
        return Statement(atom, None, False, span, word=word, closed_world=star is not None)

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
            return self.primary(self.expect(_side, _TERMS), start)
        if depth >= MAX_DEPTH:
            place = self.span(start, start + 1)
            raise unclosed(self.source, self.span(len(self.source.text), len(self.source.text))) or _too_deep(place)
        if kind == "negated":
            body = self.operand(depth + 1)
            return Not(body, self.span(start, body.span.end))
        if kind == "open":
            outer, self.closing = self.closing, PARTNER[self.text[start]]
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

    def primary(self, found: re.Match[str], star: int | None = None) -> Any:
        """An atom or a comparison, from its first operand on; `star` is the place of the `*` before an atom."""
        head = found["term"] if found.lastgroup == "term" else found["name"]
        start = found.start("term" if found.lastgroup == "term" else "name")
        args = self.arguments() if found.lastgroup == "applied" else None
        is_closed = args is not None and "*" in found["applied"]
        left = self.span(start, self.at)
        self.follow(_COMPARED if star is None else (), "'('" if found.lastgroup == "name" else "")
        kind = self.kind
        if star is not None:
            if is_closed:
                raise _misplaced_star(head, left)
            return Starred(self.atom(head, args, None, left), self.span(star, left.end))
        if kind not in _COMPARISONS:
            atom = self.atom(head, args, None, left)
            return Starred(atom, left) if is_closed else atom
        if kind in ("in", "not_in"):
            self.expect(_opens_set, ["'{'"])
            items = self.items()
            span = self.span(start, self.at)
            self.follow()
            if is_closed:
                raise _misplaced_star(head, span)
            compared: Any = self.atom(head, args, items, span)
        else:
            compared = self.compared(head, args, is_closed, left)
        return Not(compared, compared.span) if kind in ("not_in", "unequal") else compared

    def compared(self, head: str, args: tuple[Any, ...] | None, is_closed: bool, left: Span) -> Any:
        """`x = y`, `label(i) = B-PER` or `person = {Anna}`, from the right side on."""
        if self.kind == "equal" and (found := _opens_set.match(self.text, self.at)) is not None:
            self.at = found.end()
            items = self.items()
            span = self.span(left.start, self.at)
            self.follow()
            if args is not None or not _is_name(head):
                raise RuleError("'=' compares two terms", span, "write 'in' before a set of labels")
            if head == "not":
                raise RuleError("'not' is a word of the language and cannot name a type", span)
            return Defined(head, items, span)
        found = self.expect(_side, (*_TERMS, "'{'") if self.kind == "equal" else _TERMS)
        other = found["term"] if found.lastgroup == "term" else found["name"]
        start = found.start("term" if found.lastgroup == "term" else "name")
        other_args = self.arguments() if found.lastgroup == "applied" else None
        right = self.span(start, self.at)
        span = self.span(left.start, self.at)
        self.follow((), "'('" if found.lastgroup == "name" else "")
        # label(i) = B-PER is the same as label(i) in {B-PER}
        if args is not None and not is_closed and other_args is None:
            return self.atom(head, args, (constant_name(other),), span)
        one, two = self.compared_term(head, args, left), self.compared_term(other, other_args, right)
        # the variable first: a rule that starts with a number would read as weighted
        return Equal(two, one, span) if isinstance(one, Constant) else Equal(one, two, span)

    def compared_term(self, head: str, args: tuple[Any, ...] | None, span: Span) -> Term:
        if args is not None:
            raise RuleError("functions are not supported", span,
                            "write a predicate with a functional argument, such as motherOf(person, person!)")
        if head == "not":
            raise RuleError("'not' is a word of the language and cannot name a variable", span)
        return self.term(head, span.start, span.end)

    def atom(self, name: str, args: tuple[Any, ...] | None, labels: tuple[str, ...] | None, span: Span) -> Atom:
        if not _is_name(name):
            raise RuleError(f"{name} is not a predicate", span)
        if name == "not" or (not args and name.lower() in WORDS):
            raise RuleError(f"{name!r} is a word of the language and cannot name a predicate", span)
        return Atom(name, args or (), labels, span)

    def arguments(self) -> tuple[Any, ...]:
        """What is in the brackets of an atom, from behind the opening bracket to behind the closing one."""
        found = _closes.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            return ()
        args: list[Any] = []
        end = ","
        while end == ",":
            found = self.next(_argument)
            plus, name, mark, sign, distance, end = found.groups()
            first, last = found.span(2)
            if end is None or (plus and (mark or sign)) or (sign and not distance):
                raise self.unexpected_in_argument(found, not args)
            if plus is not None:
                args.append(self.term(name, found.start(1), last, per_constant=True))
            elif mark is not None:
                args.append(self.marked(name, self.span(first, last), mark, found.start(3)))
            elif sign is not None:
                if distance[0] == "-" or len(distance) > MAX_DIGITS:
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
        if not self.prac and not name[0].isupper() and _is_name(name):
            return Variable(name, "", offset, per_constant, span)
        if offset or per_constant:
            raise UnexpectedError(f"{name} is a constant: only a variable can have an offset or '+'", span,
                                  "variables start with a lower-case letter")
        return Constant(constant_name(name), "", span)

    def items(self) -> tuple[str, ...]:
        """The members of a set, from behind the opening bracket to behind the closing one."""
        start, found = self.at - 1, []
        while (item := _item.match(self.text, self.at)) is not None:
            found.append(item[1])
            self.at = item.end()
        comma = ["','"] if found and self.text[self.at - 1] != "," else []
        self.expect(_closes_set, ["'}'", "a name", "a number", "a string", *comma])
        return set_items(found, self.span(start, self.at))

    # tokens

    def next(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The match of a pattern that matches everywhere."""
        found = pattern.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return found

    def expect(self, pattern: re.Pattern[str], expected: Iterable[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.unexpected(expected)
        self.at = found.end()
        return found

    def follow(self, comparisons: Iterable[str] = (), bracket: str = "") -> None:
        """Read the token behind an operand; the arguments are what errors add to the connectives."""
        found = _operator.match(self.text, self.at)
        if found is None:
            raise self.unexpected([*self.after_operand(), *comparisons, *([bracket] if bracket else [])])
        self.operator, self.kind, self.at = found, found.lastgroup, found.end()

    def end_of_line(self) -> None:
        self.expect(_end_of_line, ["the end of the line"])

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
    return not (token[0] in '-."?' or token[0].isdecimal())


def _misplaced_star(name: str, span: Span) -> RuleError:
    return RuleError("'*' before the bracket marks a declaration", span, f"write *{name}(...)")


def _too_deep(span: Span) -> RuleError:
    return RuleError(f"this formula is nested more than {MAX_DEPTH} deep", span, "split the rule")
