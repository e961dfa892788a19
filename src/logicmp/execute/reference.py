"""The oracle: every grounding and every assignment, straight from Eq. 1-3; it calls nothing of the pipeline.

Stage: parse -> **execute**.  Paper: Eq. 1 (the MLN), Eq. 2-3 (mean field), Theorems 1-2 and the multi-class theorem.

    Smokes(x) ^ Friends(x,y) => Smokes(y)      one table of 0/1 for each grounding, one axis for each ground variable
    Eq. 3                                      the table contracted with every Q_j except the receiver's own

Slow and obvious on purpose.  All tensors are float64, `{predicate: tensor}`, with one axis for each argument in the
declared order, and a last axis for the labels of a multi-class predicate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import LogicMPError
from ..parse import Predicate, Rule, Theory
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
    terms,
)

SEMANTICS = ("exact", "alchemy", "paper")
# how many worlds are looked at together
CHUNK = 2**16
# the largest table of one grounding: one entry for each assignment of its variables
MAX_TABLE = 2**22

Tensors = Mapping[str, Any]
Weights = Sequence[Any]


# ground variables and the tensor entries that speak of them


class GroundVariable(NamedTuple):
    """One random variable: the predicate and the arguments that tell it from the others."""

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


def _shape(predicate: Predicate, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[t] for t in predicate.types) + (() if predicate.labels is None else (len(predicate.labels),))


def _entries(predicate: Predicate, sizes: Mapping[str, int]) -> list[tuple[GroundVariable, int]]:
    """For each entry of the predicate's tensor, row-major: the variable and the value it speaks of."""
    found = []
    for args in itertools.product(*(range(sizes[t]) for t in predicate.types)):
        if predicate.labels is not None:
            found += [(_variable(predicate, args), label) for label in range(len(predicate.labels))]
        else:
            found.append((_variable(predicate, args), _value(predicate, args, sizes)))
    return found


def ground_variables(theory: Theory, sizes: Mapping[str, int]) -> dict[GroundVariable, int]:
    """Every random variable of the theory and how many values it has.

    >>> from logicmp.parse import parse_theory
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
    """The constants that a variable may take: `name+1` must be a constant wherever it stands in the formula."""
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


def truth(formula: Ground, lookup: Callable[[GroundAtom], Any]) -> Any:
    """The truth of a ground formula; `lookup` gives the truth of an atom, as a bool or an array for many worlds.

    >>> bool(truth(Compound("iff", (True, False)), lambda atom: False))
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
    """The formula with every atom decided by the evidence replaced by its truth, and what follows from that."""
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
        return bool(truth(Compound(formula.op, parts), _undecided))
    if formula.op in ("and", "or"):
        parts = tuple(part for part in parts if not isinstance(part, bool))
    return Compound(formula.op, parts)


def _undecided(atom: GroundAtom) -> Any:
    raise AssertionError(f"{atom} should have been decided by the evidence")


def _variables_in(formula: Ground) -> dict[GroundVariable, None]:
    """The variables of a ground formula, each once."""
    if isinstance(formula, bool):
        return {}
    if isinstance(formula, GroundAtom):
        return {formula.variable: None}
    return {variable: None for part in formula.parts for variable in _variables_in(part)}


# clauses


@dataclass(frozen=True)
class Clause:
    """A disjunction, the variables its groundings run over, and its share of the rule's weight."""

    literals: tuple[Formula, ...]
    variables: Mapping[str, str]
    share: float = 1.0


def clauses(rule: Rule, semantics: str) -> list[Clause]:
    """What is grounded for a rule: the formula itself, or its clauses.

    >>> from logicmp.parse import parse_theory
    >>> for clause in clauses(parse_theory("A(x) <=> B(x)").rules[0], "alchemy"):
    ...     print(clause.share, *clause.literals)
    0.5 !A(x) B(x)
    0.5 !B(x) A(x)
    """
    if semantics not in SEMANTICS:
        raise LogicMPError(f"unknown semantics {semantics!r}", f"known: {', '.join(SEMANTICS)}")
    whole = Clause((rule.formula,), rule.variables)
    if semantics == "exact":
        return [whole]
    normal = _negation_normal(_rename(rule.formula, {}, itertools.count(1)))
    cnf = _distribute(_drop_foralls(normal))
    if rule.indivisible and (len(cnf) > 1 or _drop_foralls(normal) != normal):
        return [whole]
    if len(cnf) > 1:
        # a formula that is a clause already keeps its literals as they were written
        distinct: dict[frozenset[Formula], list[Formula]] = {}
        for clause in cnf:
            if not any(Not(literal) in clause for literal in clause):
                distinct.setdefault(frozenset(clause), list(dict.fromkeys(clause)))
        cnf = list(distinct.values())
    # a hard rule stays hard in every clause
    share = 1 / len(cnf) if cnf and semantics == "alchemy" and not rule.is_hard else 1.0
    # every weight of +x has its clause, even where x does not occur
    weighted = {name: rule.variables[name] for name in rule.per_constant}
    return [Clause(tuple(clause), {**free_variables(Or(tuple(clause))), **weighted}, share) for clause in cnf]


