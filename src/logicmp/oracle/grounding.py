"""The ground theory, by loops over all constants: variables, the values that evidence leaves them, and groundings.

Room: parse, cnf -> **grounding** -> tensors, worlds, mean_field.  Paper: Eq. 1, the groundings G_f.

    A(x) => B(x), two constants      A(0) => B(0),  A(1) => B(1)
    evidence A(0), !A(1)             B(0),  true
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

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
    terms,
)
from ..parse.theory import Predicate, Theory
from .cnf import clauses

Tensors = Mapping[str, Any]


# ground variables, and their entries in tensors


class GroundVariable(NamedTuple):
    """One random variable: a predicate and its arguments, without those that are its value."""

    predicate: str
    args: tuple[int, ...]


class GroundAtom(NamedTuple):
    """True if the variable has one of these values."""

    variable: GroundVariable
    values: frozenset[int]


def _variable(predicate: Predicate, args: Sequence[int]) -> GroundVariable:
    if predicate.symmetric:
        args = sorted(args)
    return GroundVariable(predicate.name, tuple(a for i, a in enumerate(args) if i not in predicate.functional))


def _value(predicate: Predicate, args: Sequence[int], sizes: Mapping[str, int]) -> int:
    """The value that makes the atom true: 1, or the functional arguments as one number, row-major."""
    if not predicate.functional:
        return 1
    value = 0
    for i in predicate.functional:
        value = value * sizes[predicate.types[i]] + args[i]
    return value


def _n_values(predicate: Predicate, sizes: Mapping[str, int]) -> int:
    if predicate.labels is not None:
        return len(predicate.labels)
    if predicate.functional:
        # '?': the last value is "none"
        return math.prod(sizes[predicate.types[i]] for i in predicate.functional) + predicate.may_be_none
    return 2


def shape_of(predicate: Predicate, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of the predicate's tensor: one axis for each argument, and one for the labels."""
    return tuple(sizes[t] for t in predicate.types) + (() if predicate.labels is None else (len(predicate.labels),))


def entries_of(predicate: Predicate, sizes: Mapping[str, int]) -> list[tuple[GroundVariable, int]]:
    """The variable and the value of each entry of the predicate's tensor, row-major."""
    found = []
    for args in itertools.product(*(range(sizes[t]) for t in predicate.types)):
        values = [_value(predicate, args, sizes)] if predicate.labels is None else range(len(predicate.labels))
        found += [(_variable(predicate, args), value) for value in values]
    return found


def ground_variables(theory: Theory, sizes: Mapping[str, int]) -> dict[GroundVariable, int]:
    """Every random variable of the theory, and how many values it has.

    >>> from logicmp import parse_theory
    >>> list(ground_variables(parse_theory("symmetric C(t, t)"), {"t": 2}).values())
    [2, 2, 2]
    """
    found: dict[GroundVariable, int] = {}
    for predicate in theory.predicates:
        fixed = [t for i, t in enumerate(predicate.types) if i not in predicate.functional]
        for args in itertools.product(*(range(sizes[t]) for t in fixed)):
            variable = GroundVariable(predicate.name, tuple(sorted(args)) if predicate.symmetric else args)
            found[variable] = _n_values(predicate, sizes)
    return found


# grounding


class Compound(NamedTuple):
    """`and`, `or`, `not` or `iff` of ground formulas."""

    op: str
    parts: tuple[Any, ...]


Ground = bool | GroundAtom | Compound


def _index_range(formula: Formula, name: str, size: int) -> list[int]:
    """The constants that a variable may take: every `name+1` in the formula must be a constant, too."""
    offsets = _offsets(formula, name)
    return [i for i in range(size) if all(0 <= i + offset < size for offset in offsets)]


def _offsets(formula: Formula, name: str) -> set[int]:
    if isinstance(formula, (Atom, Equal)):
        return {term.offset for term in terms(formula) if isinstance(term, Variable) and term.name == name}
    if isinstance(formula, (Exists, Forall)) and any(v.name == name for v in formula.variables):
        return set()
    return {offset for child in children(formula) for offset in _offsets(child, name)}


