"""The grammar as a parser, and what its statements look like before names mean anything.

Stage: text -> **parse** (statements) -> parse (theory).

    person = {Anna, Bob}         Statement(Defined("person", ("Anna", "Bob")))
    [P(x) v Q(x)].               Statement(Enclosed(Or(...), "["), is_hard=True)
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark

from ..errors import Span
from .syntax import Atom

# these cannot be predicates without arguments, because the formula would read differently
WORDS = {"not", "and", "or", "v", "in", "exist", "exists", "forall"}


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection: it would search the growing theory again and again, in which there is no garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def parser() -> Lark:
    text = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def terminal(name: str) -> str:
    """The regular expression of a terminal of the grammar."""
    return str(parser().get_terminal(name).pattern.to_regexp())


@dataclass(frozen=True, slots=True)
class Marked:
    """`person!` or `person?` in a declaration."""

    name: str
    mark: str
    span: Span


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A formula in brackets, `( )` or `[ ]`: an atom in brackets is never a declaration."""

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
    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a theory: a rule or a declaration."""

    formula: Any
    weight: float | None
    is_hard: bool
    span: Span
    weight_span: Span | None = None
    # the word in front of a declaration: `symmetric`
    word: str | None = None
    closed_world: bool = field(default=False)


_ESCAPE = re.compile(r"\\(.)")


def constant_name(token: str) -> str:
    """The constant that a token names: quotes go, escapes are resolved."""
    if token.startswith('"'):
        return _ESCAPE.sub(lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), token[1:-1])
    return str(token)
