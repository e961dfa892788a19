"""Mean field: the layer on the whole domain at once.

Stage: layer -> **infer**.  Paper: Algorithm 1, Eq. 2.

    iterations=5, damping=0, tolerance=0      exactly five synchronous updates from the unary potentials
    the defaults                              damped updates until nothing moves, the bound watched on the way
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..errors import LogicMPError
from ..execute.inputs import world_tensors
from ..facts.world import World
from ..layer import LogicMP, Step
from ..limits import Clock
from ..normalize.build import counted_formulas
from ..parse.theory import Predicate, Rule
from .answers import with_evidence
from .method import Iteration, Method, Problem, Solution

# how often a run that swings to and fro is repeated with shorter steps
MAX_RETRIES = 3
# the spread of the log-odds that a restart begins with
RESTART_SPREAD = 2.0


@dataclass
class MeanField(Method):
    """All groundings of all rules in every update; hard rules act with a finite weight.

    Args:
        iterations: updates at most, or exactly if `tolerance` is 0.
        damping: how much of the old log-odds stays in each update.
        tolerance: stop when no marginal moves by more than this.
        restarts: how many runs, the first from the unary potentials, the others from random log-odds; the one with
            the highest bound counts.
        hard_weight: the weight that a hard rule acts with.
        trace: keep bound and violations of every iteration.
    """

    name: ClassVar[str] = "mean-field"
    iterations: int = 200
    damping: float = 0.5
    tolerance: float = 1e-6
    restarts: int = 1
    hard_weight: float = 10.0
    trace: bool = False

    def solve(self, problem: Problem) -> Solution:
        if self.restarts < 1:
            raise LogicMPError(f"restarts={self.restarts} cannot be", "one run is the least")
        unary, evidence = world_tensors(problem.world)
        if not unary:
            odds = with_evidence(problem.world, {name: np.zeros(v.shape) for name, v in problem.world.values.items()})
            return Solution(odds, [_formula_odds(problem, rule, {}, evidence) for rule in problem.formulas],
                            notes=["no atom is unknown"])
        generator = torch.Generator().manual_seed(problem.seed)
        best: _Run | None = None
        for k in range(self.restarts):
            start = None if k == 0 else {name: RESTART_SPREAD * torch.randn(x.shape, generator=generator, dtype=x.dtype)
                                         for name, x in unary.items()}
            run = self._settle(problem, unary, evidence, start)
            if best is None or run.elbo > best.elbo:
                best = run
        assert best is not None
        notes = best.notes + ([f"the best of {self.restarts} runs"] if self.restarts > 1 else [])
        odds = {name: np.zeros(values.shape) for name, values in problem.world.values.items()}
        odds |= {name: _log_odds(problem.world.theory.predicate[name], problem.world, x.numpy())
                 for name, x in best.logits.items()}
        formulas = [_formula_odds(problem, rule, best.logits, evidence) for rule in problem.formulas]
        return Solution(with_evidence(problem.world, odds), formulas, elbo=best.elbo, notes=notes, trace=best.trace)

    def _settle(self, problem: Problem, unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor],
                start: Mapping[str, Tensor] | None) -> _Run:
        """Run until nothing moves; a run that swings to and fro is gone on with in shorter steps."""
        damping = self.damping
        notes: list[str] = []
        trace: list[Iteration] = []
        is_bound_to_stop = self.tolerance > 0
        for _ in range(1 + MAX_RETRIES * is_bound_to_stop):
            run = self._run(problem, unary, evidence, start, damping, len(trace))
            trace += run.trace
            if not is_bound_to_stop or run.change < self.tolerance or run.notes:
                notes += run.notes
                break
            start, damping = run.logits, (1 + damping) / 2
            notes = [f"mean field did not settle in {self.iterations} updates: damping was raised to {damping:g}"]
        else:
            notes = [f"mean field did not settle: after {len(trace) - 1 if trace else self.iterations} updates with "
                     f"damping up to {damping:g} a marginal still moved by {run.change:.2g}"]
        return replace(run, notes=notes, trace=trace if self.trace else [])

    def _run(self, problem: Problem, unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor],
             start: Mapping[str, Tensor] | None, damping: float, n_before: int) -> _Run:
        layer = LogicMP(problem.world.theory, self.iterations, damping, learn_weights=False,
                        semantics=problem.semantics, hard_weight=self.hard_weight, dtype=torch.float64,
                        sizes=problem.world.sizes)
        trace: list[Iteration] = []
        last: list[Step] = []
        change = math.inf
        # a true grounding of a hard rule counts nothing in log Z, and its weight in the layer
        surplus = self.hard_weight * _n_hard_groundings(problem)
        clock = Clock(self.max_seconds)
        is_late = False

        def watch(step: Step) -> bool:
            nonlocal change, is_late
            if last:
                change = max((float((q - last[0].marginals[name]).abs().max())
                              for name, q in step.marginals.items() if q.numel()), default=0.0)
            last[:] = [step]
            if self.trace:
                trace.append(Iteration(n_before + step.number, float(step.elbo()) - surplus,
                                       step.violations().tolist(), change))
            problem.progress("mean field", step.number, self.iterations)
            is_late = clock.is_over()
            # as the new log-odds are only a part of the way, so is the change
            return is_late or (step.number > 0 and self.tolerance > 0 and change < self.tolerance * (1 - damping))

        with torch.no_grad():
            logits = layer.run(unary, evidence, start=start, watch=watch)
            late = f"mean field was stopped after {clock.seconds} s and {last[0].number} updates"
            return _Run(logits, float(last[0].elbo()) - surplus, change / (1 - damping), [late] if is_late else [],
                        trace)


@dataclass(frozen=True)
class _Run:
    logits: dict[str, Tensor]
    elbo: float
    # the largest change of a marginal in the last update, had it been undamped
    change: float
    notes: list[str]
    trace: list[Iteration]


def _n_hard_groundings(problem: Problem) -> int:
    sizes = problem.world.sizes
    return sum(math.prod(max(0, sizes[v.type] - v.high + v.low) for v in free)
               for rule in problem.world.theory.rules if rule.is_hard
               for _, _, free in counted_formulas(rule, problem.semantics))


def _log_odds(predicate: Predicate, world: World, logits: np.ndarray) -> np.ndarray:
    """The layer's logits as log-odds of atoms: those of a categorical variable speak against all its other values."""
    if not predicate.is_categorical:
        return logits
    values = world.values[predicate.name]
    axes = (values.ndim - 1,) if predicate.labels is not None else predicate.functional
    last = range(values.ndim - len(axes), values.ndim)
    moved = np.moveaxis(np.where(values == 0, -np.inf, logits), axes, last)
    flat = moved.reshape(-1, math.prod(moved.shape[values.ndim - len(axes) :]))
    if predicate.may_be_none:
        flat = np.concatenate([flat, np.zeros_like(flat[:, :1])], -1)
    n = flat.shape[1]
    with np.errstate(invalid="ignore"):
        others = np.stack([np.logaddexp.reduce(np.delete(flat, k, 1), axis=1, initial=-np.inf) for k in range(n)], 1)
        odds = np.where(flat == -np.inf, -np.inf, flat - others)
    odds = odds[:, :-1] if predicate.may_be_none else odds
    return np.moveaxis(odds.reshape(moved.shape), last, axes)


def _formula_odds(problem: Problem, rule: Rule, logits: Mapping[str, Tensor],
                  evidence: Mapping[str, Tensor]) -> np.ndarray:
    """The log-odds that a formula holds, for each binding: its expected violation is the slope by its own weight."""
    theory = replace(problem.world.theory, rules=(replace(rule, weight=1.0),))
    sizes = problem.world.sizes
    layer = LogicMP(theory, sizes=sizes, dtype=torch.float64)
    # a formula over observed atoms alone still needs a tensor to tell the precision
    given = dict(logits) or {name: torch.zeros(x.shape, dtype=torch.float64) for name, x in evidence.items()}
    (slope,) = torch.autograd.grad(layer.theory_loss(given, evidence).sum(), layer.raw_weights[0],
                                   materialize_grads=True)
    violated = slope.clamp(0, 1).numpy()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-violated) - np.log(violated))
