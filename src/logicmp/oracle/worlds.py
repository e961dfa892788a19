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
from ..parse.theory import Theory
from .grounding import (
    GroundAtom,
    Grounding,
    GroundVariable,
    Network,
    Tensors,
    build_network,
    describe,
    truth,
    variables_in,
)
from .tensors import Weights, _logits, _to_tensors, _weight, _weights

# how many worlds are looked at together
CHUNK = 2**16


# Eq. 1: enumeration


def log_partition(theory: Theory, unary: Tensors | None = None, evidence: Tensors | None = None,
                  sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
                  max_worlds: int = 2**26) -> float:
    """log Z of Eq. 1: the sum runs over the unobserved variables; groundings among observed atoms count, too.

    >>> from logicmp import parse_theory
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

    >>> from logicmp import parse_theory
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
