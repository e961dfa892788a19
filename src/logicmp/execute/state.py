"""The values of one call that no iteration changes, and tensors that are the same in every call.

Room: plan -> **execute** -> layer.

    Call(weights, sizes, masks, observed, like)      frozen: made once per call of the layer
    values: {"C": q, 0: ..., 1: ...}                 marginals by predicate, steps by number; per iteration
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.steps import Plan
from .recompute import Replay

# marginals by predicate, steps by number, and what label sets need by a key of their own
Values = dict[Any, Tensor]


@dataclass(frozen=True)
class Call:
    """Weights, sizes and masks of one call; every tensor has one batch dimension in front."""

    # one per rule: [] or [batch]; of a rule with one weight per constant [1 or batch, n, ...]
    weights: Sequence[Tensor]
    sizes: Mapping[str, int]
    # dtype, device and batch size of everything that is made, [batch, ...]
    like: Tensor
    # by type, [batch, n]: one where an entity exists
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    # marginals of the predicates that are observed as a whole, zeros and ones
    observed: Mapping[str, Tensor] = field(default_factory=dict)


class Executor(Protocol):
    """Runs a plan: dense tensors here; other kinds of tensors by other classes."""

    plan: Plan
    theory: Theory

    def constants(self, call: Call) -> Values:
        """The values that depend only on evidence and weights: once per call, not once per iteration."""
        ...

    def subtract_messages(self, base: Mapping[str, Tensor], q: Mapping[str, Tensor], call: Call, constants: Values,
                          replay: Replay | None = None) -> dict[str, Tensor]:
        """Eq. 2 without the normalization: base - d(sum of w V)/dq, for every predicate of `base`."""
        ...

    def counts(self, q: Mapping[str, Tensor], call: Call, weighted: bool = False) -> Tensor:
        """The expected violations of each rule, [batch, rules]; weighted, times the rule's weight."""
        ...

    def weighted_groundings(self, call: Call) -> Tensor:
        """The groundings of each rule times their weights, [batch, rules]."""
        ...


# the devices of a call with DTensors
MESH: ContextVar[Any] = ContextVar("mesh", default=None)


def is_sharded() -> bool:
    """Whether the call has DTensors; such a call is not compiled."""
    return not torch.compiler.is_compiling() and MESH.get() is not None


def is_tracing() -> bool:
    """Whether nothing may depend on values: the call is compiled, exported, transformed (`torch.func`) or sharded."""
    return (torch.compiler.is_compiling() or torch.compiler.is_exporting()
            or torch._C._are_functorch_transforms_active() or is_sharded())


class Kept:
    """A tensor that is the same in every call with the same key (device, dtype, sizes); the last one is kept."""

    def __init__(self) -> None:
        # one value, so that calls in several threads see a key and its own tensor
        self._kept: tuple[object, Tensor] | None = None

    def get(self, key: object, make: Callable[[], Tensor]) -> Tensor:
        if is_tracing():
            return make()
        kept = self._kept
        if kept is None or kept[0] != key:
            # a first call in inference mode must leave nothing that training cannot use
            with torch.inference_mode(False):
                kept = self._kept = key, make()
        return kept[1]