def _rename(formula: Formula, names: Mapping[str, str], numbers: Iterator[int]) -> Formula:
    """Every quantifier gets variables of its own; the mark of `+x` is the rule's, not the literal's."""

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
    """Only `^`, `v`, quantifiers and literals: !(p ^ q)  ->  !p v !q."""
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
    """FORALL y P(y)  ->  P(y), but not below an EXIST, which stays one unit."""
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


# the ground network


@dataclass(frozen=True)
class Grounding:
    """One grounding of a clause: true if one of its factors is.

    In the paper's semantics the factors are the literals, taken as independent; otherwise the clause is one factor.
    """

    rule: int
    # which weight of a rule with +x
    constants: tuple[int, ...]
    share: float
    factors: tuple[Ground, ...]

    @property
    def formula(self) -> Ground:
        return Compound("or", self.factors)


@dataclass(frozen=True)
class Network:
    """Everything there is to loop over: variables, the values the evidence leaves them, groundings."""

    sizes: Mapping[str, int]
    variables: Mapping[GroundVariable, int]
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


def _network(theory: Theory, evidence: Tensors | None, sizes: Mapping[str, int] | None, semantics: str) -> Network:
    all_sizes = theory.with_sizes(sizes or {})
    variables = ground_variables(theory, all_sizes)
    possible = {variable: tuple(range(n)) for variable, n in variables.items()}
    spoken_of = set()
    for name, values in _checked(theory, all_sizes, evidence, "evidence").items():
        flat = values.detach().flatten().tolist()
        for (variable, value), seen in zip(_entries(theory.predicate[name], all_sizes), flat, strict=True):
            if seen not in (0.0, 1.0) and not math.isnan(seen):
                raise LogicMPError(f"evidence[{name!r}] has the value {seen:g}", "1 is true, 0 false, NaN unknown")
            if not math.isnan(seen):
                spoken_of.add(variable)
                possible[variable] = tuple(v for v in possible[variable] if (v == value) == (seen == 1.0))
    for variable, left in possible.items():
        if not left:
            raise LogicMPError(f"no value is left for {_describe(theory, variable)}", "the evidence contradicts itself"
                               if variables[variable] else "its functional argument has no constant")
    observed = frozenset(variable for variable in spoken_of if len(possible[variable]) == 1)
    found = [replace(g, factors=tuple(_substitute(factor, possible) for factor in g.factors))
             for g in groundings(theory, all_sizes, semantics)]
    return Network(all_sizes, variables, possible, observed, found)


def _describe(theory: Theory, variable: GroundVariable) -> str:
    predicate = theory.predicate[variable.predicate]
    types = [t for i, t in enumerate(predicate.types) if i not in predicate.functional]
    names = [theory.type[t].constants[a] if a < len(theory.type[t].constants) else str(a)
             for t, a in zip(types, variable.args, strict=True)]
    return f"{variable.predicate}({', '.join(names)})" if names else variable.predicate


# tensors


def _checked(theory: Theory, sizes: Mapping[str, int], tensors: Tensors | None, what: str) -> dict[str, Tensor]:
    """The tensors in float64, their names and shapes checked."""
    found = {}
    for name, given in (tensors or {}).items():
        if name not in theory.predicate:
            raise LogicMPError(f"{what} names the predicate {name!r}, which the theory does not have",
                               f"predicates: {', '.join(theory.predicate)}")
        tensor, shape = torch.as_tensor(given, dtype=torch.float64), _shape(theory.predicate[name], sizes)
        if tuple(tensor.shape) != shape:
            raise LogicMPError(f"{what}[{name!r}] has shape {list(tensor.shape)}; expected {list(shape)}, "
                               f"because of {theory.predicate[name]} and the sizes {dict(sizes)}")
        found[name] = tensor
    return found


