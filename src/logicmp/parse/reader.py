"""Text to statements: what the grammar can see, before names mean anything.

Stage: text -> **parse** (statements) -> parse (theory).

    "1.5 Smokes(x) => Cancer(x)"   ->   Statement(weight=1.5, formula=Implies(Atom, Atom))

The terms in the formulas have no types yet; declarations are still formulas (`Smokes(person)`).
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

from lark import Token, Transformer, Tree, UnexpectedCharacters, UnexpectedInput, v_args
from lark.exceptions import VisitError
from lark.tree import Meta

from ..errors import RuleError, Source, Span
from .grammar import (
    WORDS,
    Defined,
    Enclosed,
    Include,
    Marked,
    Starred,
    Statement,
    collector_paused,
    constant_name,
    parser,
)
from .plain import read_plain
from .syntax import And, Atom, Constant, Equal, Exists, Forall, Formula, Iff, Implies, Not, Or, Variable
from .weights import evaluate_weight

__all__ = ["Defined", "Enclosed", "Include", "Starred", "Statement", "read_statements"]

# brackets and formulas inside each other, before the reader gives up: deeper ones are no formula anybody wrote
MAX_DEPTH = 160
# a range such as {1, ..., 20} with more members is a mistake
MAX_RANGE = 1_000_000
# a number in a range or an offset with more digits is a mistake
MAX_DIGITS = 18

_PRAC = re.compile(r"[(,]\s*\+?\?[^\W\d]|(?i:exists?|forall)\s+\?[^\W\d]")
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def is_prac(text: str) -> bool:
    """Whether variables are written `?x`, as in pracmln's second grammar; then all other names are constants.

    >>> is_prac("state(?t, N)"), is_prac("Cites(paper, paper?)")
    (True, False)
    """
    return bool(_PRAC.search(_STRING_OR_COMMENT.sub(" ", text)))


@collector_paused()
def read_statements(source: Source, grammar: str = "auto") -> list[Statement | Include]:
    """Parse a text into statements, or say where and why it cannot be parsed."""
    _check_readable(source)
    prac = grammar == "prac" or (grammar == "auto" and is_prac(source.text))
    text = _join_lines(source.text) + "\n"
    plain, rest = read_plain(source, text, prac)
    if plain:
        # a plain line may turn out to belong to the one before; and an error is worded for the text as it stands
        with contextlib.suppress(RuleError):
            return _read_by_grammar(source, rest, prac, plain)
    return _read_by_grammar(source, text, prac, {})


def _read_by_grammar(source: Source, text: str, prac: bool,
                     plain: dict[int, list[Statement]]) -> list[Statement | Include]:
    """The statements of a text in which `#` stands for some that are read already."""
    try:
        tree = parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(source, error) from None
    builder = _Builder(source, prac, plain)
    _check_depth(source, tree)
    try:
        return [statement for child in tree.children if isinstance(child, Tree)
                for statement in builder.transform(child)]
    except VisitError as error:
        raise error.orig_exc from None


def _join_lines(text: str) -> str:
    """The same text, character for character, with blanks for the newlines inside brackets and for comments.

    >>> _join_lines("(P(x) // why\\n v Q(x))\\nR(x)")
    '(P(x)         v Q(x))\\nR(x)'
    """
    depth = 0

    def blank(found: re.Match[str]) -> str:
        nonlocal depth
        part = found[0]
        if part[0] == "/":
            return " " * len(part)
        depth = max(0, depth + {"(": 1, "[": 1, ")": -1, "]": -1}.get(part, 0))
        return " " if part == "\n" and depth else part

    # closed brackets within a line, with nothing in them to look at, are passed over at once
    inner = r'(?:\([^\n"/()\[\]]*\)[^\n"/()\[\]]*)+'
    return re.sub(rf"{_STRING_OR_COMMENT.pattern}|{inner}|[()\[\]\n]", blank, text, flags=re.DOTALL)


def _check_readable(source: Source) -> None:
    for found in re.finditer(r"[\x00-\x08\x0e-\x1f\x7f\ufffd]", source.text):
        raise RuleError(f"this is not text: character {ord(found[0]):#04x}", Span(source, found.start(), found.end()),
                        "a theory is a plain text file in UTF-8")
    if _STRING_OR_COMMENT.sub(" ", source.text).strip() == "":
        raise RuleError("the theory is empty", Span(source, 0, 0),
                        "write at least one rule, for example: 1.5 Smokes(x) => Cancer(x)")


def _check_depth(source: Source, tree: Tree[Token]) -> None:
    """Nesting that would exhaust the stack is refused before anything walks down into it."""
    level = [child for child in tree.children if isinstance(child, Tree)]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.children if isinstance(child, Tree)]
    for node in level:
        raise RuleError(f"this formula is nested more than {MAX_DEPTH} deep",
                        Span(source, node.meta.start_pos, node.meta.end_pos), "split the rule")


_NAMES = {
    "NAME": "a name", "LABEL": "a name", "QVAR": "a variable", "INT": "a number", "NUMBER": "a number",
    "STRING": "a string", "WEIGHT": "a weight", "COMMA": "','", "DOT": "'.'", "_NL": "the end of the line",
    "LPAR": "'('", "RPAR": "')'", "LBRACE": "'{'", "RBRACE": "'}'", "LSQB": "'['", "RSQB": "']'",
    "_OR": "'v'", "_AND": "'^'", "NOT": "'!'", "IMPLIES": "'=>'", "IFF": "'<=>'", "_EQ": "'='", "NEQ": "'!='",
    "_IN": "'in'",
}
_CLOSING = {")": "(", "]": "[", "}": "{"}


def _syntax_error(source: Source, error: UnexpectedInput) -> RuleError:
    token = getattr(error, "token", None)
    # lark puts the end of the text at its last token
    at_end = token is not None and token.type == "$END"
    start = len(source.text.rstrip()) if at_end else min(error.pos_in_stream or 0, len(source.text))
    end = min(start + (len(token) if token is not None and not at_end else 1), len(source.text))
    got = source.text[start:end]
    span = Span(source, start, end)
    if source.text.startswith("/*", start):
        return RuleError("this comment is never closed", Span(source, start, start + 2), "end it with */")
    if got == '"':
        return RuleError("this string is never closed", span, 'end it with " on the same line')
    unclosed = _unclosed(source, start)
    if unclosed is not None and got not in _CLOSING:
        return RuleError(f"bracket {unclosed.text!r} is never closed", unclosed,
                         f"expected its partner before line {span.line}, column {span.column}")
    if got in _CLOSING:
        return RuleError(f"bracket {got!r} closes nothing", span)
    expected = getattr(error, "allowed" if isinstance(error, UnexpectedCharacters) else "accepts", None)
    words = sorted({_NAMES[name] for name in expected or () if name in _NAMES})
    hint = f"expected {', '.join(words[:-1])}{' or ' if len(words) > 1 else ''}{words[-1]}" if words else None
    shown = "the end of the line" if got in ("\n", "") else repr(got)
    return RuleError(f"{shown} cannot stand here", span, _special_hint(source, start, got) or hint)


def _special_hint(source: Source, start: int, got: str) -> str | None:
    """What people coming from other engines write that this language does not have."""
    rest = source.text[start:].split("\n", 1)[0]
    if re.match(r"[<>]=?(?!>)", rest):
        return "order comparisons are not supported; compare with = and !=, or use an offset such as label(i+1)"
    if rest.startswith((":-", ":=")):
        return "write the rule as an implication: body => head"
    if rest.startswith(":"):
        return "weights are numbers; a weight taken from an argument, or a utility, is not supported"
    if rest.startswith(",") and source.text[:start].rstrip().endswith(")"):
        return "write '^' for 'and'"
    return None


def _unclosed(source: Source, before: int) -> Span | None:
    """The innermost bracket open at a place and not closed after it either, comments and strings left out."""
    text = _STRING_OR_COMMENT.sub(lambda m: " " * len(m[0]), source.text)
    open_at: list[int] = []
    for found in re.finditer(r"[()\[\]{}]", text):
        if found[0] in "([{":
            open_at.append(found.start())
        elif open_at and text[open_at[-1]] == _CLOSING[found[0]]:
            open_at.pop()
    still_open = [place for place in open_at if place < before]
    return Span(source, still_open[-1], still_open[-1] + 1) if still_open else None


def set_items(items: tuple[Token, ...], span: Span) -> tuple[str, ...]:
    """The members of `{A, B}` or `{1, ..., 20}`, once each."""
    names: list[str] = []
    for i, item in enumerate(items):
        if item.type != "ELLIPSIS":
            names.append(constant_name(item))
            continue
        before, after = (items[j] if 0 <= j < len(items) else None for j in (i - 1, i + 1))
        if before is None or after is None or before.type != "INT" or after.type != "INT" \
                or max(len(before), len(after)) > MAX_DIGITS or int(before) > int(after):
            raise RuleError("'...' stands between two whole numbers, the smaller one first", span,
                            "for example {1, ..., 20}")
        if int(after) - int(before) > MAX_RANGE:
            raise RuleError(f"this range has {int(after) - int(before) + 1} members (limit {MAX_RANGE})", span)
        names.extend(map(str, range(int(before) + 1, int(after))))
    return tuple(dict.fromkeys(names))


class _Builder(Transformer[Token, Any]):
    """One method per line of the grammar."""

    def __init__(self, source: Source, prac: bool, plain: dict[int, list[Statement]]):
        super().__init__()
        self.source = source
        self.prac = prac
        # statements that are read already, by the place of the `#` that stands for them
        self._runs = plain

    def _at(self, meta: Meta) -> Span:
        return Span(self.source, meta.start_pos, meta.end_pos)

    def _token(self, token: Token) -> Span:
        return Span(self.source, token.start_pos or 0, token.end_pos or 0)

    def _term(self, token: Token, offset: int = 0, per_constant: bool = False, span: Span | None = None) -> Any:
        span = span or self._token(token)
        if token.type == "QVAR":
            return Variable(token[1:], "", offset, per_constant, span)
        if token.type == "NAME" and not self.prac and not token[0].isupper():
            return Variable(str(token), "", offset, per_constant, span)
        if offset or per_constant:
            raise RuleError(f"{token} is a constant: only a variable can have an offset or '+'", span,
                            "variables start with a lower-case letter")
        return Constant(constant_name(token), "", span)

    def _atom(self, operand: Any, labels: tuple[str, ...] | None = None, span: Span | None = None) -> Atom:
        head = operand.children[0]
        span = span or self._at(operand.meta)
        if head.type != "NAME":
            raise RuleError(f"{head} is not a predicate", span)
        if operand.data == "applied_closed":
            raise RuleError("'*' before the bracket marks a declaration", span, f"write *{head}(...)")
        return self._named(head, operand.children[-1] if operand.data != "plain" else None, labels, span)

    def _named(self, name: Token, args: Any, labels: tuple[str, ...] | None, span: Span) -> Atom:
        if name == "not" or (not args and name.lower() in WORDS):
            raise RuleError(f"{str(name)!r} is a word of the language and cannot name a predicate", span)
        return Atom(str(name), args or (), labels, span)

    def _side(self, operand: Any) -> Any:
        if operand.data != "plain":
            raise RuleError("functions are not supported", self._at(operand.meta),
                            "write a predicate with a functional argument, such as motherOf(person, person!)")
        if operand.children[0] == "not":
            raise RuleError("'not' is a word of the language and cannot name a variable", self._at(operand.meta))
        return self._term(operand.children[0])

    # operands stay trees until it is known whether they are atoms or terms
    def args(self, children: list[Any]) -> tuple[Any, ...]:
        return tuple(children)

    def argument(self, children: list[Token]) -> Any:
        return self._term(children[0])

    def marked(self, children: list[Token]) -> Marked:
        name, mark = children
        if mark not in "!?":
            raise RuleError(f"{str(mark)!r} cannot stand here", self._token(mark),
                            "'!' marks exactly one, '?' at most one")
        if name.type != "NAME":
            raise RuleError(f"{name} is not the name of a type", self._token(name))
        return Marked(constant_name(name), str(mark), self._token(name))

    @v_args(meta=True)
    def shifted(self, meta: Meta, children: list[Token]) -> Any:
        name, sign, distance = children
        if distance.startswith("-") or len(distance) > MAX_DIGITS:
            raise RuleError("this is not an offset", self._token(distance), "write i+1 or i-1")
        return self._term(name, int(sign + distance), span=self._at(meta))

    @v_args(meta=True)
    def per_constant(self, meta: Meta, children: list[Token]) -> Any:
        return self._term(children[1], per_constant=True, span=self._at(meta))

    @v_args(meta=True)
    def set(self, meta: Meta, children: list[Token]) -> tuple[str, ...]:
        return set_items(tuple(children), self._at(meta) if children else Span(self.source, 0, 0))

    def names(self, children: list[Token]) -> tuple[Variable, ...]:
        for token in children:
            if token.type == "NAME" and (self.prac or token[0].isupper()):
                start = "'?' here" if self.prac else "a lower-case letter"
                raise RuleError(f"{token} is a constant and cannot be quantified", self._token(token),
                                f"variables start with {start}")
        return tuple(Variable(token.lstrip("?"), span=self._token(token)) for token in children)

    def atom(self, children: list[Any]) -> Any:
        operand = children[0]
        if operand.data == "applied_closed":
            span = self._at(operand.meta)
            return Starred(self._named(operand.children[0], operand.children[-1], None, span), span)
        return self._atom(operand)

    @v_args(meta=True)
    def starred(self, meta: Meta, children: list[Any]) -> Starred:
        return Starred(self._atom(children[1]), self._at(meta))

    def _comparison(self, meta: Meta, left: Any, right: Any) -> Formula:
        # label(i) = B-PER is the same as label(i) in {B-PER}
        if left.data == "applied" and right.data == "plain":
            return self._atom(left, (constant_name(right.children[0]),), self._at(meta))
        one, other = self._side(left), self._side(right)
        # the variable first: a rule that starts with a number would read as weighted
        return Equal(other, one, self._at(meta)) if isinstance(one, Constant) else Equal(one, other, self._at(meta))

    @v_args(meta=True)
    def equal(self, meta: Meta, children: list[Any]) -> Formula:
        return self._comparison(meta, children[0], children[1])

    @v_args(meta=True)
    def unequal(self, meta: Meta, children: list[Any]) -> Formula:
        return Not(self._comparison(meta, children[0], children[2]), self._at(meta))

    @v_args(meta=True)
    def defined(self, meta: Meta, children: list[Any]) -> Any:
        operand, items = children
        if operand.data != "plain" or operand.children[0].type != "NAME":
            raise RuleError("'=' compares two terms", self._at(meta), "write 'in' before a set of labels")
        if operand.children[0] == "not":
            raise RuleError("'not' is a word of the language and cannot name a type", self._at(meta))
        return Defined(str(operand.children[0]), items, self._at(meta))

    @v_args(meta=True)
    def member(self, meta: Meta, children: list[Any]) -> Formula:
        return self._atom(children[0], children[1], self._at(meta))

    @v_args(meta=True)
    def no_member(self, meta: Meta, children: list[Any]) -> Formula:
        return Not(self._atom(children[0], children[2], self._at(meta)), self._at(meta))

    @v_args(meta=True)
    def negated(self, meta: Meta, children: list[Any]) -> Formula:
        return Not(children[1], self._at(meta))

    @v_args(meta=True)
    def exists(self, meta: Meta, children: list[Any]) -> Formula:
        return Exists(children[1], children[2], self._at(meta))

    @v_args(meta=True)
    def forall(self, meta: Meta, children: list[Any]) -> Formula:
        return Forall(children[1], children[2], self._at(meta))

    @v_args(meta=True)
    def parenthesis(self, meta: Meta, children: list[Any]) -> Enclosed:
        return Enclosed(children[0], "(", self._at(meta))

    @v_args(meta=True)
    def indivisible(self, meta: Meta, children: list[Any]) -> Enclosed:
        return Enclosed(children[0], "[", self._at(meta))

    @v_args(meta=True)
    def conjunction(self, meta: Meta, children: list[Any]) -> Formula:
        return And(tuple(children), self._at(meta))

    @v_args(meta=True)
    def disjunction(self, meta: Meta, children: list[Any]) -> Formula:
        return Or(tuple(children), self._at(meta))

    @v_args(meta=True)
    def implies(self, meta: Meta, children: list[Any]) -> Formula:
        return Implies(children[0], children[2], self._at(meta))

    @v_args(meta=True)
    def iff(self, meta: Meta, children: list[Any]) -> Formula:
        return Iff(children[0], children[2], self._at(meta))

    # a statement comes as a list, because one `#` can stand for many
    def include(self, children: list[Token]) -> list[Include]:
        path = children[0].split(None, 1)[1].strip()
        return [Include(path[1:-1], self._token(children[0]))]

    def directive(self, children: list[Token]) -> list[Statement]:
        if children[0].start_pos in self._runs:
            return self._runs[children[0].start_pos]
        word = re.match(r"#\w*", children[0])[0]  # type: ignore[index]
        raise RuleError(f"the directive {word} is not supported", self._token(children[0]), 'known: #include "file"')

    @v_args(meta=True)
    def rule(self, meta: Meta, children: list[Any]) -> list[Statement]:
        weight, formula, dot = children
        if weight is not None and dot is not None:
            raise RuleError("a rule has a weight or a final '.', not both", self._at(meta),
                            "take the weight away for a hard rule, or the '.' for a soft one")
        if weight is None:
            return [Statement(formula, None, dot is not None, self._at(meta))]
        span = self._token(weight)
        return [Statement(formula, evaluate_weight(str(weight), span), False, self._at(meta), span)]

    @v_args(meta=True)
    def marked_declaration(self, meta: Meta, children: list[Any]) -> list[Statement]:
        star, word, name, args = children
        if word != "symmetric":
            raise RuleError(f"{word} {name}(...) is neither a rule nor a declaration", self._at(meta),
                            "write 'symmetric' before a symmetric predicate; functions are not supported, write "
                            "a predicate with a functional argument, such as motherOf(person, person!)")
        atom = self._named(name, args, None, Span(self.source, name.start_pos, meta.end_pos))
        return [Statement(atom, None, False, self._at(meta), word=str(word), closed_world=star is not None)]
