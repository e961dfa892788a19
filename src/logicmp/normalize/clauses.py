"""Formulas as clauses, for the semantics that count clauses: `paper` and `alchemy`.

Room: parse -> **normalize** -> ground, plan.  Paper: Theorem 2. Alchemy splits formulas the same way.

    Smokes(x) <=> Cancer(x)   ->   !Smokes(x) v Cancer(x),   Smokes(x) v !Cancer(x)
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import CostError
from ..parse.syntax import And, Atom, Equal, Exists, Forall, Formula, Iff, Implies, Not, Or, children
from ..parse.theory import Rule
from .budget import Budget

Clause = tuple[Formula, ...]


def is_clause(formula: Formula, negate: bool = False) -> bool:
    """Whether a formula is a disjunction of literals once implications and negations are rewritten."""
    if isinstance(formula, Not):
        return is_clause(formula.body, not negate)
    if isinstance(formula, (And, Or)):
        return isinstance(formula, And) == negate and all(is_clause(part, negate) for part in formula.parts)
    if isinstance(formula, Implies):
        return not negate and is_clause(formula.premise, True) and is_clause(formula.conclusion)
    # an EXIST is not split
    return isinstance(formula, (Atom, Equal, Forall if negate else Exists))


def to_clauses(rule: Rule, max_clauses: int) -> list[Clause]:
    """Return the clauses of a rule; a formula that is a clause already keeps all its literals, repeated ones too."""
    # every <=> doubles what is below it
    Budget(rule, max_clauses).spend(_size(rule.formula))
    formula = _drop_foralls(push_negation(rule.formula, False))
    literals = _flat((formula,))
    if all(_is_unit(part) for part in literals):
        return [tuple(literals)]
    clauses: dict[frozenset[Formula], Clause] = {}
    for clause in _distribute(formula, rule, max_clauses):
        distinct = tuple(dict.fromkeys(clause))
        if not any(push_negation(literal, True) in distinct for literal in distinct):
            clauses.setdefault(frozenset(distinct), distinct)
    return list(clauses.values())


def _size(formula: Formula) -> int:
    """How many literals `push_negation` makes of a formula."""
    if isinstance(formula, (Atom, Equal)):
        return 1
    return (2 if isinstance(formula, Iff) else 1) * sum(map(_size, children(formula)))


def _drop_foralls(formula: Formula) -> Formula:
    """Remove each FORALL that is not below an EXIST: its variables become free variables of the clauses."""
    if isinstance(formula, Forall):
        return _drop_foralls(formula.body)
    if isinstance(formula, (And, Or)):
        return replace(formula, parts=tuple(map(_drop_foralls, formula.parts)))
    return formula


def _flat(parts: tuple[Formula, ...]) -> list[Formula]:
    return [leaf for part in parts for leaf in (_flat(part.parts) if isinstance(part, Or) else [part])]


def _is_unit(formula: Formula) -> bool:
    """Whether a formula is a literal, or an EXIST, which is not split."""
    return isinstance(formula, (Atom, Equal, Exists)) or (
        isinstance(formula, Not) and isinstance(formula.body, (Atom, Equal)))


def push_negation(formula: Formula, negate: bool) -> Formula:
    """Negation normal form: `!(p ^ q) -> !p v !q`, `p => q -> !p v q`, `!EXIST x p -> FORALL x !p`."""
    if isinstance(formula, (Atom, Equal)):
        return Not(formula) if negate else formula
    if isinstance(formula, Not):
        return push_negation(formula.body, not negate)
    if isinstance(formula, (And, Or)):
        kind = And if isinstance(formula, And) != negate else Or
        return kind(tuple(push_negation(part, negate) for part in formula.parts))
    if isinstance(formula, Implies):
        return push_negation(Or((Not(formula.premise), formula.conclusion)), negate)
    if isinstance(formula, Iff):
        both = And((Implies(formula.left, formula.right), Implies(formula.right, formula.left)))
        return push_negation(both, negate)
    quantifier = Exists if isinstance(formula, Exists) != negate else Forall
    return quantifier(formula.variables, push_negation(formula.body, negate))


def _distribute(formula: Formula, rule: Rule, limit: int) -> list[Clause]:
    """Distribute v over ^."""
    if isinstance(formula, And):
        clauses = [clause for part in formula.parts for clause in _distribute(part, rule, limit)]
    elif isinstance(formula, Or):
        clauses = [()]
        for part in formula.parts:
            more = _distribute(part, rule, limit)
            if len(clauses) * len(more) > limit:
                raise CostError(f"this rule has at least {len(clauses) * len(more)} clauses (limit {limit})", rule.span,
                                'use semantics="exact", which needs no clauses, raise max_cubes, or split the rule')
            clauses = [one + other for one in clauses for other in more]
    else:
        return [(formula,)]
    if len(clauses) > limit:
        raise CostError(f"this rule has at least {len(clauses)} clauses (limit {limit})", rule.span,
                        'use semantics="exact", which needs no clauses, raise max_cubes, or split the rule')
    return clauses