def _by_value(theory: Theory, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]
              ) -> dict[GroundVariable, dict[int, Tensor]]:
    """{variable: {value: entry}}; the two entries of a symmetric pair are averaged."""
    found: dict[GroundVariable, dict[int, list[Tensor]]] = {}
    for name, tensor in tensors.items():
        for (variable, value), entry in zip(_entries(theory.predicate[name], sizes), tensor.flatten(), strict=True):
            found.setdefault(variable, {}).setdefault(value, []).append(entry)
    return {variable: {value: torch.stack(entries).mean() for value, entries in values.items()}
            for variable, values in found.items()}


def _logits(theory: Theory, network: Network, unary: Tensors | None) -> dict[GroundVariable, Tensor]:
    """phi_u of Eq. 1, one number for each value: 0 for false, for "none" and where nothing is given."""
    given = _by_value(theory, network.sizes, _checked(theory, network.sizes, unary, "unary"))
    zero = torch.zeros((), dtype=torch.float64)
    return {variable: torch.stack([given.get(variable, {}).get(value, zero) for value in range(n)])
            for variable, n in network.variables.items()}


def _probabilities(theory: Theory, network: Network, q: Tensors) -> dict[GroundVariable, Tensor]:
    """Q_i of Eq. 2, one number for each value; whatever the evidence excludes has none."""
    given = _by_value(theory, network.sizes, _checked(theory, network.sizes, q, "q"))
    found = {}
    for variable, n in network.variables.items():
        mask = torch.tensor([float(value in network.possible[variable]) for value in range(n)], dtype=torch.float64)
        if variable in network.observed:
            found[variable] = mask
            continue
        if variable not in given:
            raise LogicMPError(f"q has no entry for {variable.predicate!r}, which is not observed")
        # no entry speaks of false and of "none": they have what is left
        rest = 1 - torch.stack(list(given[variable].values())).sum()
        found[variable] = torch.stack([given[variable].get(value, rest) for value in range(n)]) * mask
    return found


def _to_tensors(theory: Theory, sizes: Mapping[str, int], vectors: Mapping[GroundVariable, Tensor]
                ) -> dict[str, Tensor]:
    found = {}
    for predicate in theory.predicates:
        entries = [vectors[variable][value] for variable, value in _entries(predicate, sizes)]
        flat = torch.stack(entries) if entries else torch.zeros(0, dtype=torch.float64)
        found[predicate.name] = flat.reshape(_shape(predicate, sizes))
    return found


def _weights(theory: Theory, sizes: Mapping[str, int], weights: Weights | None, hard_weight: float) -> list[Tensor]:
    """One tensor for each rule: a number, or one axis for each variable marked `+`."""
    given = list(weights) if weights is not None else [None] * len(theory.rules)
    if len(given) != len(theory.rules):
        raise LogicMPError(f"{len(given)} weights are given for {len(theory.rules)} rules",
                           "give one for each rule; None means the rule's own weight")
    found = []
    for rule, weight in zip(theory.rules, given, strict=True):
        if weight is None:
            weight = hard_weight if rule.is_hard else 1.0 if rule.weight is None else rule.weight
        tensor = torch.as_tensor(weight, dtype=torch.float64)
        shape = tuple(sizes[rule.variables[name]] for name in rule.per_constant)
        if tensor.dim() and tuple(tensor.shape) != shape:
            raise LogicMPError(f"the weight of {str(rule)!r} has shape {list(tensor.shape)}; expected {list(shape)}")
        found.append(tensor)
    return found


def _weight(weights: Sequence[Tensor], grounding: Grounding) -> Tensor:
    tensor = weights[grounding.rule]
    return grounding.share * (tensor[grounding.constants] if tensor.dim() else tensor)


# Eq. 1: enumeration


