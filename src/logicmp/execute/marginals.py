"""Logits to marginals and back, and the entropy of the marginals.

Room: plan -> **execute** -> layer.  Paper: Eq. 2, and the appendix on multi-class predicates.

An atom of an ordinary predicate is a variable with two values. The atoms of a multi-class predicate, or of one with a
functional argument, are the values of one variable, and its marginals sum to one (at most one where `?` allows none).
Observed atoms are certain, and atoms of entities that do not exist have probability zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ..parse.theory import Predicate
from .inputs import Inputs
from .operations import spread

# the log-odds of an observed atom: certain in every precision, and finite, so that no loss becomes NaN
CERTAIN = 50.0
# added to the logits of impossible values
IMPOSSIBLE = -1e4


def one_per_variable(predicate: Predicate, tensor: Tensor) -> Tensor:
    """Unary potentials as they enter Eq. 2, one per variable: of a symmetric predicate the mean of both orders."""
    return (tensor + tensor.mT) / 2 if predicate.symmetric else tensor


def marginals(inputs: Inputs, predicate: Predicate, logits: Tensor) -> Tensor:
    """Marginals of logits, with the evidence, and zero where an entity does not exist."""
    evidence = inputs.evidence.get(predicate.name)
    exists = _exists(inputs, predicate)
    if predicate.is_categorical:
        if evidence is not None:
            logits = logits + _excluded(evidence, predicate) * IMPOSSIBLE
        if exists is not None and predicate.functional:
            logits = torch.where(exists > 0, logits, logits.new_tensor(IMPOSSIBLE))
        q = _softmax(logits, predicate)
        if evidence is not None and predicate.may_be_none:
            # an atom observed true also rules out "none"
            q = torch.where(evidence == 1, torch.ones_like(q), q)
    else:
        q = torch.sigmoid(logits)
        if evidence is not None:
            q = torch.where(evidence.isnan(), q, evidence.nan_to_num())
    if exists is None:
        return q
    return q * (exists if predicate.labels is None else exists.unsqueeze(-1))


def as_given(inputs: Inputs, predicate: Predicate, logits: Mapping[str, Tensor], shape: torch.Size) -> Tensor:
    """Logits in the shape that was given; observed atoms are certain, atoms of missing entities unchanged."""
    if predicate.name in inputs.observed:
        certain = (inputs.observed[predicate.name] * 2 - 1) * CERTAIN
        return certain.expand(math.prod(inputs.batch), *certain.shape[1:]).reshape(shape)
    out = logits[predicate.name]
    evidence = inputs.evidence.get(predicate.name)
    if evidence is not None:
        is_false = _excluded(evidence, predicate) if predicate.is_categorical else (evidence == 0).to(out)
        out = torch.where((is_false > 0) | (evidence == 1), (1 - 2 * is_false) * CERTAIN, out)
    exists = _exists(inputs, predicate)
    if exists is not None:
        kept = exists if predicate.labels is None else exists.unsqueeze(-1)
        out = torch.where(kept > 0, out, inputs.unary[predicate.name])
    return out.reshape((*inputs.batch, *out.shape[1:]))


def unary_and_entropy(inputs: Inputs, predicate: Predicate, unary: Tensor, q: Tensor) -> Tensor:
    """E[phi] + H of the variables of one predicate that are not observed, [batch]."""
    evidence = inputs.evidence.get(predicate.name)
    score = _entropy(q) + q * unary
    if not predicate.is_categorical:
        score = score + _entropy(1 - q)
        if evidence is not None:
            score = torch.where(evidence.isnan(), score, score.new_zeros(()))
        exists = _exists(inputs, predicate)
        if exists is not None:
            score = score * exists
        return (score.triu() if predicate.symmetric else score).unsqueeze(-1).flatten(1).sum(1)
    dims = _value_dims(predicate)
    total = score.flatten(1).sum(1)
    if predicate.may_be_none:
        total = total + _entropy(1 - q.sum(dims, keepdim=True)).flatten(1).sum(1)
    if evidence is not None:
        # a variable that evidence decides is not summed over, so its unary potential does not count
        possible = (1 - _excluded(evidence, predicate)).sum(dims, keepdim=True)
        if predicate.may_be_none:
            possible = possible + 1 - (evidence == 1).to(q).amax(dims, keepdim=True)
        total = total - torch.where(possible == 1, q * unary, q.new_zeros(())).flatten(1).sum(1)
    return total


def is_latent(inputs: Inputs, predicate: Predicate, like: Tensor) -> Tensor:
    """True for the atoms of a predicate that exist and are not observed, in the shape of `like`."""
    latent = torch.ones_like(like, dtype=torch.bool)
    evidence, exists = inputs.evidence.get(predicate.name), _exists(inputs, predicate)
    if evidence is not None:
        latent = latent & evidence.isnan()
    if exists is not None:
        latent = latent & ((exists if predicate.labels is None else exists.unsqueeze(-1)) > 0)
    return latent


def squares_of_latent(inputs: Inputs, predicate: Predicate, tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of squares over the atoms of a predicate that exist and are not observed, and their number, [batch].

    The logits of a categorical variable count from their mean, because only differences matter.
    """
    dims = _value_dims(predicate)
    if predicate.name not in inputs.evidence and not any(t in inputs.masks for t in predicate.types):
        # the usual case: every atom counts
        if predicate.is_categorical:
            tensor = tensor - tensor.mean(dims, keepdim=True)
        tensor = tensor.unsqueeze(-1).flatten(1)
        return tensor.square().sum(1), tensor.new_full((tensor.shape[0],), tensor.shape[1])
    counted = is_latent(inputs, predicate, tensor).to(tensor.dtype)
    if predicate.is_categorical:
        tensor = tensor - (tensor * counted).sum(dims, keepdim=True) / counted.sum(dims, keepdim=True).clamp_min(1)
    return (tensor.square() * counted).unsqueeze(-1).flatten(1).sum(1), counted.unsqueeze(-1).flatten(1).sum(1)


