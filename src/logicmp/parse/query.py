"""What is asked for: predicates, atoms, formulas.

Stage: text + theory -> **parse** -> infer.

    Smokes                   every atom of a predicate
    Cancer(x, Bob)           the atoms that match
    Smokes(x) => Cancer(x)   the probability that the formula holds, for every x
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from ..errors import LogicMPError, RuleError, Source, closest
from .grammar import Enclosed, Statement
from .reader import read_statements
from .resolve import resolve_formula, unknown_predicate, wrong_arity
from .syntax import Atom, Constant, Equal, Formula, Variable, atoms, children, free_variables, terms, with_children
from .theory import Rule, Theory

_PIECES = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|//[^\n]*|[()\[\]{},\n]')


@dataclass(frozen=True)
class Query:
    """One thing asked for."""

    text: str
    # an atom of a multi-class predicate may come without labels: all of them are asked for
    formula: Formula

    @property
    def is_atom(self) -> bool:
        """Whether atoms are asked for, and not whether a formula holds."""
        return isinstance(self.formula, Atom)

    @property
    def predicates(self) -> set[str]:
        """The predicates asked for, in a formula all that it names: what the conventions leave open."""
        return {leaf.predicate for leaf in atoms(self.formula) if isinstance(leaf, Atom)}

    def as_rule(self) -> Rule:
        """The formula as a rule of weight 0 with a weight of its own for each binding of its variables."""
        # indivisible: what is asked is whether the formula holds, and not how many of its clauses do
        return Rule(_marked(self.formula, frozenset(free_variables(self.formula))), 0.0, indivisible=True)


def _marked(formula: Formula, names: frozenset[str]) -> Formula:
    def term(t: Any) -> Any:
        return replace(t, per_constant=True) if isinstance(t, Variable) and t.name in names else t

    if isinstance(formula, Atom):
        return replace(formula, args=tuple(map(term, formula.args)))
    if isinstance(formula, Equal):
        return replace(formula, left=term(formula.left), right=term(formula.right))
    return with_children(formula, [_marked(child, names) for child in children(formula)])


def parse_queries(text: str, theory: Theory, name: str = "<query>") -> list[Query]:
    """Read queries, separated by commas or on lines of their own, and check them against a theory.

    >>> from logicmp import parse_theory
    >>> theory = parse_theory("person = {Anna, Bob}\\nSmokes(person)\\nFriends(person, person)")
    >>> [str(query.formula) for query in parse_queries("Smokes, Friends(x, Bob)", theory)]
    ['Smokes(x1)', 'Friends(x, Bob)']

    A name that is a constant of the argument's type is that constant, also in lower case.
    """
    queries = [_query(piece, theory, name) for piece in _split(text)]
    if not queries:
        raise LogicMPError("no query is given", f"ask for predicates: {', '.join(theory.predicate)}")
    return queries


def _split(text: str) -> list[str]:
    """The text at its commas and newlines, those inside brackets and strings left alone, without comments."""
    pieces, depth, last = [], 0, 0
    for found in _PIECES.finditer(text):
        mark = found[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark.startswith("//") or (mark in ",\n" and depth <= 0):
            pieces.append(text[last : found.start()])
            last = found.end()
            depth = 0
    pieces.append(text[last:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _query(text: str, theory: Theory, name: str) -> Query:
    statements = read_statements(Source(name, text))
    statement = statements[0] if len(statements) == 1 else None
    if not isinstance(statement, Statement) or statement.weight is not None or statement.is_hard or statement.word:
        raise LogicMPError(f"{text!r} is not a query", "ask for a predicate, an atom or a formula, without a weight")
    raw = statement.formula
    while isinstance(raw, Enclosed):
        raw = raw.body
    raw = _known_constants(raw, theory)
    if not isinstance(raw, Atom):
        return Query(text, resolve_formula(raw, theory))
    predicate = theory.predicate.get(raw.predicate)
    if predicate is None:
        raise unknown_predicate(raw.predicate, theory.predicate, raw.span)
    if not raw.args and predicate.arguments:
        variables = tuple(Variable(f"x{k}", t) for k, t in enumerate(predicate.types, 1))
        return Query(text, Atom(raw.predicate, variables, raw.labels))
    if predicate.labels is None or raw.labels is not None:
        return Query(text, resolve_formula(raw, theory))
    if len(raw.args) != len(predicate.arguments):
        raise wrong_arity(predicate, len(raw.args), raw.span)
    found = resolve_formula(replace(raw, labels=predicate.labels), theory)
    assert isinstance(found, Atom)
    return Query(text, replace(found, labels=None))


def _known_constants(node: Any, theory: Theory) -> Any:
    """Arguments that name a constant become one; a constant that is not known is refused."""
    while isinstance(node, Enclosed):
        node = node.body
    if not isinstance(node, Atom):
        parts = children(node)
        return with_children(node, [_known_constants(part, theory) for part in parts]) if parts else node
    predicate = theory.predicate.get(node.predicate)
    if predicate is None or len(node.args) != len(predicate.arguments):
        return node
    args = []
    for arg, type_name in zip(terms(node), predicate.types, strict=True):
        is_plain = isinstance(arg, Variable) and not arg.offset and not arg.per_constant
        if is_plain and theory.has_constant(type_name, arg.name):
            arg = Constant(arg.name, span=arg.span)
        if isinstance(arg, Constant) and not theory.has_constant(type_name, arg.name):
            raise RuleError(f"{arg.name!r} is not a constant of type {type_name!r}", arg.span,
                            closest(arg.name, theory.type[type_name].constants, "constant"))
        args.append(arg)
    return replace(node, args=tuple(args))
