"""Add up the messages to each predicate: by weight, then by place, with as few passes over memory as possible.

Room: plan -> **execute** -> layer.  Paper: the sum over formulas of Eq. 2.

    d/dC(a,b) += w1 %3(a,b)        base - w1 * (everything that goes to C under w1), added in place where possible
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.steps import At, Axis, Contract, Message, Plan, Read, Scaled, inputs
from .labels import Column, LabelSets, spread_over_labels, weigh_labels
from .operations import (
    Apart,
    MatrixProduct,
    SymmetricSquare,
    as_matrix_product,
    factor,
    is_whole,
    multiply,
    spread,
    unview,
    view,
    within,
)
from .recompute import Replay
from .state import Call, Values, is_sharded, is_tracing

# messages that differ in labels only are one product if there are at least this many
MIN_ALIKE = 4


def subtract(base: Tensor, total: Tensor, weight: Tensor | None) -> Tensor:
    """base - weight * total, in one pass."""
    if weight is None:
        return base - total
    return torch.addcmul(base, total, weight.reshape(-1, *[1] * (base.dim() - 1)) if weight.dim() else weight, value=-1)


@dataclass(frozen=True)
class _Part:
    """One message to a place, ready to be added: a matrix product not yet computed, or a scaled value."""

    term: Scaled
    sign: float
    product: MatrixProduct | None
    # to a symmetric predicate: its transpose must be added too
    one_sided: bool
    # the product of a symmetric matrix with itself
    is_square: bool

    def add_to(self, total: Tensor | None, owned: bool, values: Values, call: Call, ndim: int) -> tuple[Tensor, bool]:
        """The sum so far plus this message, without the weight of the rule.

        Args:
            owned: whether nothing else uses the sum so far, so that it may be added to in place.

        Returns:
            The new sum, and whether nothing else uses it.
        """
        times = factor(self.term, call)
        if self.product is not None:
            left, right = self.product.factors(values, self.term.axes == (1, 0))
            if self.is_square and left.requires_grad and torch.is_grad_enabled() and not is_tracing():
                square: Tensor = SymmetricSquare.apply(right)  # type: ignore[no-untyped-call]
                square = square * (times * self.sign)
                return square if total is None else total + square, True
            # weights per constant have no batch dimension of their own, and baddbmm does not broadcast
            is_full = (total is not None and left.shape[0] == right.shape[0]
                       and total.shape == (*left.shape[:-1], right.shape[-1]))
            if is_sharded() and not torch.is_grad_enabled() and not isinstance(times, Tensor) and (
                    total is None or (is_full and owned)):
                from .sharded import add_product

                found = add_product(total, left, right, times * self.sign)
                if found is not None:
                    return found, True
            if total is not None and is_full and not isinstance(times, Tensor):
                # under autocast the sum so far may have another precision: then torch must choose one
                add = total.baddbmm_ if owned and total.dtype == left.dtype else partial(torch.baddbmm, total)
                return add(left, right, alpha=times * self.sign), True
            part, fresh = multiply(left, right), True
        elif self.term.value is not None:
            part, fresh = spread(values[self.term.value], self.term.axes, ndim), False
        else:
            part, fresh = call.like.new_ones((1,) * (ndim + 1)), True
        if isinstance(times, Tensor):
            part, times, fresh = part * times.reshape(-1, *[1] * ndim), 1.0, True
        times = times * self.sign
        if total is None:
            return (part, fresh) if times == 1 else (part * times, True)
        return torch.add(total, part, alpha=times), True


def _sum(parts: Sequence[_Part], ndim: int, values: Values, call: Call, total: Tensor | None = None,
         owned: bool = False) -> tuple[Tensor, bool]:
    for part in parts:
        total, owned = part.add_to(total, owned, values, call, ndim)
    assert total is not None
    return total, owned


class _Place:
    """Where messages go: a read of the predicate, and the messages to it."""

    def __init__(self, read: Read, parts: list[_Part]):
        # small ones first: a matrix product can then be added to them in one call
        self.parts = sorted(parts, key=lambda part: (part.product is not None, len(part.term.axes)))
        self.read = read
        self.apart = Apart(read) if read.apart else None
        self.is_whole = is_whole(read.args, read.axes)
        self.is_diagonal = read.args == (At(0, 0), At(0, 0)) and read.axes[0] == Axis(read.axes[0].type)

    @property
    def is_off_diagonal(self) -> bool:
        return self.apart is not None and self.is_whole

    def full(self, part: Tensor, call: Call) -> Tensor:
        """A message with all its axes in full, zero where the read excludes a place."""
        shape = (call.like.shape[0], *(axis.size(call.sizes) for axis in self.read.axes))
        if part.shape != shape:
            part = part.expand(shape)
        part = within(part, self.read.axes, call) if call.masks else part
        return part if self.apart is None else self.apart(part, call)


class _Alike:
    """Messages from one place to another that differ only in labels and weights: one product with a matrix of labels.

    label(i) in {A} => label(i+1) in {A, B}, for 80 labels: 80 rules, one matrix [80, 80] of their weights
    """

    def __init__(self, place: Read, source: Read, messages: list[tuple[Message, Read]], sets: Mapping[str, LabelSets]):
        self.place = place
        self.source = source
        self.columns = []
        self.from_labels: list[int] = []
        self.factors = []
        for message, read in messages:
            assert read.labels is not None
            self.columns.append(Column(read.labels, message.term.weight))
            self.factors.append(message.term.coefficient)
        self.own, self.other = sets[place.predicate], sets[source.predicate]

    def matrix(self, call: Call) -> Tensor:
        """[labels of the source, labels of the place], or one for each item."""
        read = self.other.matrix(call.like)[self.from_labels] * call.like.new_tensor(self.factors).unsqueeze(-1)
        return read.mT @ weigh_labels(self.columns, self.own, call)

    def total(self, values: Values, matrix: Tensor, theory: Theory, call: Call) -> Tensor:
        x = view(values[self.source.predicate], self.source.args, self.source.axes, call)
        mixed = x @ matrix if matrix.dim() == 2 else (x.unsqueeze(1).flatten(1, -2) @ matrix).reshape(
            *x.shape[:-1], matrix.shape[-1])
        return unview(within(mixed, self.place.axes, call) if call.masks else mixed, self.place, theory, call)


def _find_alike(plan: Plan, name: str, sets: Mapping[str, LabelSets]) -> list[tuple[_Alike, list[int]]]:
    """Groups of messages to a predicate with labels that one product replaces, with their numbers in the plan."""
    groups: dict[tuple[Read, Read], list[int]] = {}
    for k, message in enumerate(plan.messages):
        read, term = plan.steps[message.read], message.term
        assert isinstance(read, Read)
        source = None if term.value is None or term.value in plan.constant else plan.steps[term.value]
        if read.predicate != name or read.labels is None or not isinstance(source, Read) or source.labels is None:
            continue
        is_plain = not (read.apart or source.apart or read.negated or source.negated or term.counts)
        if is_plain and term.axes == tuple(range(len(read.axes))) and source.axes == read.axes:
            key = Read(name, read.args, read.axes), Read(source.predicate, source.args, source.axes)
            groups.setdefault(key, []).append(k)
    found = []
    for (place, source), numbers in groups.items():
        if len(numbers) < MIN_ALIKE:
            continue
        reads = [(plan.messages[k], plan.steps[plan.messages[k].read]) for k in numbers]
        alike = _Alike(place, source, [(m, read) for m, read in reads if isinstance(read, Read)], sets)
        for message, _ in reads:
            assert message.term.value is not None
            step = plan.steps[message.term.value]
            assert isinstance(step, Read) and step.labels is not None
            alike.from_labels.append(alike.other.places[step.labels])
        found.append((alike, numbers))
    return found


class Receiver:
    """Collects the messages to one predicate: those to one place under one weight are added up first."""

    def __init__(self, plan: Plan, theory: Theory, name: str, label_sets: Mapping[str, LabelSets]):
        self.theory = theory
        self.predicate = theory.predicate[name]
        self.sets = label_sets.get(name)
        uses = Counter(operand for v in plan.for_messages for operand in inputs(plan.steps[v]))
        uses.update(m.term.value for m in plan.messages if m.term.value is not None)
        # values that are computed here and nowhere else
        self.fused: set[int] = set()
        # by weight, then by place; to labels, by place, then by labels and weight
        found_alike = _find_alike(plan, name, label_sets)
        self.alike = [alike for alike, _ in found_alike]
        replaced = {k for _, numbers in found_alike for k in numbers}
        used_alike = Counter(plan.messages[k].term.value for k in replaced)
        self.fused |= {v for v, n in used_alike.items() if v is not None and uses[v] == n}
        groups: dict[int | None, dict[Read, list[_Part]]] = {}
        to_labels: dict[Read, dict[Column, list[_Part]]] = {}
        for number, message in enumerate(plan.messages):
            read, term = plan.steps[message.read], message.term
            assert isinstance(read, Read)
            if read.predicate != name or number in replaced:
                continue
            product = None
            if term.value is not None and uses[term.value] == 1 and term.value not in plan.constant:
                step = plan.steps[term.value]
                fits = isinstance(step, Contract) and len(term.axes) == len(read.axes) == 2
                product = as_matrix_product(step) if fits and isinstance(step, Contract) else None
                self.fused |= {term.value} if product is not None else set()
            # the two orders of a symmetric predicate are one variable: it gets a symmetric message twice
            twice = self.predicate.symmetric and message.symmetric
            is_off_diagonal = bool(read.apart) and is_whole(read.args, read.axes)
            sign = (-1.0 if read.negated else 1.0) * (2.0 if twice and is_off_diagonal else 1.0)
            place = Read(name, read.args, read.axes, apart=read.apart)
            if read.labels is None:
                parts = groups.setdefault(term.weight, {}).setdefault(place, [])
            else:
                parts = to_labels.setdefault(place, {}).setdefault(Column(read.labels, term.weight), [])
            is_square = product is not None and product.left == product.right and _is_symmetric(
                plan.steps[product.left], theory)
            parts.append(_Part(term, sign, product, not twice, is_square and not term.counts))
        # messages that must leave the diagonal alone come first, so that the rest can be added on top of them
        self.groups = [(weight, [_Place(read, parts) for read, parts in
                                 sorted(places.items(), key=lambda item: not item[0].apart)])
                       for weight, places in groups.items()]
        self.to_labels = [(_Place(read, []), tuple(found), list(found.values())) for read, found in to_labels.items()]

    def mixes(self, call: Call) -> Values:
        """The weight of each message at each label: the same in all iterations."""
        found: Values = {("mix", self.predicate.name, k): weigh_labels(columns, self.sets, call)
                         for k, (_, columns, _) in enumerate(self.to_labels) if self.sets is not None}
        return found | {("alike", self.predicate.name, k): alike.matrix(call) for k, alike in enumerate(self.alike)}

    def subtract(self, base: Tensor, values: Values, call: Call, replay: Replay | None) -> Tensor:
        """base - weight * messages, weight after weight."""
        made: list[tuple[Tensor, Tensor | None]] | None = None
        if replay is not None:
            made = replay.updates[self.predicate.name] = []
        for weight, places in self.groups:
            total = self._total(places, values, call)
            times = None if weight is None else call.weights[weight]
            if made is not None:
                made.append((total.detach(), None if times is None else times.detach()))
            base = subtract(base, total, times)
        for k, (place, _, messages) in enumerate(self.to_labels):
            sums = [place.full(_sum(parts, len(place.read.axes), values, call)[0], call) for parts in messages]
            mix = values["mix", self.predicate.name, k]
            total = unview(spread_over_labels(sums, mix), place.read, self.theory, call)
            if made is not None:
                made.append((total.detach(), None))
            base = base - total
        for k, alike in enumerate(self.alike):
            total = alike.total(values, values["alike", self.predicate.name, k], self.theory, call)
            if made is not None:
                made.append((total.detach(), None))
            base = base - total
        return base

    def _total(self, places: list[_Place], values: Values, call: Call) -> Tensor:
        total: Tensor | None = None
        owned = False
        for k, place in enumerate(places):
            parts, ndim = place.parts, len(place.read.axes)
            if place.is_whole and not self.predicate.symmetric and not (place.apart is not None and k):
                total, owned = _sum(parts, ndim, values, call, total, owned)
                if place.apart is not None:
                    total, owned = place.apart(total, call, in_place=owned), True
            elif place.is_diagonal and owned and self._can_add_in_place(total, values):
                assert total is not None
                total.diagonal(0, 1, 2).add_(_sum(parts, 1, values, call)[0])
            else:
                part = self._symmetric(place, values, call) if self.predicate.symmetric else self._put_back(
                    _sum(parts, ndim, values, call)[0], place, call)
                fresh = self.predicate.symmetric and place.is_off_diagonal
                total, owned = (part, fresh) if total is None else (total + part, True)
        assert total is not None
        return total

    def _can_add_in_place(self, total: Tensor | None, values: Values) -> bool:
        """Whether a total has all its entries; one that does not depend on an argument has size one there."""
        return total is not None and not torch.is_grad_enabled() and total.shape == values[self.predicate.name].shape

    def _symmetric(self, place: _Place, values: Values, call: Call) -> Tensor:
        """Sum the messages to C(a,b) and C(b,a), which are one variable."""
        read, parts = place.read, place.parts
        if not place.is_off_diagonal:
            part = self._put_back(_sum(parts, len(read.axes), values, call)[0], place, call)
            if len(read.args) == 2 and read.args[0] == read.args[1]:
                # on the diagonal the two orders are one
                return part
            return part + part.mT - torch.diag_embed(part.diagonal(0, 1, 2))
        assert place.apart is not None
        total: Tensor | None = None
        if one_sided := [part for part in parts if part.one_sided]:
            half, _ = _sum(one_sided, 2, values, call)
            total = half + half.mT
        owned = True
        if both := [part for part in parts if not part.one_sided]:
            total, owned = _sum(both, 2, values, call, total, owned=total is not None)
        assert total is not None
        return place.apart(total, call, in_place=owned)

    def _put_back(self, part: Tensor, place: _Place, call: Call) -> Tensor:
        return unview(place.full(part, call), place.read, self.theory, call)


def _is_symmetric(step: object, theory: Theory) -> bool:
    return (isinstance(step, Read) and is_whole(step.args, step.axes)
            and theory.predicate[step.predicate].symmetric)
