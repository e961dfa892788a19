"""Loopy belief propagation on the clauses of the ground network.

Room: inference/bp.

    Smokes(A) - [Smokes(A) => Cancer(A)] - Cancer(A)      a tree: the probabilities are exact
    three friends in a circle                             a loop: an approximation, which may not converge

All factors and variables send their messages at once, damped, until none changes. A queried formula is read from the
belief of a factor that has all its variables; without such a factor its literals are treated as independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...ground.engine import Share, Shares
from ...ground.features import expected_counts, independent_probabilities
from ...ground.join import ragged_ranges
from ...ground.network import Network
from ...ground.propagate import propagate
from ..answers import odds_of_counts, odds_of_values
from ..method import Method, Problem, Solution, Status
from ..search.start import reject_contradiction
from .graph import Graph, Readings, Scopes, build_graph
from .messages import Messages

# messages that oscillate for this many rounds are damped more, up to a limit
PATIENCE, MAX_DAMPING = 10, 0.95


@dataclass
class BeliefPropagation(Method):
    """Sum-product messages in closed form for clauses of any length; exact marginals if the factors form a tree.

    Hard rules are true constraints. The notes give the number of rounds and the Bethe approximation of log Z.

    Args:
        iterations: limit of rounds of messages.
        damping: share of the previous log-messages kept, 0 to below 1; messages that oscillate are damped more.
        tolerance: stop when no message (in log-odds) would change by more than this.
    """

    name: ClassVar[str] = "bp"
    takes_shares: ClassVar[bool] = True
    iterations: int = 1000
    damping: float = 0.3
    tolerance: float = 1e-8

    def solve(self, problem: Problem, network: Network | None = None) -> Solution:
        """The log-odds of every unobserved atom and every queried formula.

        Args:
            network: the ground network with all queried formulas, if it exists already.
        """
        return self._solve(network or problem.network(share=problem.grounding.shares.share), problem)

    def _solve(self, network: Network, problem: Problem, scopes: Scopes | None = None) -> Solution:
        """The answers for the atoms of a ground network.

        Args:
            scopes: how many sets of variables each set stands for, if it is more than one.
        """
        shares = problem.grounding.shares

        def check() -> None:
            # all processes go on, or none
            if problem.limits.seconds is not None and shares.agree(problem.limits.is_over()):
                raise problem.limits.error("making factors")

        problem.progress("making factors", 0, 0)
        possible = propagate(network, shares)
        if shares.share.size == 1:
            # messages can converge without a world
            reject_contradiction(network)
        check()
        graph, readings = build_graph(network, possible, scopes, shares=shares)
        check()
        graph, group, readings, notes = self._compress(graph, readings, shares.share)
        starts = np.concatenate([[0], np.cumsum(graph.cards)])
        messages = Messages(graph, shares)
        # of several processes, each goes on with its own variables
        del graph
        status, note = self._run(messages, problem)
        p = _values_of_groups(messages.whole(_probabilities(messages)), starts, network, group)
        # zero only what hard rules and evidence exclude, not what is too improbable for a float
        p = np.where(possible, p.clip(np.finfo(np.float64).tiny, None), 0.0)
        bethe = messages.log_partition() + float(network.weights @ network.base)
        # each process counts what it reads
        counts = expected_counts(readings.network, _probabilities_of_queried(messages, readings, p)) - network.base
        formulas = odds_of_counts(network, network.base + shares.total(counts), shares)
        return Solution(odds_of_values(network, p), status, formulas,
                        notes=[*notes, note, f"Bethe log Z = {bethe:.6g}"])

    def _compress(self, graph: Graph, readings: Readings, share: Share
                  ) -> tuple[Graph, np.ndarray, Readings, list[str]]:
        """The graph to run on, which of its variables represents each variable of the network, readings and notes.

        Args:
            share: of the factors.
        """
        return graph, np.arange(len(graph.cards)), readings, []

    def _run(self, messages: Messages, problem: Problem) -> tuple[Status, str]:
        """Send messages until none changes; returns why it stopped, and a note on it."""
        limits = problem.limits
        done, change, seconds = 0, np.inf, 0.0
        calm = Calm(self.damping, messages.shares)
        while done < self.iterations and change > self.tolerance:
            if limits.seconds is not None and messages.shares.agree(limits.is_over(seconds)):
                return Status.TIME if done else Status.NONE, (
                    f"{self.name} was stopped after {limits.seconds:.3g} s and {done} rounds of messages, the last "
                    f"change was {change:.2g}")
            begin = limits.now()
            belief = messages.beliefs()
            change = messages.update(belief, calm.damping)
            calm.look(belief, change)
            seconds = limits.now() - begin
            done += 1
            problem.progress(self.name, done, self.iterations)
        if change > self.tolerance:
            return Status.ITERATIONS if done else Status.NONE, (
                f"{self.name} did not converge in {done} rounds: a message still changed by {change:.2g}; raise "
                "damping or iterations")
        more = "" if calm.damping == self.damping else f", with damping {calm.damping:.2g} because messages oscillated"
        return Status.CONVERGED, f"{self.name} converged after {done} rounds, the last change was {change:.2g}{more}"


class Calm:
    """More damping for messages that oscillate: each round nearly undoes the round before, and the change stays.

    Args:
        damping: share of the previous log-messages kept at first.
        shares: the processes, all of which must choose alike.
    """

    def __init__(self, damping: float, shares: Shares):
        self.damping, self.shares = damping, shares
        self._beliefs: list[np.ndarray] = []
        # rounds in a row that undid the one before, and the change before the first of them
        self._n, self._change = 0, np.inf

    def look(self, belief: np.ndarray, change: float) -> None:
        """Note a round: the beliefs that it started from, and the largest change of a message."""
        self._beliefs = [*self._beliefs[-2:], belief]
        if len(self._beliefs) < 3:
            return
        first, second, third = self._beliefs
        moved, returned = (self.shares.largest(float(np.abs(third - x).max(initial=0.0))) for x in (second, first))
        if returned > 0.5 * moved:
            self._n = 0
            return
        if self._n == 0:
            self._change = change
        self._n += 1
        if self._n == PATIENCE:
            if change > 0.5 * self._change:
                self.damping = min(MAX_DAMPING, 0.5 + 0.5 * self.damping)
            self._n = 0


def _probabilities(messages: Messages) -> np.ndarray:
    """The probability of each value of each variable of the graph."""
    belief = messages.beliefs()
    if not len(belief):
        return belief
    cards, begins = messages.graph.cards, messages.starts[:-1]
    p = np.exp(belief - np.repeat(np.maximum.reduceat(belief, begins), cards))
    return np.asarray(p / np.repeat(np.add.reduceat(p, begins), cards))


def _values_of_groups(p: np.ndarray, starts: np.ndarray, network: Network, group: np.ndarray) -> np.ndarray:
    """Give each variable of the network the probabilities of the variable that represents it."""
    _, place = ragged_ranges(starts[group], network.cards)
    return np.asarray(p[place])


def _probabilities_of_queried(messages: Messages, readings: Readings, p: np.ndarray) -> np.ndarray:
    """By feature, the probability that it is true if this process reads it; else 0."""
    holds, belief = np.zeros(readings.network.n_features), messages.beliefs()
    holds[readings.alone] = independent_probabilities(readings.network, p, readings.alone)
    for k, reading in enumerate(readings.tables):
        if len(reading.feature):
            holds[reading.feature] = (messages.table_beliefs(k, reading.row, belief) * reading.holds).sum(1)
    return holds
