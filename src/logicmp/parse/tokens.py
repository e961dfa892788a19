"""The words of the language: names, strings, comments, weights, where a statement ends, and syntax errors.

Room: errors -> **parse** (tokens, statements, theory) -> facts, normalize.

    person = {Anna, Bob}         Statement(Defined("person", ("Anna", "Bob")))
    [P(x) v Q(x)].               Statement(Enclosed(Or(...), "["), is_hard=True)
    log(0.9/0.1) P(x)            Statement(Atom("P", ...), weight=2.197...)

A newline ends a statement, except inside brackets and where the statement cannot end yet (`P(x) v`).
"""

from __future__ import annotations

import ast
import gc
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import RuleError, Source, Span
from .syntax import Atom

# these cannot be predicates without arguments, because the formula would read differently
WORDS = {"not", "and", "or", "v", "in", "exist", "exists", "forall"}
# a range such as {1, ..., 20} with more members is a mistake
MAX_RANGE = 1_000_000
# a number in a range or an offset with more digits is a mistake
MAX_DIGITS = 18
# pracmln's value for the logarithm of zero
LOG_OF_ZERO = -100.0

# regular expressions of the tokens; an alternation is in brackets, so that it can be part of a larger expression
SPACES = r"[ \t\r\f]*"
SPACES_AND_NEWLINES = r"[ \t\r\f\n]*"
INCLUDE = r'#include[ \t]+("[^"\n]*"|<[^>\n]*>)'
DIRECTIVE = r"(#\w*)[^\n]*"
# a number, or arithmetic without spaces such as log(0.9/0.1); not the start of a formula such as (1 = x) v P(x)
WEIGHT = (r"(?=\S*\d)(?:logx?(?=\()|exp(?=\()|sqrt(?=\()|pi(?![\w(])|[-+*\/().,0-9]|(?<=[0-9.])[eE])+(?=[ \t])"
          r"(?!\s*(?:!?=|[<^&|≠∈∉∧∨⇒→⇔↔]|->|in\s*\{|(?:v|or|and)\s+(?!!?=)))")
EXISTS = r"(?:(?i:exists?)(?=\s+(?:\?|[^\W\d]))|∃)"
FORALL = r"(?:(?i:forall)(?=\s+(?:\?|[^\W\d]))|∀)"
NOT = r"(?:!(?!=)|~|¬|not(?=[\s(]))"
# the first that matches counts: `!in` before `!=`, `=/=` before `=`
OPERATORS = {
    "not_in": r"(?:not\s+|!\s*)in(?=[\s{])|∉",
    "in": r"in(?=[\s{])|∈",
    "or": r"v(?=[\s(!\[~])|or(?=[\s(!\[~])|\|\|?|∨",
    "and": r"\^|and(?=[\s(!\[~])|&&?|∧",
    "implies": r"=>|->|⇒|→",
    "iff": r"<=>|<->|⇔|↔",
    "unequal": r"!=|=\/=|<>|≠",
    "equal": r"=(?!>)",
}
INT = r"-?\d+(?![\w.])"
NUMBER = r"-?(?:\d+\.\d+|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w])"
# a name may contain a hyphen before a letter (B-PER); before a digit only in upper case, so that i-1 is an offset
NAME = r"(?:[A-Z][\w']*(?:-[\w']+)*|[^\W\d][\w']*(?:-[^\W\d][\w']*)*)"
# a constant with dots inside, as in pracmln: cup.n.01, FLAKES_00.000_; not a number
DOTTED = r"(?!\d+\.\d+(?:[eE][-+]?\d+)?(?![\w'.]))\w[\w']*(?:\.[\w']+)+"
# a set has no offsets
LABEL = r"[^\W\d][\w']*(?:-[\w']+)*"
# Tuffy's name of a rule, and its mark of a weight that is not learned
ANNOTATION = rf'(?:\[\+?Label\+?\][ \t]*"[^"\n]*"\s*(?:@[ \t]*(?={WEIGHT}))?|@[ \t]*(?={WEIGHT}))'
QUESTIONED = r"\?[^\W\d][\w']*"
STRING = r'"(?:[^"\\\n]|\\.)*"'

