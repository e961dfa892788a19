"""The syntax tree of a formula; every node has the span it was read from.

Room: **parse** -> normalize.  Paper: Appendix "Terminology".

    Smokes(x) ^ Friends(x,y) => Smokes(y)      Implies(And((Atom, Atom)), Atom)

Comparisons ignore spans: equal formulas may come from different places.
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
    """A constant in the spelling that reads back as itself, in quotes if needed.

    >>> quoted("Anna"), quoted("the")
    ('Anna', '"the"')
    """
    if plain.fullmatch(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


@dataclass(frozen=True, slots=True)
class Variable:
    """`x`, `+x` (one weight per constant) or `i+1` (the next constant of an ordered type)."""

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


# a table, because every stage calls this for every formula
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
    """How many formulas are nested inside each other; 1 for an atom."""
    return 1 + max(map(depth, children(formula)), default=0)


def with_children(node: Formula, parts: Sequence[Formula]) -> Formula:
    """The same node with other children, in the order of `children`."""
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
    """Free variables and their types, in the order in which they first occur.

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


def map_terms(formula: Formula, change: Callable[[Variable], Term], bound: frozenset[str] = frozenset()) -> Formula:
    """The formula with every free variable replaced by what `change` returns for it.

    >>> x, y = Variable("x"), Variable("y")
    >>> print(map_terms(Or((Atom("P", (x,)), Exists((x,), Atom("Q", (x, y))))), lambda v: Constant(v.name.upper())))
    P(X) v (EXIST x (Q(x, Y)))
    """
    def term(t: Term) -> Term:
        return change(t) if isinstance(t, Variable) and t.name not in bound else t

    if isinstance(formula, Atom):
        return Atom(formula.predicate, tuple([term(t) for t in formula.args]), formula.labels, formula.span)
    if isinstance(formula, Equal):
        return Equal(term(formula.left), term(formula.right), formula.span)
    if isinstance(formula, (Exists, Forall)):
        bound |= {v.name for v in formula.variables}
    return with_children(formula, [map_terms(child, change, bound) for child in children(formula)])


def put_constants(formula: Formula, chosen: Mapping[str, int], constants: Mapping[str, Sequence[str]]) -> Formula:
    """Replace free variables by constants, given by their positions in their types, and remove every `+`.

    >>> x, y = Variable("x", "person"), Variable("y", "person")
    >>> print(put_constants(Atom("Friends", (x, y)), {"x": 1}, {"person": ["Anna", "Bob"]}))
    Friends(Bob, y)

    Raises:
        IndexError: an offset leads outside the type.
    """
    def put(variable: Variable) -> Term:
        if variable.name not in chosen:
            return replace(variable, per_constant=False)
        place = chosen[variable.name] + variable.offset
        if place < 0:
            raise IndexError(place)
        return Constant(constants[variable.type][place], variable.type)

    return map_terms(formula, put)
