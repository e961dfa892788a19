"""Hinge-loss Markov random fields (PSL): truth degrees between 0 and 1, of the least loss.

Room: inference.  Bach, Broecheler, Huang & Getoor (2017).

    w Smokes(A) => Cancer(A)      loss  w max(0, Smokes(A) + (1 - Cancer(A)) - 1),  or its square
    Smokes(A) => Cancer(A).       Smokes(A) - Cancer(A) <= 0

Every feature (a product of literals that is true where a rule is violated) is read in the logic of Lukasiewicz: the
sum of the literals' truth minus the largest sum at which the product is false. The loss is convex. Its minimum is one
world in degrees of truth, not a probability. Consensus ADMM finds it; a large sum of squares without constraints is
minimized by one truth value after the other, which needs many times fewer rounds.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from ..errors import RuleError
from ..ground.features import expected_counts, log_weights, queried_features, soft_evidence
from ..ground.join import ragged_ranges
from ..ground.network import Network
from ..ground.propagate import propagate
from ..limits import Limits
from .answers import EPSILON, odds_of_counts, odds_of_values
from .method import Method, Problem, Solution, Status

# the step size changes by the factor BALANCE if one residual is more than TOO_FAR times the other
BALANCE, TOO_FAR = 2.0, 10.0
# and stays in this range
RANGE = (1e-3, 1e3)
# rounds between two checks of the residuals
PERIOD = 10
# entries of all hinges from which a compiled loop is worth its import, if numba is installed; the parts that it is in
COMPILED, N_PARTS = 300_000, 4
# features whose hinges are made at once
PIECE = 2**19
# a constraint that is violated by more gets a note
MAX_VIOLATION = 1e-3


@dataclass(frozen=True)
class HingeLoss:
    """A sum of hinges over the truth of all values of all variables, and linear constraints.

    Hinge f is  max(0, sum of coefficient * truth over its entries - bound[f]); the entries are sorted by hinge.
    """

    n_values: int
    owner: np.ndarray
    value: np.ndarray
    coefficient: np.ndarray
    bound: np.ndarray
    # infinite for a constraint
    weight: np.ndarray
    squared: bool

    @property
    def n_entries(self) -> int:
        return len(self.value)

    def total(self, truth: np.ndarray) -> np.ndarray:
        """The sum of each hinge."""
        return np.bincount(self.owner, self.coefficient * truth[self.value], len(self.bound))

    def distance(self, truth: np.ndarray) -> np.ndarray:
        """The distance of each hinge to satisfaction."""
        return np.asarray((self.total(truth) - self.bound).clip(0, None))

    def __call__(self, truth: np.ndarray) -> float:
        """The loss, without the constraints."""
        is_soft = np.isfinite(self.weight)
        distance = self.distance(truth)[is_soft]
        return float(self.weight[is_soft] @ (distance**2 if self.squared else distance))

    def violation(self, truth: np.ndarray) -> float:
        """The largest violation of a constraint."""
        return float(self.distance(truth)[np.isinf(self.weight)].max(initial=0.0))


def build_loss(network: Network, squared: bool) -> HingeLoss:
    """The hinges of a network; raises an error for weights that would make the loss concave.

    A negative weight of a single literal is a positive weight of its negation.
    """
    weight = -log_weights(network)
    counts = np.diff(network.begins)
    concave = np.flatnonzero((weight < 0) & (counts > 1))
    if len(concave):
        rule = network.rules[network.rule[concave[0]]]
        raise RuleError(f"method 'hl-mrf' allows no negative weight for a rule with several literals: {rule}",
                        rule.span, "its loss would have many minima; negate the rule, or use exact, mean-field, bp, "
                        "gibbs or mc-sat")
    chosen = np.flatnonzero(weight != 0)
    # in pieces, because what is computed on the way needs ten times the memory of the result
    pieces = [_hinges(network, some, counts, weight) for some in np.array_split(chosen, 1 + len(chosen) // PIECE)]
    owner, value, coefficient, bound = ([piece[k] for piece in pieces] for k in range(4))
    begins = np.cumsum([0, *map(len, bound)])
    var, singles, log_weight = soft_evidence(network)
    row, more_value, more_coefficient, constant = _entries(network, var, singles)
    return HingeLoss(
        int(network.starts[-1]),
        np.concatenate([*(own + np.int32(begin) for own, begin in zip(owner, begins, strict=False)),
                        (len(chosen) + row).astype(np.int32)]),
        np.concatenate([*value, more_value.astype(np.int32)]), np.concatenate([*coefficient, more_coefficient]),
        np.concatenate([*bound, -constant]), np.concatenate([np.abs(weight[chosen]), -log_weight]), squared)


def _hinges(network: Network, chosen: np.ndarray, counts: np.ndarray, weight: np.ndarray
            ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The hinges of some features: of each entry its hinge, value and coefficient; and the bound of each hinge."""
    owner, literal = ragged_ranges(network.begins[chosen], counts[chosen])
    is_flipped = (weight[chosen] < 0)[owner]
    sets = network.set[literal]
    sets[is_flipped] = network.sets.complement(sets[is_flipped])
    row, value, coefficient, constant = _entries(network, network.var[literal], sets)
    bound = counts[chosen] - 1 - np.bincount(owner, constant, len(chosen))
    return owner[row].astype(np.int32), value.astype(np.int32), coefficient, bound


