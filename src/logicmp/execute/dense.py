"""Run a plan on torch tensors: marginals in, messages and violation counts out.

Stage: plan -> **execute** -> layer.  Paper: Eq. 4-5.

    %2 = %0, %1   einsum 'ab,cb->ac'        torch.bmm(x0, x1.mT), prepared once, run in every iteration

Every step becomes one small function when the executor is made; running is a loop over them. All tensors have one
leading batch dimension. Nothing here decides what is computed: that is the plan's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.steps import At, Axis, Combine, Compare, Contract, Multiply, Others, Plan, Read, Scaled, Step, Weigh, inputs
from .labels import find_label_sets
from .operations import compare, compile_contract, is_whole, span, spread, view
from .receive import _Receiver
from .state import Kept, State

Op = Callable[[State], Tensor]


class DenseExecutor:
    """A plan, ready to run on dense tensors."""

    def __init__(self, plan: Plan, theory: Theory):
        self.plan = plan
        self.theory = theory
        self._masks = Kept()
        self.label_sets = find_label_sets(plan.steps, {p.name: len(p.labels or ()) for p in theory.predicates})
        self._receivers = {p.name: _Receiver(self, p.name) for p in theory.predicates}
        # a matrix product that only one message needs is made where it is added
        fused = {value for receiver in self._receivers.values() for value in receiver.fused}
        self._ops: dict[int, Op] = {v: self._op(plan.steps[v]) for v in {*plan.for_messages, *plan.for_counts}}
        self._once = [v for v in plan.for_messages if v in plan.constant]
        self._each = [v for v in plan.for_messages if v not in plan.constant and v not in fused]
        self._free = self._find_last_use(fused)

    def _find_last_use(self, fused: set[int]) -> dict[int, list[int]]:
        """After which step each value of an iteration is no longer needed."""
        last: dict[int, int] = {}
        for v in self._each:
            for operand in inputs(self.plan.steps[v]):
                last[operand] = v
        kept = {m.term.value for m in self.plan.messages} | set(self._once)
        kept |= {operand for v in fused for operand in inputs(self.plan.steps[v])}
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
        zeros = {name: state.like.new_zeros(state.q[name].shape) for name in only}
        return {name: -update for name, update in self.subtract_messages(zeros, state, constants).items()}

    def subtract_messages(self, base: Mapping[str, Tensor], state: State,
                          constants: Mapping[int, Tensor]) -> dict[str, Tensor]:
        """Eq. 2 without the normalization: base - d(sum of w V)/dq, for every predicate of `base`."""
        state.values = values = dict(constants)
        for v in self._each:
            values[v] = self._ops[v](state)
            if state.iteration is not None and isinstance(step := self.plan.steps[v], Read):
                self._note_read(v, step, state)
            for operand in self._free.get(v, ()):
                del values[operand]
        return {name: self._receivers[name].subtract(x, state) for name, x in base.items()}

    def _note_read(self, v: int, read: Read, state: State) -> None:
        """In training, a complement or an off-diagonal part is made again from the marginals when it is needed."""
        iteration = state.iteration
        if iteration is not None and (read.negated or read.apart):
            weights, sizes, masks = state.weights, state.sizes, state.masks
            iteration.note(v, state.values[v], lambda: self._ops[v](
                State({read.predicate: iteration.marginals(read.predicate)}, weights, sizes, masks)))

    def counts(self, state: State, weighted: bool = False) -> Tensor:
        """The expected violations of each rule, [batch, rules]; weighted, times the rule's weight."""
        state.values = {}
        for v in self.plan.for_counts:
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
            picked = weight
            for k, axis in enumerate(weighted):
                picked = picked.narrow(1 + k, *span(axis, 0, state))
                present = self.present(axis, state)
                if present is not None:
                    picked = picked * spread(present, (k,), len(weighted))
            part = picked.flatten(1).sum(-1) if weighted else picked
            for axis in plain:
                part = part * self.count(axis, state)
            total = total + part
        return total

    # pieces shared by the steps

    def factor(self, term: Scaled, state: State) -> Tensor | float:
        """What a scaled value is multiplied by, weight apart: a number, or [batch] where counts depend on a mask."""
        factor: Tensor | float = term.coefficient
        for axis in term.counts:
            factor = factor * self.count(axis, state)
        return factor

    def scaled(self, term: Scaled, state: State, ndim: int) -> Tensor:
        """A scaled value laid out over `ndim` axes, of size one where it lacks an axis."""
        factor = self.factor(term, state)
        if term.weight is not None:
            factor = state.weights[term.weight] * factor
        if isinstance(factor, Tensor):
            factor = factor.reshape(-1, *[1] * ndim)
        if term.value is None:
            return factor if isinstance(factor, Tensor) else state.like.new_full((1,) * (ndim + 1), factor)
        value = spread(state.values[term.value], term.axes, ndim)
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
            piece = mask.narrow(1, *span(axis, offset, state))
            found = piece if found is None else found * piece
        return found

    def apart(self, x: Tensor, read: Read, state: State, in_place: bool = False) -> Tensor:
        """Zero on the diagonals that a read excludes; a product, because it is faster than masked_fill."""
        like = state.like
        # by identity: a plan's reads live as long as the executor, and hashing one costs as much as the product
        off = self._masks.get((id(read), like.device, like.dtype), state.sizes, partial(_off_diagonal, read, state))
        return x.mul_(off) if in_place and x.shape[1:] == off.shape[1:] else x * off

    # one function per step

    def _op(self, step: Step) -> Op:
        if isinstance(step, Read):
            return self._read_op(step)
        if isinstance(step, Weigh):
            return lambda state: view(state.weights[step.rule], step.args, step.axes, state)
        if isinstance(step, Compare):
            return lambda state: self._compare(step, state)
        if isinstance(step, Contract):
            run = compile_contract(step)
            return lambda state: run(state.values)
        if isinstance(step, Combine):
            return lambda state: self._combine(step, state)
        if isinstance(step, Multiply):
            return lambda state: self._product(step, state)
        return lambda state: self._others(step, state)

    def _read_op(self, read: Read) -> Op:
        name, whole = read.predicate, is_whole(read.args, read.axes)

        def run(state: State) -> Tensor:
            x = state.q[name] if read.labels is None else self.label_sets[name].probability(read, state)
            if not whole:
                x = view(x, read.args, read.axes, state)
            if read.negated:
                x = (self._one(read, state) if state.masks else 1.0) - x
            return self.apart(x, read, state) if read.apart else x

        return run

    def _one(self, read: Read, state: State) -> Tensor | float:
        """What the marginals of an atom and of its negation add up to: one, where all its entities exist."""
        one: Tensor | float = 1.0
        for at, type_name in zip(read.args, self.theory.predicate[read.predicate].types, strict=True):
            if type_name in state.masks:
                mask = state.masks[type_name]
                if at.axis is None:
                    one = one * mask.select(1, at.offset).reshape(-1, *[1] * len(read.axes))
                else:
                    piece = mask.narrow(1, *span(read.axes[at.axis], at.offset, state))
                    one = one * spread(piece, (at.axis,), len(read.axes))
        return one

    def _compare(self, step: Compare, state: State) -> Tensor:
        same = compare(step.left, step.right, step.axes, state)
        return (same if step.equal else ~same).to(state.like.dtype)

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

    def _fill(self, value: int, over: int, state: State) -> Tensor:
        """A value with ones in the places, along one axis, where no entity is."""
        x = state.values[value]
        present = self.present(self.plan.steps[value].axes[over], state)
        if present is None:
            return x
        return torch.where(spread(present, (over,), x.dim() - 1) > 0, x, x.new_ones(()))

    def _product(self, step: Multiply, state: State) -> Tensor:
        x = self._fill(step.value, step.over, state)
        return _logs(x).sum(1 + step.over).exp() if torch.compiler.is_exporting() else x.prod(1 + step.over)

    def _others(self, step: Others, state: State) -> Tensor:
        """Exclusive products, from the left and from the right, so that a factor of zero does no harm."""
        x = self._fill(step.value, step.over, state).movedim(1 + step.over, -1)
        if torch.compiler.is_exporting():
            logs = _logs(x)
            others = (logs.sum(-1, keepdim=True) - logs).exp()
            return self._where_present(others.movedim(-1, 1 + step.over), step, state)
        one = torch.ones_like(x[..., :1])
        before = torch.cumprod(torch.cat([one, x[..., :-1]], -1), -1)
        after = torch.cumprod(torch.cat([one, x[..., 1:].flip(-1)], -1), -1).flip(-1)
        return self._where_present((before * after).movedim(-1, 1 + step.over), step, state)

    def _where_present(self, x: Tensor, step: Others, state: State) -> Tensor:
        present = self.present(step.axes[step.over], state)
        return x if present is None else x * spread(present, (step.over,), x.dim() - 1)


def _off_diagonal(read: Read, state: State) -> Tensor:
    """One where the indices that a read keeps apart differ."""
    off = state.like.new_ones(())
    for i, j in read.apart:
        off = off * (~compare(At(i, 0), At(j, 0), read.axes, state)).to(off.dtype)
    return off


def _logs(x: Tensor) -> Tensor:
    """Logarithms of probabilities, finite also of zero: an exported product is a sum of them, as ONNX has none."""
    return x.clamp_min(1e-30).log()
