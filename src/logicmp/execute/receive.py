"""Run a plan on torch tensors: marginals in, messages and violation counts out.

Stage: plan -> **execute** -> layer.  Paper: Eq. 4-5.

    %2 = %0, %1   einsum 'ab,cb->ac'        torch.bmm(x0, x1.mT), prepared once, run in every iteration

Every step becomes one small function when the executor is made; running is a loop over them. All tensors have one
leading batch dimension. Nothing here decides what is computed: that is the plan's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..plan.steps import At, Axis, Contract, Read, Scaled, inputs
from .labels import Column, spread_over_labels
from .operations import MatrixProduct, SymmetricSquare, as_matrix_product, is_whole, spread, unview
from .state import State, is_tracing

if TYPE_CHECKING:
    from .dense import DenseExecutor


class _Part:
    """One message to a place, ready to be added: a product of matrices not yet made, or a scaled value."""

    def __init__(self, term: Scaled, sign: float, product: MatrixProduct | None, one_sided: bool, is_square: bool):
        self.term = term
        self.sign = sign
        self.product = product
        # to a symmetric predicate: its transpose is to be added too
        self.one_sided = one_sided
        # the product of a symmetric matrix with itself
        self.is_square = is_square

    def add_to(self, total: Tensor | None, owned: bool, executor: DenseExecutor, state: State,
               ndim: int) -> tuple[Tensor, bool]:
        """The sum so far and this message; the weight of the rule comes later.

        Args:
            owned: whether the sum so far is nobody else's, so that it may be added to in place.

        Returns:
            The new sum, and whether it is nobody else's.
        """
        factor = executor.factor(self.term, state)
        if self.product is not None:
            left, right = self.product.factors(state.values, self.term.axes == (1, 0))
            if self.is_square and left.requires_grad and torch.is_grad_enabled() and not is_tracing():
                square: Tensor = SymmetricSquare.apply(right)  # type: ignore[no-untyped-call]
                square = square * (factor * self.sign)
                return square if total is None else total + square, True
            # weights per constant have no batch of their own, and baddbmm does not broadcast
            is_full = (total is not None and left.shape[0] == right.shape[0]
                       and total.shape == (*left.shape[:-1], right.shape[-1]))
            if total is not None and is_full and not isinstance(factor, Tensor):
                # under autocast the sum so far may have another precision: then torch must choose one
                add = total.baddbmm_ if owned and total.dtype == left.dtype else partial(torch.baddbmm, total)
                return add(left, right, alpha=factor * self.sign), True
            part, fresh = torch.matmul(left, right), True
        elif self.term.value is not None:
            part, fresh = spread(state.values[self.term.value], self.term.axes, ndim), False
        else:
            part, fresh = state.like.new_ones((1,) * (ndim + 1)), True
        if isinstance(factor, Tensor):
            part, factor, fresh = part * factor.reshape(-1, *[1] * ndim), 1.0, True
        factor = factor * self.sign
        if total is None:
            return (part, fresh) if factor == 1 else (part * factor, True)
        return torch.add(total, part, alpha=factor), True


def subtract(base: Tensor, total: Tensor, weight: Tensor | None) -> Tensor:
    """base - weight * total, in one pass."""
    if weight is None:
        return base - total
    return torch.addcmul(base, total, weight.reshape(-1, *[1] * (base.dim() - 1)) if weight.dim() else weight, value=-1)


@dataclass(frozen=True)
class _Place:
    """Where messages go: a read, what comes there, and whether it can be added without moving anything."""

    read: Read
    parts: list[_Part]
    is_direct: bool
    is_diagonal: bool


class _Receiver:
    """Collect the messages to one predicate: what goes to one place under one weight is added up first."""

    def __init__(self, executor: DenseExecutor, predicate: str):
        self.executor = executor
        self.predicate = executor.theory.predicate[predicate]
        plan = executor.plan
        uses = Counter(operand for v in plan.for_messages for operand in inputs(plan.steps[v]))
        uses.update(m.term.value for m in plan.messages if m.term.value is not None)
        # values that are made here and nowhere else
        self.fused: set[int] = set()
        # by weight, then by place; to labels, by place, then by labels and weight
        groups: dict[int | None, dict[Read, list[_Part]]] = {}
        to_labels: dict[Read, dict[Column, list[_Part]]] = {}
        for message in plan.messages:
            read, term = plan.steps[message.read], message.term
            assert isinstance(read, Read)
            if read.predicate != predicate:
                continue
            product = None
            if term.value is not None and uses[term.value] == 1 and term.value not in plan.constant:
                step = plan.steps[term.value]
                fits = isinstance(step, Contract) and len(term.axes) == len(read.axes) == 2
                product = as_matrix_product(step) if fits and isinstance(step, Contract) else None
                self.fused |= {term.value} if product is not None else set()
            # the two orders of a symmetric predicate are one variable: a symmetric message comes to it twice
            twice = self.predicate.symmetric and message.symmetric
            sign = (-1.0 if read.negated else 1.0) * (2.0 if twice and self._is_off_diagonal(read) else 1.0)
            place = Read(predicate, read.args, read.axes, apart=read.apart)
            if read.labels is None:
                parts = groups.setdefault(term.weight, {}).setdefault(place, [])
            else:
                column = Column(read.labels, term.weight)
                parts = to_labels.setdefault(place, {}).setdefault(column, [])
            is_square = product is not None and product.left == product.right and self._is_symmetric(product.left)
            parts.append(_Part(term, sign, product, not twice, is_square and not term.counts))
        self.groups = [(weight, self._in_order(places)) for weight, places in groups.items()]
        self.to_labels = [(read, tuple(found), list(found.values())) for read, found in to_labels.items()]

    def _in_order(self, places: dict[Read, list[_Part]]) -> list[_Place]:
        """What must leave the diagonal alone comes first, so that the rest can be added on top of it."""
        ordered: list[_Place] = []
        for read, parts in sorted(places.items(), key=lambda item: not item[0].apart):
            # small ones first: a product of matrices can then be added to them in one call
            parts.sort(key=lambda part: (part.product is not None, len(part.term.axes)))
            plain = is_whole(read.args, read.axes) and not self.predicate.symmetric
            diagonal = read.args == (At(0, 0), At(0, 0)) and read.axes[0] == Axis(read.axes[0].type)
            ordered.append(_Place(read, parts, plain and not (read.apart and ordered), diagonal))
        return ordered

    def _is_symmetric(self, value: int) -> bool:
        read = self.executor.plan.steps[value]
        return (isinstance(read, Read) and is_whole(read.args, read.axes)
                and self.executor.theory.predicate[read.predicate].symmetric)

    @staticmethod
    def _is_off_diagonal(read: Read) -> bool:
        return bool(read.apart) and is_whole(read.args, read.axes)

    def subtract(self, base: Tensor, state: State) -> Tensor:
        """base - weight * messages, weight after weight."""
        made: list[tuple[Tensor, Tensor | None]] = []
        state.updates[self.predicate.name] = made
        for weight, places in self.groups:
            total = self._total(places, state)
            if state.iteration is not None:
                made.append((total.detach(), None if weight is None else state.weights[weight].detach()))
            base = subtract(base, total, None if weight is None else state.weights[weight])
        for read, columns, parts in self.to_labels:
            total = self._total_of_labels(read, columns, parts, state)
            if state.iteration is not None:
                made.append((total.detach(), None))
            base = base - total
        return base

    def _total_of_labels(self, read: Read, columns: Sequence[Column], messages: list[list[_Part]],
                         state: State) -> Tensor:
        """The messages to all label sets that are read in one way, weighted."""
        sums = [self._full(self._sum(parts, len(read.axes), state)[0], read, state) for parts in messages]
        sets = self.executor.label_sets[self.predicate.name]
        return unview(spread_over_labels(sums, columns, sets, state), read, self.executor.theory, state)

    def _total(self, places: list[_Place], state: State) -> Tensor:
        total: Tensor | None = None
        owned = False
        for place in places:
            read, parts = place.read, place.parts
            if place.is_direct:
                total, owned = self._sum(parts, len(read.axes), state, total, owned)
                if read.apart:
                    total, owned = self.executor.apart(total, read, state, in_place=owned), True
            elif place.is_diagonal and owned and self._can_add_in_place(total, state):
                assert total is not None
                total.diagonal(0, 1, 2).add_(self._sum(parts, 1, state)[0])
            else:
                part = self._symmetric(read, parts, state) if self.predicate.symmetric else self._put_back(
                    self._sum(parts, len(read.axes), state)[0], read, state)
                fresh = self.predicate.symmetric and self._is_off_diagonal(read)
                total, owned = (part, fresh) if total is None else (total + part, True)
        assert total is not None
        return total

    def _can_add_in_place(self, total: Tensor | None, state: State) -> bool:
        """Whether a total has all its entries; where it does not depend on an argument, it has one for all values."""
        return total is not None and not torch.is_grad_enabled() and total.shape == state.q[self.predicate.name].shape

    def _symmetric(self, read: Read, parts: list[_Part], state: State) -> Tensor:
        """To one variable for both orders: what comes to either comes to it."""
        if not self._is_off_diagonal(read):
            part = self._put_back(self._sum(parts, len(read.axes), state)[0], read, state)
            if len(read.args) == 2 and read.args[0] == read.args[1]:
                # on the diagonal the two orders are one
                return part
            return part + part.mT - torch.diag_embed(part.diagonal(0, 1, 2))
        total: Tensor | None = None
        if one_sided := [part for part in parts if part.one_sided]:
            half, _ = self._sum(one_sided, 2, state)
            total = half + half.mT
        if both := [part for part in parts if not part.one_sided]:
            total, owned = self._sum(both, 2, state, total, owned=total is not None)
        else:
            owned = True
        assert total is not None
        return self.executor.apart(total, read, state, in_place=owned)

    def _put_back(self, part: Tensor, read: Read, state: State) -> Tensor:
        return unview(self._full(part, read, state), read, self.executor.theory, state)

    def _full(self, part: Tensor, read: Read, state: State) -> Tensor:
        """A message with all its axes in full, zero where the read excludes a place."""
        shape = (state.like.shape[0], *(axis.size(state.sizes) for axis in read.axes))
        if part.shape != shape:
            part = part.expand(shape)
        return self.executor.apart(part, read, state) if read.apart else part

    def _sum(self, parts: list[_Part], ndim: int, state: State, total: Tensor | None = None,
             owned: bool = False) -> tuple[Tensor, bool]:
        for part in parts:
            total, owned = part.add_to(total, owned, self.executor, state, ndim)
        assert total is not None
        return total, owned
