"""Between tensors by predicate and vectors by ground variable: logits, marginals, weights.

Room: grounding -> **tensors** -> worlds, mean_field.  Paper: phi_u and w_f of Eq. 1, Q_i of Eq. 2.

    {"l": [[0.1, 0.2, 0.3]]}      <->      {l(0): [0.1, 0.2, 0.3]}        l(k) in {A, B, C}
    {"P": [0.7]}                  <->      {P(0): [0, 0.7]}               log-odds; marginals are [0.3, 0.7]

All tensors are float64, with one axis for each argument in the declared order, and a last axis for the labels of a
multi-class predicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import LogicMPError
from ..parse.theory import Theory
from .grounding import Grounding, GroundTheory, GroundVariable, Tensors, checked, entries_of, shape_of

# for each rule a number, a tensor with one axis for each `+x`, or None for the rule's own weight
Weights = Sequence[Any]


def _by_value(theory: Theory, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]
              ) -> dict[GroundVariable, dict[int, Tensor]]:
    """{variable: {value: entry}}; the two entries of a symmetric pair are averaged."""
    found: dict[GroundVariable, dict[int, list[Tensor]]] = {}
    for name, tensor in tensors.items():
        for (variable, value), entry in zip(entries_of(theory.predicate[name], sizes), tensor.flatten(), strict=True):
            found.setdefault(variable, {}).setdefault(value, []).append(entry)
    return {variable: {value: torch.stack(entries).mean() for value, entries in values.items()}
            for variable, values in found.items()}


def read_logits(theory: Theory, ground: GroundTheory, unary: Tensors | None) -> dict[GroundVariable, Tensor]:
    """phi_u of Eq. 1, one number for each value: 0 for false, for "none" and without logits."""
    given = _by_value(theory, ground.sizes, checked(theory, ground.sizes, unary, "unary"))
    zero = torch.zeros((), dtype=torch.float64)
    return {variable: torch.stack([given.get(variable, {}).get(value, zero) for value in range(n)])
            for variable, n in ground.variables.items()}


def read_marginals(theory: Theory, ground: GroundTheory, q: Tensors) -> dict[GroundVariable, Tensor]:
    """Q_i of Eq. 2, one number for each value; 0 for values that the evidence excludes."""
    given = _by_value(theory, ground.sizes, checked(theory, ground.sizes, q, "q"))
    found = {}
    for variable, n in ground.variables.items():
        mask = torch.tensor([float(value in ground.possible[variable]) for value in range(n)], dtype=torch.float64)
        if variable in ground.observed:
            found[variable] = mask
            continue
        if variable not in given:
            raise LogicMPError(f"q has no entry for {variable.predicate!r}, which is not observed")
        # false and "none" have no entry: they get the remaining probability
        rest = 1 - torch.stack(list(given[variable].values())).sum()
        found[variable] = torch.stack([given[variable].get(value, rest) for value in range(n)]) * mask
    return found


def to_tensors(theory: Theory, sizes: Mapping[str, int], vectors: Mapping[GroundVariable, Tensor]
               ) -> dict[str, Tensor]:
    """The entries of all predicates, from vectors with one number for each value."""
    found = {}
    for predicate in theory.predicates:
        entries = [vectors[variable][value] for variable, value in entries_of(predicate, sizes)]
        flat = torch.stack(entries) if entries else torch.zeros(0, dtype=torch.float64)
        found[predicate.name] = flat.reshape(shape_of(predicate, sizes))
    return found


def read_weights(theory: Theory, sizes: Mapping[str, int], weights: Weights | None, hard_weight: float) -> list[Tensor]:
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


def weight_of(weights: Sequence[Tensor], grounding: Grounding) -> Tensor:
    """w_f of one grounding: its share of the rule's weight."""
    tensor = weights[grounding.rule]
    return grounding.share * (tensor[grounding.constants] if tensor.dim() else tensor)
