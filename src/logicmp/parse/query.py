"""Queries: predicates, atoms and formulas whose probabilities are computed.

Room: **parse** -> inference.

    Smokes                   every atom of a predicate
    Cancer(x, Bob)           the atoms that match
    Smokes(x) => Cancer(x)   the probability that the formula is true, for every x
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from ..errors import LogicMPError, RuleError, Source, closest
from .reader import read_statements
from .resolve import resolve_formula, unknown_predicate, wrong_arity
from .syntax import Atom, Constant, Formula, Variable, atoms, children, map_terms, terms, with_children
from .theory import Predicate, Rule, Theory
from .tokens import Enclosed, Statement

_PIECES = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|//[^\n]*|[()\[\]{},\n]')


@dataclass(frozen=True)
class Query:
    """One queried predicate, atom or formula."""

    text: str
    # an atom of a multi-class predicate without labels queries all of them
    formula: Formula

    @property
    def is_atom(self) -> bool:
        """Whether the query is about atoms, not about the truth of a formula."""
        return isinstance(self.formula, Atom)

    @property
    def predicates(self) -> set[str]:
        """The predicates in the query, whose world is open by convention."""
        return {leaf.predicate for leaf in atoms(self.formula) if isinstance(leaf, Atom)}

    def as_rule(self) -> Rule:
        """The formula as a rule of weight 0, with one weight per binding of its variables."""
        # indivisible, because the query is about the whole formula, not about each of its clauses
        return Rule(map_terms(self.formula, lambda v: replace(v, per_constant=True)), 0.0, indivisible=True)


def parse_queries(text: str, theory: Theory, name: str = "<query>") -> list[Query]:
    """Read queries, separated by commas or newlines, and check them against a theory.

    >>> from logicmp import parse_theory
    >>> theory = parse_theory("person = {Anna, Bob}\\nSmokes(person)\\nFriends(person, person)")
    >>> [str(query.formula) for query in parse_queries("Smokes, Friends(x, Bob)", theory)]
    ['Smokes(x1)', 'Friends(x, Bob)']

    A name in lower case is a constant if the type of the argument has such a constant, else a variable.
    """
    queries = []
    for start, piece in _split(text):
        source = Source(name, piece)
        try:
            queries.append(_query(source, theory))
        except RuleError as error:
            raise error.moved(source, Source(name, text), start) from None
    if not queries:
        raise LogicMPError("no query is given",
                           f"leave it out to query all, or name predicates: {', '.join(theory.predicate)}")
    return queries


def _split(text: str) -> list[tuple[int, str]]:
    """Split a text at commas and newlines outside brackets and strings; drop comments. Each piece has its place."""
    pieces, depth, last = [], 0, 0
    for found in _PIECES.finditer(text):
        mark = found[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark.startswith("//") or (mark in ",\n" and depth <= 0):
            pieces.append((last, text[last : found.start()]))
            last = found.end()
            depth = 0
    pieces.append((last, text[last:]))
    return [(start + len(piece) - len(piece.lstrip()), piece.strip()) for start, piece in pieces if piece.strip()]


def _query(source: Source, theory: Theory) -> Query:
    text = source.text
    if text in theory.predicate and theory.predicate[text].arguments:
        # also one with the name of a word of the language, such as In(p, q)
        return Query(text, _all_atoms(theory.predicate[text], None))
    statements = read_statements(source)
    statement = statements[0] if len(statements) == 1 else None
    if not isinstance(statement, Statement) or statement.weight is not None or statement.is_hard or statement.word:
        raise LogicMPError(f"{text!r} is not a query", "query a predicate, an atom or a formula, without a weight")
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
        return Query(text, _all_atoms(predicate, raw.labels))
    if predicate.labels is None or raw.labels is not None:
        return Query(text, resolve_formula(raw, theory))
    if len(raw.args) != len(predicate.arguments):
        raise wrong_arity(predicate, len(raw.args), raw.span)
    found = resolve_formula(replace(raw, labels=predicate.labels), theory)
    assert isinstance(found, Atom)
    return Query(text, replace(found, labels=None))


def _all_atoms(predicate: Predicate, labels: tuple[str, ...] | None) -> Atom:
    return Atom(predicate.name, tuple(Variable(f"x{k}", t) for k, t in enumerate(predicate.types, 1)), labels)


def _known_constants(node: Any, theory: Theory) -> Any:
    """Turn arguments that name a constant into constants; reject constants that the theory does not have."""
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


def split_names(text: str) -> list[str]:
    """The names in a comma-separated list.

    >>> split_names("Smokes, Cancer,")
    ['Smokes', 'Cancer']
    """
    return [name.strip() for name in text.split(",") if name.strip()]
