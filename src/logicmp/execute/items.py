"""One item of a batch on its own, without the entities that its mask leaves out.

Room: inputs -> **execute** -> inference, layer, constrain.

    kept = existing_entities(theory, inputs, k)     by masked type, the entities that exist in item k
    item = item_of(theory, inputs, k, kept)         its tensors, with these entities only
    join_items(theory, answers, inputs, kepts)      the answers of all items, in the sizes of the call
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..errors import LogicMPError
from ..parse.syntax import Variable, atoms, terms
from ..parse.theory import Predicate, Theory
from .inputs import Inputs

# an answer by predicate: bool in the shape of its logits, or the index of the label for a multi-class predicate
Values = dict[str, Tensor]


def existing_entities(theory: Theory, inputs: Inputs, k: int) -> dict[str, Tensor]:
    """By masked type, the entities that exist in an item; raise if the rules cannot be applied to them alone."""
    found = {name: (mask[k] > 0).nonzero()[:, 0].cpu() for name, mask in inputs.masks.items()}
    for name, entities in found.items():
        first, n = int(entities[:1].sum()), len(entities)
        if not n:
            raise LogicMPError(f"mask leaves no {name} in item {k}", "remove the item")
        if bool((entities != torch.arange(first, first + n)).any()) and name in _ordered_types(theory):
            raise LogicMPError(f"mask of {name} has a gap in item {k}, but a rule has neighbours such as i+1",
                               "put padding before or after the entities; or use LogicMP(rules, method='exact').decode")
        n_named = len(theory.type[name].constants)
        if not torch.equal(entities[:n_named], torch.arange(n_named)):
            raise LogicMPError(f"mask removes {name} {theory.type[name].constants[0]} or another one that the rules "
                               f"name, in item {k}", "mark all entities that the rules name as existing")
    return found


def _ordered_types(theory: Theory) -> set[str]:
    """The types with neighbours, i+1."""
    return {term.type for rule in theory.rules for leaf in atoms(rule.formula) for term in terms(leaf)
            if isinstance(term, Variable) and term.offset}


def select_entities(theory: Theory, tensors: Mapping[str, Tensor], kept: Mapping[str, Tensor],
                    n_before: int = 0) -> Values:
    """The entities that exist, of tensors with some dimensions before those of the arguments."""
    found = dict(tensors)
    for name in tensors:
        for k, type_name in enumerate(theory.predicate[name].types):
            if type_name in kept:
                found[name] = found[name].index_select(n_before + k, kept[type_name].to(found[name].device))
    return found


def join_items(theory: Theory, answers: Sequence[Values], inputs: Inputs,
               kept: Sequence[Mapping[str, Tensor]]) -> Values:
    """The answers of all items for the user, [batch..., ...]: false, or label 0, where an entity does not exist.

    Args:
        theory: the rules.
        answers: by item, without batch dimensions.
        inputs: of the call.
        kept: from `existing_entities`, by item.
    """
    found = {}
    for name in inputs.unary:
        predicate = theory.predicate[name]
        whole = torch.stack([_with_padding(predicate, answer[name], inputs, own)
                             for answer, own in zip(answers, kept, strict=True)])
        found[name] = whole.reshape((*inputs.batch, *whole.shape[1:]))
    return found


def _with_padding(predicate: Predicate, answer: Tensor, inputs: Inputs, kept: Mapping[str, Tensor]) -> Tensor:
    """An answer in the sizes of the call: false, or label 0, where an entity does not exist."""
    if not kept:
        return answer
    whole = answer.new_zeros([inputs.sizes[t] for t in predicate.types])
    places = [kept.get(t, torch.arange(inputs.sizes[t])).to(answer.device) for t in predicate.types]
    whole[torch.meshgrid(*places, indexing="ij") if places else ()] = answer
    return whole


def item_of(theory: Theory, inputs: Inputs, k: int, kept: Mapping[str, Tensor]) -> Inputs:
    """One item of a batch, as inputs without batch dimensions and without entities that do not exist."""
    unary, observed, evidence = (
        select_entities(theory, {name: (tensor[k : k + 1] if len(tensor) > 1 else tensor).detach().cpu()
                                 for name, tensor in tensors.items()}, kept, 1)
        for tensors in (inputs.unary, inputs.observed, inputs.evidence))
    return Inputs(unary, observed, evidence, {}, {**inputs.sizes, **{t: len(x) for t, x in kept.items()}}, ())
