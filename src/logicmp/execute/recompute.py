"""Save memory in training: recompute marginals and their complements in the backward pass instead of storing them.

Room: plan -> **execute** -> layer.

Autograd stores the operands of a matrix product. Here they are 1 - q, or q without its diagonal, and q is the sigmoid
of logits whose parts are stored anyway. Recomputing them costs one elementwise pass, a small fraction of the products,
and halves the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

Make = Callable[[], Tensor]
# by predicate, totals of messages and the weights they were multiplied by
Updates = dict[str, list[tuple[Tensor, Tensor | None]]]


class Box:
    """A saved tensor, or the function that recomputes it."""

    def __init__(self, tensor: Tensor):
        self.tensor: Tensor | None = tensor
        self.make: Make | None = None
        self.layout = (tensor.size(), tensor.stride(), tensor.storage_offset())

    def replace(self, make: Make) -> None:
        self.tensor, self.make = None, make

    def get(self) -> Tensor:
        if self.tensor is not None:
            return self.tensor
        assert self.make is not None
        with torch.no_grad():
            return self.make().as_strided(*self.layout)


class Replay:
    """How to compute the values of one iteration again, from the logits it started with."""

    def __init__(self, recompute: Recompute, make_marginals: Callable[[str], Tensor], n_predicates: int):
        self._recompute = recompute
        self._make_marginals = make_marginals
        # two values per predicate are kept until the next iteration: one product needs no more
        self._n_kept = 2 * n_predicates
        self._made: dict[object, Tensor] = {}
        # by predicate, the totals and weights that this iteration subtracted: the next one starts from them
        self.updates: Updates = {}

    def take_updates(self) -> Updates:
        """Hand the updates to the next iteration, so that they live no longer than its part of the backward pass."""
        found, self.updates = self.updates, {}
        return found

    def marginals(self, name: str) -> Tensor:
        """The marginals of a predicate, recomputed if they are not at hand."""
        return self._made[name] if name in self._made else self._make_marginals(name)

    def note(self, key: object, value: Tensor, make: Make) -> None:
        """Register a value that can be recomputed from the marginals."""
        self._recompute.note(value, partial(self._get, key, make))

    def _get(self, key: object, make: Make) -> Tensor:
        self._recompute.enter(self)
        if key not in self._made:
            self._made[key] = make()
            if len(self._made) > self._n_kept:
                del self._made[next(iter(self._made))]
        return self._made[key]

    def clear(self) -> None:
        self._made.clear()


class Recompute:
    """Hooks for autograd: registered tensors are recomputed, all others are stored.

    A tensor may be registered before or after autograd saved it.
    """

    def __init__(self, sources: Sequence[Tensor]) -> None:
        # recomputing starts from these: raise, as autograd does, if one was changed in place in the meantime
        self._sources = [(tensor, tensor._version) for tensor in sources]
        # by storage; a tensor here is alive, so its memory cannot belong to another one
        self._known: dict[int, tuple[Tensor, Make]] = {}
        self._saved: dict[int, list[Box]] = {}
        self._current: Replay | None = None

    def hooks(self) -> Any:
        return torch.autograd.graph.saved_tensors_hooks(self._pack, Box.get)

    def begin(self, q: Mapping[str, Tensor], make_marginals: Callable[[str], Tensor]) -> Replay:
        """Start the next iteration from these marginals; values of the last one can no longer be registered."""
        self._known.clear()
        replay = Replay(self, make_marginals, len(q))
        for name, tensor in q.items():
            replay.note(name, tensor, partial(make_marginals, name))
        self._saved.clear()
        return replay

    def enter(self, replay: Replay) -> None:
        """Go backward from one iteration to the one before it, and drop what was recomputed for the later one."""
        if any(tensor._version != version for tensor, version in self._sources):
            raise RuntimeError("something the gradient of LogicMP needs (logits, rule weights, evidence or a mask) was "
                               "changed in place after the forward pass; run backward first, or change a copy")
        if self._current is not replay:
            if self._current is not None:
                self._current.clear()
            self._current = replay

    def note(self, tensor: Tensor, make: Make) -> None:
        """Register a tensor that can be recomputed in the same layout."""
        # tensors without entries have no memory that tells them apart
        if tensor.numel() and tensor.is_contiguous() and tensor.storage_offset() == 0:
            place = tensor.untyped_storage().data_ptr()
            self._known[place] = (tensor, make)
            for box in self._saved.pop(place, ()):
                box.replace(make)

    def finish(self) -> None:
        self._known.clear()
        self._saved.clear()

    def _pack(self, tensor: Tensor) -> Box:
        box = Box(tensor)
        place = tensor.untyped_storage().data_ptr()
        known = self._known.get(place)
        if known is not None and known[0].dtype == tensor.dtype:
            box.replace(known[1])
        else:
            self._saved.setdefault(place, []).append(box)
        return box
