"""The oracle: every grounding and every assignment, straight from Eq. 1-3; it calls nothing of the pipeline.

Stage: parse -> **execute**.  Paper: Eq. 1 (the MLN), Eq. 2-3 (mean field), Theorems 1-2 and the multi-class theorem.

    Smokes(x) ^ Friends(x,y) => Smokes(y)      one table of 0/1 for each grounding, one axis for each ground variable
    Eq. 3                                      the table contracted with every Q_j except the receiver's own

Slow and obvious on purpose; the groundings come from `grounding.py`.  All tensors are float64, `{predicate: tensor}`,
with one axis for each argument in the declared order, and a last axis for the labels of a multi-class predicate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import LogicMPError
from ..parse import Theory
from .grounding import (
    SEMANTICS,
    Ground,
    GroundAtom,
    Grounding,
    GroundVariable,
    Network,
    Tensors,
    build_network,
    checked,
    clauses,
    describe,
    entries_of,
    shape_of,
    truth,
    variables_in,
)

__all__ = [
    "SEMANTICS",
    "clauses",
    "count_models",
    "elbo",
    "exact_marginals",
    "expected_violations",
    "log_partition",
    "mean_field_step",
]

# how many worlds are looked at together
CHUNK = 2**16
# the largest table of one grounding: one entry for each assignment of its variables
MAX_TABLE = 2**22

Weights = Sequence[Any]


# tensors


def _by_value(theory: Theory, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]
              ) -> dict[GroundVariable, dict[int, Tensor]]:
    """{variable: {value: entry}}; the two entries of a symmetric pair are averaged."""
    found: dict[GroundVariable, dict[int, list[Tensor]]] = {}
    for name, tensor in tensors.items():
        for (variable, value), entry in zip(entries_of(theory.predicate[name], sizes), tensor.flatten(), strict=True):
            found.setdefault(variable, {}).setdefault(value, []).append(entry)
    return {variable: {value: torch.stack(entries).mean() for value, entries in values.items()}
            for variable, values in found.items()}


def _logits(theory: Theory, network: Network, unary: Tensors | None) -> dict[GroundVariable, Tensor]:
    """phi_u of Eq. 1, one number for each value: 0 for false, for "none" and where nothing is given."""
    given = _by_value(theory, network.sizes, checked(theory, network.sizes, unary, "unary"))
    zero = torch.zeros((), dtype=torch.float64)
    return {variable: torch.stack([given.get(variable, {}).get(value, zero) for value in range(n)])
            for variable, n in network.variables.items()}


def _probabilities(theory: Theory, network: Network, q: Tensors) -> dict[GroundVariable, Tensor]:
    """Q_i of Eq. 2, one number for each value; whatever the evidence excludes has none."""
    given = _by_value(theory, network.sizes, checked(theory, network.sizes, q, "q"))
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
        entries = [vectors[variable][value] for variable, value in entries_of(predicate, sizes)]
        flat = torch.stack(entries) if entries else torch.zeros(0, dtype=torch.float64)
        found[predicate.name] = flat.reshape(shape_of(predicate, sizes))
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
    network = build_network(theory, None, sizes, "exact")
    network = replace(network, groundings=[g for g in network.groundings if theory.rules[g.rule].is_hard])
    decided, components = _components(network)
    count = int(all(truth(g.formula) for g in decided))
    logits = {variable: np.zeros(n) for variable, n in network.variables.items()}
    for variables, found in components:
        count *= sum(int(np.isfinite(scores).sum())
                     for _, scores in _scored_worlds(theory, network, variables, found, logits, [], max_worlds))
    return count


def _enumerate(theory: Theory, unary: Tensors | None, evidence: Tensors | None, sizes: Mapping[str, int] | None,
               semantics: str, weights: Weights | None, max_worlds: int) -> tuple[float, dict[str, Tensor]]:
    network = build_network(theory, evidence, sizes, semantics)
    logits = {variable: tensor.detach().numpy() for variable, tensor in _logits(theory, network, unary).items()}
    # the weight of a hard rule is not used: worlds that violate it are left out
    numbers = [tensor.detach() for tensor in _weights(theory, network.sizes, weights, math.inf)]
    decided, components = _components(network)
    log_z = 0.0
    for grounding in decided:
        if truth(grounding.formula):
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
                               f"looked at every value of {', '.join(describe(theory, v) for v in variables[:5])}"
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
        variables = list(variables_in(grounding.formula))
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
        raise LogicMPError(f"{len(variables)} connected ground variables ({describe(theory, variables[0])}, ...) have "
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


def _scored_worlds(theory: Theory, network: Network, variables: Sequence[GroundVariable], found: Sequence[Grounding],
                   logits: Mapping[GroundVariable, Any], weights: Sequence[Tensor], max_worlds: int
                   ) -> Iterator[tuple[dict[GroundVariable, Any], np.ndarray[Any, Any]]]:
    """The exponent of Eq. 1 for chunks of worlds, -inf where a hard rule is violated; dead chunks are left out."""
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
        else:
            scores = reduce(np.add, (logits[v][world[v]] for v in variables))
            for weight, formula in soft:
                scores = scores + weight * truth(formula, lookup)
            yield world, np.where(alive, scores, -np.inf)


# Eq. 2-3: mean field


def _table(formula: Ground, network: Network) -> tuple[list[GroundVariable], Tensor]:
    """phi_f of one grounding: its variables, and its truth (0 or 1) with one axis for each of them."""
    variables = list(variables_in(formula))
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
    network = build_network(theory, evidence, sizes, semantics)
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
    network = build_network(theory, evidence, sizes, semantics)
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
    network = build_network(theory, evidence, sizes, semantics)
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
