"""A rule with `+x` as plain rules, one for each constant.

Stage: **learn** -> text.

    Word(t, +w) => Topic(t)       1.2 Word(t, Goal) => Topic(t)       -0.4 Word(t, Vote) => Topic(t)
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from ..parse import Rule, Theory
from ..parse.syntax import And, Constant, Equal, Formula, Implies, Variable, atoms, free_variables, put_constants, terms


def split_rule(rule: Rule, weights: Tensor, theory: Theory) -> list[Rule]:
    """One rule for each combination of constants of its `+` variables, each with its own weight.

    >>> import torch
    >>> from logicmp.parse import parse_theory
    >>> theory = parse_theory("t = {A, B}\\nP(t)\\nQ(t)\\nP(+x) ^ Q(y) => P(y)")
    >>> for found in split_rule(theory.rules[0], torch.tensor([0.5, -2.0]), theory):
    ...     print(found)
    0.5 P(A) ^ Q(y) => P(y)
    -2 P(B) ^ Q(y) => P(y)
    """
    marked = {name: theory.type[rule.variables[name]].constants for name in rule.per_constant}
    found = []
    for places in itertools.product(*(range(len(constants)) for constants in marked.values())):
        formula = _put(rule.formula, dict(zip(marked, places, strict=True)), theory)
        if formula is not None:
            found.append(replace(rule, formula=formula, weight=round(float(weights[places]), 6) + 0.0))
    return found


def _put(formula: Formula, chosen: Mapping[str, int], theory: Theory) -> Formula | None:
    """The formula with constants for variables; None if an offset leads out of the type."""
    plain = put_constants(formula, {}, {})
    try:
        found = put_constants(formula, chosen, {t.name: t.constants for t in theory.types})
    except IndexError:
        return None
    names = {term.name for leaf in atoms(formula) if isinstance(leaf, Equal)
             for term in terms(leaf) if isinstance(term, Variable)}
    if not names & set(chosen) and len(set(atoms(found))) == len(set(atoms(plain))):
        return found
    # an equality of two constants cannot be written, and where two atoms become one the formula has other clauses,
    # among which Alchemy divides the weight: the rule is held to its constants by a premise instead
    types = free_variables(formula)
    held = tuple(Equal(Variable(name, types[name]), Constant(theory.type[types[name]].constants[place]))
                 for name, place in chosen.items())
    return Implies(held[0] if len(held) == 1 else And(held), plain)
