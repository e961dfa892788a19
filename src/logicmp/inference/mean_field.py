"""Mean field on the whole domain at once.

Room: execute -> **inference**.  Paper: Algorithm 1, Eq. 2.

    iterations=5, damping=0, tolerance=0      exactly five synchronous updates from the unary potentials
    the defaults                              damped updates until no marginal changes, with the TAP correction

The correction needs the ground network. Without one, or if the corrected updates do not converge, the answers are those
of plain mean field, and the notes report why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..errors import LogicMPError
from ..execute.checkpoint import RunCheckpoint, fingerprint
from ..execute.inputs import read_inputs
from ..execute.lists import read_rows
from ..execute.mean_field import Correct, Iteration, Run, initial_weights
from ..execute.plans import build_executor
from ..execute.schedule import Schedule, make_schedule
from ..execute.sparse import SparseExecutor
from ..execute.worlds import world_tensors
from ..facts.world import World
from ..ground.build import build_network
from ..ground.engine import Grounding
from ..ground.network import Network, card_of
from ..limits import keep_freed_memory
from ..parse.theory import Predicate, Rule, Theory
from .answers import with_evidence
from .method import Method, Problem, Solution, Status, TraceLine, n_hard_groundings
from .tap import Onsager

# how often a run that oscillates continues, or starts over, with more damping
MAX_RETRIES = 3
# standard deviation of the log-odds that a restart begins with
RESTART_SPREAD = 2.0
# open groundings up to which the correction is computed: each iteration visits all of them
MAX_CORRECTED = 100_000


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
        correction: "tap" to add the second-order (Onsager) term to each update, where the run ends by convergence and
            the evidence leaves at most 100,000 groundings open; "none" for plain mean field. The bound is that of the
            final marginals, a lower bound of log Z in both cases; plain mean field maximizes it.
        trace: keep bound and violations of every iteration.
        temperature: log-odds are divided by it before they become the marginals that send messages, above 0; the
            answers are read at temperature 1.
        checkpoint: file that is written every minute while a run converges; if it exists, the run resumes from it, with
            any number of processes.
        schedule: "paper", "adaptive" or "cold" to run the layer's schedule of that name once, with its own iterations
            and damping; its answers are scores to decide by, not probabilities. None to run until convergence.
    """

    name: ClassVar[str] = "mean-field"
    takes_lists: ClassVar[bool] = True
    takes_shares: ClassVar[bool] = True
    iterations: int = 200
    damping: float = 0.5
    tolerance: float = 1e-6
    restarts: int = 1
    hard_weight: float = 10.0
    correction: str = "tap"
    trace: bool = False
    temperature: float = 1.0
    schedule: str | None = None
    checkpoint: str | None = None

    def solve(self, problem: Problem, network: Network | None = None) -> Solution:
        """The log-odds of every unobserved atom and every queried formula.

        Args:
            network: the ground network of the theory's rules, for the correction, if it exists already.
        """
        world = problem.world
        unary, evidence = world_tensors(world)
        if not unary:
            odds = with_evidence(world, {name: np.zeros(v.shape) for name, v in world.values.items()})
            return Solution(odds, Status.EXACT, [_formula_odds(problem, rule, {}, evidence)
                                                 for rule in problem.formulas], notes=["no atom is unobserved"])
        correct, notes = self._correct(problem, network)
        run = make_run(world, world.theory, unary, evidence, problem.semantics,
                       initial_weights(world.theory, world.sizes, self.hard_weight, torch.float64), problem.grounding)
        del unary, evidence
        shares = problem.grounding.shares
        kept = self._checkpoint(problem)
        generator = torch.Generator().manual_seed(problem.seed)
        best: _Found | None = None
        n_runs = 0
        for k in range(self.restarts):
            if k and shares.agree(problem.limits.is_over()):
                break
            start = None if k == 0 else run.take({
                name: RESTART_SPREAD * torch.randn(shape, generator=generator, dtype=run.base[name].dtype)
                for name, shape in run.shapes.items()})
            with torch.no_grad():
                found = self._converge(problem, run, start, correct, kept)
            n_runs += 1
            if best is None or (found.elbo > best.elbo and found.status is not Status.NONE):
                best = found
        assert best is not None
        is_cut_short = n_runs < self.restarts
        notes += best.notes
        if self.restarts > 1:
            notes.append(f"the best of {n_runs}{f' of {self.restarts}' * is_cut_short} runs")
        logits = run.outputs(best.logits)
        odds = {name: np.zeros(values.shape) for name, values in world.values.items()}
        odds |= {name: _log_odds(run.theory.predicate[name], world, x.numpy()) for name, x in logits.items()}
        formulas = [_formula_odds(problem, rule, logits, world_tensors(world)[1]) for rule in problem.formulas]
        status = Status.TIME if is_cut_short and best.status is not Status.NONE else best.status
        n_rows = None
        if isinstance(run.executor, SparseExecutor):
            n_rows = int(shares.total(np.array([run.executor.rows.n_rows]))[0])
        return Solution(with_evidence(world, odds), status, formulas, elbo=best.elbo, n_rows=n_rows, notes=notes,
                        trace=best.trace)

    def _correct(self, problem: Problem, network: Network | None) -> tuple[Correct | None, list[str]]:
        """The correction of each update, None for plain mean field, and a note if that was not asked for."""
        if self.correction == "none":
            return None, []
        limits = problem.limits

        def progress(done: int, n: int) -> None:
            problem.progress("grounding", done, n)
            limits.check("grounding")

        if self.schedule is not None:
            why = "the schedule does not run until convergence"
        elif self.tolerance == 0:
            why = "tolerance is 0"
        elif problem.semantics == "paper":
            why = "the paper's semantics has no ground network"
        elif problem.world.divided:
            why = f"no process has all facts of {', '.join(problem.world.divided)}"
        elif network is not None and network.n_features > MAX_CORRECTED:
            why = f"the ground network has {network.n_features:,} features (limit {MAX_CORRECTED:,})"
        else:
            try:
                network = network or build_network(problem.world, problem.world.theory.rules, problem.semantics,
                                                   min(limits.groundings, MAX_CORRECTED), progress, limits.allow)
                return _Correction(network, self.hard_weight), []
            except LogicMPError as error:
                why = error.message
        return None, [f"mean field without the TAP correction: {why}"]

    def _checkpoint(self, problem: Problem) -> RunCheckpoint | None:
        """The file that the run is kept in; None if it is not kept."""
        if self.checkpoint is None:
            return None
        if self.restarts > 1 or self.schedule is not None:
            raise LogicMPError("a checkpoint is for one run until convergence",
                               f"leave out {'restarts' if self.restarts > 1 else 'the schedule'}, or the checkpoint")
        world, options = problem.world, (self.iterations, self.damping, self.tolerance, self.hard_weight,
                                         self.correction, self.temperature)
        # of divided facts a process knows the number only, with any number of processes
        values = {name: x for name, x in world.values.items() if name not in world.divided}
        belongs_to = fingerprint([str(world.theory.rules), problem.semantics, str(options), str(world.divided)],
                                 {**values, **{f"soft {name}": x for name, x in world.unary.items()}})
        return RunCheckpoint(Path(self.checkpoint), belongs_to, problem.grounding.shares)

    def _converge(self, problem: Problem, run: Run, start: Mapping[str, Tensor] | None,
                  correct: Correct | None, kept: RunCheckpoint | None = None) -> _Found:
        """Run until no marginal changes; a run that oscillates gets more damping, and at last no correction."""
        if self.schedule is not None:
            found = self._iterate(problem, run, start, make_schedule(self.schedule), 0, None)
            told = f"schedule {self.schedule!r}: the answers are scores to decide by, not probabilities"
            return replace(found, notes=[*found.notes, told])
        damping, first = self.damping, start
        notes: list[str] = []
        trace: list[TraceLine] = []
        n_retries, is_first = MAX_RETRIES if self.tolerance > 0 else 0, True
        state = None if kept is None else kept.load(run.shapes, run.inputs.like.dtype)
        done = 0
        if state is not None:
            start, damping, done = run.take(state.logits), state.damping, state.done
            notes = [f"resumed after {state.attempt * self.iterations + done:,} iterations"]
        for attempt in range(0 if state is None else state.attempt, 1 + n_retries):
            schedule = Schedule(self.iterations - done, damping, self.temperature,
                                tolerance=self.tolerance)
            keep = None if kept is None else partial(kept.save, run.whole, attempt=attempt, damping=damping,
                                                     before=done)
            found = self._iterate(problem, run, start, schedule, len(trace), correct, keep)
            done = 0
            trace += found.trace
            if found.status is Status.NONE and not is_first:
                # of the run before, which ran out of iterations
                found = replace(found, status=Status.TIME)
            if not n_retries or found.status is not Status.ITERATIONS:
                notes += found.notes
                break
            # a corrected run starts over, because from where it oscillates it may converge to a worse solution
            start, damping, is_first = found.logits if correct is None else first, (1 + damping) / 2, False
            notes = [f"mean field did not converge in {self.iterations} iterations: damping was raised to {damping:g}"]
        else:
            told = (f"did not converge: after {(1 + n_retries) * self.iterations:,} iterations with damping up to "
                    f"{damping:g} a marginal still changed by {found.change:.2g}")
            if correct is not None:
                plain = self._converge(problem, run, first, None)
                return replace(plain, notes=[f"mean field without the TAP correction: with it, the updates {told}",
                                             *plain.notes])
            notes = [f"mean field {told}"]
        return replace(found, notes=notes, trace=trace if self.trace else [])

    def _iterate(self, problem: Problem, run: Run, start: Mapping[str, Tensor] | None, schedule: Schedule,
                 n_before: int, correct: Correct | None,
                 keep: Callable[[Mapping[str, Tensor], int], None] | None = None) -> _Found:
        damping, tolerance = schedule.damping, schedule.tolerance
        trace: list[TraceLine] = []
        last: list[Iteration] = []
        change = math.inf
        # a true grounding of a hard rule adds nothing to log Z, but its weight to the bound
        surplus = self.hard_weight * n_hard_groundings(problem.world, problem.semantics)
        limits, status = problem.limits, Status.ITERATIONS

        def watch(iteration: Iteration) -> bool:
            nonlocal change, status
            if last:
                change = run.largest_change(last[0].marginals, iteration.marginals)
            last[:] = [iteration]
            if self.trace:
                trace.append(TraceLine(n_before + iteration.number, float(iteration.elbo()) - surplus,
                                       iteration.violations().tolist(), change))
            problem.progress("mean field", iteration.number, schedule.iterations)
            if keep is not None:
                keep(iteration.logits, iteration.number)
            # damping shortens each change by its share
            if iteration.number > 0 and tolerance > 0 and change < tolerance * (1 - damping):
                status = Status.CONVERGED
            elif limits.seconds is not None and problem.grounding.shares.agree(limits.is_over()):
                status = Status.TIME
            return status is not Status.ITERATIONS

        logits = run.iterate(replace(schedule, tolerance=0.0), start, watch, correct)
        if last[0].number == 0:
            status = Status.NONE
        after = "" if limits.seconds is None else f"{limits.seconds:.3g} s and "
        late = f"mean field was stopped after {after}{last[0].number} iterations"
        return _Found(logits, float(last[0].elbo()) - surplus, change / (1 - damping), status,
                      [late] if status in (Status.TIME, Status.NONE) else [], trace)