def log_partition(theory: Theory, unary: Tensors | None = None, evidence: Tensors | None = None,
                  sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
                  max_worlds: int = 2**26) -> float:
    """log Z of Eq. 1: the sum runs over the unobserved variables; groundings among observed atoms count, too.

    >>> from logicmp.parse import parse_theory
    >>> round(log_partition(parse_theory("A\\n2 A")) - math.log(1 + math.exp(2)), 12)
    0.0

    Args:
        unary: log-odds, or logits of a categorical predicate ("none" has 0); what is missing is 0.
        evidence: 1 true, 0 false, NaN unknown; closed worlds must be filled in.
        sizes: how many constants each type has, if not those of the theory.
        weights: for each rule a number, a tensor with one axis for each `+x`, or None for the rule's own.
        max_worlds: how many worlds one connected component may have.
    """
    return _enumerate(theory, unary, evidence, sizes, semantics, weights, max_worlds)[0]


def exact_marginals(theory: Theory, unary: Tensors | None = None, evidence: Tensors | None = None,
                    sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
                    max_worlds: int = 2**26) -> dict[str, Tensor]:
    """The probability of every ground atom and label under Eq. 1; arguments as for `log_partition`."""
    return _enumerate(theory, unary, evidence, sizes, semantics, weights, max_worlds)[1]


def count_models(theory: Theory, sizes: Mapping[str, int] | None = None, max_worlds: int = 2**26) -> int:
    """How many worlds make every grounding of every hard rule true.

    >>> from logicmp.parse import parse_theory
    >>> count_models(parse_theory("C(a,b) ^ C(b,c) => C(a,c)."), {"thing": 3})
    171
    """
    network = _network(theory, None, sizes, "exact")
    network = replace(network, groundings=[g for g in network.groundings if theory.rules[g.rule].is_hard])
    decided, components = _components(network)
    count = int(all(truth(g.formula, _undecided) for g in decided))
    logits = {variable: np.zeros(n) for variable, n in network.variables.items()}
    for variables, found in components:
        count *= sum(int(np.isfinite(scores).sum())
                     for _, scores in _scored_worlds(theory, network, variables, found, logits, [], max_worlds))
    return count


def _enumerate(theory: Theory, unary: Tensors | None, evidence: Tensors | None, sizes: Mapping[str, int] | None,
               semantics: str, weights: Weights | None, max_worlds: int) -> tuple[float, dict[str, Tensor]]:
    network = _network(theory, evidence, sizes, semantics)
    logits = {variable: tensor.detach().numpy() for variable, tensor in _logits(theory, network, unary).items()}
    # the weight of a hard rule is not used: worlds that violate it are left out
    numbers = [tensor.detach() for tensor in _weights(theory, network.sizes, weights, math.inf)]
    decided, components = _components(network)
    log_z = 0.0
    for grounding in decided:
        if truth(grounding.formula, _undecided):
            log_z += 0.0 if theory.rules[grounding.rule].is_hard else float(_weight(numbers, grounding))
        elif theory.rules[grounding.rule].is_hard:
            raise LogicMPError(f"the evidence violates the hard rule {str(theory.rules[grounding.rule])!r}")
    marginals: dict[GroundVariable, np.ndarray[Any, Any]] = {
        v: np.eye(network.variables[v])[network.possible[v][0]] for v in network.observed}
    for variables, found in components:
        log_z_of, marginals_of = [], []
        for world, scores in _scored_worlds(theory, network, variables, found, logits, numbers, max_worlds):
            highest = scores.max()
            p = np.exp(scores - highest)
            log_z_of.append(highest + np.log(p.sum()))
            p /= p.sum()
            marginals_of.append({v: np.bincount(np.broadcast_to(world[v], p.shape), p, network.variables[v])
                                 for v in variables})
        if not log_z_of:
            raise LogicMPError("no world satisfies the hard rules and the evidence",
                               f"looked at every value of {', '.join(_describe(theory, v) for v in variables[:5])}"
                               f"{', ...' if len(variables) > 5 else ''}")
        highest = max(log_z_of)
        log_z_here = highest + math.log(sum(math.exp(z - highest) for z in log_z_of))
        log_z += log_z_here
        for variable in variables:
            marginals[variable] = sum(
                (math.exp(z - log_z_here) * m[variable] for z, m in zip(log_z_of, marginals_of, strict=True)),
                start=np.zeros(network.variables[variable]))
    return float(log_z), _to_tensors(theory, network.sizes, {v: torch.as_tensor(m) for v, m in marginals.items()})


