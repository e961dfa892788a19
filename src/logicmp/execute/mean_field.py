"""The mean-field loop, the only one: the layer, `infer` and the learners all run it.

Room: plan -> **execute** -> layer, inference, learning.  Paper: Algorithm 1, Eq. 2.

    run = Run(executor, inputs, weights)
    logits = run.iterate(Schedule(iterations=5))           # q = sigmoid(logits), logits = unary - sum of w dV/dq
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from ..errors import LogicMPError
from ..parse.theory import Theory
from .inputs import Inputs
from .marginals import as_given, marginals, one_per_variable, squares_of_latent, unary_and_entropy
from .operations import count
from .receive import subtract
from .recompute import Recompute, Replay, Updates
from .schedule import Schedule
from .state import Call, Executor, Values, is_tracing


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
        weights.append(torch.full(shape, float(value), dtype=dtype))
    return weights


# called after every iteration; the run ends when it returns True
Watch = Callable[[Iteration], bool | None]


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
        self.call = _average(call, executor) if reduce == "mean" else call
        # unary potentials as they enter Eq. 2, one per variable
        self.base = self._one_per_variable(inputs.unary)
        # values that depend only on evidence and weights, with their call, and whether they carry gradients
        self._constants: tuple[Call, bool, Values] | None = None
        # tensors that must not change in place before the backward pass
        self._sources = [*self.base.values(), *inputs.evidence.values(), *inputs.masks.values(), *weights]

    def _as_call_weight(self, weight: Tensor, f: int) -> Tensor:
        weight = weight.to(self.inputs.like.dtype)
        return weight.unsqueeze(0) if self.executor.plan.rules[f].n_weight_axes else weight

    def _one_per_variable(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: one_per_variable(self.theory.predicate[name], tensor) for name, tensor in tensors.items()}

    # the loop

    def iterate(self, schedule: Schedule, start: Mapping[str, Tensor] | None = None,
                watch: Watch | None = None) -> dict[str, Tensor]:
        """Update all marginals at once, `schedule.iterations` times; Algorithm 1 under the schedule "paper".

        Args:
            start: logits to start from instead of the unary potentials, with one batch dimension.
            watch: called with every iteration, the last one included; the run ends when it returns True.
        """
        logits = self.base if start is None else self._one_per_variable(start)
        temperature: Tensor | float = schedule.temperature
        zeros = {} if schedule.is_plain else {name: torch.zeros_like(x) for name, x in self.base.items()}
        q: dict[str, Tensor] = {}
        recompute = self._recompute(schedule, start)
        replay: Replay | None = None
        with contextlib.nullcontext() if recompute is None else recompute.hooks():
            for number in range(schedule.iterations):
                with contextlib.nullcontext() if schedule.carries_gradients(number) else torch.no_grad():
                    before, q = q, self.marginals(logits, temperature)
                    if watch is not None and watch(self._iteration(number, logits, q, temperature)):
                        break
                    if before and schedule.is_full(number - 1) and _has_converged(before, q, schedule.tolerance):
                        break
                    if recompute is not None:
                        updates = {} if replay is None else replay.take_updates()
                        replay = recompute.begin(q, partial(self._remake, updates))
                    # without damping nothing needs the old logits: release their memory before the new ones exist
                    old, logits = (logits if schedule.damping else {}), self.base
                    if schedule.is_plain:
                        logits = self._subtract(self.base, q, schedule.factor, replay)
                    else:
                        messages = self._subtract(zeros, q, 1.0, None)
                        size = self.size(messages)
                        if schedule.sharpen is not None and number == 0:
                            temperature = self._sharpened(schedule, size)
                        scale = self._scale(schedule, number, size)
                        logits = {name: torch.addcmul(self.base[name], x, _per_item(scale, x))
                                  for name, x in messages.items()}
                    logits = {name: torch.lerp(x, old[name], schedule.damping) if old else x
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
        return logits

    def _subtract(self, base: Mapping[str, Tensor], q: Mapping[str, Tensor], factor: float,
                  replay: Replay | None) -> dict[str, Tensor]:
        call = self._scaled(factor)
        carries = torch.is_grad_enabled()
        if self._constants is None or self._constants[0] is not call or self._constants[1] != carries:
            self._constants = call, carries, self.executor.constants(call)
        return self.executor.subtract_messages(base, q, call, self._constants[2], replay)

    # the size of messages, for schedules that depend on it

    def size(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The root mean square over the unobserved atoms of each item that exist, [batch]; without gradient."""
        total = count = self.inputs.like.new_zeros(self.inputs.like.shape[0])
        for name, tensor in tensors.items():
            squares, atoms = squares_of_latent(self.inputs, self.theory.predicate[name], tensor.detach())
            total, count = total + squares, count + atoms
        return (total / count.clamp_min(1)).sqrt()

    def _sharpened(self, schedule: Schedule, size: Tensor) -> Tensor:
        assert schedule.sharpen is not None
        floor = 0.1 * self.size(self.base).clamp(0.3, 1.0)
        return torch.minimum(torch.maximum(schedule.sharpen / size.clamp_min(1e-6), floor), torch.ones_like(floor))

    def _scale(self, schedule: Schedule, number: int, size: Tensor) -> Tensor:
        """What the messages of each item are multiplied by, [batch]: never more than the weights that were given."""
        factor = schedule.weight_factor(number)
        limit = schedule.largest_push(number)
        full = torch.full_like(size, factor)
        return full if limit is None else torch.minimum(full, limit / size.clamp_min(1e-6))

    def _iteration(self, number: int, logits: dict[str, Tensor], q: dict[str, Tensor],
                   temperature: Tensor | float, is_last: bool = False) -> Iteration:
        shape = (*self.inputs.batch, len(self.theory.rules))
        # marginals of the logits as they are, where those that send messages are sharpened or one iteration old
        if is_last or isinstance(temperature, Tensor) or temperature != 1:
            q = self.marginals(logits)
        batch, ones = self.inputs.batch, self.call.like.new_ones(self.call.like.shape[0])
        return Iteration(number, q, logits, lambda: self.elbo(q).reshape(batch), lambda: self.counts(q).reshape(shape),
                         lambda: (ones * temperature).reshape(batch),
                         lambda: self.size({name: x - self.base[name] for name, x in logits.items()}).reshape(batch))

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
                x = x / _per_item(temperature, x)
            elif temperature != 1:
                x = x / temperature
            found[name] = marginals(self.inputs, self.theory.predicate[name], x)
        return found

    def counts(self, q: Mapping[str, Tensor], weighted: bool = False) -> Tensor:
        """The expected violations of each rule, [batch, rules]; weighted, times the rule's weight."""
        return self.executor.counts(q, self.call, weighted)

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
        return as_given(self.inputs, self.theory.predicate[name], logits, torch.Size(shape))

    def outputs(self, logits: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The logits of every predicate that is not observed, with the batch dimensions that were given."""
        return {name: self.output(logits, name, x.shape) for name, x in self.inputs.unary.items()}


def _per_item(x: Tensor, like: Tensor) -> Tensor:
    """One number per item, [batch, 1, ...], as many dimensions as `like` has."""
    return x.reshape(-1, *[1] * (like.dim() - 1))


def largest_change(before: Mapping[str, Tensor], q: Mapping[str, Tensor]) -> float:
    """The largest change of a marginal between two iterations."""
    return max((float((q[name] - before[name]).detach().abs().max()) for name in q if q[name].numel()), default=0.0)


def _has_converged(before: Mapping[str, Tensor], q: Mapping[str, Tensor], tolerance: float) -> bool:
    return bool(tolerance) and not is_tracing() and largest_change(before, q) < tolerance


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
