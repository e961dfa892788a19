"""Run a plan on torch tensors: marginals in, messages and violation counts out.

Stage: plan -> **execute** -> layer.  Paper: Eq. 4-5.

    %2 = %0, %1   einsum 'ab,cb->ac'        torch.bmm(x0, x1.mT), prepared once, run in every iteration

Every step becomes one small function when the executor is made; running is a loop over them. All tensors have one
leading batch dimension. Nothing here decides anything: what to compute, and in which order, is the plan's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.steps import At, Axis, Combine, Compare, Contract, Multiply, Others, Plan, Read, Scaled, Weigh, inputs


@dataclass
class State:
    """What a run needs to know: marginals, weights, masks, and the values made so far."""

    # [batch, n_1, ..., n_k] or [batch, n_1, ..., n_k, labels], zero where an entity does not exist
    q: Mapping[str, Tensor]
    # one per rule: [] or [batch]; of a rule with one weight per constant [1 or batch, n, ...]
    weights: Sequence[Tensor]
    sizes: Mapping[str, int]
    # by type, [batch, n]: one where an entity exists
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)

    @property
    def like(self) -> Tensor:
        return next(iter(self.q.values()))


Op = Callable[[State], Tensor]


def _span(axis: Axis, offset: int, state: State) -> tuple[int, int]:
    """Where an axis starts in the argument it reads, and how long it is."""
    length = axis.size(state.sizes)
    return (axis.start - axis.low + offset if length else 0), length


class DenseExecutor:
    """A plan, ready to run on dense tensors."""

    def __init__(self, plan: Plan, theory: Theory):
        self.plan = plan
        self.theory = theory
        self._ops: dict[int, Op] = {v: self._op(plan.steps[v]) for v in {*plan.for_messages, *plan.for_counts}}
        self._once = [v for v in plan.for_messages if v in plan.constant]
        self._each = [v for v in plan.for_messages if v not in plan.constant]
        self._counts = list(plan.for_counts)
        self._last_use = self._find_last_use()
        self._receivers = {p.name: _Receiver(self, p.name) for p in theory.predicates}

    def _find_last_use(self) -> dict[int, list[int]]:
        """After which step each value of an iteration is no longer needed."""
        last: dict[int, int] = {}
        for v in self._each:
            for operand in inputs(self.plan.steps[v]):
                last[operand] = v
        kept = {m.term.value for m in self.plan.messages} | set(self._once)
        free: dict[int, list[int]] = {}
        for operand, v in last.items():
            if operand not in kept:
                free.setdefault(v, []).append(operand)
        return free

    # running

    def constants(self, state: State) -> dict[int, Tensor]:
        """The values in which no latent predicate has a part: once per call, not once per iteration."""
        state.values = {}
        for v in self._once:
            state.values[v] = self._ops[v](state)
        return state.values

    def messages(self, state: State, constants: Mapping[int, Tensor], only: Sequence[str]) -> dict[str, Tensor]:
        """The weighted derivatives of all violation counts: d(sum of w V)/dq, by predicate."""
        state.values = dict(constants)
        for v in self._each:
            state.values[v] = self._ops[v](state)
            for operand in self._last_use.get(v, ()):
                del state.values[operand]
        return {name: self._receivers[name].collect(state) for name in only}

    def counts(self, state: State, weighted: bool = False) -> Tensor:
        """The expected violations of each rule, [batch, rules]; weighted, times the rule's weight."""
        state.values = {}
        for v in self._counts:
            state.values[v] = self._ops[v](state)
        columns = []
        for f, rule in enumerate(self.plan.rules):
            terms = rule.energies if weighted and rule.energies is not None else rule.counts
            total = state.like.new_zeros(state.like.shape[0])
            for term in terms:
                total = total + self.scaled(term, state, 0)
            if weighted and rule.energies is None:
                total = total * state.weights[f]
            columns.append(total)
        return torch.stack(columns, -1) if columns else state.like.new_zeros(state.like.shape[0], 0)

    def weighted_groundings(self, f: int, state: State) -> Tensor:
        """The number of groundings of a rule, each times its weight: what the rule adds where nothing violates it."""
        rule, weight = self.plan.rules[f], state.weights[f]
        total = state.like.new_zeros(state.like.shape[0])
        for ranges in rule.groundings:
            plain, weighted = (ranges[: len(ranges) - rule.n_weight_axes], ranges[len(ranges) - rule.n_weight_axes :])
            chosen = weight
            for k, axis in enumerate(weighted):
                start, length = _span(axis, 0, state)
                chosen = chosen.narrow(1 + k, start, length)
                present = self.present(axis, state)
                if present is not None:
                    chosen = chosen * spread(present, (k,), len(weighted))
            part = chosen.flatten(1).sum(-1) if weighted else chosen
            for axis in plain:
                part = part * self.count(axis, state)
            total = total + part
        return total

    # pieces shared by the steps

    def scaled(self, term: Scaled, state: State, ndim: int) -> Tensor:
        """A scaled value laid out over `ndim` axes, of size one where it lacks an axis."""
        value = None if term.value is None else spread(state.values[term.value], term.axes, ndim)
        factor: Tensor | float = term.coefficient
        for axis in term.counts:
            factor = factor * self.count(axis, state)
        if term.weight is not None:
            factor = state.weights[term.weight] * factor
        if isinstance(factor, Tensor):
            factor = factor.reshape(-1, *[1] * ndim)
        if value is None:
            return factor if isinstance(factor, Tensor) else state.like.new_full((1,) * (ndim + 1), factor)
        return value if isinstance(factor, float) and factor == 1 else value * factor

    def count(self, axis: Axis, state: State) -> Tensor | float:
        """How many entities an axis ranges over: a number, or one per item of a masked batch."""
        present = self.present(axis, state)
        return axis.size(state.sizes) if present is None else present.sum(-1)

    @staticmethod
    def present(axis: Axis, state: State) -> Tensor | None:
        """Which entities of an axis exist, with all their shifts: [batch, n]; None without a mask."""
        mask = state.masks.get(axis.type)
        if mask is None:
            return None
        found = None
        for offset in sorted({axis.low, 0, axis.high}):
            start, length = _span(axis, offset, state)
            piece = mask.narrow(1, start, length)
            found = piece if found is None else found * piece
        return found

    def view(self, x: Tensor, args: tuple[At, ...], axes: tuple[Axis, ...], state: State) -> Tensor:
        """A tensor over arguments as one over axes: constants picked, ranges cut, repeated axes on the diagonal."""
        dims: list[int] = []
        for at in args:
            dim = 1 + len(dims)
            if at.axis is None:
                x = x.select(dim, at.offset)
                continue
            start, length = _span(axes[at.axis], at.offset, state)
            if start or length != x.shape[dim]:
                x = x.narrow(dim, start, length)
            if at.axis in dims:
                first = 1 + dims.index(at.axis)
                # the diagonal goes last: bring it back to the place of the first
                x = x.diagonal(0, first, dim).movedim(-1, first)
            else:
                dims.append(at.axis)
        if dims != sorted(dims):
            x = x.permute(0, *(1 + dims.index(k) for k in range(len(dims))))
        return x

    def unview(self, x: Tensor, read: Read, state: State) -> Tensor:
        """The transpose of `view`: a tensor over axes put back over the arguments, zero elsewhere."""
        order = list(dict.fromkeys(at.axis for at in read.args if at.axis is not None))
        x = x.permute(0, *(1 + k for k in order)) if order != sorted(order) else x
        # from the last argument to the first, undo what `view` did
        seen: list[int] = []
        plan: list[tuple[At, bool]] = []
        for at in read.args:
            plan.append((at, at.axis in seen))
            if at.axis is not None:
                seen.append(at.axis)
        types = self.theory.predicate[read.predicate].types
        position = len(order)
        for k in range(len(plan) - 1, -1, -1):
            at, repeated = plan[k]
            n = state.sizes[types[k]]
            if at.axis is None:
                x = _pad(x.unsqueeze(1 + position), 1 + position, at.offset, n)
                continue
            start, _ = _span(read.axes[at.axis], at.offset, state)
            if repeated:
                first = 1 + order.index(at.axis)
                x = torch.diag_embed(x.movedim(first, -1), 0, first, 1 + position)
                x = _pad(x, 1 + position, start, n)
            else:
                position -= 1
                x = _pad(x, 1 + position, start, n)
        return x

    def compare(self, left: At, right: At, axes: tuple[Axis, ...], equal: bool, state: State) -> Tensor:
        """One where two arguments are equal (or differ), as [1, ...] over the axes."""
        places = []
        for at in (left, right):
            if at.axis is None:
                places.append(torch.full((1,) * len(axes), at.offset, device=state.like.device))
                continue
            start, length = _span(axes[at.axis], at.offset, state)
            shape = [1] * len(axes)
            shape[at.axis] = length
            places.append(torch.arange(start, start + length, device=state.like.device).reshape(shape))
        same = places[0] == places[1]
        return (same if equal else ~same).to(state.like.dtype).unsqueeze(0)

    def apart(self, x: Tensor, read: Read, state: State) -> Tensor:
        """Zero on the diagonals that a read excludes."""
        for i, j in read.apart:
            x = x * self.compare(At(i, 0), At(j, 0), read.axes, False, state)
        return x

    # one function per step

    def _op(self, step: object) -> Op:
        if isinstance(step, Read):
            return lambda state: self._read(step, state)
        if isinstance(step, Weigh):
            return lambda state: self.view(state.weights[step.rule], step.args, step.axes, state)
        if isinstance(step, Compare):
            return lambda state: self.compare(step.left, step.right, step.axes, step.equal, state)
        if isinstance(step, Contract):
            return compile_contract(step)
        if isinstance(step, Combine):
            return lambda state: self._combine(step, state)
        if isinstance(step, Multiply):
            return lambda state: self._fill(step.value, step.over, state, 1.0).prod(1 + step.over)
        assert isinstance(step, Others)
        return lambda state: self._others(step, state)

    def _read(self, read: Read, state: State) -> Tensor:
        x = state.q[read.predicate]
        if read.labels is not None:
            x = x @ _chosen(read.labels, x)
        x = self.view(x, read.args, read.axes, state)
        if read.negated:
            x = self._one(read, state) - x
        return self.apart(x, read, state) if read.apart else x

    def _one(self, read: Read, state: State) -> Tensor | float:
        """What the marginals of an atom and of its negation add up to: one, where all its entities exist."""
        one: Tensor | float = 1.0
        for at, type_name in zip(read.args, self.theory.predicate[read.predicate].types, strict=True):
            if type_name in state.masks:
                mask = state.masks[type_name]
                if at.axis is None:
                    one = one * mask.select(1, at.offset).reshape(-1, *[1] * len(read.axes))
                else:
                    start, length = _span(read.axes[at.axis], at.offset, state)
                    one = one * spread(mask.narrow(1, start, length), (at.axis,), len(read.axes))
        return one

    def _combine(self, step: Combine, state: State) -> Tensor:
        ndim = len(step.axes)
        total: Tensor | None = None
        for term in step.terms:
            x = self.scaled(term, state, ndim)
            total = x if total is None else total + x
        if total is None:
            total = state.like.new_zeros((1,) * (ndim + 1))
        # a product needs its axis in full, also where nothing depends on it
        return total.expand(-1, *(axis.size(state.sizes) for axis in step.axes))

    def _fill(self, value: int, over: int, state: State, fill: float) -> Tensor:
        """A value with something else in the places, along one axis, where no entity is."""
        x = state.values[value]
        present = self.present(self.plan.steps[value].axes[over], state)
        if present is None:
            return x
        return torch.where(spread(present, (over,), x.dim() - 1) > 0, x, fill)

    def _others(self, step: Others, state: State) -> Tensor:
        """Exclusive products, from the left and from the right, so that a factor of zero does no harm."""
        x = self._fill(step.value, step.over, state, 1.0).movedim(1 + step.over, -1)
        one = torch.ones_like(x[..., :1])
        before = torch.cumprod(torch.cat([one, x[..., :-1]], -1), -1)
        after = torch.cumprod(torch.cat([one, x[..., 1:].flip(-1)], -1), -1).flip(-1)
        result = (before * after).movedim(-1, 1 + step.over)
        present = self.present(step.axes[step.over], state)
        return result if present is None else result * spread(present, (step.over,), result.dim() - 1)


