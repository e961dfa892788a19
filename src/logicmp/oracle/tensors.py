"""The oracle: every grounding and every assignment, straight from Eq. 1-3; it calls nothing of the pipeline.

Stage: parse -> **execute**.  Paper: Eq. 1 (the MLN), Eq. 2-3 (mean field), Theorems 1-2 and the multi-class theorem.

    Smokes(x) ^ Friends(x,y) => Smokes(y)      one table of 0/1 for each grounding, one axis for each ground variable
    Eq. 3                                      the table contracted with every Q_j except the receiver's own

Slow and obvious on purpose; the groundings come from `grounding.py`.  All tensors are float64, `{predicate: tensor}`,
with one axis for each argument in the declared order, and a last axis for the labels of a multi-class predicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import LogicMPError
from ..parse.theory import Theory
from .grounding import Grounding, GroundVariable, Network, Tensors, checked, entries_of, shape_of

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