# a string that is never closed ends with its line, or each of its quotes would be tried as the start of another
_STRING_OR_COMMENT = r'"(?:[^"\\\n]|\\[^\n])*(?:"|(?P<open>))|//[^\n]*|/\*(?:.*?\*/|(?P<unclosed>.*))'
_OUTSIDE = re.compile(_STRING_OR_COMMENT, re.DOTALL)
# brackets closed on their line with nothing of interest in them are skipped at once
_JOINED = re.compile(rf'{_STRING_OR_COMMENT}|(?:\([^\n"/()\[\]]*\)[^\n"/()\[\]]*)+|[()\[\]\n]', re.DOTALL)
_PRAC = re.compile(r"[(,]\s*\+?\?[^\W\d]|(?i:exists?|forall)\s+\?[^\W\d]")
_UNREADABLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ufffd]")
_INT = re.compile(INT)
_ESCAPE = re.compile(r"\\(.)")
# the piece of text that an error shows
_TOKEN = re.compile(rf"{NAME}|{QUESTIONED}|{NUMBER}|{STRING}|<=>|<->|=>|->|!=|=/=|<>|\.\.\.|.", re.DOTALL)
_NOT_SPACE = re.compile(r"[^ \t\r\f\n]")
PARTNER = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Marked:
    """`person!` or `person?` in a declaration."""

    name: str
    mark: str
    span: Span


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A formula in `( )` or `[ ]`: an atom in brackets is never a declaration."""

    body: Any
    bracket: str
    span: Span


@dataclass(frozen=True, slots=True)
class Starred:
    """`*P(x)`: closed world in a declaration, both signs in a rule."""

    atom: Atom
    span: Span


@dataclass(frozen=True, slots=True)
class Defined:
    """`person = {Anna, Bob}`."""

    name: str
    items: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Include:
    """`#include "file"`."""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """A rule or a declaration; terms have no types yet, and a declaration is still a formula."""

    formula: Any
    weight: float | None
    is_hard: bool
    span: Span
    weight_span: Span | None = None
    # the word before a declaration: `symmetric`
    word: str | None = None
    closed_world: bool = False


class UnexpectedError(RuleError):
    """A token that cannot be part of the statement at this place."""


class EmptyError(RuleError):
    """A text without statements."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection, which would search the growing theory repeatedly and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def is_prac(text: str) -> bool:
    """Whether variables are written `?x`, as in pracmln's second grammar; then all other names are constants.

    >>> is_prac("state(?t, N)"), is_prac("Cites(paper, paper?)")
    (True, False)
    """
    return bool(_PRAC.search(_outside(text)))


def check_readable(source: Source) -> None:
    """Raise an error if the text is binary or has no statements."""
    for found in _UNREADABLE.finditer(source.text):
        raise RuleError(f"this is not text: character {ord(found[0]):#04x}", Span(source, found.start(), found.end()),
                        "a theory is a plain text file in UTF-8")
    if _outside(source.text).strip() == "":
        raise EmptyError("the theory is empty", Span(source, 0, 0),
                         "write at least one rule, for example: 1.5 Smokes(x) => Cancer(x)")


def _outside(text: str) -> str:
    """The same text, character for character, with spaces for strings and comments."""
    return _OUTSIDE.sub(lambda found: found[0] if found.lastgroup else " " * len(found[0]), text)


def join_lines(text: str) -> str:
    """The same text, character for character, with spaces for comments and for newlines inside brackets.

    >>> join_lines("(P(x) // why\\n v Q(x))\\nR(x)")
    '(P(x)         v Q(x))\\nR(x)'
    """
    depth = 0

    def hide(found: re.Match[str]) -> str:
        nonlocal depth
        part = found[0]
        if part[0] == "/":
            return part if found["unclosed"] is not None else " " * len(part)
        depth = max(0, depth + {"(": 1, "[": 1, ")": -1, "]": -1}.get(part, 0))
        return " " if part == "\n" and depth else part

    return _JOINED.sub(hide, text)