class _Receiver:
    """Collect the messages to one predicate: everything that goes to one place is added up first."""

    def __init__(self, executor: DenseExecutor, predicate: str):
        self.executor = executor
        self.predicate = executor.theory.predicate[predicate]
        self.groups: dict[Read, list[tuple[float, Scaled, bool]]] = {}
        for message in executor.plan.messages:
            read = executor.plan.steps[message.read]
            assert isinstance(read, Read)
            if read.predicate == predicate:
                place = Read(predicate, read.args, read.axes, False, read.labels, read.apart)
                sign = -1.0 if read.negated else 1.0
                self.groups.setdefault(place, []).append((sign, message.term, message.symmetric))

    def collect(self, state: State) -> Tensor:
        shape = state.q[self.predicate.name].shape
        total: Tensor | None = None
        for read, messages in self.groups.items():
            part: Tensor | None = None
            for sign, term, _ in messages:
                x = self.executor.scaled(term, state, len(read.axes))
                if sign < 0:
                    x = -x
                part = x if part is None else part + x
            assert part is not None
            if read.apart:
                part = self.executor.apart(part, read, state)
            part = part.expand(shape[0], *(axis.size(state.sizes) for axis in read.axes))
            part = self.executor.unview(part, read, state)
            if self.predicate.symmetric:
                # one variable for both orders: what comes to either comes to it
                part = part + part.mT - torch.diag_embed(part.diagonal(0, 1, 2))
            if read.labels is not None:
                part = part.unsqueeze(-1) * _chosen(read.labels, state.q[self.predicate.name])
            total = part if total is None else total + part
        return state.like.new_zeros(shape) if total is None else total


