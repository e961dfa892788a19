"""Run several chains: burn-in, batches, limits, and the estimated error of the answers.

Room: inference/sampling; used by gibbs and mc-sat.  R-hat: Gelman and Rubin 1992, split as in Vehtari et al. 2021.

    4 chains x 20 batches      the means of the batches differ by chance alone: R-hat near 1
    two chains in two modes    the chains differ more than the batches within each: R-hat above 1.05, and a warning
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...ground.features import expected_counts, queried_features
from ...ground.network import Network
from ...limits import Limits, Progress, need
from ..answers import odds_of_counts, odds_of_values
from ..method import Method, Problem, Solution, Status
from ..moves.arrays import GroundArrays


@dataclass
class Sampler(Method):
    """The options of all sampling methods.

    Args:
        samples: limit of the samples of each chain after its burn-in.
        error: stop earlier, as soon as the estimated standard error of every probability is at most this.
        burn_in: samples of each chain that are not counted.
        chains: number of chains, each with its own start.
        max_flips: limit of the search for a world that satisfies the hard rules, where a chain starts.
    """

    samples: int = 100_000
    error: float = 0.002
    burn_in: int = 500
    chains: int = 4
    max_flips: int = 1_000_000

    def network(self, problem: Problem) -> Network:
        """The ground network, with all queried formulas."""
        need("numba", "sampling", f"method {self.name!r}")
        return problem.network()

    def plan(self, problem: Problem) -> Chains:
        return Chains(self.chains, self.burn_in, self.samples, self.error, self.name, problem.limits, problem.progress)


def solution_of(arrays: GroundArrays, draws: Draws) -> Solution:
    """The counts of the chains as log-odds."""
    network = arrays.network
    holds = np.zeros(network.n_features)
    holds[queried_features(network)] = draws.queried
    # zero only what evidence and hard rules exclude, not what was too improbable to be seen
    p = np.where(arrays.ground.domain, np.maximum(draws.p, np.finfo(np.float64).tiny), 0.0)
    return Solution(odds_of_values(network, p), draws.status,
                    odds_of_counts(network, expected_counts(network, holds)), notes=draws.notes)


BATCHES = 20
# with fewer, the error cannot be estimated
MIN_BATCHES = 4
# steps of a batch at first; batches double in size
FIRST_SIZE = 25
# seconds between two checks of the clock
CHUNK_SECONDS = 0.1
# the share of the time left at the start that the burn-in may take
BURN_IN_TIME = 0.25
# values with batch means; if there are more, evenly spaced ones
MAX_MONITORED = 200_000
MAX_R_HAT = 1.05


class Tally(NamedTuple):
    """Sums over steps: the probability of each value, its square, and how often each watched feature was true."""

    total: np.ndarray
    square: np.ndarray
    watch: np.ndarray
    watched: np.ndarray


def new_tally(network: Network) -> Tally:
    """Zeros, with the features of queried formulas watched."""
    n_values, watch = int(network.starts[-1]), queried_features(network)
    return Tally(np.zeros(n_values), np.zeros(n_values), watch, np.zeros(len(watch)))


@dataclass(frozen=True)
class Draws:
    """The result of all chains."""

    # by value, and by feature of queried formulas
    p: np.ndarray
    queried: np.ndarray
    r_hat: float
    status: Status
    notes: list[str]


# called with a chain, the number of steps to make, and where to count them
Advance = Callable[[int, int, Tally], None]


@dataclass
class Chains:
    """A run of several chains: their number, length and limits."""

    n_chains: int
    burn_in: int
    # limit per chain; fewer as soon as the standard error of every value is at most `error`
    samples: int
    error: float
    name: str
    limits: Limits
    progress: Progress

    def __post_init__(self) -> None:
        self._chunk, self._done = 1, 0
        self._total = self.n_chains * (self.burn_in + self.samples)

    def run(self, advance: Advance, network: Network) -> Draws:
        """Burn in, then count until the error is small; the chains take turns, so that a run cut short has them all.

        Twenty batches are filled; if they still differ too much, pairs are merged and ten more are filled.
        """
        self._burn(advance, new_tally(network))
        n_burnt, n_steps = self._done, 0
        tally, batches = new_tally(network), Batches(network, self.n_chains)
        while n_steps < self.n_chains * self.samples:
            if batches.n == BATCHES:
                if batches.error() <= self.error:
                    break
                batches.merge()
            # every chain makes at least one step
            if self.limits.is_over() and n_steps:
                break
            made = [self._batch(advance, chain, batches, tally, is_first=not n_steps) for chain in range(self.n_chains)]
            n_steps += sum(made)
            batches.n += min(made) == batches.size
        self.progress(self.name, self._total, self._total)
        p = tally.total / n_steps
        r_hat, found = batches.diagnose(tally.square / n_steps, p)
        notes = [f"{self.n_chains} chains of {n_steps // self.n_chains:,} samples each after "
                 f"{n_burnt // self.n_chains:,} to burn in", *found]
        if batches.n == BATCHES and batches.error() <= self.error:
            status = Status.CONVERGED
        elif n_steps < self.n_chains * self.samples:
            status = Status.TIME
            notes.insert(0, f"{self.name} was stopped after {self.limits.seconds} s")
        else:
            status = Status.ITERATIONS
            if batches.n >= MIN_BATCHES and batches.error() > self.error:
                notes.append(f"the standard error is still up to {batches.error():.2g}, above error={self.error:g}: "
                             f"raise samples={self.samples:,}")
        return Draws(p, tally.watched / n_steps, r_hat, status, notes)

    def _burn(self, advance: Advance, scratch: Tally) -> None:
        """The burn-in steps of all chains in turn, for at most a share of the time that is left."""
        self._done, limits = 0, self.limits.part(BURN_IN_TIME)
        for size in np.diff(np.linspace(0, self.burn_in, BATCHES + 1).astype(np.int64)).tolist():
            for chain in range(self.n_chains):
                if not limits.is_over():
                    self._steps(advance, chain, size, scratch)

    def _batch(self, advance: Advance, chain: int, batches: Batches, tally: Tally, is_first: bool) -> int:
        before = tally.total[batches.monitored]
        n = self._steps(advance, chain, batches.size, tally, least=is_first)
        batches.means[chain, batches.n] = (tally.total[batches.monitored] - before) / max(n, 1)
        return n

    def _steps(self, advance: Advance, chain: int, n: int, tally: Tally, least: bool = False) -> int:
        """Make up to n steps of a chain, as time allows; returns how many."""
        made = 0
        while made < n and (not self.limits.is_over() or (least and made == 0)):
            now = min(self._chunk, n - made)
            start = time.monotonic()
            advance(chain, now, tally)
            seconds = time.monotonic() - start
            if seconds < CHUNK_SECONDS / 2:
                self._chunk = 2 * now
            elif seconds > CHUNK_SECONDS:
                self._chunk = max(1, now // 2)
            made += now
        self._done += made
        self.progress(self.name, min(self._done, self._total), self._total)
        return made


class Batches:
    """Means over equally many steps, by chain, from which errors are estimated."""

    def __init__(self, network: Network, n_chains: int):
        self.network = network
        n_values = int(network.starts[network.n_own])
        self.monitored = np.unique(np.linspace(0, max(n_values - 1, 0), min(n_values, MAX_MONITORED)).astype(np.int64))
        self.means = np.zeros((n_chains, BATCHES, len(self.monitored)), dtype=np.float32)
        # full batches, and the steps of each
        self.n, self.size = 0, FIRST_SIZE

    def merge(self) -> None:
        """Merge pairs of batches."""
        half = BATCHES // 2
        self.means[:, :half] = (self.means[:, 0::2] + self.means[:, 1::2]) / 2
        self.n, self.size = half, 2 * self.size

    def variance(self) -> np.ndarray:
        """The variance of the mean over all batches, by value."""
        flat = self.means[:, : self.n].reshape(len(self.means) * self.n, len(self.monitored))
        return np.asarray(flat.var(0, ddof=1, dtype=np.float64) / len(flat))

    def error(self) -> float:
        """The largest standard error."""
        return float(np.sqrt(self.variance().max(initial=0)))

    def diagnose(self, square: np.ndarray, p: np.ndarray) -> tuple[float, list[str]]:
        """R-hat and the effective sample size of the worst variables as notes; NaN if there are too few batches.

        Args:
            square: by value, the mean of the squares of its probabilities.
        """
        if self.n < MIN_BATCHES or not len(self.monitored):
            return np.nan, ["too few samples to compare the chains"] if len(self.monitored) else []
        half = self.n // 2
        parts = self.means[:, :half], self.means[:, self.n - half : self.n]
        halves = np.concatenate([part.mean(1, dtype=np.float64) for part in parts])
        between = halves.var(0, ddof=1)
        within = np.maximum(square[self.monitored] - (halves**2).mean(0), 0)
        p, variance, n = p[self.monitored], self.variance(), half * self.size
        with np.errstate(divide="ignore", invalid="ignore"):
            # differences below the precision of the means are rounding errors
            r_hat = np.where(between < 1e-12, 1.0, np.sqrt((n - 1) / n + between / within))
            effective = np.where(variance < 1e-16, np.inf, p * (1 - p) / variance)
        worst, fewest = int(r_hat.argmax()), int(effective.argmin())
        if np.isinf(effective[fewest]):
            return 1.0, ["R-hat 1.000: all batches of all chains are equal"]
        part = f", of {len(self.monitored):,} monitored values" if len(self.monitored) == MAX_MONITORED else ""
        notes = [f"R-hat at most {r_hat[worst]:.3f} ({self._name(worst)}), effective samples at least "
                 f"{effective[fewest]:,.0f} ({self._name(fewest)}){part}"]
        if r_hat[worst] > MAX_R_HAT:
            notes.append(f"warning: the chains do not agree, R-hat is {r_hat[worst]:.3f}: raise samples, or use "
                         "another method")
        return float(r_hat[worst]), notes

    def _name(self, k: int) -> str:
        return self.network.name(int(np.searchsorted(self.network.starts, self.monitored[k], "right")) - 1)