def constant_name(token: str) -> str:
    """The constant that a token names: without quotes, with escapes replaced.

    >>> constant_name('"C. \\\\"D\\\\"."'), constant_name("Anna")
    ('C. "D".', 'Anna')
    """
    if token.startswith('"'):
        return _ESCAPE.sub(lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), token[1:-1])
    return token


def set_items(items: list[str], span: Span) -> tuple[str, ...]:
    """The members of `{A, B}` or `{1, ..., 20}`, once each.

    >>> set_items(["A", "1", "...", "3", "A"], Span(Source("", ""), 0, 0))
    ('A', '1', '2', '3')
    """
    names: list[str] = []
    for i, item in enumerate(items):
        if item != "...":
            names.append(constant_name(item))
            continue
        ends = items[max(0, i - 1) : i + 2 : 2]
        if len(ends) != 2 or any(not _INT.fullmatch(end) or len(end) > MAX_DIGITS for end in ends) \
                or int(ends[0]) > int(ends[1]):
            raise RuleError("'...' must be between two whole numbers, the smaller one first", span,
                            "for example {1, ..., 20}")
        first, last = map(int, ends)
        if last - first > MAX_RANGE:
            raise RuleError(f"this range has {last - first + 1} members (limit {MAX_RANGE})", span)
        names.extend(map(str, range(first + 1, last)))
    return tuple(dict.fromkeys(names))


# weights

_CALLS: dict[str, Callable[..., float]] = {
    "log": math.log,
    "logx": lambda x: math.log(x) if x > 0 else LOG_OF_ZERO,
    "exp": math.exp,
    "sqrt": math.sqrt,
}
_BINARY: dict[type, Callable[[Any, Any], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}
# a number that `float` reads as arithmetic would: no leading zeros, no overflow
_PLAIN_WEIGHT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]*)?")

_REASONS: dict[type[Exception], str] = {
    SyntaxError: "it is not arithmetic", TypeError: "it is not arithmetic", OverflowError: "math range error",
    ZeroDivisionError: "float division by zero", ValueError: "math domain error",
}


