"""Between the layer's tensors and the variables of a ground network.

Room: ground, inputs -> **execute** -> inference, layer, constrain.

    logits, evidence     value_scores       log P of each value, [batch, variables..., values]; -inf is impossible
                         read_potentials    the same for all variables of a network, [batch, values]
    answers, labels      write_values       bool by atom; the index of the label for a multi-class predicate
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..arguments import wrong_type
from ..ground.network import Network, n_values
from ..parse.theory import Predicate, Theory
from .inputs import Inputs, read_inputs
from .marginals import CERTAIN
from .operations import spread


def value_scores(inputs: Inputs, predicate: Predicate) -> Tensor:
    """The log-probability of each value of each variable, [batch, variables..., values]; -inf if impossible."""
    name = predicate.name
    evidence = inputs.observed.get(name, inputs.evidence.get(name))
    logits = inputs.unary.get(name)
    logits = torch.zeros_like(inputs.observed[name]) if logits is None else logits
    if not predicate.is_categorical:
        logits = (logits + logits.mT) / 2 if predicate.symmetric else logits
        scores = torch.stack([functional.logsigmoid(-logits), functional.logsigmoid(logits)], -1)
        if evidence is None:
            return scores
        certain = torch.stack([(1 - evidence).log(), evidence.log()], -1)
        return torch.where(evidence.isnan().unsqueeze(-1), scores, certain)
    scores = _by_variable(predicate, logits)
    if predicate.may_be_none:
        scores = functional.pad(scores, (0, 1))
    if evidence is not None:
        given = _by_variable(predicate, evidence)
        if predicate.may_be_none:
            given = functional.pad(given, (0, 1), value=torch.nan)
        is_true = given == 1
        excluded = (given == 0) | (is_true.any(-1, keepdim=True) & ~is_true)
        scores = scores.masked_fill(excluded, -torch.inf)
    return torch.log_softmax(scores, -1)


def open_values(inputs: Inputs, predicate: Predicate) -> Tensor:
    """Which values are possible, for variables with several possible ones; [batch, variables..., values]."""
    found = value_scores(inputs, predicate) > -torch.inf
    for k, type_name in enumerate(predicate.types):
        if type_name in inputs.masks:
            exists = spread(inputs.masks[type_name] > 0, (k,), len(predicate.types))
            exists = exists.expand(-1, *(inputs.sizes[t] for t in predicate.types))
            if predicate.functional:
                # "none" always exists
                exists = functional.pad(_by_variable(predicate, exists), (0, int(predicate.may_be_none)), value=True)
            else:
                exists = exists.unsqueeze(-1)
            found = found & exists
    return found & (found.sum(-1, keepdim=True) > 1)


def read_potentials(network: Network, inputs: Inputs) -> Tensor:
    """The log-probability of each value of each variable of a network, [batch, values]."""
    parts = []
    for predicate in network.world.theory.predicates:
        scores = value_scores(inputs, predicate)
        chosen = scores[:, torch.from_numpy(_first_places(network, predicate))].flatten(1)
        parts.append(chosen.expand(math.prod(inputs.batch), -1))
    # a quantified part has no logits: its atoms decide it
    parts.append(parts[0].new_zeros(len(parts[0]), 2 * (len(network.cards) - network.n_own)))
    return torch.cat(parts, 1)


def _first_places(network: Network, predicate: Predicate) -> np.ndarray:
    """Which entries of a predicate are variables of the network; one entry for each variable."""
    is_open = np.asarray(network.variables[predicate.name] >= 0)
    return np.triu(is_open) if predicate.symmetric else is_open


def write_values(network: Network, inputs: Inputs, values: Tensor) -> dict[str, Tensor]:
    """Answers as tensors, from the values of a network's variables, [batch, variables]; see `write_answer`."""
    found = {}
    for name in inputs.unary:
        predicate = network.world.theory.predicate[name]
        numbers = torch.tensor(network.variables[name], device=values.device)
        # a decided entry has no variable, and one possible value
        decided = value_scores(inputs, predicate).detach().argmax(-1)
        chosen = torch.where(numbers >= 0, functional.pad(values, (0, 1))[:, numbers], decided)
        found[name] = write_answer(predicate, chosen, inputs)
    return found


