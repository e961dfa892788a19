"""The most probable world of the layer's tensors, by the solvers of `map`: for rules that are too wide for tables.

Room: items, values, map -> **inference/search** -> layer.  Paper: Eq. 1, its mode.

    best_worlds(theory, inputs, weights, "exact", Limits(60))      bool or labels, [batch..., ...]; how many are proven
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...execute.inputs import Inputs
from ...execute.items import Values, existing_entities, item_of, join_items
from ...execute.values import write_values
from ...execute.worlds import world_from_tensors
from ...facts.world import with_sizes
from ...ground.build import build_network
from ...limits import Limits
from ...parse.theory import Theory
from ..method import Status
from .map import best_world


def best_worlds(theory: Theory, inputs: Inputs, weights: Sequence[Tensor], semantics: str,
                limits: Limits) -> tuple[Values, int]:
    """The best world of each item that was found in time, and for how many items it is proven to be the best.

    Args:
        theory: the rules; soft ones count with their weights, hard ones are satisfied.
        inputs: checked tensors of a call.
        weights: one tensor for each rule. Those of hard rules are not used.
        semantics: as for `LogicMP`.
        limits: the time of all items together; each item has an equal share of what is left.
    """
    flat = np.concatenate([np.zeros(0), *(w.detach().double().cpu().numpy().reshape(-1) for w in weights)])
    n_items = len(inputs.like)
    kept = [existing_entities(theory, inputs, k) for k in range(n_items)]
    answers, n_proven = [], 0
    for k in range(n_items):
        item = item_of(theory, inputs, k, kept[k])
        unary = {name: x[0] for name, x in item.unary.items()}
        known = {name: x[0] for name, x in {**item.evidence, **item.observed}.items()}
        network = build_network(world_from_tensors(with_sizes(theory, item.sizes), unary, known), None, semantics)
        left = limits.left()
        best = best_world(network, flat, limits=Limits(None if left is None else left / (n_items - k)))
        n_proven += best.status is Status.OPTIMAL
        answers.append(write_values(network, item, torch.from_numpy(best.values).long()[None]))
    found = join_items(theory, answers, inputs, kept)
    return {name: x.to(inputs.like.device) for name, x in found.items()}, n_proven
