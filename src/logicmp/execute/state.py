"""A predicate's tensor as one literal sees it, and the way back.

Stage: plan -> **execute**.

    C(a,a)        the diagonal            label(i+1)     a shifted slice, no copy        P(x, A)     one column

`view` takes the marginals of a predicate to the axes of a read, `unview` is its transpose: it puts a message back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .recompute import Iteration


def is_tracing() -> bool:
    """Whether the call is being compiled, exported or transformed (`torch.func`): then nothing may depend on values."""
    return (torch.compiler.is_compiling() or torch.compiler.is_exporting()
            or torch._C._are_functorch_transforms_active())


class Kept:
    """Tensors that are the same in every call at the same sizes; of each, the last one is kept."""

    def __init__(self) -> None:
        self._tensors: dict[object, tuple[object, Tensor]] = {}

    def get(self, key: object, sizes: object, make: Callable[[], Tensor]) -> Tensor:
        if is_tracing():
            return make()
        made_for, tensor = self._tensors.get(key, (None, None))
        if tensor is None or made_for != sizes:
            # a first call in inference mode must leave nothing that training cannot use
            with torch.inference_mode(False):
                tensor = make()
            self._tensors[key] = sizes, tensor
        return tensor


@dataclass
class State:
    """What a run needs to know: marginals, weights, masks, and the values made so far."""

    # [batch, n_1, ..., n_k] or [batch, n_1, ..., n_k, labels], zero where an entity does not exist
    q: Mapping[str, Tensor]
    # one per rule: [] or [batch]; of a rule with one weight per constant [1 or batch, n, ...]
    weights: list[Tensor]
    sizes: Mapping[str, int]
    # by type, [batch, n]: one where an entity exists
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    # in training: how to make values again in the backward pass, and what the last update was made of
    iteration: Iteration | None = None
    updates: dict[str, list[tuple[Tensor, Tensor | None]]] = field(default_factory=dict)
    # of a multi-class predicate: its marginals, and what they add up to for each set of labels
    label_sums: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    # of messages to labels: the weights of the rules, and the weight of each message at each label
    label_weights: dict[int, tuple[list[Tensor], Tensor]] = field(default_factory=dict)

    @property
    def like(self) -> Tensor:
        return next(iter(self.q.values()))