def spread(x: Tensor, axes: tuple[int, ...], ndim: int) -> Tensor:
    """Lay the axes of a tensor out over more axes, of size one where it has none: [batch, ...] stays in front."""
    if axes == tuple(range(ndim)):
        return x
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != list(range(len(axes))):
        x = x.permute(0, *(1 + k for k in order))
    for k in range(ndim):
        if k not in axes:
            x = x.unsqueeze(1 + k)
    return x


def _pad(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Zeros around a tensor along one dimension, so that it starts at `start` and fills `length`."""
    after = length - start - x.shape[dim]
    if not start and not after:
        return x
    sides = [0, 0] * (x.dim() - 1 - dim) + [start, after]
    return torch.nn.functional.pad(x, sides)


def _chosen(labels: frozenset[int], like: Tensor) -> Tensor:
    """[labels]: one for each label in the set."""
    return torch.tensor([float(k in labels) for k in range(like.shape[-1])], dtype=like.dtype, device=like.device)


def compile_contract(step: Contract) -> Op:
    """A contraction as a product of matrices, a product of elements, or a sum: decided once, from the letters."""
    left_side, output = step.equation.split("->")
    terms = left_side.split(",")
    if len(terms) == 1:
        (operand,) = step.operands
        dims = tuple(1 + k for k, letter in enumerate(terms[0]) if letter not in output)
        return lambda state: state.values[operand].sum(dims)
    left, right = terms
    first, second = step.operands
    summed = [n for n in left if n in right and n not in output]
    if not summed:
        places = [tuple(output.index(n) for n in letters) for letters in terms]
        ndim = len(output)
        return lambda state: (spread(state.values[first], places[0], ndim)
                              * spread(state.values[second], places[1], ndim))
    shared = [n for n in left if n in right and n in output]
    rows = [n for n in left if n not in right]
    columns = [n for n in right if n not in left]
    left_order = [0, *(1 + left.index(n) for n in (*shared, *rows, *summed))]
    right_order = [0, *(1 + right.index(n) for n in (*shared, *summed, *columns))]
    n_shared, n_rows, n_summed, n_columns = len(shared), len(rows), len(summed), len(columns)
    is_plain = (n_rows, n_summed, n_columns) == (1, 1, 1)

    def run(state: State) -> Tensor:
        x, y = state.values[first], state.values[second]
        x = x if left_order == sorted(left_order) else x.permute(left_order)
        y = y if right_order == sorted(right_order) else y.permute(right_order)
        if is_plain:
            return torch.matmul(x, y)
        if not n_rows and not n_columns:
            return (x * y).sum(tuple(range(1 + n_shared, x.dim())))
        row_shape, column_shape = x.shape[1 + n_shared : 1 + n_shared + n_rows], y.shape[1 + n_shared + n_summed :]
        x = x.flatten(1 + n_shared + n_rows)
        y = y.flatten(1 + n_shared, n_shared + n_summed)
        x = x.flatten(1 + n_shared, n_shared + n_rows) if n_rows else x.unsqueeze(1 + n_shared)
        y = y.flatten(2 + n_shared) if n_columns else y.unsqueeze(-1)
        product = torch.matmul(x, y)
        return product.reshape(*product.shape[: 1 + n_shared], *row_shape, *column_shape)

    return run