def evaluate_weight(text: str, span: Span) -> float:
    """The value of a weight: a number or, as pracmln writes it, arithmetic with `log`, `logx`, `exp`, `sqrt`, `pi`.

    >>> evaluate_weight("logx(0)", Span(Source("", ""), 0, 0))
    -100.0
    """
    if len(text) > 1000:
        raise RuleError("this weight is longer than 1000 characters", span)
    if _PLAIN_WEIGHT.fullmatch(text):
        return float(text)
    try:
        value = float(_value(ast.parse(text, mode="eval").body))
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError) as cause:
        # words of our own, because Python's differ between its versions
        reason = next((words for kind, words in _REASONS.items() if isinstance(cause, kind)), str(cause))
        raise RuleError(f"the weight {text!r} has no value: {reason}", span,
                        "write a number, or arithmetic without spaces such as log(0.9/0.1)") from None
    if not math.isfinite(value):
        raise RuleError(f"the weight {text!r} is not finite", span, "end a hard rule with '.' and give it no weight")
    return value


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.Name) and node.id == "pi":
        return math.pi
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        return _value(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS and not node.keywords:
        return _CALLS[node.func.id](*map(_value, node.args))
    raise TypeError


# syntax errors


def unexpected(source: Source, at: int, expected: Iterable[str], hint: str | None = None) -> RuleError:
    """The error for the first token at or after a place: what it is, and what was expected instead.

    >>> print(unexpected(Source("a.mln", "P(x) Q"), 4, ["'v'", "'^'", "the end of the line"]))
    unexpected 'Q'
     --> a.mln:1:6
    1 | P(x) Q
      |      ^
    hint: expected '^', 'v' or the end of the line
    """
    text = source.text
    # a comment is passed over, unless it is never closed
    found = _NOT_SPACE.search(join_lines(text), at)
    start = found.start() if found else len(text.rstrip())
    token = _TOKEN.match(text, start)
    got = token[0] if found and token else ""
    span = Span(source, start, start + len(got) if got else min(start + 1, len(text)))
    if text.startswith("/*", start):
        return RuleError("this comment is never closed", Span(source, start, start + 2), "end it with */")
    if got == '"':
        return RuleError("this string is never closed", span, 'end it with " on the same line')
    if got in PARTNER.values():
        return RuleError(f"bracket {got!r} closes nothing", span)
    words = sorted(expected)
    return unclosed(source, span) or UnexpectedError(
        f"unexpected {repr(got) if got else 'end of the line'}", span, hint or _foreign(text, start)
        or f"expected {', '.join(words[:-1])}{' or ' if len(words) > 1 else ''}{words[-1]}")


def unclosed(source: Source, before: Span) -> RuleError | None:
    """The error for the innermost bracket that is open at a place and never closed, if there is one."""
    text = _outside(source.text)
    open_at: list[int] = []
    for found in re.finditer(r"[()\[\]{}]", text):
        if found[0] in PARTNER:
            open_at.append(found.start())
        elif open_at and PARTNER[text[open_at[-1]]] == found[0]:
            open_at.pop()
    place = max((place for place in open_at if place < before.start), default=None)
    return None if place is None else RuleError(
        f"bracket {text[place]!r} is never closed", Span(source, place, place + 1),
        f"expected {PARTNER[text[place]]!r} before line {before.line}, column {before.column}")


# Notation of other engines that this language does not have, and what to write instead. A pattern is matched with the
# line up to the unexpected token, a NUL, and the rest of the line.
_FOREIGN = [(re.compile(pattern), hint) for pattern, hint in {
    r".*[(,{]\s*[\w'.]+\0[.:;$~\\/]":
        "put a constant with such a character in quotes",
    r".*\[priorProb":
        "scoping rules are not supported; set a prior for atoms without a fact: --prior P=0.3",
    r".*\0:[-=]\s*\[":
        "arithmetic is not supported; declare a closed predicate, *P(...), and give its facts",
    r".*\0:[-=]|\0[@$].*:-":
        "write the rule as an implication: body => head",
    r"(FD|FUNCTIONAL DEPENDENCY)\s*\0:":
        "mark the argument that depends on the others with '!': P(a, b, c!)",
    r".*\0:|\0@\s*\w+\s*:":
        "weights are numbers; a weight taken from an argument, or a utility, is not supported",
    r".*\0[<>]=?(?!>)":
        "order comparisons are not supported; compare with = and !=, or use an offset such as label(i+1)",
    r".*\)\s*\0,":
        "write '^' for 'and'",
    r".*\bcount\s*\(\s*\w+\s*\0\(|\0\|":
        "counts are not supported; mark an argument with '!' for exactly one, '?' for at most one",
    r"\*?\s*\w+\((?:[^()]*,)?\s*\w+\s+\0\w+!?\s*[,)]":
        "an argument in a declaration is only its type, as in P(person, person!)",
    r".*[(,]\s*\0\[":
        "arithmetic is not supported; for neighbours, use an offset such as P(i+1)",
    r"\*\s*\0\*":
        "write one '*' for a closed predicate",
    r"\0\$":
        "variables for weights are not supported; write the number itself",
    r"\0[@+]":
        "remove this mark",
}.items()]
_DIRECTIVES = {
    "#fixweight": "remove it: a weight is fixed unless --relearn names its line",
    "#unique": "remove it, and add x != y to the rule",
    "#fuzzy": "remove it, and give soft evidence: 0.7 P(A)",
}


def _foreign(text: str, start: int) -> str | None:
    line = text.rfind("\n", 0, start) + 1
    shown = f"{text[line:start].lstrip()}\0{text[start:].split(chr(10), 1)[0]}"
    return next((hint for pattern, hint in _FOREIGN if pattern.match(shown)), None)


def unknown_directive(name: str, span: Span) -> RuleError:
    """The error for a line that starts with # and includes no file."""
    return RuleError(f"the directive {name} is not supported", span,
                     _DIRECTIVES.get(name, 'supported: #include "file"'))
