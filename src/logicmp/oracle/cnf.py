"""The clauses that are grounded for a rule, in each of the three semantics.

Room: parse -> **cnf** -> grounding.

    1.2 A(x) <=> B(x)      exact      the formula itself, weight 1.2
                           alchemy    !A(x) v B(x) and !B(x) v A(x), weight 0.6 each
                           paper      the same clauses, weight 1.2 each

Written from the definitions, without `normalize`, so that one can check the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import LogicMPError
from ..parse.syntax import (
    And,
    Atom,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Term,
    Variable,
    children,
    free_variables,
)
from ..parse.theory import Rule

SEMANTICS = ("exact", "paper", "alchemy")


@dataclass(frozen=True)
class Clause:
    """A disjunction, the variables that its groundings range over, and its share of the rule's weight."""

    literals: tuple[Formula, ...]
    variables: Mapping[str, str]
    share: float = 1.0


def clauses(rule: Rule, semantics: str) -> list[Clause]:
    """The clauses of a rule; in exact semantics its formula, as one clause.

    >>> from logicmp import parse_theory
    >>> for clause in clauses(parse_theory("A(x) <=> B(x)").rules[0], "alchemy"):
    ...     print(clause.share, *clause.literals)
    0.5 !A(x) B(x)
    0.5 !B(x) A(x)
    """
    if semantics not in SEMANTICS:
        raise LogicMPError(f"unknown semantics {semantics!r}", f"available semantics: {', '.join(SEMANTICS)}")
    whole = Clause((rule.formula,), rule.variables)
    if semantics == "exact":
        return [whole]
    normal = _negation_normal(_rename(rule.formula, {}, itertools.count(1)))
    matrix = _drop_foralls(normal)
    cnf = _distribute(matrix)
    if rule.indivisible and (len(cnf) > 1 or matrix != normal):
        return [whole]
    if len(cnf) > 1:
        # a formula that is already a clause keeps its literals as written
        distinct: dict[frozenset[Formula], list[Formula]] = {}
        for clause in cnf:
            if not any(Not(literal) in clause for literal in clause):
                distinct.setdefault(frozenset(clause), list(dict.fromkeys(clause)))
        cnf = list(distinct.values())
    # a hard rule stays hard in every clause
    share = 1 / len(cnf) if cnf and semantics == "alchemy" and not rule.is_hard else 1.0
    # a clause without x is still grounded for every weight of +x
    weighted = {name: rule.variables[name] for name in rule.per_constant}
    return [Clause(tuple(clause), {**free_variables(Or(tuple(clause))), **weighted}, share) for clause in cnf]


def _rename(formula: Formula, names: Mapping[str, str], numbers: Iterator[int]) -> Formula:
    """Give every quantifier its own variables; drop the mark of `+x`, which belongs to the rule."""

    def term(t: Term) -> Term:
        return replace(t, name=names.get(t.name, t.name), per_constant=False) if isinstance(t, Variable) else t

    if isinstance(formula, Atom):
        return replace(formula, args=tuple(map(term, formula.args)))
    if isinstance(formula, Equal):
        return Equal(term(formula.left), term(formula.right))
    if isinstance(formula, (Exists, Forall)):
        # no name of the language has a dot
        names = {**names, **{v.name: f"{v.name}.{next(numbers)}" for v in formula.variables}}
        variables = tuple(replace(v, name=names[v.name]) for v in formula.variables)
        return type(formula)(variables, _rename(formula.body, names, numbers))
    parts = tuple(_rename(child, names, numbers) for child in children(formula))
    if isinstance(formula, (And, Or)):
        return type(formula)(parts)
    if isinstance(formula, (Implies, Iff)):
        return type(formula)(parts[0], parts[1])
    return Not(parts[0])


def _negation_normal(formula: Formula, positive: bool = True) -> Formula:
    """!(p ^ q)  ->  !p v !q, so that only `^`, `v`, quantifiers and literals are left."""
    if isinstance(formula, (Atom, Equal)):
        return formula if positive else Not(formula)
    if isinstance(formula, Not):
        return _negation_normal(formula.body, not positive)
    if isinstance(formula, Implies):
        return _negation_normal(Or((Not(formula.premise), formula.conclusion)), positive)
    if isinstance(formula, Iff):
        return _negation_normal(
            And((Implies(formula.left, formula.right), Implies(formula.right, formula.left))), positive)
    if isinstance(formula, (Exists, Forall)):
        quantifier = Exists if isinstance(formula, Exists) == positive else Forall
        return quantifier(formula.variables, _negation_normal(formula.body, positive))
    connective = And if isinstance(formula, And) == positive else Or
    return connective(tuple(_negation_normal(part, positive) for part in formula.parts))


def _drop_foralls(formula: Formula) -> Formula:
    """FORALL y P(y)  ->  P(y), but not below an EXIST, which stays one literal."""
    if isinstance(formula, Forall):
        return _drop_foralls(formula.body)
    if isinstance(formula, (And, Or)):
        return type(formula)(tuple(map(_drop_foralls, formula.parts)))
    return formula


def _distribute(formula: Formula) -> list[list[Formula]]:
    """p v (q ^ r)  ->  (p v q) ^ (p v r), as lists of literals."""
    if isinstance(formula, And):
        return [clause for part in formula.parts for clause in _distribute(part)]
    if isinstance(formula, Or):
        return [list(itertools.chain(*choice)) for choice in itertools.product(*map(_distribute, formula.parts))]
    return [[formula]]