def make_run(world: World, theory: Theory, unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor],
             semantics: str, weights: list[Tensor], grounding: Grounding | None = None) -> Run:
    """A run of rules on a world, by lists of rows where it has sparse predicates."""
    if world.supports:
        inputs, executor = read_rows(theory, world.sizes, world.supports, unary, evidence, semantics, grounding)
        if executor.parts:
            # joined processes return it while they read and join; every iteration makes the same arrays
            keep_freed_memory(True)
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


class _Correction:
    """The TAP correction on the layer's tensors: marginals in, what to add to the logits out."""

    def __init__(self, network: Network, hard_weight: float):
        self.network = network
        self.onsager = Onsager(network, hard_weight)
        # by predicate, which of its variables are unobserved, and the places of their values
        self.places: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for name, variables in network.variables.items():
            is_open = np.asarray(variables >= 0)
            values = np.arange(card_of(network.world, name))
            self.places[name] = is_open, network.starts[variables[is_open]][:, None] + values

    def __call__(self, q: Mapping[str, Tensor]) -> dict[str, Tensor]:
        stored = self.network.world.stored
        p = np.zeros(len(self.network.potentials))
        for name, x in q.items():
            is_open, places = self.places[name]
            p[places] = _as_values(stored(name), x[0].numpy())[is_open]
        field = self.onsager(p)
        found = {}
        for name, x in q.items():
            is_open, places = self.places[name]
            values = np.zeros((*is_open.shape, places.shape[1]))
            values[is_open] = field[places]
            found[name] = torch.from_numpy(_as_atoms(stored(name), values, x.shape[1:])).unsqueeze(0)
        return found