def write_marginals(network: Network, inputs: Inputs, p: Tensor) -> dict[str, Tensor]:
    """Probabilities by predicate, in the shapes of the logits, from those of a network's values, [batch, values]."""
    found = {}
    starts = torch.from_numpy(np.append(network.starts[:-1], 0)).to(p.device)
    for name in inputs.unary:
        predicate = network.world.theory.predicate[name]
        table = value_scores(inputs, predicate).detach().exp()
        numbers = torch.tensor(network.variables[name], device=p.device).unsqueeze(-1)
        places = starts[numbers] + torch.arange(table.shape[-1], device=p.device)
        table = torch.where(numbers >= 0, functional.pad(p, (0, table.shape[-1]))[:, places], table)
        atoms = to_atoms(predicate, table, inputs.sizes)
        found[name] = atoms.reshape((*inputs.batch, *atoms.shape[1:]))
    return found


def write_answer(predicate: Predicate, values: Tensor, inputs: Inputs) -> Tensor:
    """An answer for the user: bool for atoms, the index of the label for a multi-class predicate.

    Args:
        values: the value of each variable, [batch, variables...].
    """
    if predicate.labels is None:
        values = to_atoms(predicate, functional.one_hot(values, n_values(predicate, inputs.sizes)).bool(), inputs.sizes)
    return values.reshape((*inputs.batch, *values.shape[1:]))


def as_evidence(theory: Theory, answer: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Answers as evidence: the labels of a multi-class predicate become one-hot."""
    labels = {p.name: len(p.labels) for p in theory.predicates if p.labels is not None}
    return {name: functional.one_hot(tensor, labels[name]).bool() if name in labels else tensor
            for name, tensor in answer.items()}


def read_labels(theory: Theory, logits: Tensor | Mapping[str, Tensor], labels: Mapping[str, Tensor],
                evidence: Mapping[str, Tensor] | None) -> Inputs:
    """The inputs with the labels as evidence: values that contradict a label are impossible."""
    if not isinstance(labels, Mapping):
        raise wrong_type("labels", labels, Mapping[str, Tensor])
    if not isinstance(logits, Mapping):
        logits = {next(iter(read_inputs(theory, logits, evidence, None).unary)): logits}
    return read_inputs(theory, logits, {**(evidence or {}), **labels}, None)


def certain_logits(theory: Theory, answer: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Log-odds whose marginals are the answer, float64: the layer counts violations there."""
    return {name: (2 * tensor.double() - 1) * CERTAIN for name, tensor in as_evidence(theory, answer).items()}


def _by_variable(predicate: Predicate, tensor: Tensor) -> Tensor:
    """A predicate's tensor as [batch, variables..., values]."""
    if predicate.labels is not None:
        return tensor
    first = tensor.dim() - len(predicate.functional)
    return tensor.movedim(tuple(1 + k for k in predicate.functional), tuple(range(first, tensor.dim()))).flatten(first)


def to_atoms(predicate: Predicate, table: Tensor, sizes: Mapping[str, int]) -> Tensor:
    """The inverse: from [batch, variables..., values] to the predicate's own shape, [batch, ...]."""
    if not predicate.is_categorical:
        table = table[..., 1]
    elif predicate.labels is None:
        inner = [sizes[predicate.types[k]] for k in predicate.functional]
        table = table[..., : math.prod(inner)].reshape(*table.shape[:-1], *inner)
        last = range(table.dim() - len(inner), table.dim())
        table = table.movedim(tuple(last), tuple(1 + k for k in predicate.functional))
    return table
