"""Mean field without the paper's two improvements, one grounding at a time, for the speed ablation.

Room: benchmarks.  Paper: Eq. 2-3, Theorem 1, the figure of the speed ablation.

    Smokes(A) Friends(A,B) !Smokes(B)     true with probability q q (1-q): one message to each of its three atoms
    rule_out=False                        each message a sum over all values of the other atoms (Eq. 3)
    rule_out=True                         only the one assignment that violates the rule (Theorem 1)
    parallel=True                         all groundings at once: gather, multiply, scatter

The answers equal those of `mean-field`, which does not enumerate groundings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from logicmp.errors import RuleError
from logicmp.ground.features import (
    expected_counts,
    independent_probabilities,
    literal_probabilities,
    log_weights,
)
from logicmp.ground.network import Network
from logicmp.inference.answers import odds_of_counts, odds_of_values
from logicmp.inference.method import Method, Problem, Solution, Status
from logicmp.limits import need


@dataclass
class MeanFieldSequential(Method):
    """The synchronous iterations of `mean-field`, over one grounding at a time.

    Args:
        iterations: largest number of iterations; all of them are done if `tolerance` is 0.
        damping: share of the previous log-odds kept, 0 to below 1.
        tolerance: stop when no marginal changes by more than this.
        hard_weight: finite weight that stands in for a hard rule.
        rule_out: use Theorem 1; otherwise sum over all values of the other atoms.
        parallel: compute all groundings at once.
    """

    name: ClassVar[str] = "mean-field-sequential"
    iterations: int = 200
    damping: float = 0.5
    tolerance: float = 1e-6
    hard_weight: float = 10.0
    rule_out: bool = True
    parallel: bool = False

    def solve(self, problem: Problem) -> Solution:
        network = self._network(problem)
        weights = -log_weights(network)
        aggregate = (_Parallel if self.parallel else _Sequential)(network, self.rule_out)
        logits = network.potentials.copy()
        q = _softmax(network, logits)
        notes, status = [], Status.ITERATIONS
        for number in range(self.iterations):
            if problem.limits.is_over():
                status = Status.TIME if number else Status.NONE
                notes.append(f"mean field was stopped after {problem.limits.seconds} s and {number} iterations")
                break
            with np.errstate(invalid="ignore"):
                update = network.potentials - aggregate(q, weights)
                # impossible values stay at -inf
                logits = np.where(np.isinf(logits), logits, (1 - self.damping) * update + self.damping * logits)
            before, q = q, _softmax(network, logits)
            problem.progress("mean field", number + 1, self.iterations)
            if self.tolerance and np.abs(q - before).max(initial=0.0) < self.tolerance * (1 - self.damping):
                status = Status.CONVERGED
                break
        else:
            if self.tolerance:
                notes.append(f"mean field did not converge in {self.iterations} iterations")
        expected = expected_counts(network, independent_probabilities(network, q, np.arange(network.n_features)))
        return Solution(odds_of_values(network, q), status, odds_of_counts(network, expected), notes=notes)

    def _network(self, problem: Problem) -> Network:
        """The ground network with a finite weight for hard rules, as in the layer."""
        rules = [replace(rule, is_hard=False, weight=self.hard_weight) if rule.is_hard else rule
                 for rule in problem.world.theory.rules]
        network = problem.network((*rules, *problem.formulas))
        if len(network.cards) > network.n_own:
            feature = int(np.searchsorted(network.begins, np.flatnonzero(network.var >= network.n_own)[0], "right")) - 1
            rule = network.rules[network.rule[feature]]
            raise RuleError("mean-field-sequential does not support the quantifier of this rule", rule.span,
                            "use mean-field")
        return network


def _softmax(network: Network, logits: np.ndarray) -> np.ndarray:
    """Probabilities of the values of all variables, as one flat array."""
    if not len(logits):
        return logits
    starts = network.starts[:-1]
    highest = np.repeat(np.maximum.reduceat(logits, starts), network.cards)
    p = np.exp(logits - highest)
    return np.asarray(p / np.repeat(np.add.reduceat(p, starts), network.cards))


class _Sequential:
    """Messages of one grounding at a time: the loops of Eq. 2-3 as written, compiled."""

    def __init__(self, network: Network, rule_out: bool):
        values, begins = network.sets.flat()
        self.arrays = (network.begins, network.var, network.set, network.starts, network.cards, values, begins)
        self.loop = _compiled(rule_out)

    def __call__(self, q: np.ndarray, weights: np.ndarray) -> np.ndarray:
        total = np.zeros_like(q)
        self.loop(*self.arrays, q, weights, total)
        return total


@cache
def _compiled(rule_out: bool) -> Callable[..., None]:
    need("numba", "sampling", "mean-field-sequential", "use parallel=True")
    from numba import njit

    compiled: Callable[..., None] = njit(_messages_by_theorem if rule_out else _messages_by_sum)
    return compiled


def _messages_by_theorem(feature: Any, var: Any, chosen: Any, starts: Any, cards: Any, values: Any, begins: Any, q: Any,
                         weights: Any, total: Any) -> None:
    """Message to atom i: the probability that all other literals of the grounding are true (Theorem 1)."""
    for f in range(len(feature) - 1):
        for i in range(feature[f], feature[f + 1]):
            p = weights[f]
            for j in range(feature[f], feature[f + 1]):
                if j != i:
                    holds = 0.0
                    for m in range(begins[chosen[j]], begins[chosen[j] + 1]):
                        holds += q[starts[var[j]] + values[m]]
                    p *= holds
            for m in range(begins[chosen[i]], begins[chosen[i] + 1]):
                total[starts[var[i]] + values[m]] += p


def _messages_by_sum(feature: Any, var: Any, chosen: Any, starts: Any, cards: Any, values: Any, begins: Any, q: Any,
                     weights: Any, total: Any) -> None:
    """Message to each value of atom i: the expected violation over all values of the other atoms (Eq. 3)."""
    for f in range(len(feature) - 1):
        first, last = feature[f], feature[f + 1]
        n = 1
        for j in range(first, last):
            n *= cards[var[j]]
        for i in range(first, last):
            for world in range(n):
                rest, p, is_violated = world, weights[f], True
                value = 0
                for j in range(first, last):
                    v = rest % cards[var[j]]
                    rest //= cards[var[j]]
                    is_member = False
                    for m in range(begins[chosen[j]], begins[chosen[j] + 1]):
                        if values[m] == v:
                            is_member = True
                    is_violated = is_violated and is_member
                    if j == i:
                        value = v
                    else:
                        p *= q[starts[var[j]] + v]
                if is_violated:
                    total[starts[var[i]] + value] += p


class _Parallel:
    """Messages of all groundings at once, grouped by the number of literals."""

    def __init__(self, network: Network, rule_out: bool):
        self.network, self.rule_out = network, rule_out
        counts = np.diff(network.begins)
        # [features, literals] for each length
        self.groups = [(np.flatnonzero(counts == n), network.begins[:-1][counts == n][:, None] + np.arange(n))
                       for n in np.unique(counts)]

    def __call__(self, q: np.ndarray, weights: np.ndarray) -> np.ndarray:
        network = self.network
        holds = literal_probabilities(network, q, np.arange(len(network.var)))
        message = np.zeros(len(network.var))
        for features, literals in self.groups:
            for i in range(literals.shape[1]):
                others = np.delete(literals, i, 1)
                p = holds[others].prod(1) if self.rule_out else self._by_sum(holds, others)
                message[literals[:, i]] = weights[features] * p
        owner, value = network.sets.values_of(network.set)
        return np.bincount(network.starts[network.var[owner]] + value, message[owner], len(q))

    def _by_sum(self, holds: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Probability that all other literals are true, as a sum over all their assignments."""
        total = np.zeros(len(others))
        for truth in itertools.product((True, False), repeat=others.shape[1]):
            p = np.where(truth, holds[others], 1 - holds[others]).prod(1)
            total += p * all(truth)
        return total
