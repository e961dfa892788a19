"""Rewritings of a theory that leave the distribution as it is, for programs that lack a construct.

Room: parse, facts, normalize -> **show** -> dialects.

    1.5 Smokes(x) <=> Cancer(x)     ->   1.5 Smokes(x) v !Cancer(x)    and   1.5 !Smokes(x) v Cancer(x)
    label(t) in {A, B}              ->   label(t, label_label!)
    symmetric C(t, t)               ->   C(x, y) => C(y, x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..facts.columns import Column, FactTable
from ..normalize.clauses import Clause, to_clauses
from ..parse.syntax import (
    Atom,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Variable,
    atoms,
    children,
    terms,
    with_children,
)
from ..parse.theory import Argument, Predicate, Rule, Theory, Type

# atoms of a formula that a decision tree splits
MAX_ATOMS = 8


def without_plus(formula: Formula) -> Formula:
    """The formula without +."""
    return _map_leaves(formula, lambda leaf: Atom(leaf.predicate, tuple(
        replace(t, per_constant=False) if isinstance(t, Variable) else t for t in leaf.args), leaf.labels)
        if isinstance(leaf, Atom) else leaf)


def _map_leaves(formula: Formula, change: Callable[[Atom | Equal], Formula]) -> Formula:
    if isinstance(formula, (Atom, Equal)):
        return change(formula)
    return with_children(formula, [_map_leaves(part, change) for part in children(formula)])


def without_labels(theory: Theory, tables: Mapping[str, FactTable]) -> tuple[Theory, dict[str, FactTable]]:
    """Give a multi-class predicate one more argument, of which exactly one value is true: `label(x, B)`."""
    classes = {p.name: p for p in theory.predicates if p.labels is not None}
    if not classes:
        return theory, dict(tables)

    def changed(leaf: Atom | Equal) -> Formula:
        if not isinstance(leaf, Atom) or leaf.predicate not in classes:
            return leaf
        kind = f"{leaf.predicate}_label"
        parts = tuple(Atom(leaf.predicate, (*leaf.args, Constant(label, kind))) for label in leaf.labels or ())
        return parts[0] if len(parts) == 1 else Or(parts)

    predicates = tuple(replace(p, labels=None, arguments=(*p.arguments, Argument(f"{p.name}_label", "!")))
                       if p.name in classes else p for p in theory.predicates)
    types = (*theory.types, *(Type(f"{p.name}_label", p.labels or (), True) for p in classes.values()))
    rules = tuple(replace(rule, formula=_map_leaves(rule.formula, changed)) for rule in theory.rules)
    found = Theory(types, predicates, rules)
    return found, {name: replace(table, predicate=found.predicate[name]) for name, table in tables.items()}


def without_symmetry(theory: Theory, tables: Mapping[str, FactTable]) -> tuple[Theory, dict[str, FactTable]]:
    """Add the hard rule that both orders are equal, and both orders of every fact; soft facts stay as they are."""
    rules, found = list(theory.rules), dict(tables)
    predicates = tuple(replace(p, symmetric=False) for p in theory.predicates)
    for predicate in theory.predicates:
        if not predicate.symmetric:
            continue
        x, y = (Variable(name, predicate.types[0]) for name in "xy")
        rules.append(Rule(Implies(Atom(predicate.name, (x, y)), Atom(predicate.name, (y, x))), is_hard=True))
        table = tables.get(predicate.name)
        if table is None:
            continue
        known = table.args
        rows = [(args, value) for (a, b), value in zip(known, table.values.tolist(), strict=True)
                for args in ([(a, b), (b, a)] if value in (0, 1) else [(a, b)])]
        rows = list(dict.fromkeys(rows))
        names = [list(dict.fromkeys(args[k] for args, _ in rows)) for k in (0, 1)]
        index = [{name: i for i, name in enumerate(column)} for column in names]
        codes = [np.array([index[k][args[k]] for args, _ in rows], dtype=np.int32) for k in (0, 1)]
        found[predicate.name] = FactTable(
            replace(predicate, symmetric=False), [Column(n, c) for n, c in zip(names, codes, strict=True)],
            np.array([value for _, value in rows]), np.arange(len(rows)))
    return replace(theory, predicates=predicates, rules=tuple(rules)), found


def _unnamed(theory: Theory, tables: Mapping[str, FactTable]) -> dict[str, list[str]]:
    """By type, the constants that neither facts nor rules name."""
    named: dict[str, set[str]] = {t.name: set() for t in theory.types}
    for table in tables.values():
        for column, t in zip(table.columns, table.predicate.types, strict=False):
            named[t].update(column.names)
    for leaf in (leaf for rule in theory.rules for leaf in atoms(rule.formula)):
        for term in terms(leaf):
            if isinstance(term, Constant):
                named.setdefault(term.type, set()).add(term.name)
    missing = {t.name: [constant for constant in t.constants if constant not in named[t.name]] for t in theory.types}
    return {name: constants for name, constants in missing.items() if constants}


def close_types(theory: Theory, tables: Mapping[str, FactTable]) -> Theory:
    """List the constants of every type that has others than facts and rules name."""
    missing = _unnamed(theory, tables)
    return replace(theory, types=tuple(replace(t, closed=t.closed or t.name in missing) for t in theory.types))


def types_as_facts(theory: Theory, tables: Mapping[str, FactTable]) -> tuple[Theory, dict[str, FactTable]]:
    """Name such constants in facts of a predicate that no rule uses."""
    predicates, found = list(theory.predicates), dict(tables)
    for name, missing in _unnamed(theory, tables).items():
        predicate = Predicate(f"of_{name}", (Argument(name),), closed_world=True)
        predicates.append(predicate)
        n = len(missing)
        found[predicate.name] = FactTable(predicate, [Column(missing, np.arange(n, dtype=np.int32))], np.ones(n),
                                          np.arange(n))
    return replace(theory, predicates=tuple(predicates)), found


class NoClausesError(Exception):
    """A formula has no clauses of the same meaning."""


def as_clauses(rule: Rule) -> Iterator[tuple[float | None, Clause]]:
    """Clauses with weights that together have the meaning of a rule: `w A ^ B` becomes `-w !A v !B`, and a formula of
    several clauses one clause for each part of a decision tree where it is false.
    """
    clauses = to_clauses(rule, 2**MAX_ATOMS)
    if rule.is_hard or len(clauses) == 1:
        yield from ((rule.weight, clause) for clause in clauses)
        return
    negated = to_clauses(replace(rule, formula=Not(rule.formula)), 2**MAX_ATOMS)
    weight = 1.0 if rule.weight is None else rule.weight
    has_quantifier = any(isinstance(part, (Exists, Forall)) for clause in (*clauses, *negated) for part in clause)
    if len(negated) == 1 and not has_quantifier:
        yield -weight, negated[0]
        return
    if has_quantifier:
        raise NoClausesError
    leaves = list(dict.fromkeys(atoms(rule.formula)))
    if len(leaves) > MAX_ATOMS:
        raise NoClausesError
    for cube in _violations(rule.formula, leaves, {}):
        yield weight, cube


def _violations(formula: Formula, leaves: Sequence[Atom | Equal], chosen: dict[Formula, bool]) -> Iterator[Clause]:
    """The clauses whose negations are the parts of a decision tree where the formula is false; they do not overlap."""
    value = _value(formula, chosen)
    if value is False:
        yield tuple(Not(leaf) if is_true else leaf for leaf, is_true in chosen.items())
    elif value is None:
        leaf = leaves[len(chosen)]
        for is_true in (False, True):
            yield from _violations(formula, leaves, {**chosen, leaf: is_true})


def _value(formula: Formula, chosen: Mapping[Formula, bool]) -> bool | None:
    """The truth of a formula if these atoms decide it, else None."""
    if isinstance(formula, (Atom, Equal)):
        return chosen.get(formula)
    if isinstance(formula, Implies):
        return _value(Or((Not(formula.premise), formula.conclusion)), chosen)
    found = [_value(part, chosen) for part in children(formula)]
    if isinstance(formula, Not):
        return None if found[0] is None else not found[0]
    if isinstance(formula, Iff):
        return None if None in found else found[0] == found[1]
    decisive = isinstance(formula, Or)
    return decisive if decisive in found else None if None in found else not decisive
