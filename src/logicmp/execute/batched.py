"""Run rules that differ only in constants as one: their literals are gathered, their messages are added back.

Room: plan -> **execute** -> layer.

    79 rules L(A_i) => L(A_j)      two gathers of 79 atoms, one product, two sums
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.batch import Batch, Gathered
from ..plan.steps import Plan
from .dense import DenseExecutor
from .recompute import Replay
from .state import Call, Kept, Values, is_tracing

# the weights of the rules of a group, [items or 1, rules]
_WEIGHTS = "weights of rules"


class BatchedExecutor(DenseExecutor):
    """A plan, ready to run; its messages come from a plan in which rules alike are one."""

    def __init__(self, plan: Plan, theory: Theory, inner: Plan, batch: Batch):
        super().__init__(plan, theory)
        self.batch = batch
        self.inner = DenseExecutor(inner, batch.form.theory)
        # types of constants
        self._types = {theory.predicate[g.source].types[k] for g in batch.gathered for k in g.axes}
        # the places in the flat constants of each gathered predicate; they depend on the sizes of a call
        self._tables = {g.name: Kept() for g in batch.gathered}

    def _is_plain(self, call: Call) -> bool:
        """Whether the rules run one by one: constants that may be missing, or a graph for other sizes."""
        return is_tracing() or not self._types.isdisjoint(call.masks)

    def constants(self, call: Call) -> Values:
        """The values that depend only on evidence and weights: once per call, not once per iteration."""
        if self._is_plain(call):
            return super().constants(call)
        weights: Values = {}
        for k, numbers in enumerate(self.batch.groups):
            if len(numbers) > 1:
                own = [call.weights[number].reshape(-1) for number in numbers]
                n_items = max(map(len, own))
                weights[_WEIGHTS, k] = torch.stack([w.expand(n_items) for w in own], -1)
        observed = {g.name: self._gather(g, call.observed[g.source], call) for g in self.batch.gathered
                    if g.source in call.observed}
        inner = replace(self._inner_call(call, weights), observed={**call.observed, **observed})
        return {**self.inner.constants(inner), **weights}

    def subtract_messages(self, base: Mapping[str, Tensor], q: Mapping[str, Tensor], call: Call, constants: Values,
                          replay: Replay | None = None) -> dict[str, Tensor]:
        """Eq. 2 without the normalization: base - d(sum of w V)/dq, for every predicate of `base`."""
        if self._is_plain(call):
            return super().subtract_messages(base, q, call, constants, replay)
        read = {g.name: self._gather(g, q[g.source], call) for g in self.batch.gathered if g.source in q}
        zeros = {name: torch.zeros_like(x) for name, x in read.items()}
        found = self.inner.subtract_messages({**base, **zeros}, {**q, **read}, self._inner_call(call, constants),
                                            constants)
        for g in self.batch.gathered:
            if g.name in found:
                found[g.source] = self._add_back(g, found[g.source], found.pop(g.name), call)
        if replay is not None:
            replay.updates = {name: [((base[name] - x).detach(), None)] for name, x in found.items()}
        return found

    def _inner_call(self, call: Call, constants: Values) -> Call:
        weights = [call.weights[numbers[0]] if len(numbers) == 1 else constants[_WEIGHTS, k]
                   for k, numbers in enumerate(self.batch.groups)]
        return replace(call, weights=weights, sizes={**call.sizes, **self.batch.types})

    def _table(self, g: Gathered, call: Call) -> Tensor:
        return self._tables[g.name].get((call.like.device, call.sizes), partial(self._places, g, call))

    def _places(self, g: Gathered, call: Call) -> Tensor:
        types = self.theory.predicate[g.source].types
        flat = [0] * len(g.tables[0])
        for axis, table in zip(g.axes, g.tables, strict=True):
            flat = [place * call.sizes[types[axis]] + k for place, k in zip(flat, table, strict=True)]
        return torch.tensor(flat, device=call.like.device)

    def _gather(self, g: Gathered, x: Tensor, call: Call) -> Tensor:
        """The atoms that a literal of each rule reads, [batch, arguments that are no constants, rules, labels]."""
        n = len(self.theory.predicate[g.source].types)
        at = n - len(g.axes)
        moved = x.movedim([1 + k for k in g.axes], list(range(1 + at, 1 + n)))
        return moved.flatten(1 + at, n).index_select(1 + at, self._table(g, call))

    def _add_back(self, g: Gathered, base: Tensor, message: Tensor, call: Call) -> Tensor:
        """The transpose of `_gather`, added to a tensor."""
        n = len(self.theory.predicate[g.source].types)
        at = n - len(g.axes)
        places = [1 + k for k in g.axes], list(range(1 + at, 1 + n))
        moved = base.movedim(*places)
        flat = moved.flatten(1 + at, n).index_add(1 + at, self._table(g, call), message)
        return flat.reshape(moved.shape).movedim(places[1], places[0])