def _value_dims(predicate: Predicate) -> tuple[int, ...]:
    """The dimensions, batch first, along which the values of one categorical variable lie."""
    return (-1,) if predicate.labels is not None else tuple(1 + k for k in predicate.functional)


def _entropy(q: Tensor) -> Tensor:
    """-q log q; its slope at zero is infinite, so zeros are replaced by the smallest number, without gradient."""
    return -q * torch.log(q.clamp_min(torch.finfo(q.dtype).tiny))


def _softmax(logits: Tensor, predicate: Predicate) -> Tensor:
    if predicate.labels is not None:
        return torch.softmax(logits, -1)
    dims = _value_dims(predicate)
    places = tuple(range(logits.dim() - len(dims), logits.dim()))
    moved = logits.movedim(dims, places)
    flat = moved.flatten(logits.dim() - len(dims))
    if predicate.may_be_none:
        flat = torch.cat([flat, torch.zeros_like(flat[..., :1])], -1)
    q = torch.softmax(flat, -1)
    q = q[..., :-1] if predicate.may_be_none else q
    return q.reshape(moved.shape).movedim(places, dims)


def _excluded(evidence: Tensor, predicate: Predicate) -> Tensor:
    """One for each value of a categorical variable that evidence rules out."""
    is_true = (evidence == 1).to(evidence.dtype)
    decided = is_true.amax(_value_dims(predicate), keepdim=True)
    return torch.maximum((evidence == 0).to(evidence.dtype), decided * (1 - is_true))


def _exists(inputs: Inputs, predicate: Predicate) -> Tensor | None:
    """[batch, n_1, ..., n_k]: one where all entities of an atom exist; None without masks."""
    found: Tensor | None = None
    for k, type_name in enumerate(predicate.types):
        if type_name in inputs.masks:
            part = spread(inputs.masks[type_name], (k,), len(predicate.types))
            found = part if found is None else found * part
    return None if found is None else found.expand(-1, *(inputs.sizes[t] for t in predicate.types))