def _entries(network: Network, var: np.ndarray, sets: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The truth of literals as a linear form: literal, value and coefficient of each entry; and the constant of each.

    A set with most of the values is one minus the others, so that only the value 1 of a binary variable occurs.
    """
    small, is_other = (column[sets] for column in network.sets.smaller())
    row, value = network.sets.values_of(small)
    return (row, network.starts[var][row] + value, np.where(is_other, -1, 1).astype(np.int8)[row],
            is_other.astype(np.float64))


@dataclass
class HingeLossMRF(Method):
    """Degrees of truth that violate the rules least, as in PSL; reported in place of probabilities.

    A rule that is no clause counts each of the products that violate it. A quantified part is a variable of its own,
    at least as true as each of its cases and at most as true as their sum: a relaxation. Atoms that no rule mentions
    stay at equal degrees.

    Args:
        squared: use the squares of the distances to satisfaction (graded truth), or the distances (mostly 0 and 1).
        iterations: limit of rounds.
        tolerance: stop when no truth value changes by more than this in a round, and its copies differ by at most this.
        step_size: how strongly copies attract each other at first; it is adapted.
    """

    name: ClassVar[str] = "hl-mrf"
    squared: bool = True
    iterations: int = 20_000
    tolerance: float = 1e-6
    step_size: float = 1.0

    def solve(self, problem: Problem) -> Solution:
        network = problem.network()
        problem.progress("making hinges", 0, 0)
        # a contradiction that propagation finds is an error, not a loss
        propagate(network)
        loss = build_loss(network, self.squared)
        truth, status, note = self.minimize(loss, network, problem)
        notes = [note]
        if (violation := loss.violation(truth)) > MAX_VIOLATION:
            notes.append(f"a hard rule is still violated by {violation:.2g}: the hard rules may contradict each other")
        p = np.where(network.potentials == -np.inf, 0.0, truth.clip(EPSILON, 1 - EPSILON))
        kind = "squared" if self.squared else "linear"
        notes.append(f"hinge loss {loss(truth):.6g} ({kind}); the answers are degrees of truth, not probabilities")
        return Solution(odds_of_values(network, p), status, odds_of_counts(
            network, expected_counts(network, _truth_of_queried(network, truth))), notes=notes)

    def minimize(self, loss: HingeLoss, network: Network, problem: Problem) -> tuple[np.ndarray, Status, str]:
        """The truth of each value of each variable, why it stopped, and a note on it."""
        is_compiled = loss.n_entries >= COMPILED and find_spec("numba") is not None
        if is_compiled and is_smooth(loss, network):
            return self.descend(loss, network, problem)
        return self.agree(loss, network, problem, CompiledCopies if is_compiled else Copies)

    def descend(self, loss: HingeLoss, network: Network, problem: Problem) -> tuple[np.ndarray, Status, str]:
        """Coordinate descent on a smooth loss: each truth value in turn moves to its minimum given the others."""
        from .hlmrf_loops import by_value, descend

        limits = problem.limits
        truth = Feasible(network).middle()
        begins = np.concatenate([[0], np.cumsum(np.bincount(loss.value, minlength=loss.n_values))])
        hinge, coefficient = by_value(begins, loss.owner, loss.value, loss.coefficient)
        places = np.flatnonzero(np.diff(begins))
        excess = loss.total(truth) - loss.bound
        change, seconds = np.inf, 0.0
        for done in range(self.iterations):
            problem.progress(self.name, done, self.iterations)
            if change <= self.tolerance:
                return truth, Status.CONVERGED, f"{self.name} converged after {done} rounds"
            if limits.is_over(seconds):
                return self._stopped(truth, limits, done, change)
            begin = limits.now()
            change = descend(places, begins, hinge, coefficient, loss.weight, truth, excess)
            seconds = limits.now() - begin
        return self._unfinished(truth, change)

    def _stopped(self, truth: np.ndarray, limits: Limits, done: int, change: float) -> tuple[np.ndarray, Status, str]:
        return truth, Status.TIME if done else Status.NONE, (
            f"{self.name} was stopped after {limits.seconds:.3g} s and {done} rounds, the last change was {change:.2g}")

    def _unfinished(self, truth: np.ndarray, change: float) -> tuple[np.ndarray, Status, str]:
        return truth, Status.ITERATIONS if self.iterations else Status.NONE, (
            f"{self.name} did not converge in {self.iterations} rounds: the last change was {change:.2g}; raise "
            "iterations")

    def agree(self, loss: HingeLoss, network: Network, problem: Problem, kind: type[Copies]
              ) -> tuple[np.ndarray, Status, str]:
        """Consensus ADMM: every hinge has its own copy of its truth values."""
        limits = problem.limits
        feasible = Feasible(network)
        truth = feasible.middle()
        copies = kind(loss, truth)
        step_size = self.step_size
        residuals, changed, seconds = (np.inf, np.inf), 0, 0.0
        for done in range(self.iterations):
            if done % PERIOD == 0:
                problem.progress(self.name, done, self.iterations)
                if max(residuals) <= self.tolerance or not loss.n_entries:
                    return truth, Status.CONVERGED, f"{self.name} converged after {done} rounds"
            if limits.is_over(seconds):
                return self._stopped(truth, limits, done, max(residuals))
            begin = limits.now()
            mean, apart = copies.move(truth, step_size)
            before, truth = truth, feasible.project(np.where(copies.counts, mean, truth), copies.counts)
            seconds = limits.now() - begin
            if done % PERIOD == PERIOD - 1:
                force = step_size * float(np.abs(truth - before).max())
                residuals = (apart, force)
                # less and less often, because ADMM need not converge while the step size changes
                if done > 1.5 * changed and (apart > TOO_FAR * force or force > TOO_FAR * apart):
                    changed = done
                    new = float(np.clip(step_size * (BALANCE if apart > force else 1 / BALANCE), *RANGE))
                    copies.rescale(truth, step_size / new)
                    step_size = new
        return self._unfinished(truth, max(residuals))


def is_smooth(loss: HingeLoss, network: Network) -> bool:
    """Whether the loss is a sum of squares, and each hinge is over binary variables: no constraint ties any two."""
    is_used = np.zeros(loss.n_values, dtype=bool)
    is_used[loss.value] = True
    is_other = np.repeat(network.cards != 2, network.cards)
    return loss.squared and bool(np.isfinite(loss.weight).all()) and not bool((is_used & is_other).any())


class Copies:
    """The copies that hinges have of the truth values; what is held of each is the copy plus its dual."""

    def __init__(self, loss: HingeLoss, truth: np.ndarray):
        self.loss = loss
        self.counts = np.bincount(loss.value, minlength=loss.n_values)
        self.held = truth[loss.value]

    def move(self, truth: np.ndarray, step_size: float) -> tuple[np.ndarray, float]:
        """Move all copies to the minimum of their hinges; returns the mean that they hold of each value, and how far a
        copy is from the truth at most."""
        loss = self.loss
        norm = np.bincount(loss.owner, minlength=len(loss.bound))
        target = 2 * truth[loss.value] - self.held
        excess = np.bincount(loss.owner, loss.coefficient * target, len(loss.bound)) - loss.bound
        step = _hinge_step(loss, excess.clip(0, None), norm, step_size)
        # a copy minus the truth
        moved = truth[loss.value] - self.held - step[loss.owner] * loss.coefficient
        self.held += moved
        total = np.bincount(loss.value, self.held, loss.n_values)
        return total / np.maximum(self.counts, 1), float(np.abs(moved).max())

    def rescale(self, truth: np.ndarray, by: float) -> None:
        """Multiply all duals."""
        self.held -= truth[self.loss.value]
        self.held *= by
        self.held += truth[self.loss.value]


class CompiledCopies(Copies):
    """The same by a compiled loop, in parts that run at the same time."""

    def __init__(self, loss: HingeLoss, truth: np.ndarray):
        super().__init__(loss, truth)
        self.begins = np.concatenate([[0], np.cumsum(np.bincount(loss.owner, minlength=len(loss.bound)))])
        # the number of parts is the same on every machine, and so is the order of the sums
        self.parts = [len(loss.bound) * k // N_PARTS for k in range(N_PARTS + 1)]
        self.workers = ThreadPoolExecutor(N_PARTS)

    def move(self, truth: np.ndarray, step_size: float) -> tuple[np.ndarray, float]:
        from .hlmrf_loops import move_copies

        loss, totals = self.loss, np.zeros((N_PARTS, self.loss.n_values))
        apart = self.workers.map(lambda k: move_copies(
            self.parts[k], self.parts[k + 1], self.begins, loss.value, loss.coefficient, loss.bound, loss.weight, truth,
            self.held, totals[k], step_size, loss.squared), range(N_PARTS))
        largest = max(apart)
        return totals.sum(0) / np.maximum(self.counts, 1), largest


def _hinge_step(loss: HingeLoss, excess: np.ndarray, norm: np.ndarray, step_size: float) -> np.ndarray:
    """How far each hinge moves its copies along its coefficients: the minimum of hinge and distance in closed form.

    A linear hinge moves by its weight, but not beyond satisfaction; a constraint moves until it is satisfied.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        onto = excess / norm
        if not loss.squared:
            return np.asarray(np.minimum(loss.weight / step_size, onto))
        part = 2 * loss.weight / (step_size + 2 * loss.weight * norm) * excess
        return np.asarray(np.where(np.isinf(loss.weight), onto, part))


class Feasible:
    """The feasible truth values: those of a variable are not negative, and sum to one."""

    def __init__(self, network: Network):
        self.starts, self.cards = network.starts, network.cards
        self.possible = network.potentials > -np.inf
        # variables by their number of values
        self.groups = [self.starts[:-1][network.cards == card][:, None] + np.arange(card)
                       for card in np.unique(network.cards).tolist()]

    def middle(self) -> np.ndarray:
        """All possible values equally true."""
        if not len(self.cards):
            return np.zeros(0)
        return np.asarray(self.possible / np.repeat(np.add.reduceat(self.possible, self.starts[:-1]), self.cards))

    def project(self, truth: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The nearest feasible truth values; of a binary variable only the value 1 is read.

        Args:
            counts: the number of copies of each value, which is its weight in the distance.
        """
        truth = truth.copy()
        for places in self.groups:
            if places.shape[1] == 2:
                truth[places[:, 1]] = truth[places[:, 1]].clip(0, 1)
                truth[places[:, 0]] = 1 - truth[places[:, 1]]
            else:
                inverse = 1 / np.maximum(counts[places], 1e-3)
                truth[places] = project_simplex(np.where(self.possible[places], truth[places], -np.inf), inverse)
        return truth


def project_simplex(x: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """For each row the nearest point that is not negative and sums to one; -inf becomes 0.

    >>> project_simplex(np.array([[0.5, 0.9, -np.inf]]), np.ones((1, 3))).round(9).tolist()
    [[0.3, 0.7, 0.0]]

    Args:
        inverse: one over the weight of each entry in the distance.
    """
    # entry k becomes max(0, x_k - t inverse_k), and t is where these sum to one: the entries that stay are those with
    # the largest x / inverse
    ratio = x / inverse
    order = np.argsort(-ratio, axis=1)
    sorted_x, sorted_inverse = np.take_along_axis(x, order, 1), np.take_along_axis(inverse, order, 1)
    finite = np.isfinite(sorted_x)
    t = (np.where(finite, sorted_x, 0.0).cumsum(1) - 1) / np.where(finite, sorted_inverse, 0.0).cumsum(1)
    stays = finite & (np.take_along_axis(ratio, order, 1) > t)
    last = stays.sum(1, keepdims=True) - 1
    return np.asarray((x - np.take_along_axis(t, last, 1) * inverse).clip(0, None))


def _truth_of_queried(network: Network, truth: np.ndarray) -> np.ndarray:
    """By feature, how true it is in the logic of Lukasiewicz; 0 for those of the theory's own rules."""
    features, holds = queried_features(network), np.zeros(network.n_features)
    counts = np.diff(network.begins)[features]
    owner, literal = ragged_ranges(network.begins[features], counts)
    row, value, coefficient, constant = _entries(network, network.var[literal], network.set[literal])
    literals = constant + np.bincount(row, coefficient * truth[value], len(literal))
    holds[features] = (np.bincount(owner, literals, len(features)) - (counts - 1)).clip(0, None)
    return holds
