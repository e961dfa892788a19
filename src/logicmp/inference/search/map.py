"""The most probable world: MaxWalkSAT, exact MaxSAT, or an integer program.

Room: inference/search.  Paper: Eq. 1, its mode.

    infer(rules, facts, "Smokes", method="map")       every atom 0 or 1; the hard rules are satisfied
    best_world(network, solver="ilp").values          the same for a network of your own

Rules with many groundings are grounded on demand: a world is found without them, the groundings that it violates are
added, and so on until it violates no others.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...errors import LimitError, LogicMPError, closest
from ...ground.features import expected_counts, log_weights, true_features
from ...ground.network import HARD, Network
from ...ground.propagate import HINT, contradiction, list_hard_rules
from ...ground.violated import Violated
from ...limits import MORE_TIME, Limits, Progress, need, silent
from ..answers import odds_of_counts, odds_of_values
from ..method import Method, Problem, Solution, Status
from ..moves.arrays import GroundArrays, build_arrays
from .ilp import solve_ilp
from .maxsat import hard_world, solve_maxsat
from .merge import merge_features
from .walksat import best_alone, max_walksat

SOLVERS = ("auto", "walksat", "maxsat", "ilp")
# auto: an integer program runs until it has this many groundings, MaxSAT for at most this many features; and both for
# at most this many seconds
MAX_ACTIVE = 30_000
MAX_FEATURES = 50_000
PROOF_SECONDS = 20.0
# no other world is looked for in the last part of the time
LAST = 0.1


@dataclass(frozen=True)
class Best:
    """The best world that a solver found."""

    # by variable
    values: np.ndarray
    solver: str
    # OPTIMAL if it is proven that no world is better
    status: Status
    # its log-probability plus log Z
    score: float
    # groundings of rules with positive weights that it violates
    n_violated: int
    notes: list[str] = field(default_factory=list)


def best_world(network: Network, weights: np.ndarray | None = None, solver: str = "auto", *, seed: int = 0,
               max_flips: int = 10_000_000, restarts: int = 10, noise: float = 0.3, limits: Limits | None = None,
               progress: Progress = silent, start: np.ndarray | None = None) -> Best:
    """The most probable world, or the best one that was found in time.

    >>> from logicmp import parse_facts, parse_theory
    >>> from logicmp.ground.build import build_network
    >>> from logicmp.facts.world import build_world
    >>> theory = parse_theory("p = {A, B}\\nS(p)\\n2 S(x)\\n!S(A) v !S(B).\\n1 S(A)")
    >>> best_world(build_network(build_world(parse_facts("", theory))), solver="ilp").values.tolist()
    [1, 0]

    Args:
        weights: instead of the network's own.
        solver: "walksat" (needs numba), "maxsat" (RC2, needs python-sat), "ilp" (HiGHS, needs SciPy), or "auto": an
            exact one for at most 20 seconds while solutions violate few groundings, then MaxWalkSAT. Without numba,
            "auto" is an exact one for any network; without SciPy and python-sat it is MaxWalkSAT.
        max_flips, restarts, noise: of MaxWalkSAT.
        start: a world for MaxWalkSAT to start from.
    """
    if solver not in SOLVERS:
        raise LogicMPError(f"unknown solver {solver!r}", closest(solver, SOLVERS, "solver"))
    if restarts < 1 or max_flips < 1:
        name, given = ("restarts", restarts) if restarts < 1 else ("max_flips", max_flips)
        raise LogicMPError(f"{name} must be at least 1, got {given}")
    limits = limits or Limits()
    arrays = merge_features(build_arrays(network, weights, unary_features=True))
    notes: list[str] = []
    candidates = _candidates(solver, arrays)
    for name in candidates:
        if name == "walksat":
            if start is None:
                start = _satisfying_start(arrays)
            walk = max_walksat(arrays, np.random.default_rng(seed), max_flips, restarts, noise, limits, progress, start)
            if walk.n_violated_hard:
                raise LogicMPError(f"MaxWalkSAT found no world that satisfies the hard rules in {walk.flips:,} flips: "
                                   f"the best violates {walk.n_violated_hard:,} of their groundings; the hard rules "
                                   f"are:{list_hard_rules(network)}", HINT)
            late = ", stopped by the time limit" if walk.is_late else ""
            notes.append(f"MaxWalkSAT: {walk.flips:,} flips in {walk.seconds:.2g} s{late}")
            # a world that violates nothing is the best
            status = Status.OPTIMAL if walk.n_violated == 0 else Status.TIME if walk.is_late else Status.ITERATIONS
            return _best(network, weights, walk.values, name, status, notes)
        progress(name, 0, 1)
        left = limits.left()
        if len(candidates) > 1:
            # half of the time is for MaxWalkSAT
            left = PROOF_SECONDS if left is None else min(left / 2, PROOF_SECONDS)
        if name == "ilp":
            values, is_proven = solve_ilp(arrays, left, MAX_ACTIVE if len(candidates) > 1 else None)
        else:
            values, is_proven = solve_maxsat(arrays, left)
        progress(name, 1, 1)
        if is_proven or (values is not None and len(candidates) == 1):
            assert values is not None
            return _best(network, weights, values, name, Status.OPTIMAL if is_proven else Status.TIME, notes)
        if values is None and len(candidates) == 1:
            notes.append(f"{name} found no world in {left:g} s")
        start = start if values is None else values
    raise LogicMPError(notes[-1], "give it more time, or use solver='walksat'")


def _satisfying_start(arrays: GroundArrays) -> np.ndarray | None:
    """A world that satisfies the hard rules, by a SAT solver; None without hard rules or python-sat."""
    g, network = arrays.ground, arrays.network
    if not g.is_hard.any() or importlib.util.find_spec("pysat") is None:
        return None
    if network.n_own == len(network.cards):
        is_true = true_features(network, best_alone(arrays))
        if not is_true[network.param == HARD].any():
            # MaxWalkSAT starts from this world by itself
            return None
    found = hard_world(arrays)
    if found is None:
        raise contradiction(arrays.network)
    return found


def _candidates(solver: str, arrays: GroundArrays) -> list[str]:
    """The solvers to try in turn; without numba, "auto" is an exact solver whatever the size."""
    if solver != "auto":
        return [solver]
    has = {name: importlib.util.find_spec(module) is not None
           for name, module in (("ilp", "scipy"), ("maxsat", "pysat"), ("walksat", "numba"))}
    if not any(has.values()):
        need("scipy", "map", "method 'map'", 'pip install "logicmp[sampling]" for MaxWalkSAT')
    exact = next((name for name in ("ilp", "maxsat") if has[name]), None)
    if exact is None or (has["walksat"] and exact == "maxsat" and arrays.n_features > MAX_FEATURES):
        return ["walksat"]
    return [exact, "walksat"] if has["walksat"] else [exact]


def _best(network: Network, weights: np.ndarray | None, values: np.ndarray, solver: str, status: Status,
          notes: list[str]) -> Best:
    is_true = true_features(network, values)
    assert not is_true[network.param == HARD].any(), f"{solver} found a world that violates a hard rule"
    weights = network.weights if weights is None else weights
    score = float(weights @ expected_counts(network, is_true)
                  + network.potentials[network.starts[:-1] + values].sum())
    n_violated = int((is_true & (log_weights(network, weights) < 0)).sum())
    how = "proven to be the best" if status is Status.OPTIMAL else "not proven to be the best"
    notes = [*notes, f"{solver}: {how}, log-weight {score:.9g}; it violates {n_violated:,} "
             f"grounding{'s' * (n_violated != 1)} of rules with positive weights, and no hard one"]
    return Best(values, solver, status, score, n_violated, notes)


@dataclass
class Map(Method):
    """The most probable world; each answer is 0 or 1.

    Args:
        solver: "walksat", "maxsat" (exact, python-sat), "ilp" (exact, SciPy) or "auto": exact while solutions violate
            few groundings or if numba is missing, else MaxWalkSAT.
        max_flips: of MaxWalkSAT, all restarts together.
        restarts: of MaxWalkSAT.
        noise: share of random moves of MaxWalkSAT, 0 to 1.
    """

    name: ClassVar[str] = "map"
    solver: str = "auto"
    max_flips: int = 10_000_000
    restarts: int = 10
    noise: float = 0.3

    def solve(self, problem: Problem) -> Solution:
        def report(done: int, n: int) -> None:
            problem.progress("grounding", done, n)
            if done < n:
                problem.limits.check("grounding")

        def check() -> None:
            problem.limits.check("adding groundings that the world violates")

        limits = problem.limits
        grounder = Violated(problem.world, (*problem.world.theory.rules, *problem.formulas), problem.semantics,
                            limits.groundings, limits.allow, progress=report, check=check)
        best, network, notes = self._search(grounder, problem)
        expected = expected_counts(network, true_features(network, best.values))
        formulas = [np.where(odds > 0, np.inf, -np.inf) for odds in odds_of_counts(network, expected)]
        p = np.zeros(len(network.potentials))
        p[network.starts[:-1] + best.values] = 1
        return Solution(odds_of_values(network, p), best.status, formulas, notes=[*notes, *best.notes])

    def _search(self, grounder: Violated, problem: Problem) -> tuple[Best, Network, list[str]]:
        """The best world, with the groundings that it needs added; the network, and a note on them."""
        best: Best | None = None
        n_added = rounds = 0
        solver, limits, new, why = self.solver, problem.limits, None, ""
        try:
            while best is None or (new != 0 and not limits.is_over(LAST * (limits.seconds or 0.0))):
                # the rest of the time is for the groundings that the world violates
                own = limits.part(0.8) if grounder.on_demand else limits
                best = best_world(grounder.network, solver=solver, seed=problem.seed, max_flips=self.max_flips,
                                  restarts=self.restarts if best is None else 1, noise=self.noise, limits=own,
                                  progress=problem.progress, start=None if best is None else best.values)
                # an exact solver that gave up does so again with more groundings
                solver = "walksat" if best.solver == "walksat" else solver
                new, rounds = None, rounds + 1
                new = grounder.add_violated(best.values)
                n_added += new
                problem.progress("adding violated groundings", n_added, 0)
        except LimitError as error:
            if best is None:
                raise
            why = error.message
        assert best is not None
        rules = [grounder.rules[r] for r in grounder.on_demand]
        many = "" if len(rules) == 1 else "s"
        notes = [f"{len(rules)} rule{many} with many groundings: {n_added:,} of them were added, those that "
                 f"{rounds:,} worlds violate"] if rules else []
        if new != 0:
            # soft groundings may be missing from the search, but no hard one from the answer
            is_true = true_features(grounder.network, best.values)
            if bool(is_true[grounder.network.param == HARD].any()) or (
                    new is None and any(rule.is_hard for rule in rules)):
                raise LimitError(f"the time limit of {limits.seconds:g} s was reached after {rounds} "
                                 "worlds that violate hard rules with many groundings", MORE_TIME)
            best = _best(grounder.network, None, best.values, best.solver, Status.TIME, [])
            if new is None:
                notes.append(f"not all groundings that the last world violates were found: {why}")
        return best, grounder.network, notes