def _components(network: Network) -> tuple[list[Grounding], list[tuple[list[GroundVariable], list[Grounding]]]]:
    """The groundings without an unobserved variable, and the connected parts: their variables, their groundings."""
    part = {variable: {variable} for variable in network.variables if variable not in network.observed}
    decided, linked = [], []
    for grounding in network.groundings:
        variables = list(_variables_in(grounding.formula))
        if not variables:
            decided.append(grounding)
            continue
        linked.append((variables[0], grounding))
        for variable in variables[1:]:
            if part[variable] is not part[variables[0]]:
                joined = part[variable] | part[variables[0]]
                part.update(dict.fromkeys(joined, joined))
    distinct = {id(members): members for members in part.values()}
    found: dict[int, list[Grounding]] = {key: [] for key in distinct}
    for variable, grounding in linked:
        found[id(part[variable])].append(grounding)
    place = {variable: i for i, variable in enumerate(network.variables)}
    return decided, [(sorted(members, key=place.__getitem__), found[key]) for key, members in distinct.items()]


def _worlds(theory: Theory, network: Network, variables: Sequence[GroundVariable], max_worlds: int
            ) -> Iterator[dict[GroundVariable, Any]]:
    """All worlds of some variables in chunks: the last variables run inside a chunk, the first from one to the next."""
    possible = network.possible
    n_worlds = math.prod(len(possible[v]) for v in variables)
    if n_worlds > max_worlds:
        raise LogicMPError(f"{len(variables)} connected ground variables ({_describe(theory, variables[0])}, ...) have "
                           f"{n_worlds} worlds (limit {max_worlds})",
                           "use fewer constants, more evidence, or raise max_worlds")
    split = len(variables) - 1
    while split and math.prod(len(possible[v]) for v in variables[split - 1 :]) <= CHUNK:
        split -= 1
    outer, inner = variables[:split], variables[split:]
    grid = np.indices([len(possible[v]) for v in inner]).reshape(len(inner), -1)
    inside = {v: np.array(possible[v])[places] for v, places in zip(inner, grid, strict=True)}
    for values in itertools.product(*(possible[v] for v in outer)):
        yield {**dict(zip(outer, values, strict=True)), **inside}


def _scored_worlds(theory: Theory, network: Network, variables: Sequence[GroundVariable], found: Iterable[Grounding],
                   logits: Mapping[GroundVariable, Any], weights: Sequence[Tensor], max_worlds: int
                   ) -> Iterator[tuple[dict[GroundVariable, Any], np.ndarray[Any, Any]]]:
    """The exponent of Eq. 1 for chunks of worlds, -inf where a hard rule is violated; dead chunks are left out."""
    found = list(found)
    hard = [g.formula for g in found if theory.rules[g.rule].is_hard]
    soft = [(float(_weight(weights, g)), g.formula) for g in found if not theory.rules[g.rule].is_hard]
    inside: dict[GroundAtom, Any] = {}
    for world in _worlds(theory, network, variables, max_worlds):

        def lookup(atom: GroundAtom, world: Mapping[GroundVariable, Any] = world) -> Any:
            values = world[atom.variable]
            if isinstance(values, int):
                return np.bool_(values in atom.values)
            # the variables that run inside a chunk do so in every chunk alike
            if atom not in inside:
                inside[atom] = np.isin(values, list(atom.values))
            return inside[atom]

        alive = np.bool_(True)
        for formula in hard:
            alive = np.logical_and(alive, truth(formula, lookup))
            if not alive.any():
                break
        if not alive.any():
            continue
        scores = reduce(np.add, (logits[v][world[v]] for v in variables))
        for weight, formula in soft:
            scores = scores + weight * truth(formula, lookup)
        yield world, np.where(alive, scores, -np.inf)


# Eq. 2-3: mean field


def _table(formula: Ground, network: Network) -> tuple[list[GroundVariable], Tensor]:
    """phi_f of one grounding: its variables, and its truth (0 or 1) with one axis for each of them."""
    variables = list(_variables_in(formula))
    shape = [network.variables[v] for v in variables]
    if math.prod(shape) > MAX_TABLE:
        raise LogicMPError(f"one grounding has {len(variables)} variables and {math.prod(shape)} assignments "
                           f"(limit {MAX_TABLE})", "use fewer constants or more evidence")

    def lookup(atom: GroundAtom) -> Any:
        axis = variables.index(atom.variable)
        values = np.isin(np.arange(shape[axis]), list(atom.values))
        return values.reshape([-1 if i == axis else 1 for i in range(len(shape))])

    table = np.broadcast_to(truth(formula, lookup), shape)
    return variables, torch.tensor(table, dtype=torch.float64)


