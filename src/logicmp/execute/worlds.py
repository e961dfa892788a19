"""A world as tensors, and a world from tensors; facts as evidence of a layer.

Room: facts -> **execute** -> layer, inference.

    Friends: 1 where a fact is true, 0 where false, -1 unknown        evidence 1., 0., nan and unary log-odds
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..facts.supports import Support
from ..facts.world import UNKNOWN, World, one_value_each
from ..parse.theory import Theory


def world_tensors(world: World, dtype: torch.dtype = torch.float64) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Unary potentials and evidence of a world, as the layer takes them; fully observed predicates are bool."""
    unary: dict[str, Tensor] = {}
    evidence: dict[str, Tensor] = {}
    for name, values in world.values.items():
        known = torch.from_numpy(values)
        if bool((known != UNKNOWN).all()):
            evidence[name] = known == 1
            continue
        soft = world.unary.get(name)
        unary[name] = torch.zeros(values.shape, dtype=dtype) if soft is None else torch.from_numpy(soft).to(dtype)
        if bool((known != UNKNOWN).any()):
            evidence[name] = torch.where(known == UNKNOWN, torch.nan, known.to(dtype))
    return unary, evidence


def world_from_tensors(theory: Theory, unary: Mapping[str, Tensor] | None = None,
                       evidence: Mapping[str, Tensor] | None = None) -> World:
    """A world from what the layer takes, without batch dimensions; every type has all its constants named."""
    values, soft = {}, {}
    for predicate in theory.predicates:
        name = predicate.name
        given = (evidence or {}).get(name)
        known = (torch.full(predicate.shape(theory.sizes), UNKNOWN, dtype=torch.int8) if given is None else
                 torch.where(given.isnan(), UNKNOWN, given.nan_to_num()).to(torch.int8))
        values[name] = known.clone().numpy()
        if predicate.is_categorical:
            one_value_each(predicate, values[name])
        if name in (unary or {}):
            tensor = unary[name].detach().to(torch.float64)  # type: ignore[index]
            soft[name] = ((tensor + tensor.mT) / 2 if predicate.symmetric else tensor).numpy()
    return World(theory, values, soft, {predicate.name: "" for predicate in theory.predicates})


def to_tensors(arrays: Mapping[str, np.ndarray], supports: Mapping[str, Support]) -> dict[str, Tensor]:
    """Arrays of numpy as tensors that share their memory; those of sparse predicates as sparse tensors."""
    found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for name in found.keys() & supports.keys():
        support = supports[name]
        places = slice(None) if support.places is None else torch.from_numpy(support.places)
        labels = found[name].shape[1:] if support.width == 1 else ()
        values = found[name].reshape(support.n_values, *labels)[places]
        indices = torch.from_numpy(np.stack(support.columns).astype(np.int64))
        found[name] = torch.sparse_coo_tensor(indices, values, (*support.sizes, *labels), is_coalesced=True,
                                              check_invariants=False)
    return found


def fact_tensors(theory: Theory, facts: Mapping[str, Sequence[tuple[int, ...]]]) -> dict[str, Tensor]:
    """The facts that `Theory.split_facts` found, as bool tensors: evidence."""
    found = {}
    # facts are data, not weights: a layer that is made on the meta device, to load its weights later, has them
    device = "cpu" if torch.get_default_device().type == "meta" else None
    for name, places in facts.items():
        found[name] = torch.zeros(theory.predicate[name].shape(theory.sizes), dtype=torch.bool, device=device)
        found[name][tuple(torch.tensor(places, device=device).T)] = True
    return found