def ground(formula: Formula, binding: Mapping[str, int], theory: Theory, sizes: Mapping[str, int]) -> Ground:
    """The formula with constants for its variables; quantifiers become conjunctions and disjunctions."""

    def index(term: Term) -> int:
        if isinstance(term, Variable):
            return binding[term.name] + term.offset
        return theory.index(term.type, term.name)

    if isinstance(formula, Equal):
        return index(formula.left) == index(formula.right)
    if isinstance(formula, Atom):
        predicate = theory.predicate[formula.predicate]
        args = [index(arg) for arg in formula.args]
        if predicate.labels is not None:
            values = frozenset(predicate.labels.index(label) for label in formula.labels or ())
        else:
            values = frozenset({_value(predicate, args, sizes)})
        return GroundAtom(_variable(predicate, args), values)
    if isinstance(formula, (Exists, Forall)):
        ranges = [_index_range(formula.body, v.name, sizes[v.type]) for v in formula.variables]
        names = [v.name for v in formula.variables]
        return Compound("or" if isinstance(formula, Exists) else "and", tuple(
            ground(formula.body, {**binding, **dict(zip(names, values, strict=True))}, theory, sizes)
            for values in itertools.product(*ranges)))
    parts = tuple(ground(child, binding, theory, sizes) for child in children(formula))
    if isinstance(formula, Implies):
        return Compound("or", (Compound("not", parts[:1]), parts[1]))
    return Compound({Not: "not", And: "and", Or: "or", Iff: "iff"}[type(formula)], parts)


def _undecided(atom: GroundAtom) -> Any:
    raise AssertionError(f"{atom} should have been decided by the evidence")


def truth(formula: Ground, lookup: Callable[[GroundAtom], Any] = _undecided) -> Any:
    """The truth of a ground formula; `lookup` gives the truth of an atom, as a bool or an array for many worlds.

    >>> bool(truth(Compound("iff", (True, False))))
    False
    """
    if isinstance(formula, GroundAtom):
        return lookup(formula)
    if isinstance(formula, bool):
        return np.bool_(formula)
    parts = [truth(part, lookup) for part in formula.parts]
    if formula.op == "not":
        return np.logical_not(parts[0])
    if formula.op == "iff":
        return np.equal(parts[0], parts[1])
    if not parts:
        return np.bool_(formula.op == "and")
    return reduce(np.logical_and if formula.op == "and" else np.logical_or, parts)


def _substitute(formula: Ground, possible: Mapping[GroundVariable, Sequence[int]]) -> Ground:
    """The formula with the truth of observed atoms in their place, simplified."""
    if isinstance(formula, bool):
        return formula
    if isinstance(formula, GroundAtom):
        n_true = sum(value in formula.values for value in possible[formula.variable])
        return n_true > 0 if n_true in (0, len(possible[formula.variable])) else formula
    parts = tuple(_substitute(part, possible) for part in formula.parts)
    if formula.op == "and" and any(part is False for part in parts):
        return False
    if formula.op == "or" and any(part is True for part in parts):
        return True
    if all(isinstance(part, bool) for part in parts):
        return bool(truth(Compound(formula.op, parts)))
    if formula.op in ("and", "or"):
        parts = tuple(part for part in parts if not isinstance(part, bool))
    return Compound(formula.op, parts)


def variables_in(formula: Ground) -> dict[GroundVariable, None]:
    """The variables of a ground formula, each once."""
    if isinstance(formula, bool):
        return {}
    if isinstance(formula, GroundAtom):
        return {formula.variable: None}
    return {variable: None for part in formula.parts for variable in variables_in(part)}


# the ground theory


@dataclass(frozen=True)
class Grounding:
    """One grounding of a clause: true if one of its factors is true.

    In the paper's semantics the factors are the literals, treated as independent; otherwise the clause is one factor.
    """

    rule: int
    # indices of the weight of a rule with +x
    constants: tuple[int, ...]
    share: float
    factors: tuple[Ground, ...]

    @property
    def formula(self) -> Ground:
        return Compound("or", self.factors)


