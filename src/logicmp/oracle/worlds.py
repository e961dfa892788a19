"""Exact inference by enumeration of all worlds: log Z, marginals, model counts.

Room: grounding, tensors -> **worlds**.  Paper: Eq. 1, the Markov logic network.

    2 A, one atom      worlds A and !A, with weights e^2 and 1:  log Z = log(1 + e^2),  P(A) = e^2 / (1 + e^2)

Unconnected parts of the ground theory are enumerated separately.
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
    GroundTheory,
    GroundVariable,
    Tensors,
    describe,
    ground_theory,
    truth,
    variables_in,
)
from .tensors import Weights, read_logits, read_weights, to_tensors, weight_of

# worlds that are scored together
CHUNK = 2**16


def log_partition(theory: Theory, unary: Tensors | None = None, evidence: Tensors | None = None,
                  sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
                  max_worlds: int = 2**26) -> float:
    """log Z of Eq. 1: a sum over the unobserved variables; groundings with only observed atoms count, too.

    >>> from logicmp import parse_theory
    >>> round(log_partition(parse_theory("A\\n2 A")) - math.log(1 + math.exp(2)), 12)
    0.0

    Args:
        theory: the rules; worlds that violate a hard rule have weight 0.
        unary: log-odds, or logits of a categorical predicate ("none" has 0); 0 for predicates without an entry.
        evidence: 1 true, 0 false, NaN unobserved; a closed world needs its zeros.
        sizes: how many constants each type has, if not as many as in the theory.
        semantics: "exact", "paper" or "alchemy".
        weights: for each rule a number, a tensor with one axis for each `+x`, or None for the rule's own.
        max_worlds: raise if one connected component has more worlds.
    """
    return _enumerate(theory, unary, evidence, sizes, semantics, weights, max_worlds)[0]


def exact_marginals(theory: Theory, unary: Tensors | None = None, evidence: Tensors | None = None,
                    sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
                    max_worlds: int = 2**26) -> dict[str, Tensor]:
    """The probability of every atom and label under Eq. 1; arguments as for `log_partition`."""
    return _enumerate(theory, unary, evidence, sizes, semantics, weights, max_worlds)[1]


def best_world(theory: Theory, unary: Tensors | None = None, evidence: Tensors | None = None,
               sizes: Mapping[str, int] | None = None, semantics: str = "exact", weights: Weights | None = None,
               max_worlds: int = 2**26) -> tuple[float, dict[str, Tensor]]:
    """The largest exponent of Eq. 1, and a world that has it, by predicate; arguments as for `log_partition`."""
    ground = ground_theory(theory, evidence, sizes, semantics)
    logits = {variable: tensor.detach().numpy() for variable, tensor in read_logits(theory, ground, unary).items()}
    numbers = [tensor.detach() for tensor in read_weights(theory, ground.sizes, weights, math.inf)]
    decided, components = _components(ground)
    best = _score_of_decided(theory, decided, numbers)
    values = {v: ground.possible[v][0] for v in ground.observed}
    for variables, found in components:
        highest = -math.inf
        for world, scores in _scored_worlds(theory, ground, variables, found, logits, numbers, max_worlds):
            at = int(np.argmax(scores))
            if scores[at] > highest:
                highest = float(scores[at])
                values |= {v: int(np.broadcast_to(world[v], scores.shape)[at]) for v in variables}
        if highest == -math.inf:
            raise LogicMPError("no world satisfies the hard rules and the evidence")
        best += highest
    return best, to_tensors(theory, ground.sizes, {
        v: torch.eye(n, dtype=torch.float64)[values[v]] for v, n in ground.variables.items()})


def count_models(theory: Theory, sizes: Mapping[str, int] | None = None, max_worlds: int = 2**26) -> int:
    """How many worlds satisfy all hard rules.

    >>> from logicmp import parse_theory
    >>> count_models(parse_theory("C(a,b) ^ C(b,c) => C(a,c)."), {"thing": 3})
    171
    """
    ground = ground_theory(theory, None, sizes, "exact")
    ground = replace(ground, groundings=[g for g in ground.groundings if theory.rules[g.rule].is_hard])
    decided, components = _components(ground)
    count = int(all(truth(g.formula) for g in decided))
    logits = {variable: np.zeros(n) for variable, n in ground.variables.items()}
    for variables, found in components:
        count *= sum(int(np.isfinite(scores).sum())
                     for _, scores in _scored_worlds(theory, ground, variables, found, logits, [], max_worlds))
    return count


def _score_of_decided(theory: Theory, decided: Sequence[Grounding], weights: Sequence[Tensor]) -> float:
    """The weights of the true groundings that evidence decides; raises if it violates a hard rule."""
    score = 0.0
    for grounding in decided:
        if truth(grounding.formula):
            score += 0.0 if theory.rules[grounding.rule].is_hard else float(weight_of(weights, grounding))
        elif theory.rules[grounding.rule].is_hard:
            raise LogicMPError(f"the evidence violates the hard rule {str(theory.rules[grounding.rule])!r}")
    return score


def _enumerate(theory: Theory, unary: Tensors | None, evidence: Tensors | None, sizes: Mapping[str, int] | None,
               semantics: str, weights: Weights | None, max_worlds: int) -> tuple[float, dict[str, Tensor]]:
    ground = ground_theory(theory, evidence, sizes, semantics)
    logits = {variable: tensor.detach().numpy() for variable, tensor in read_logits(theory, ground, unary).items()}
    # worlds that violate a hard rule are left out, so its weight is not used
    numbers = [tensor.detach() for tensor in read_weights(theory, ground.sizes, weights, math.inf)]
    decided, components = _components(ground)
    log_z = _score_of_decided(theory, decided, numbers)
    marginals: dict[GroundVariable, np.ndarray[Any, Any]] = {
        v: np.eye(ground.variables[v])[ground.possible[v][0]] for v in ground.observed}
    for variables, found in components:
        log_z_of, marginals_of = [], []
        for world, scores in _scored_worlds(theory, ground, variables, found, logits, numbers, max_worlds):
            highest = scores.max()
            p = np.exp(scores - highest)
            log_z_of.append(highest + np.log(p.sum()))
            p /= p.sum()
            marginals_of.append({v: np.bincount(np.broadcast_to(world[v], p.shape), p, ground.variables[v])
                                 for v in variables})
        if not log_z_of:
            raise LogicMPError("no world satisfies the hard rules and the evidence",
                               f"tried every value of {', '.join(describe(theory, v) for v in variables[:5])}"
                               f"{', ...' if len(variables) > 5 else ''}")
        highest = max(log_z_of)
        log_z_here = highest + math.log(sum(math.exp(z - highest) for z in log_z_of))
        log_z += log_z_here
        for variable in variables:
            marginals[variable] = sum(
                (math.exp(z - log_z_here) * m[variable] for z, m in zip(log_z_of, marginals_of, strict=True)),
                start=np.zeros(ground.variables[variable]))
    return float(log_z), to_tensors(theory, ground.sizes, {v: torch.as_tensor(m) for v, m in marginals.items()})


def _components(ground: GroundTheory) -> tuple[list[Grounding], list[tuple[list[GroundVariable], list[Grounding]]]]:
    """The groundings without an unobserved variable, and the variables and groundings of each connected part."""
    part = {variable: {variable} for variable in ground.variables if variable not in ground.observed}
    decided, linked = [], []
    for grounding in ground.groundings:
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
    place = {variable: i for i, variable in enumerate(ground.variables)}
    return decided, [(sorted(members, key=place.__getitem__), found[key]) for key, members in distinct.items()]


def _worlds(theory: Theory, ground: GroundTheory, variables: Sequence[GroundVariable], max_worlds: int
            ) -> Iterator[dict[GroundVariable, Any]]:
    """All worlds of some variables in chunks: the last variables vary inside a chunk, the first between chunks."""
    possible = ground.possible
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


def _scored_worlds(theory: Theory, ground: GroundTheory, variables: Sequence[GroundVariable],
                   found: Sequence[Grounding], logits: Mapping[GroundVariable, Any], weights: Sequence[Tensor],
                   max_worlds: int) -> Iterator[tuple[dict[GroundVariable, Any], np.ndarray[Any, Any]]]:
    """The exponent of Eq. 1 by chunks, -inf where a hard rule is violated; impossible chunks are left out."""
    hard = [g.formula for g in found if theory.rules[g.rule].is_hard]
    soft = [(float(weight_of(weights, g)), g.formula) for g in found if not theory.rules[g.rule].is_hard]
    inside: dict[GroundAtom, Any] = {}
    for world in _worlds(theory, ground, variables, max_worlds):

        def lookup(atom: GroundAtom, world: Mapping[GroundVariable, Any] = world) -> Any:
            values = world[atom.variable]
            if isinstance(values, int):
                return np.bool_(values in atom.values)
            # variables inside a chunk have the same values in every chunk
            if atom not in inside:
                inside[atom] = np.isin(values, list(atom.values))
            return inside[atom]

        satisfied = np.bool_(True)
        for formula in hard:
            satisfied = np.logical_and(satisfied, truth(formula, lookup))
            if not satisfied.any():
                break
        else:
            scores = reduce(np.add, (logits[v][world[v]] for v in variables))
            for weight, formula in soft:
                scores = scores + weight * truth(formula, lookup)
            yield world, np.where(satisfied, scores, -np.inf)