def _expect(table: Tensor, q: Sequence[Tensor], keep: int | None = None) -> Tensor:
    """The sum over all assignments of table * prod_j Q_j(v_j); `keep` leaves out one variable and stays an axis."""
    for axis in reversed(range(len(q))):
        if axis != keep:
            table = torch.tensordot(table, q[axis], dims=([axis], [0]))
    return table


def _all_false(tables: Sequence[tuple[list[GroundVariable], Tensor]], q: Mapping[GroundVariable, Tensor]) -> Tensor:
    """The probability that factors taken as independent are all false."""
    result = torch.ones((), dtype=torch.float64)
    for variables, table in tables:
        result = result * _expect(1 - table, [q[v] for v in variables])
    return result


def mean_field_step(theory: Theory, unary: Tensors | None, q: Tensors, evidence: Tensors | None = None,
                    sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
                    hard_weight: float = 10.0) -> dict[str, Tensor]:
    """One synchronous update of all marginals by Eq. 2-3, differentiable in `unary`, `q` and `weights`.

    >>> from logicmp.parse import parse_theory
    >>> mean_field_step(parse_theory("A\\n2 A"), None, {"A": 0.5})["A"]
    tensor(0.8808, dtype=torch.float64)

    Args:
        q: the marginals so far; those of observed atoms are not read, excluded values should have 0.
        hard_weight: the weight of a hard rule.
    """
    network = _network(theory, evidence, sizes, semantics)
    energy = _logits(theory, network, unary)
    marginals = _probabilities(theory, network, q)
    numbers = _weights(theory, network.sizes, weights, hard_weight)
    for grounding in network.groundings:
        weight = _weight(numbers, grounding)
        tables = [_table(factor, network) for factor in grounding.factors]
        for i, (variables, table) in enumerate(tables):
            # Theorem 1: the other literals must be false for this one to matter; nothing is left in exact semantics
            others = _all_false(tables[:i] + tables[i + 1 :], marginals)
            for axis, variable in enumerate(variables):
                # Eq. 3; for a single literal it is Theorem 1's indicator, 1 if the value makes the literal true
                message = _expect(table, [marginals[v] for v in variables], keep=axis)
                energy[variable] = energy[variable] + weight * others * message
    updated = {}
    for variable, n in network.variables.items():
        left = torch.tensor(network.possible[variable])
        updated[variable] = torch.zeros(n, dtype=torch.float64).index_put(
            (left,), torch.softmax(energy[variable][left], 0))
    return _to_tensors(theory, network.sizes, updated)


def expected_violations(theory: Theory, q: Tensors, evidence: Tensors | None = None,
                        sizes: Mapping[str, int] | None = None, semantics: str = "exact") -> Tensor:
    """V_f(q) for each rule: the expected number of its groundings, or of its clauses' groundings, that are false."""
    network = _network(theory, evidence, sizes, semantics)
    marginals = _probabilities(theory, network, q)
    found = [torch.zeros((), dtype=torch.float64) for _ in theory.rules]
    for grounding in network.groundings:
        tables = [_table(factor, network) for factor in grounding.factors]
        found[grounding.rule] = found[grounding.rule] + grounding.share * _all_false(tables, marginals)
    return torch.stack(found) if found else torch.zeros(0, dtype=torch.float64)


def elbo(theory: Theory, unary: Tensors | None, q: Tensors, evidence: Tensors | None = None,
         sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
         hard_weight: float = 10.0) -> Tensor:
    """E_q of the exponent of Eq. 1 plus the entropy of q: in exact semantics a lower bound of `log_partition`."""
    network = _network(theory, evidence, sizes, semantics)
    logits = _logits(theory, network, unary)
    marginals = _probabilities(theory, network, q)
    numbers = _weights(theory, network.sizes, weights, hard_weight)
    total = torch.zeros((), dtype=torch.float64)
    for variable in network.variables:
        if variable not in network.observed:
            total = total + (logits[variable] * marginals[variable] + torch.special.entr(marginals[variable])).sum()
    for grounding in network.groundings:
        tables = [_table(factor, network) for factor in grounding.factors]
        total = total + _weight(numbers, grounding) * (1 - _all_false(tables, marginals))
    return total
