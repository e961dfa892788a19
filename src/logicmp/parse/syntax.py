"""The syntax tree of a formula; every node knows where it was written.

Stage: **parse** -> normalize.  Paper: Appendix "Terminology".

    Smokes(x) ^ Friends(x,y) => Smokes(y)      Implies(And((Atom, Atom)), Atom)

Spans do not count in comparisons: two formulas are equal if they say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import Span

PLAIN_CONSTANT = re.compile(r"[A-Z][\w']*(?:-[\w']+)*|-?\d+(?:\.\d+)?")
PLAIN_LABEL = re.compile(r"[A-Za-z_][\w']*(?:-[\w']+)*|-?\d+(?:\.\d+)?")


def quoted(name: str, plain: re.Pattern[str] = PLAIN_CONSTANT) -> str:
    """A constant as it must be written to be read back.

    >>> quoted("Anna"), quoted("the")
    ('Anna', '"the"')
    """
    if plain.fullmatch(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


@dataclass(frozen=True, slots=True)
class Variable:
    """`x`, `+x` (one weight per constant) or `i+1` (the next one in an ordered type)."""

    name: str
    type: str = ""
    offset: int = 0
    per_constant: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{'+' if self.per_constant else ''}{self.name}{f'{self.offset:+d}' if self.offset else ''}"


@dataclass(frozen=True, slots=True)
class Constant:
    """`Anna`, `3` or `"any text"`."""

    name: str
    type: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return quoted(self.name)


Term = Variable | Constant


@dataclass(frozen=True, slots=True)
class Atom:
    """`Friends(x, y)`, or with labels `label(i) in {B-PER, I-PER}`."""

    predicate: str
    args: tuple[Term, ...] = ()
    labels: tuple[str, ...] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        args = f"({', '.join(map(str, self.args))})" if self.args else ""
        chosen = ", ".join(quoted(label, PLAIN_LABEL) for label in self.labels or ())
        return f"{self.predicate}{args}{'' if self.labels is None else f' in {{{chosen}}}'}"


@dataclass(frozen=True, slots=True)
class Equal:
    """`x = y`: the two terms name the same constant."""

    left: Term
    right: Term
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True, slots=True)
class Not:
    body: Formula
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if isinstance(self.body, Equal):
            return f"{self.body.left} != {self.body.right}"
        return f"!{_operand(self.body, 5)}"


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Formula, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return " ^ ".join(_operand(part, 5) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Formula, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return " v ".join(_operand(part, 4) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Implies:
    premise: Formula
    conclusion: Formula
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{_operand(self.premise, 3)} => {_operand(self.conclusion, 3)}"


@dataclass(frozen=True, slots=True)
class Iff:
    left: Formula
    right: Formula
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{_operand(self.left, 2)} <=> {_operand(self.right, 2)}"


@dataclass(frozen=True, slots=True)
class Exists:
    variables: tuple[Variable, ...]
    body: Formula
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"EXIST {', '.join(map(str, self.variables))} ({self.body})"


@dataclass(frozen=True, slots=True)
class Forall:
    variables: tuple[Variable, ...]
    body: Formula
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"FORALL {', '.join(map(str, self.variables))} ({self.body})"


Formula = Atom | Equal | Not | And | Or | Implies | Iff | Exists | Forall

# not > ^ > v > => > <=> > quantifier, as in Alchemy
_BINDING = {Atom: 6, Equal: 6, Not: 5, And: 4, Or: 3, Implies: 2, Iff: 1, Exists: 0, Forall: 0}


def _operand(formula: Formula, at_least: int) -> str:
    return str(formula) if _BINDING[type(formula)] >= at_least else f"({formula})"


# a table, because every stage asks this of every formula
_CHILDREN: dict[type, Callable[[Any], tuple[Formula, ...]]] = {
    And: lambda node: node.parts,
    Or: lambda node: node.parts,
    Not: lambda node: (node.body,),
    Exists: lambda node: (node.body,),
    Forall: lambda node: (node.body,),
    Implies: lambda node: (node.premise, node.conclusion),
    Iff: lambda node: (node.left, node.right),
}


def children(formula: Formula) -> tuple[Formula, ...]:
    """The formulas directly below this one."""
    below = _CHILDREN.get(type(formula))
    return () if below is None else below(formula)


def depth(formula: Formula) -> int:
    """How many formulas stand inside each other; an atom alone is 1."""
    return 1 + max(map(depth, children(formula)), default=0)


def with_children(node: Formula, parts: Sequence[Formula]) -> Formula:
    """The same node over other formulas, given in the order of `children`."""
    # constructors, because `replace` is several times slower
    if isinstance(node, (And, Or)):
        return type(node)(tuple(parts), node.span)
    if isinstance(node, (Implies, Iff)):
        return type(node)(parts[0], parts[1], node.span)
    if isinstance(node, Not):
        return Not(parts[0], node.span)
    assert isinstance(node, (Exists, Forall))
    return type(node)(node.variables, parts[0], node.span)


def atoms(formula: Formula) -> Iterator[Atom | Equal]:
    """Every atom and every equality in the formula, from left to right."""
    if isinstance(formula, (Atom, Equal)):
        yield formula
    for child in children(formula):
        yield from atoms(child)


def terms(leaf: Atom | Equal) -> tuple[Term, ...]:
    return leaf.args if isinstance(leaf, Atom) else (leaf.left, leaf.right)


def free_variables(formula: Formula) -> dict[str, str]:
    """Free variables and their types, in the order of their first appearance.

    >>> x, y = Variable("x", "person"), Variable("y", "person")
    >>> free_variables(Exists((y,), Atom("Friends", (x, y))))
    {'x': 'person'}
    """
    found: dict[str, str] = {}

    def walk(node: Formula, bound: frozenset[str]) -> None:
        if isinstance(node, (Atom, Equal)):
            for term in terms(node):
                if isinstance(term, Variable) and term.name not in bound:
                    found.setdefault(term.name, term.type)
        elif isinstance(node, (Exists, Forall)):
            walk(node.body, bound | {v.name for v in node.variables})
        else:
            for child in children(node):
                walk(child, bound)

    walk(formula, frozenset())
    return found


def put_constants(node: Formula, chosen: Mapping[str, int], constants: Mapping[str, Sequence[str]]) -> Formula:
    """The formula with constants for free variables, each given by its place in its type; no `+` is left.

    >>> x, y = Variable("x", "person"), Variable("y", "person")
    >>> print(put_constants(Atom("Friends", (x, y)), {"x": 1}, {"person": ["Anna", "Bob"]}))
    Friends(Bob, y)

    Raises:
        IndexError: an offset leads out of the type.
    """
    def term(t: Term) -> Term:
        if not isinstance(t, Variable) or t.name not in chosen:
            return replace(t, per_constant=False) if isinstance(t, Variable) else t
        place = chosen[t.name] + t.offset
        if place < 0:
            raise IndexError(place)
        return Constant(constants[t.type][place], t.type)

    if isinstance(node, Atom):
        return replace(node, args=tuple(map(term, node.args)))
    if isinstance(node, Equal):
        return replace(node, left=term(node.left), right=term(node.right))
    if isinstance(node, (Exists, Forall)):
        # a quantified variable hides a free one of its name
        hidden = {v.name for v in node.variables}
        chosen = {name: place for name, place in chosen.items() if name not in hidden}
    return with_children(node, [put_constants(child, chosen, constants) for child in children(node)])
