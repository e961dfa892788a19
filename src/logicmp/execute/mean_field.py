"""The mean-field loop, the only one: the layer, `infer` and the learners all run it.

Room: plan -> **execute** -> layer, inference, learning.  Paper: Algorithm 1, Eq. 2.

    run = Run(executor, inputs, weights)
    logits = run.iterate(Schedule(iterations=5))           # q = sigmoid(logits), logits = unary - sum of w dV/dq
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from ..errors import LogicMPError, RuleError
from ..parse.theory import Theory
from .inputs import Inputs, check_finite
from .marginals import (
    as_given,
    for_each_item,
    marginals,
    one_per_variable,
    unary_and_entropy,
)
from .operations import count
from .receive import subtract
from .recompute import Recompute, Replay, Updates
from .schedule import Schedule
from .state import Call, Executor, Values, is_tracing
from .strength import ATTENUATION, STRENGTHS, UNINFORMED, Measures, Strength, calibrates


@dataclass(frozen=True)
class Iteration:
    """One iteration of a run; number 0 is the start. Bound and violations are computed when you call them."""

    number: int
    # by predicate, and the log-odds they come from, [1, ...] where there is no batch
    marginals: dict[str, Tensor]
    logits: dict[str, Tensor]
    # [batch...]
    elbo: Callable[[], Tensor]
    # [batch..., rules]
    violations: Callable[[], Tensor]
    # [batch...]: the temperature of the marginals that send messages, and the root mean square of all pushes so far
    temperature: Callable[[], Tensor]
    push: Callable[[], Tensor]


def initial_weights(theory: Theory, sizes: Mapping[str, int], hard_weight: float,
                    dtype: torch.dtype | None = None) -> list[Tensor]:
    """The weight of each rule as it is written: 1 if it has none, one for each constant of a variable marked `+`."""
    weights = []
    for rule in theory.rules:
        shape = [sizes[rule.variables[name]] for name in rule.per_constant]
        if 0 in shape:
            raise LogicMPError(f"the rule '{rule}' has one weight per constant, but its constants are not declared",
                               "declare them in the theory, or pass sizes")
        value = hard_weight if rule.is_hard else 1.0 if rule.weight is None else rule.weight
        most = min(MAX_WEIGHT, torch.finfo(dtype or torch.get_default_dtype()).max)
        if not abs(value) <= most:
            raise RuleError(f"the weight {value:g} is too large: mean field adds weights up (limit {most:g} in "
                            f"{dtype or torch.get_default_dtype()})", rule.span,
                            "remove the weight and end the rule with a full stop to make it hard")
        weights.append(torch.full(shape, float(value), dtype=dtype))
    return weights


# a larger weight, added up over groundings, is no number in float32; beyond 20 a rule is as good as hard
MAX_WEIGHT = 1e9
# called after every iteration; the run ends when it returns True
Watch = Callable[[Iteration], bool | None]
# from the marginals of an iteration, what to add to the next logits
Correct = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


class Run:
    """Mean field on one input: iterations, expected violations, and the bound of log Z.

    Args:
        executor: the plan, ready to run.
        inputs: checked tensors of the call.
        weights: one tensor for each rule; gradients flow to them.
        reduce: "sum", or "mean" to divide a rule's weight by its groundings per atom.
    """

    def __init__(self, executor: Executor, inputs: Inputs, weights: Sequence[Tensor], reduce: str = "sum"):
        self.executor = executor
        self.theory: Theory = executor.theory
        self.inputs = inputs
        call = Call([self._as_call_weight(w, f) for f, w in enumerate(weights)], inputs.sizes, inputs.like,
                    inputs.masks, inputs.observed)
        self._reduce = reduce
        self.call = self._reduced(call)
        # unary potentials as they enter Eq. 2, one per variable
        self.base = self._one_per_variable(inputs.unary)
        self.measures = Measures(self.theory, inputs, self.base)
        # values that depend only on evidence and weights, with their call, and whether they carry gradients
        self._constants: tuple[Call, bool, Values] | None = None
        # of the last iteration, [batch]: what its messages were multiplied by (None for 1), and the temperature
        self.scale: Tensor | None = None
        self.temperature: Tensor | float = 1.0
        # tensors that must not change in place before the backward pass
        self._sources = [*self.base.values(), *inputs.evidence.values(), *inputs.masks.values(), *weights]

    def _reduced(self, call: Call) -> Call:
        return _average(call, self.executor) if self._reduce == "mean" else call

    def _as_call_weight(self, weight: Tensor, f: int) -> Tensor:
        weight = weight.to(self.inputs.like.dtype)
        return weight.unsqueeze(0) if self.executor.plan.rules[f].n_weight_axes else weight

    def _one_per_variable(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: one_per_variable(self.theory.predicate[name], tensor) for name, tensor in tensors.items()}

    # the loop

    def iterate(self, schedule: Schedule, start: Mapping[str, Tensor] | None = None,
                watch: Watch | None = None, correct: Correct | None = None) -> dict[str, Tensor]:
        """Update all marginals at once, `schedule.iterations` times; Algorithm 1 under the schedule "paper".

        Args:
            start: logits to start from instead of the unary potentials, with one batch dimension.
            watch: called with every iteration, the last one included; the run ends when it returns True.
            correct: called with the marginals of every iteration, of all processes; its result is added to the new
                logits, without gradient.
        """
        logits = self.base if start is None else self._one_per_variable(start)
        temperature: Tensor | float = schedule.temperature
        strength: Strength | None = None
        zeros = {} if schedule.is_plain else {name: torch.zeros_like(x) for name, x in self.base.items()}
        q: dict[str, Tensor] = {}
        recompute = self._recompute(schedule, start) if correct is None else None
        replay: Replay | None = None
        with contextlib.nullcontext() if recompute is None else recompute.hooks():
            for number in range(schedule.iterations):
                with contextlib.nullcontext() if schedule.carries_gradients(number) else torch.no_grad():
                    self.temperature = temperature
                    before, q = q, self.marginals(logits, temperature)
                    if watch is not None and watch(self._iteration(number, logits, q, temperature)):
                        break
                    if before and schedule.is_full(number - 1) and self._has_converged(before, q, schedule.tolerance):
                        break
                    if recompute is not None:
                        updates = {} if replay is None else replay.take_updates()
                        replay = recompute.begin(q, partial(self._remake, updates))
                    # without damping nothing needs the old logits: release their memory before the new ones exist
                    old, logits = (logits if schedule.damping or schedule.lift is not None else {}), self.base
                    if schedule.is_plain:
                        logits = self._subtract(self.base, q, schedule.factor, replay)
                    else:
                        messages = self._subtract(zeros, q, 1.0, None)
                        size = self.measures.size(messages)
                        if number == 0:
                            temperature = self.measures.sharpened(schedule, size)
                            strength = self._strength(schedule, q, size)
                        assert strength is not None
                        scale = self.scale = self.measures.scale(schedule, number, size, strength, old, messages)
                        logits = {name: torch.addcmul(self.base[name], x, for_each_item(scale, x))
                                  for name, x in messages.items()}
                    if correct is not None:
                        more = self.take(correct(self.whole(q)))
                        logits = {name: x + more[name] for name, x in logits.items()}
                    logits = {name: torch.lerp(x, old[name], schedule.damping) if schedule.damping else x
                              for name, x in logits.items()}
                    if not schedule.carries_gradients(number):
                        # forward-mode derivatives pass through no_grad
                        logits = {name: x.detach() for name, x in logits.items()}
            else:
                if watch is not None:
                    watch(self._iteration(schedule.iterations, logits, q, temperature, is_last=True))
        if recompute is not None and replay is not None:
            recompute.finish()
            # nothing starts from the last update: the backward pass may release it
            replay.take_updates()
        for name, x in logits.items():
            self._check_overflow(x, f"the logits of {name}")
        return logits

    def _check_overflow(self, tensor: Tensor, what: str) -> None:
        """Raise if values grew beyond the dtype; not on an accelerator that it would hold up, unless in float16."""
        if tensor.device.type == "cpu" or tensor.dtype == torch.float16:
            check_finite(tensor, f"{what} are NaN or infinite after mean field in {tensor.dtype}",
                         "check that the weights of the rules are finite and small; in torch.float16 use "
                         "torch.bfloat16 or torch.float32, or reduce=\"mean\"")

    def _subtract(self, base: Mapping[str, Tensor], q: Mapping[str, Tensor], factor: float,
                  replay: Replay | None) -> dict[str, Tensor]:
        call = self._scaled(factor)
        carries = torch.is_grad_enabled()
        if self._constants is None or self._constants[0] is not call or self._constants[1] != carries:
            self._constants = call, carries, self.executor.constants(call)
        return self.executor.subtract_messages(base, q, call, self._constants[2], replay)

    def largest_change(self, before: Mapping[str, Tensor], q: Mapping[str, Tensor]) -> float:
        """The largest change of a marginal between two iterations, of all processes."""
        change = largest_change(before, q)
        shares = next((part.shares for part in self.inputs.parts.values()), None)
        return change if shares is None else shares.largest(change)

    def _has_converged(self, before: Mapping[str, Tensor], q: Mapping[str, Tensor], tolerance: float) -> bool:
        return bool(tolerance) and not is_tracing() and self.largest_change(before, q) < tolerance

    # the logits of all processes, and of this one; the same unless atoms are divided over processes

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """By predicate, the shape of the logits of all processes."""
        parts = self.inputs.parts
        return {name: (len(x), *parts[name].shape, *x.shape[2:]) if name in parts else tuple(x.shape)
                for name, x in self.base.items()}

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Logits or marginals of all processes, from those of this one."""
        parts = self.inputs.parts
        return {name: parts[name].whole(x) if name in parts else x for name, x in tensors.items()}

    def take(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Logits or marginals of this process, from those of all."""
        parts = self.inputs.parts
        return {name: parts[name].take(x) if name in parts else x for name, x in tensors.items()}

    def strength(self, schedule: Schedule) -> Tensor:
        """The factor of all weights that the logits of each item support, [batch]."""
        with torch.no_grad():
            q = self.marginals(temperature=schedule.temperature)
            zeros = {name: torch.zeros_like(x) for name, x in self.base.items()}
            return self._strength(schedule, q, self.measures.size(self._subtract(zeros, q, 1.0, None))).factor

    def _strength(self, schedule: Schedule, q: Mapping[str, Tensor], size: Tensor) -> Strength:
        """How much of the limit counts in each item, and what all weights are multiplied by."""
        if schedule.push is None:
            return Strength(torch.ones_like(size), torch.ones_like(size))
        # 1 where full messages are far below the limit, 0 where they are above
        sparse = (2 - 2 * size / schedule.push[1]).clamp(0.0, 1.0)
        factor = torch.ones_like(size)
        if calibrates(schedule, self.theory) and (is_tracing() or bool(sparse.any())):
            call = self._reduced(replace(self.call, weights=[torch.ones_like(w) for w in self.call.weights]))
            zeros = {name: torch.zeros_like(x) for name, x in self.base.items()}
            with torch.no_grad():
                messages = self.executor.subtract_messages(zeros, q, call, self.executor.constants(call), None)
                found, precision = self.measures.support(q, messages)
            found = (ATTENUATION * found * precision + UNINFORMED) / (precision + 1)
            factor = found.clamp(*STRENGTHS) ** sparse
        return Strength(1 - sparse, factor)

    def _iteration(self, number: int, logits: dict[str, Tensor], q: dict[str, Tensor],
                   temperature: Tensor | float, is_last: bool = False) -> Iteration:
        shape = (*self.inputs.batch, len(self.theory.rules))
        # marginals of the logits as they are, where those that send messages are sharpened or one iteration old
        if is_last or isinstance(temperature, Tensor) or temperature != 1:
            q = self.marginals(logits)
        batch, ones = self.inputs.batch, self.call.like.new_ones(self.call.like.shape[0])
        return Iteration(number, q, logits, lambda: self.elbo(q).reshape(batch), lambda: self.counts(q).reshape(shape),
                         lambda: (ones * temperature).reshape(batch).to(ones.dtype),
                         lambda: self.measures.size({name: x - self.base[name] for name, x in logits.items()}
                                           ).reshape(batch).to(ones.dtype))

    def _scaled(self, factor: float) -> Call:
        return self.call if factor == 1 else replace(self.call, weights=[w * factor for w in self.call.weights])

    def _recompute(self, schedule: Schedule, start: Mapping[str, Tensor] | None) -> Recompute | None:
        """In training, store less for the backward pass, where logits are unary potentials minus messages alone."""
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in self._sources)
        is_plain = (schedule.is_plain and not schedule.damping and schedule.temperature == 1 and start is None
                    and schedule.gradients is None)
        return Recompute(self._sources) if needs_grad and is_plain and not is_tracing() else None

    def _remake(self, updates: Updates, name: str) -> Tensor:
        """The marginals an iteration started with, from the messages of the iteration before it."""
        logits = self.base[name].detach()
        for total, weight in updates.get(name, ()):
            logits = subtract(logits, total, weight)
        return marginals(self.inputs, self.theory.predicate[name], logits)

    # at given marginals

    def marginals(self, logits: Mapping[str, Tensor] | None = None,
                  temperature: Tensor | float = 1.0) -> dict[str, Tensor]:
        """The marginals of logits, by default of the unary potentials: the model's own, before any rule."""
        found = {}
        for name, x in (self.base if logits is None else logits).items():
            if isinstance(temperature, Tensor):
                t = for_each_item(temperature, x)
                # the gradient passes with the factor 1 instead of 1 / t, which would grow with every iteration
                x = (torch.lerp(x.detach(), x, t) if torch.is_grad_enabled() else x) / t
            elif temperature != 1:
                x = x / temperature
            found[name] = marginals(self.inputs, self.theory.predicate[name], x)
        return found

    def counts(self, q: Mapping[str, Tensor], weighted: bool = False) -> Tensor:
        """The expected violations of each rule, [batch, rules]; weighted, times the rule's weight."""
        found = self.executor.counts(q, self.call, weighted)
        self._check_overflow(found, "expected violations")
        return found

    def elbo(self, q: Mapping[str, Tensor]) -> Tensor:
        """The lower bound of log Z at these marginals, [batch]."""
        total = -self.executor.counts(q, self.call, weighted=True).sum(-1)
        groundings = self.executor.weighted_groundings(self.call)
        for f, rule in enumerate(self.executor.plan.rules):
            total = total + groundings[:, f] / rule.n_clauses
        for name, unary in self.base.items():
            total = total + unary_and_entropy(self.inputs, self.theory.predicate[name], unary, q[name])
        return total

    def output(self, logits: Mapping[str, Tensor], name: str, shape: Sequence[int]) -> Tensor:
        """The logits of a predicate in the shape that was given; observed atoms are certain."""
        part, batch, predicate = self.inputs.parts.get(name), self.inputs.batch, self.theory.predicate[name]
        if part is None:
            return as_given(self.inputs, predicate, logits, torch.Size(shape))
        own = logits[name] if name in logits else self.inputs.observed[name]
        found = as_given(self.inputs, predicate, logits, torch.Size((*batch, *own.shape[1:])))
        found = part.whole(found.reshape(math.prod(batch), *own.shape[1:]))
        return found.reshape((*batch, *found.shape[1:]))

    def outputs(self, logits: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The logits of every predicate that is not observed, with the batch dimensions that were given."""
        return {name: self.output(logits, name, (*self.inputs.batch, *shape[1:]))
                for name, shape in self.shapes.items()}


def largest_change(before: Mapping[str, Tensor], q: Mapping[str, Tensor]) -> float:
    """The largest change of a marginal between two iterations."""
    return max((float((q[name] - before[name]).detach().abs().max()) for name in q if q[name].numel()), default=0.0)


def _average(call: Call, executor: Executor) -> Call:
    """Divide the weight of each rule by its groundings per atom, so that one weight fits inputs of different size."""
    weights = []
    for weight, rule in zip(call.weights, executor.plan.rules, strict=True):
        per_atom: Tensor | float = 1.0
        for axis in (axis for ranges in rule.groundings[:1] for axis in ranges):
            per_atom = per_atom * count(axis, call)
        for axis in rule.spread:
            per_atom = per_atom / count(axis, call)
        # an atom below a quantifier has less than one grounding of its own: nothing to divide
        if isinstance(per_atom, Tensor):
            per_atom = per_atom.clamp_min(1.0).reshape(-1, *[1] * rule.n_weight_axes)
        else:
            per_atom = max(per_atom, 1.0)
        weights.append(weight / per_atom)
    return replace(call, weights=weights)
