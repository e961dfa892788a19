"""A predicate's tensor as one literal sees it, and the way back.

Stage: plan -> **execute**.

    C(a,a)        the diagonal            label(i+1)     a shifted slice, no copy        P(x, A)     one column

`view` takes the marginals of a predicate to the axes of a read, `unview` is its transpose: it puts a message back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.steps import At, Axis, Read
from .memory import Iteration


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


def span(axis: Axis, offset: int, state: State) -> tuple[int, int]:
    """Where an axis starts in the argument it reads, and how long it is."""
    length = axis.size(state.sizes)
    return (axis.start - axis.low + offset if length else 0), length


def is_whole(args: tuple[At, ...], axes: tuple[Axis, ...]) -> bool:
    """Whether a read takes a predicate as it is: every argument an axis of its own, in order, in full."""
    return tuple(args) == tuple(At(k, 0) for k in range(len(axes))) and all(
        axis == Axis(axis.type) for axis in axes)


def view(x: Tensor, args: tuple[At, ...], axes: tuple[Axis, ...], state: State) -> Tensor:
    """A tensor over arguments as one over axes: constants picked, ranges cut, repeated axes on the diagonal."""
    dims: list[int] = []
    for at in args:
        dim = 1 + len(dims)
        if at.axis is None:
            x = x.select(dim, at.offset)
            continue
        if axes[at.axis] != Axis(axes[at.axis].type) or at.offset:
            x = x.narrow(dim, *span(axes[at.axis], at.offset, state))
        if at.axis in dims:
            first = 1 + dims.index(at.axis)
            # the diagonal goes last: bring it back to the place of the first
            x = x.diagonal(0, first, dim).movedim(-1, first)
        else:
            dims.append(at.axis)
    if dims != sorted(dims):
        x = x.permute(0, *(1 + dims.index(k) for k in range(len(dims))))
    return x


def unview(x: Tensor, read: Read, theory: Theory, state: State) -> Tensor:
    """The transpose of `view`: a tensor over axes, and maybe labels, put back over the arguments, zero elsewhere."""
    order = list(dict.fromkeys(at.axis for at in read.args if at.axis is not None))
    if order != sorted(order):
        x = x.permute(0, *(1 + k for k in order), *range(1 + len(order), x.dim()))
    types = theory.predicate[read.predicate].types
    position = len(order)
    # from the last argument to the first, undo what `view` did
    for k in range(len(read.args) - 1, -1, -1):
        at, n = read.args[k], state.sizes[types[k]]
        if at.axis is None:
            x = _pad(x.unsqueeze(1 + position), 1 + position, at.offset, n)
            continue
        start, _ = span(read.axes[at.axis], at.offset, state)
        if any(earlier.axis == at.axis for earlier in read.args[:k]):
            first = 1 + order.index(at.axis)
            x = torch.diag_embed(x.movedim(first, -1), 0, first, 1 + position)
            x = _pad(x, 1 + position, start, n)
        else:
            position -= 1
            x = _pad(x, 1 + position, start, n)
    return x


def _pad(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Zeros around a tensor along one dimension, so that it starts at `start` and fills `length`."""
    after = length - start - x.shape[dim]
    if isinstance(after, int) and not start and not after:
        return x
    sides = [0, 0] * (x.dim() - 1 - dim) + [start, after]
    return torch.nn.functional.pad(x, sides)


def compare(left: At, right: At, axes: tuple[Axis, ...], state: State) -> Tensor:
    """True where two arguments are equal, as [1, ...] over the axes."""
    device = state.like.device
    places = []
    for at in (left, right):
        if at.axis is None:
            places.append(torch.full((1,) * len(axes), at.offset, device=device))
            continue
        start, length = span(axes[at.axis], at.offset, state)
        shape = [1] * len(axes)
        shape[at.axis] = length
        places.append(torch.arange(start, start + length, device=device).reshape(shape))
    return (places[0] == places[1]).unsqueeze(0)

