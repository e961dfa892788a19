"""Rules by the role of their atoms: premises that read facts only, heads that need a candidate.

Room: parse -> **facts** -> ground, inference.

    Knows(x,y) ^ Knows(y,z) => Knows(x,z)

    premises from facts     facts of Knows(x,y) ^ facts of Knows(y,z) => Knows(x,z)
    heads outside skipped   Knows(x,y) ^ Knows(y,z) => Knows(x,z) v !candidates of Knows(x,z)

The new predicates are observed, so every method can use the new rules. A premise is an atom whose truth can only
violate a rule, a head one whose truth can only satisfy it; both sides of `<=>` are both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import numpy as np

from ..parse.syntax import And, Atom, Exists, Forall, Formula, Iff, Implies, Not, Or, atoms, children, with_children
from ..parse.theory import Argument, Predicate, Theory
from .columns import Evidence
from .supports import Support, make_support
from .world import UNKNOWN, World

# what to put in place of an atom: called with the atom, whether it is a head, and whether it is below EXIST
Change = Callable[[Atom, bool, bool], Formula]


def premises_from_facts(theory: Theory, evidence: Evidence, opened: Collection[str]) -> tuple[Evidence, list[str]]:
    """Let the premises of open predicates read their true facts, and nothing else.

    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("K(p, p)\\n1 K(x,y) ^ K(y,z) => K(x,z)\\n0.5 !K(x,y)")
    >>> found, _ = premises_from_facts(theory, parse_facts("K(A, B)\\n0.9 K(B, C)", theory), ["K"])
    >>> print(*found.theory.rules, sep="\\n")
    1 facts of K(x, y) ^ facts of K(y, z) => K(x, z)
    0.5 !K(x, y)
    >>> {name: table.args for name, table in found.tables.items()}["facts of K"]
    [('A', 'B')]

    A rule without a head, such as `0.5 !K(x,y)`, stays as it is.

    Args:
        theory: the theory of the evidence, perhaps with more constants.
        evidence: the facts; those with a probability below 1 are no premises.
        opened: the open predicates.

    Returns:
        The evidence for the new rules, and the names of the new predicates, which are closed.
    """
    known = theory.predicate
    added: dict[str, tuple[str, str | None]] = {}

    def change(atom: Atom, is_head: bool, below_exist: bool) -> Formula:
        if is_head or atom.predicate not in opened:
            return atom
        labels = known[atom.predicate].labels
        if labels is None:
            added[f"facts of {atom.predicate}"] = atom.predicate, None
            return Atom(f"facts of {atom.predicate}", atom.args, None, atom.span)
        # one predicate for each label: an atom without a fact has none
        parts = []
        for label in atom.labels or ():
            added[f"facts of {atom.predicate}={label}"] = atom.predicate, label
            parts.append(Atom(f"facts of {atom.predicate}={label}", atom.args, None, atom.span))
        return parts[0] if len(parts) == 1 else Or(tuple(parts), atom.span)

    def parts_with_heads(formula: Formula) -> Formula:
        if isinstance(formula, And):
            return with_children(formula, [parts_with_heads(part) for part in formula.parts])
        has_head = any(is_head and atom.predicate in opened for atom, is_head in _roles(formula, True))
        return _rewrite(formula, True, False, change, opened) if has_head else formula

    rules = tuple(replace(rule, formula=parts_with_heads(rule.formula)) for rule in theory.rules)
    predicates, tables = [], dict(evidence.tables)
    for name, (old, label) in added.items():
        predicates.append(Predicate(name, tuple(Argument(t) for t in known[old].types), None, False,
                                    known[old].symmetric, known[old].span))
        if old not in tables:
            continue
        is_true = tables[old].values == 1
        if label is not None:
            last = tables[old].columns[-1]
            is_true = is_true & np.array([other == label for other in last.names], dtype=bool)[last.codes]
        table = tables[old].take(np.flatnonzero(is_true))
        if len(table):
            tables[name] = replace(table, predicate=predicates[-1], columns=table.columns[: len(predicates[-1].types)])
    theory = replace(theory, predicates=(*theory.predicates, *predicates), rules=rules)
    return Evidence(theory, tables, evidence.warnings), list(added)


def skip_outside(world: World) -> World:
    """Drop every grounding with a head outside the candidates of its predicate; below EXIST such a head is false.

    >>> from logicmp import parse_facts, parse_theory
    >>> from logicmp.facts.world import build_world
    >>> theory = parse_theory("F(p, p)\\nK(p, p)\\n1 F(x,y) => K(y,x)")
    >>> facts = parse_facts("F(A, B)\\nF(B, C)", theory)
    >>> world = build_world(facts, ["K"], dense_atoms=100, candidates=parse_facts("K(B, A)", facts.theory))
    >>> print(*skip_outside(world).theory.rules)
    1 F(x, y) => K(y, x) v !candidates of K(y, x)
    """
    theory = world.theory
    listed = [name for name in world.supports if not world.closed[name] and (world.values[name] == UNKNOWN).any()]
    added: dict[str, str] = {}

    def change(atom: Atom, is_head: bool, below_exist: bool) -> Formula:
        if not is_head or below_exist or atom.predicate not in listed:
            return atom
        name = added.setdefault(atom.predicate, f"candidates of {atom.predicate}")
        keys = tuple(arg for arg, kind in zip(atom.args, theory.predicate[atom.predicate].arguments, strict=True)
                     if not kind.mark)
        return Or((atom, Not(Atom(name, keys, None, atom.span))), atom.span)

    rules = tuple(replace(rule, formula=_rewrite(rule.formula, True, False, change, listed)) for rule in theory.rules)
    predicates, supports, values, closed = [], dict(world.supports), dict(world.values), dict(world.closed)
    for old, name in added.items():
        predicate = theory.predicate[old]
        predicates.append(Predicate(name, tuple(a for a in predicate.arguments if not a.mark), None, False,
                                    predicate.symmetric, predicate.span))
        supports[name] = _keys_of(predicate, predicates[-1], world)
        values[name] = np.ones(supports[name].n_values, dtype=np.int8)
        closed[name] = "as requested"
    theory = replace(theory, predicates=(*theory.predicates, *predicates), rules=rules)
    return replace(world, theory=theory, supports=supports, values=values, closed=closed)


def _keys_of(predicate: Predicate, keys: Predicate, world: World) -> Support:
    """The support of the arguments that are no values: the same object if all are."""
    support = world.supports[predicate.name]
    if not predicate.functional:
        return support
    chosen = [support.columns[k][:: support.width] for k in range(len(predicate.arguments))
              if k not in predicate.functional]
    return make_support(keys, chosen, world.sizes)


def _rewrite(formula: Formula, is_head: bool, below_exist: bool, change: Change, names: Collection[str]) -> Formula:
    """The formula with other atoms; the sides of an equivalence that contains one of the names become implications."""
    if isinstance(formula, Atom):
        return change(formula, is_head, below_exist)
    if isinstance(formula, Iff):
        if not any(isinstance(atom, Atom) and atom.predicate in names for atom in atoms(formula)):
            return formula
        both = And((Implies(formula.left, formula.right, formula.span),
                    Implies(formula.right, formula.left, formula.span)), formula.span)
        return _rewrite(both, is_head, below_exist, change, names)
    # the premise of FORALL y P(y) => Q is an EXIST
    below_exist = below_exist or (isinstance(formula, Exists) and is_head) or (
        isinstance(formula, Forall) and not is_head)
    return with_children(formula, [_rewrite(child, is_head ^ turns, below_exist, change, names)
                                   for child, turns in _turned(formula)]) if children(formula) else formula


def _roles(formula: Formula, is_head: bool) -> Iterator[tuple[Atom, bool]]:
    """Every atom, and whether it is a head; the atoms of an equivalence are both."""
    if isinstance(formula, Atom):
        yield formula, is_head
    for child, turns in _turned(formula):
        yield from _roles(child, is_head ^ turns)
        if isinstance(formula, Iff):
            yield from _roles(child, not is_head)


def _turned(formula: Formula) -> Iterator[tuple[Formula, bool]]:
    """The formulas directly below, and whether heads are premises in them."""
    for k, child in enumerate(children(formula)):
        yield child, isinstance(formula, Not) or (isinstance(formula, Implies) and k == 0)
