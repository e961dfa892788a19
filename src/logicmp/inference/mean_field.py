"""Mean field on the whole domain at once.

Room: execute -> **inference**.  Paper: Algorithm 1, Eq. 2.

    iterations=5, damping=0, tolerance=0      exactly five synchronous updates from the unary potentials
    the defaults                              damped updates until no marginal changes
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..errors import CostError
from ..execute.dense import build_executor
from ..execute.inputs import read_inputs, world_tensors
from ..execute.lists import read_rows
from ..execute.mean_field import Iteration, Run, initial_weights, largest_change
from ..execute.schedule import Schedule, make_schedule
from ..facts.supports import DENSE_ATOMS
from ..facts.world import World
from ..normalize.build import counted_formulas
from ..parse.theory import Predicate, Rule, Theory
from .answers import formula_shape, with_evidence
from .method import Method, Problem, Solution, Status, TraceLine

# how often a run that oscillates continues with more damping
MAX_RETRIES = 3
# standard deviation of the log-odds that a restart begins with
RESTART_SPREAD = 2.0
# bindings of a queried formula in a world with sparse predicates
MAX_BINDINGS = 2**26


@dataclass
class MeanField(Method):
    """All groundings of all rules in every update; hard rules act with a finite weight.

    Args:
        iterations: updates at most, or exactly if `tolerance` is 0.
        damping: share of the previous log-odds kept in each update, 0 to below 1.
        tolerance: stop when no marginal changes by more than this.
        restarts: number of runs, the first from the unary potentials, the others from random log-odds; the one with
            the highest bound is used.
        hard_weight: finite weight that stands in for a hard rule.
        trace: keep bound and violations of every iteration.
        schedule: "paper", "adaptive" or "cold" to run the layer's schedule of that name once, with its own iterations
            and damping; its answers are scores to decide by, not probabilities. None to run until convergence.
    """

    name: ClassVar[str] = "mean-field"
    dense_atoms: ClassVar[int | None] = DENSE_ATOMS
    iterations: int = 200
    damping: float = 0.5
    tolerance: float = 1e-6
    restarts: int = 1
    hard_weight: float = 10.0
    trace: bool = False
    schedule: str | None = None

    def solve(self, problem: Problem) -> Solution:
        world = problem.world
        _check_bindings(problem)
        unary, evidence = world_tensors(world)
        if not unary:
            odds = with_evidence(world, {name: np.zeros(v.shape) for name, v in world.values.items()})
            return Solution(odds, Status.EXACT, [_formula_odds(problem, rule, {}, evidence)
                                                 for rule in problem.formulas], notes=["no atom is unobserved"])
        run = make_run(world, world.theory, unary, evidence, problem.semantics,
                        initial_weights(world.theory, world.sizes, self.hard_weight, torch.float64))
        generator = torch.Generator().manual_seed(problem.seed)
        best: _Found | None = None
        n_runs = 0
        for k in range(self.restarts):
            if k and problem.limits.is_over():
                break
            start = None if k == 0 else {name: RESTART_SPREAD * torch.randn(x.shape, generator=generator, dtype=x.dtype)
                                         for name, x in run.base.items()}
            with torch.no_grad():
                found = self._converge(problem, run, start)
            n_runs += 1
            if best is None or found.elbo > best.elbo:
                best = found
        assert best is not None
        is_cut_short = n_runs < self.restarts
        notes = [*best.notes]
        if self.restarts > 1:
            notes.append(f"the best of {n_runs}{f' of {self.restarts}' * is_cut_short} runs")
        logits = run.outputs(best.logits)
        odds = {name: np.zeros(values.shape) for name, values in world.values.items()}
        odds |= {name: _log_odds(run.theory.predicate[name], world, x.numpy()) for name, x in logits.items()}
        formulas = [_formula_odds(problem, rule, logits, evidence) for rule in problem.formulas]
        status = Status.TIME if is_cut_short else best.status
        return Solution(with_evidence(world, odds), status, formulas, elbo=best.elbo, notes=notes, trace=best.trace)

    def _converge(self, problem: Problem, run: Run, start: Mapping[str, Tensor] | None) -> _Found:
        """Run until no marginal changes; a run that oscillates continues with more damping."""
        if self.schedule is not None:
            found = self._iterate(problem, run, start, make_schedule(self.schedule), 0)
            told = f"schedule {self.schedule!r}: the answers are scores to decide by, not probabilities"
            return replace(found, notes=[*found.notes, told])
        damping = self.damping
        notes: list[str] = []
        trace: list[TraceLine] = []
        n_retries = MAX_RETRIES if self.tolerance > 0 else 0
        for _ in range(1 + n_retries):
            schedule = Schedule(self.iterations, damping, tolerance=self.tolerance)
            found = self._iterate(problem, run, start, schedule, len(trace))
            trace += found.trace
            if not n_retries or found.status is not Status.ITERATIONS:
                notes += found.notes
                break
            start, damping = found.logits, (1 + damping) / 2
            notes = [f"mean field did not converge in {self.iterations} iterations: damping was raised to {damping:g}"]
        else:
            notes = [f"mean field did not converge: after {len(trace) - 1 if trace else self.iterations} iterations "
                     f"with damping up to {damping:g} a marginal still changed by {found.change:.2g}"]
        return replace(found, notes=notes, trace=trace if self.trace else [])

    def _iterate(self, problem: Problem, run: Run, start: Mapping[str, Tensor] | None, schedule: Schedule,
                 n_before: int) -> _Found:
        damping, tolerance = schedule.damping, schedule.tolerance
        trace: list[TraceLine] = []
        last: list[Iteration] = []
        change = math.inf
        # a true grounding of a hard rule adds nothing to log Z, but its weight to the bound
        surplus = self.hard_weight * _n_hard_groundings(problem)
        limits, status = problem.limits, Status.ITERATIONS

        def watch(iteration: Iteration) -> bool:
            nonlocal change, status
            if last:
                change = largest_change(last[0].marginals, iteration.marginals)
            last[:] = [iteration]
            if self.trace:
                trace.append(TraceLine(n_before + iteration.number, float(iteration.elbo()) - surplus,
                                       iteration.violations().tolist(), change))
            problem.progress("mean field", iteration.number, schedule.iterations)
            # damping shortens each change by its share
            if iteration.number > 0 and tolerance > 0 and change < tolerance * (1 - damping):
                status = Status.CONVERGED
            elif limits.is_over():
                status = Status.TIME
            return status is not Status.ITERATIONS

        logits = run.iterate(replace(schedule, tolerance=0.0), start, watch)
        late = f"mean field was stopped after {limits.seconds} s and {last[0].number} iterations"
        return _Found(logits, float(last[0].elbo()) - surplus, change / (1 - damping), status,
                      [late] if status is Status.TIME else [], trace)


def make_run(world: World, theory: Theory, unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor],
              semantics: str, weights: list[Tensor]) -> Run:
    """A run of rules on a world, by lists of rows where it has sparse predicates."""
    if world.supports:
        inputs, executor = read_rows(theory, world.sizes, world.supports, unary, evidence, semantics)
        return Run(executor, inputs, weights)
    inputs = read_inputs(theory, unary, evidence, None)
    return Run(build_executor(theory, inputs.sizes, tuple(inputs.observed), semantics), inputs, weights)


@dataclass(frozen=True)
class _Found:
    logits: dict[str, Tensor]
    elbo: float
    # the largest change of a marginal in the last update, had it been undamped
    change: float
    status: Status
    notes: list[str]
    trace: list[TraceLine]


def _check_bindings(problem: Problem) -> None:
    """Reject queried formulas with too many bindings in a world whose predicates have too many atoms."""
    for rule in problem.formulas if problem.world.supports else ():
        n = math.prod(formula_shape(rule, problem.world))
        if n > MAX_BINDINGS:
            raise CostError(f"the query '{rule.formula}' has {n:,} bindings (limit {MAX_BINDINGS:,})", None,
                            "query atoms instead: of a sparse predicate, only those in its support are answered")


def _n_hard_groundings(problem: Problem) -> int:
    sizes = problem.world.sizes
    return sum(math.prod(max(0, sizes[v.type] - v.high + v.low) for v in free)
               for rule in problem.world.theory.rules if rule.is_hard
               for _, _, free in counted_formulas(rule, problem.semantics))


def _log_odds(predicate: Predicate, world: World, logits: np.ndarray) -> np.ndarray:
    """The layer's logits as log-odds of atoms: those of a categorical variable are against all its other values."""
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
    """The log-odds that a formula is true, for each binding: its expected violation is the slope by its own weight."""
    world = problem.world
    theory = replace(world.theory, rules=(replace(rule, weight=1.0),))
    # a formula over observed atoms alone still needs a tensor to tell the precision
    given = dict(logits) or {name: torch.zeros(x.shape, dtype=torch.float64) for name, x in evidence.items()}
    (weight,) = initial_weights(theory, world.sizes, 1.0, torch.float64)
    run = make_run(world, theory, given, evidence, "exact", [weight.requires_grad_()])
    (slope,) = torch.autograd.grad(run.counts(run.marginals(), weighted=True).sum(), weight, materialize_grads=True)
    violated = slope.clamp(0, 1).numpy()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-violated) - np.log(violated))