def _as_values(predicate: Predicate, q: np.ndarray) -> np.ndarray:
    """The marginals of atoms as probabilities of values, [variables..., values]."""
    if not predicate.is_categorical:
        return np.stack([1 - q, q], -1)
    if predicate.labels is not None:
        return q
    last = range(q.ndim - len(predicate.functional), q.ndim)
    moved = np.moveaxis(q, predicate.functional, last)
    flat = moved.reshape(*moved.shape[: last.start], -1)
    return np.concatenate([flat, 1 - flat.sum(-1, keepdims=True)], -1) if predicate.may_be_none else flat


def _as_atoms(predicate: Predicate, values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Terms of the log-potentials as terms of the logits, where "false" and "none" have none."""
    if not predicate.is_categorical:
        return np.asarray(values[..., 1] - values[..., 0])
    if predicate.labels is not None:
        return values
    values = values[..., :-1] - values[..., -1:] if predicate.may_be_none else values
    sizes = [shape[k] for k in range(len(shape)) if k not in predicate.functional]
    moved = values.reshape(*sizes, *(shape[k] for k in predicate.functional))
    return np.moveaxis(moved, range(len(sizes), len(shape)), predicate.functional)


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
    run = make_run(world, theory, given, evidence, "exact", [weight.requires_grad_()], problem.grounding)
    (slope,) = torch.autograd.grad(run.counts(run.marginals(), weighted=True).sum(), weight, materialize_grads=True)
    violated = slope.clamp(0, 1).numpy()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-violated) - np.log(violated))
