"""Run a plan on torch tensors: marginals in, messages and violation counts out.

Room: plan -> **execute** -> layer.  Paper: Eq. 4-5.

    %2 = %0, %1   einsum 'ab,cb->ac'        torch.bmm(x0, x1.mT), prepared once, run in every iteration

Every step becomes one small function when the executor is made; running is a loop over them. All tensors have one
leading batch dimension. The plan decides what is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.steps import Combine, Compare, Contract, Multiply, Others, Plan, Read, Step, Weigh, inputs
from .labels import find_label_sets
from .operations import Apart, compare, compile_contract, count, is_whole, present, scaled, span, spread, view, within
from .receive import Receiver
from .recompute import Replay
from .state import Call, Values

Op = Callable[[Values, Call], Tensor]


class DenseExecutor:
    """A plan, ready to run on dense tensors."""

    def __init__(self, plan: Plan, theory: Theory):
        self.plan = plan
        self.theory = theory
        n_labels = {p.name: len(p.labels) for p in theory.predicates if p.labels is not None}
        self.label_sets = find_label_sets(plan.steps, n_labels) if n_labels else {}
        self._receivers = {p.name: Receiver(plan, theory, p.name, self.label_sets)
                           for p in theory.predicates}
        # a matrix product that only one message needs is computed where it is added
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

    def constants(self, call: Call) -> Values:
        """The values that depend only on evidence and weights: once per call, not once per iteration."""
        values: Values = dict(call.observed)
        for receiver in self._receivers.values():
            values.update(receiver.mixes(call))
        for v in self._once:
            values[v] = self._ops[v](values, call)
        return values

    def messages(self, q: Mapping[str, Tensor], call: Call, constants: Values) -> dict[str, Tensor]:
        """The weighted derivatives of all violation counts: d(sum of w V)/dq, for every predicate of `q`."""
        zeros = {name: torch.zeros_like(x) for name, x in q.items()}
        return {name: -update for name, update in self.subtract_messages(zeros, q, call, constants).items()}

    def subtract_messages(self, base: Mapping[str, Tensor], q: Mapping[str, Tensor], call: Call, constants: Values,
                          replay: Replay | None = None) -> dict[str, Tensor]:
        """Eq. 2 without the normalization: base - d(sum of w V)/dq, for every predicate of `base`."""
        values: Values = {**constants, **q}
        for v in self._each:
            values[v] = self._ops[v](values, call)
            if replay is not None and isinstance(step := self.plan.steps[v], Read):
                self._note_read(v, step, values, call, replay)
            for operand in self._free.get(v, ()):
                del values[operand]
        return {name: self._receivers[name].subtract(x, values, call, replay) for name, x in base.items()}

    def _note_read(self, v: int, read: Read, values: Values, call: Call, replay: Replay) -> None:
        """In training, recompute a complement or an off-diagonal part from the marginals instead of storing it."""
        if read.negated or read.apart:
            replay.note(v, values[v], lambda: self._ops[v]({read.predicate: replay.marginals(read.predicate)}, call))

    def counts(self, q: Mapping[str, Tensor], call: Call, weighted: bool = False) -> Tensor:
        """The expected violations of each rule, [batch, rules]; weighted, times the rule's weight."""
        values: Values = {**call.observed, **q}
        for v in self.plan.for_counts:
            values[v] = self._ops[v](values, call)
        columns = []
        for f, rule in enumerate(self.plan.rules):
            terms = rule.energies if weighted and rule.energies is not None else rule.counts
            total = call.like.new_zeros(call.like.shape[0])
            for term in terms:
                total = total + scaled(term, values, call, 0)
            if weighted and rule.energies is None:
                total = total * call.weights[f]
            columns.append(total)
        return torch.stack(columns, -1) if columns else call.like.new_zeros(call.like.shape[0], 0)

    def weighted_groundings(self, call: Call) -> Tensor:
        """The groundings of each rule times their weights, [batch, rules]: its score if none is violated."""
        columns = [self._weighted(f, call) for f in range(len(self.plan.rules))]
        return torch.stack(columns, -1) if columns else call.like.new_zeros(call.like.shape[0], 0)

    def _weighted(self, f: int, call: Call) -> Tensor:
        rule, weight = self.plan.rules[f], call.weights[f]
        total = call.like.new_zeros(call.like.shape[0])
        for ranges in rule.groundings:
            plain, weighted = (ranges[: len(ranges) - rule.n_weight_axes], ranges[len(ranges) - rule.n_weight_axes :])
            picked = weight
            for k, axis in enumerate(weighted):
                picked = picked.narrow(1 + k, *span(axis, 0, call))
                existing = present(axis, call)
                if existing is not None:
                    picked = picked * spread(existing, (k,), len(weighted))
            part = picked.flatten(1).sum(-1) if weighted else picked
            for axis in plain:
                part = part * count(axis, call)
            total = total + part
        return total

    # one function per step

    def _op(self, step: Step) -> Op:
        if isinstance(step, Read):
            return self._read_op(step)
        if isinstance(step, Weigh):
            return lambda values, call: view(call.weights[step.rule], step.args, step.axes, call)
        if isinstance(step, Compare):
            return lambda values, call: _compare(step, call)
        if isinstance(step, Contract):
            run = compile_contract(step)
            return lambda values, call: run(values)
        if isinstance(step, Combine):
            return lambda values, call: _combine(step, values, call)
        if isinstance(step, Multiply):
            return lambda values, call: self._product(step, values, call)
        return lambda values, call: self._others(step, values, call)

    def _read_op(self, read: Read) -> Op:
        name, whole = read.predicate, is_whole(read.args, read.axes)
        apart = Apart(read) if read.apart else None

        def run(values: Values, call: Call) -> Tensor:
            x = values[name] if read.labels is None else self.label_sets[name].probability(read, values)
            if not whole:
                x = view(x, read.args, read.axes, call)
            if read.negated:
                x = (self._one(read, call) if call.masks else 1.0) - x
            if call.masks:
                x = within(x, read.axes, call)
            return x if apart is None else apart(x, call)

        return run

    def _one(self, read: Read, call: Call) -> Tensor | float:
        """The sum of the marginals of an atom and of its negation: one, where all its entities exist."""
        one: Tensor | float = 1.0
        for at, type_name in zip(read.args, self.theory.predicate[read.predicate].types, strict=True):
            if type_name in call.masks:
                mask = call.masks[type_name]
                if at.axis is None:
                    one = one * mask.select(1, at.offset).reshape(-1, *[1] * len(read.axes))
                else:
                    piece = mask.narrow(1, *span(read.axes[at.axis], at.offset, call))
                    one = one * spread(piece, (at.axis,), len(read.axes))
        return one

    def _fill(self, value: int, over: int, values: Values, call: Call) -> Tensor:
        """A value with ones in the places, along one axis, where no entity exists."""
        x = values[value]
        existing = present(self.plan.steps[value].axes[over], call)
        if existing is None:
            return x
        return torch.where(spread(existing, (over,), x.dim() - 1) > 0, x, x.new_ones(()))

    def _product(self, step: Multiply, values: Values, call: Call) -> Tensor:
        x = self._fill(step.value, step.over, values, call)
        return _logs(x).sum(1 + step.over).exp() if torch.compiler.is_exporting() else x.prod(1 + step.over)

    def _others(self, step: Others, values: Values, call: Call) -> Tensor:
        """Exclusive products, from the left and from the right, so that a factor of zero does no harm."""
        x = self._fill(step.value, step.over, values, call).movedim(1 + step.over, -1)
        if torch.compiler.is_exporting():
            logs = _logs(x)
            others = (logs.sum(-1, keepdim=True) - logs).exp()
        else:
            one = torch.ones_like(x[..., :1])
            before = torch.cumprod(torch.cat([one, x[..., :-1]], -1), -1)
            after = torch.cumprod(torch.cat([one, x[..., 1:].flip(-1)], -1), -1).flip(-1)
            others = before * after
        others = others.movedim(-1, 1 + step.over)
        existing = present(step.axes[step.over], call)
        return others if existing is None else others * spread(existing, (step.over,), others.dim() - 1)


def _compare(step: Compare, call: Call) -> Tensor:
    same = compare(step.left, step.right, step.axes, call)
    return (same if step.equal else ~same).to(call.like.dtype)


def _combine(step: Combine, values: Values, call: Call) -> Tensor:
    ndim = len(step.axes)
    total: Tensor | None = None
    for term in step.terms:
        x = scaled(term, values, call, ndim)
        total = x if total is None else total + x
    if total is None:
        total = call.like.new_zeros((1,) * (ndim + 1))
    # a product needs its axis in full, also where nothing depends on it
    return total.expand(-1, *(axis.size(call.sizes) for axis in step.axes))


def _logs(x: Tensor) -> Tensor:
    """Logarithms of probabilities, finite also at zero: ONNX has no product, so exports sum logarithms."""
    return x.clamp_min(1e-30).log()