@dataclass(frozen=True)
class GroundTheory:
    """A theory over given constants and evidence: all that Eq. 1-3 loop over."""

    sizes: Mapping[str, int]
    # how many values each variable has
    variables: Mapping[GroundVariable, int]
    # the values that the evidence leaves
    possible: Mapping[GroundVariable, tuple[int, ...]]
    observed: frozenset[GroundVariable]
    groundings: Sequence[Grounding]


def groundings(theory: Theory, sizes: Mapping[str, int], semantics: str) -> Iterator[Grounding]:
    """Every grounding of every clause: G_f of Eq. 1."""
    for number, rule in enumerate(theory.rules):
        for clause in clauses(rule, semantics):
            names = list(clause.variables)
            ranges = [_index_range(Or(clause.literals), name, sizes[clause.variables[name]]) for name in names]
            for values in itertools.product(*ranges):
                binding = dict(zip(names, values, strict=True))
                factors: tuple[Ground, ...] = tuple(ground(part, binding, theory, sizes) for part in clause.literals)
                yield Grounding(number, tuple(binding[name] for name in rule.per_constant), clause.share,
                                factors if semantics == "paper" else (Compound("or", factors),))


def checked(theory: Theory, sizes: Mapping[str, int], tensors: Tensors | None, what: str) -> dict[str, Tensor]:
    """The tensors in float64, their names and shapes checked."""
    found = {}
    for name, given in (tensors or {}).items():
        if name not in theory.predicate:
            raise LogicMPError(f"{what} has the predicate {name!r}, which is not declared",
                               f"predicates: {', '.join(theory.predicate)}")
        tensor, shape = torch.as_tensor(given, dtype=torch.float64), shape_of(theory.predicate[name], sizes)
        if tuple(tensor.shape) != shape:
            raise LogicMPError(f"{what}[{name!r}] has shape {list(tensor.shape)}; expected {list(shape)}, "
                               f"because of {theory.predicate[name]} and the sizes {dict(sizes)}")
        found[name] = tensor
    return found


def ground_theory(theory: Theory, evidence: Tensors | None, sizes: Mapping[str, int] | None, semantics: str
                  ) -> GroundTheory:
    """The variables and groundings of a theory, with the evidence put in."""
    all_sizes = theory.with_sizes(sizes or {})
    variables = ground_variables(theory, all_sizes)
    possible = {variable: tuple(range(n)) for variable, n in variables.items()}
    mentioned = set()
    for name, values in checked(theory, all_sizes, evidence, "evidence").items():
        flat = values.detach().flatten().tolist()
        for (variable, value), seen in zip(entries_of(theory.predicate[name], all_sizes), flat, strict=True):
            if seen not in (0.0, 1.0) and not math.isnan(seen):
                raise LogicMPError(f"evidence[{name!r}] has the value {seen:g}",
                                   "1 is true, 0 is false, NaN is unobserved")
            if not math.isnan(seen):
                mentioned.add(variable)
                possible[variable] = tuple(v for v in possible[variable] if (v == value) == (seen == 1.0))
    for variable, left in possible.items():
        if not left:
            raise LogicMPError(f"no value is left for {describe(theory, variable)}", "the evidence contradicts itself"
                               if variables[variable] else "its functional argument has no constant")
    observed = frozenset(variable for variable in mentioned if len(possible[variable]) == 1)
    found = [replace(g, factors=tuple(_substitute(factor, possible) for factor in g.factors))
             for g in groundings(theory, all_sizes, semantics)]
    return GroundTheory(all_sizes, variables, possible, observed, found)


def describe(theory: Theory, variable: GroundVariable) -> str:
    """The variable with the names of its constants, for errors."""
    predicate = theory.predicate[variable.predicate]
    types = [t for i, t in enumerate(predicate.types) if i not in predicate.functional]
    names = [theory.type[t].constants[a] if a < len(theory.type[t].constants) else str(a)
             for t, a in zip(types, variable.args, strict=True)]
    return f"{variable.predicate}({', '.join(names)})" if names else variable.predicate
