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
from .inputs import Inputs, value_dims
from .state import is_sharded, is_tracing

# the log-odds of an observed atom: certain in every precision, and finite, so that no loss becomes NaN
CERTAIN = 50.0
# labels fewer than these are laid out one after the other for a softmax
FEW_LABELS = 16
# added to the logits of impossible values
IMPOSSIBLE = -1e4


def one_per_variable(predicate: Predicate, tensor: Tensor) -> Tensor:
    """Unary potentials as they enter Eq. 2, one per variable: of a symmetric predicate the mean of both orders."""
    return (tensor + tensor.mT) / 2 if predicate.symmetric else tensor


def marginals(inputs: Inputs, predicate: Predicate, logits: Tensor) -> Tensor:
    """Marginals of logits, with the evidence, and zero where an entity does not exist."""
    evidence = inputs.evidence.get(predicate.name)
    exists = inputs.exists(predicate)
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
            q = inputs.with_evidence(predicate.name, q)
    if exists is None:
        return q
    return q * exists


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
    exists = inputs.exists(predicate)
    if exists is not None:
        out = torch.where(exists > 0, out, inputs.unary[predicate.name])
    return out.reshape((*inputs.batch, *out.shape[1:]))


def unary_and_entropy(inputs: Inputs, predicate: Predicate, unary: Tensor, q: Tensor) -> Tensor:
    """E[phi] + H of the variables of one predicate that are not observed, [batch]."""
    evidence = inputs.evidence.get(predicate.name)
    part = inputs.parts.get(predicate.name)
    if part is not None:
        # every atom in one process
        own = unary_and_entropy(inputs.owned(predicate.name), predicate, part.owned(unary), part.owned(q))
        return inputs.total(predicate.name, own)
    score = _entropy(q) + q * unary
    if not predicate.is_categorical:
        score = score + _entropy(1 - q)
        if evidence is not None:
            score = torch.where(evidence.isnan(), score, score.new_zeros(()))
        exists = inputs.exists(predicate)
        if exists is not None:
            score = score * exists
        return (score.triu() if predicate.symmetric else score).unsqueeze(-1).flatten(1).sum(1)
    dims = value_dims(predicate)
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
    """True for the atoms that exist, are not observed and count in this process, in the shape of `like`."""
    latent = torch.ones_like(like, dtype=torch.bool)
    evidence, exists = inputs.evidence.get(predicate.name), inputs.exists(predicate)
    if evidence is not None:
        latent = latent & evidence.isnan()
    if exists is not None:
        latent = latent & (exists > 0)
    if predicate.name in inputs.parts:
        latent = latent & inputs.parts[predicate.name].is_own.reshape(1, -1, *[1] * (like.dim() - 2))
    return latent


def from_their_mean(inputs: Inputs, predicate: Predicate, tensor: Tensor, over_atoms: bool = False) -> Tensor:
    """A tensor at the latent atoms of a predicate, 0 elsewhere; of a categorical variable minus the mean of its values.

    Args:
        over_atoms: also subtract the mean over all variables of an item, label by label if there are labels.
    """
    counted = _counted(inputs, predicate, tensor)
    if predicate.is_categorical:
        tensor = _minus_mean(tensor, counted, value_dims(predicate))
    if over_atoms:
        dims = tuple(range(1, tensor.dim() - (predicate.labels is not None)))
        if counted is not None and predicate.name in inputs.parts:
            total, n = (inputs.total(predicate.name, x.sum(dims, keepdim=True)) for x in (tensor * counted, counted))
            return (tensor - total / n.clamp_min(1)) * counted
        tensor = _minus_mean(tensor, counted, dims)
    return tensor if counted is None else tensor * counted


def _minus_mean(tensor: Tensor, counted: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    if not dims:
        # one atom: it is its own mean
        return torch.zeros_like(tensor)
    if counted is None:
        return tensor - tensor.mean(dims, keepdim=True)
    return tensor - (tensor * counted).sum(dims, keepdim=True) / counted.sum(dims, keepdim=True).clamp_min(1)


def n_latent(inputs: Inputs, predicate: Predicate, like: Tensor) -> Tensor:
    """The number of latent atoms of a predicate in each item, [batch]; a symmetric pair counts once."""
    counted = _counted(inputs, predicate, like)
    if counted is None:
        return like.new_full((like.shape[0],), math.prod(like.shape[1:]))
    return inputs.total(predicate.name, per_item(counted))


def _counted(inputs: Inputs, predicate: Predicate, like: Tensor) -> Tensor | None:
    """1 for each latent atom of a predicate, of a symmetric pair for the first order only; None if all are latent."""
    if (predicate.symmetric or predicate.name in inputs.evidence or predicate.name in inputs.parts
            or any(t in inputs.masks for t in predicate.types)):
        counted = is_latent(inputs, predicate, like).to(like.dtype)
        return counted.triu() if predicate.symmetric else counted
    return None


def n_values(predicate: Predicate, like: Tensor) -> int:
    """The number of values of one variable of a categorical predicate."""
    return math.prod(like.shape[dim] for dim in value_dims(predicate))


def per_item(tensor: Tensor) -> Tensor:
    """The sum over each item, [batch]."""
    if tensor.dim() > 1 and is_sharded():
        # uneven shards cannot be flattened
        return tensor.sum(tuple(range(1, tensor.dim())))
    return tensor.unsqueeze(-1).flatten(1).sum(1)


def for_each_item(x: Tensor, like: Tensor) -> Tensor:
    """One number per item, [batch, 1, ...], as many dimensions as `like` has, and of its dtype."""
    return x.reshape(-1, *[1] * (like.dim() - 1)).to(like.dtype)


def _entropy(q: Tensor) -> Tensor:
    """-q log q; its slope at zero is infinite, so zeros are replaced by the smallest number, without gradient."""
    return -q * torch.log(q.clamp_min(torch.finfo(q.dtype).tiny))


def _softmax(logits: Tensor, predicate: Predicate) -> Tensor:
    if predicate.labels is not None:
        if len(predicate.labels) < FEW_LABELS and logits.dim() > 2 and not is_tracing():
            # with fewer labels than a vector of the processor has entries, torch takes up to 14 times as long
            return torch.softmax(logits.mT.contiguous(), -2).mT.contiguous()
        return torch.softmax(logits, -1)
    dims = value_dims(predicate)
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
    decided = is_true.amax(value_dims(predicate), keepdim=True)
    return torch.maximum((evidence == 0).to(evidence.dtype), decided * (1 - is_true))
