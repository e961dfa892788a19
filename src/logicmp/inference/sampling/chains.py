"""Run several chains at once: batches, limits, burn-in, and the estimated error of the answers.

Room: inference/sampling; used by gibbs and mc-sat.  R-hat: Gelman and Rubin 1992, split as in Vehtari et al. 2021.

    4 chains x 20 batches      the means of the batches differ by chance alone: R-hat near 1
    the first batches differ   they are burn-in: dropped as long as that makes the estimated error smaller
    two chains in two modes    the chains differ more than the batches within each: R-hat above 1.05, and a warning

Each chain has its own world, random numbers and sums, and the processors share the chains: the answers of a seed do not
depend on their number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...ground.features import expected_counts
from ...ground.network import Network
from ...limits import Limits, Progress, need
from ..answers import odds_of_counts, odds_of_values
from ..method import Method, Problem, Solution, Status
from .fields import Prepared


@dataclass
class Sampler(Method):
    """The options of all sampling methods.

    Args:
        samples: limit of the samples of each chain, None for 100,000, and fewer on large ground networks.
        error: stop earlier, as soon as the estimated standard error of every queried probability is at most this.
        effective: stop as soon as every queried probability is as accurate as with this many independent worlds,
            instead of by `error`.
        burn_in: samples of each chain that are not counted, None to choose by the effective sample size.
        chains: number of chains, each with its own start.
        max_flips: limit of the search for a world that satisfies the hard rules, where a chain starts.
    """

    samples: int | None = None
    error: float = 0.0025
    effective: int | None = None
    burn_in: int | None = None
    chains: int = 4
    max_flips: int = 1_000_000

    def network(self, problem: Problem) -> Network:
        """The ground network, with all queried formulas."""
        need("numba", "sampling", f"method {self.name!r}")
        return problem.network()

    def plan(self, problem: Problem, prepared: Prepared) -> Chains:
        size = len(prepared.fields.var) + len(prepared.fields.base)
        samples = self.samples or max(MIN_SAMPLES, min(MAX_SAMPLES, WORK // max(1, size)))
        return Chains(self.chains, self.burn_in, samples, self.error, self.effective, self.name, problem.limits,
                      problem.progress)


def solution_of(prepared: Prepared, draws: Draws) -> Solution:
    """The counts of the chains as log-odds."""
    network, g = prepared.network, prepared.fields
    holds = np.zeros(network.n_features)
    holds[prepared.always], holds[prepared.origin[prepared.watch]] = 1.0, draws.queried
    # a variable with one possible value is never drawn
    is_free = np.zeros(len(network.cards), dtype=bool)
    is_free[g.free] = True
    p = np.where(np.repeat(is_free, network.cards), draws.p, g.domain)
    # zero only what evidence and hard rules exclude, not what was too improbable to be seen
    p = np.where(g.domain, np.maximum(p, np.finfo(np.float64).tiny), 0.0)
    return Solution(odds_of_values(network, p), draws.status,
                    odds_of_counts(network, expected_counts(network, holds)), notes=draws.notes)


# of each chain, if no number is given: literals and values that its steps go through together
WORK = 10**9
MIN_SAMPLES, MAX_SAMPLES = 1000, 100_000
BATCHES = 20
# full batches at which the error is estimated, and without which it cannot be
CHECKS, MIN_BATCHES = (10, 15, 20), 4
# steps of a batch at first; batches double in size
FIRST_SIZE = 25
# seconds between two checks of the clock, and between two reports of progress
CHUNK_SECONDS = 0.1
# values with an estimated error; if more are queried, evenly spaced ones
MAX_MONITORED = 100_000
MAX_R_HAT = 1.05
# burn-in is dropped if the squared error is this many times the smallest
CLEARLY = 1.25
# probabilities this near to 0 or 1 have no effective sample size
RARE = 1e-4


class Tally(NamedTuple):
    """Sums over the steps of a chain: probabilities by value, and how often each watched feature was true."""

    total: np.ndarray
    watch: np.ndarray
    watched: np.ndarray


def new_tally(prepared: Prepared) -> Tally:
    """Zeros, with the features of queried formulas watched."""
    return Tally(np.zeros(len(prepared.fields.base)), prepared.watch, np.zeros(len(prepared.watch)))


@dataclass(frozen=True)
class Draws:
    """The result of all chains."""

    # by value, and by watched feature
    p: np.ndarray
    queried: np.ndarray
    r_hat: float
    status: Status
    notes: list[str]


# called with a chain, the number of steps to make, and where to count them; chains run at the same time
Advance = Callable[[int, int, Tally], None]


@dataclass
class Chains:
    """A run of several chains: their number, length and limits."""

    n_chains: int
    # steps that are not counted, None to choose
    burn_in: int | None
    # limit per chain; fewer as soon as the standard errors are small or the effective samples are enough
    samples: int
    error: float
    effective: int | None
    name: str
    limits: Limits
    progress: Progress
    # by chain: steps made, and steps between two checks of the clock
    _done: list[int] = field(init=False)
    _chunk: list[int] = field(init=False)
    _is_stopped: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._done, self._chunk = [0] * self.n_chains, [1] * self.n_chains

    def run(self, advance: Advance, prepared: Prepared, queried: np.ndarray,
            disagree: Callable[[], bool] = lambda: False) -> Draws:
        """Make steps until the answers are accurate, or a limit is reached; every chain makes at least one.

        Twenty batches are filled; if they still differ too much, pairs are merged and ten more are filled.

        Args:
            queried: places of the values whose accuracy counts.
            disagree: called if the chains do not agree; it may change how they step, then returns true, and all steps
                so far are burn-in.
        """
        tallies = [new_tally(prepared) for _ in range(self.n_chains)]
        # compile here: the alarm of a time limit reaches this thread only
        advance(0, 0, tallies[0])
        batches = Batches(prepared.network, tallies, queried, self.burn_in is not None)
        with ThreadPoolExecutor(min(self.n_chains, n_processors())) as pool:
            def make(steps: int, least: int = 0) -> list[int]:
                return self._wait([pool.submit(self._steps, advance, chain, steps, least, tallies[chain])
                                   for chain in range(self.n_chains)])

            if self.burn_in:
                make(self.burn_in)
                batches.forget()
            left, status = self.samples, Status.ITERATIONS
            while left:
                made = make(min(batches.size, left), least=left == self.samples)
                batches.add(made)
                left -= min(batches.size, left)
                if batches.n in CHECKS:
                    r_hat = batches.diagnose(batches.cut())[0]
                    if r_hat > MAX_R_HAT and disagree():
                        batches.restart()
                    elif batches.is_accurate(self.error, self.effective):
                        status = Status.CONVERGED
                        break
                if batches.n == BATCHES:
                    batches.merge()
                if self.limits.is_over():
                    status = Status.TIME
                    break
        self.progress(self.name, sum(self._done), sum(self._done))
        return self._draws(batches, status)

    def _draws(self, batches: Batches, status: Status) -> Draws:
        cut = batches.cut()
        p, queried = batches.means(cut)
        r_hat, found = batches.diagnose(cut)
        n_counted = int(batches.steps[:, cut:].sum()) // self.n_chains
        notes = [f"{self.n_chains} chains of {n_counted:,} samples each after "
                 f"{sum(self._done) // self.n_chains - n_counted:,} to burn in", *found]
        if status is Status.TIME:
            notes.insert(0, f"{self.name} was stopped after {self.limits.seconds:.3g} s")
        elif status is Status.ITERATIONS and batches.n >= MIN_BATCHES:
            error = float(np.sqrt(batches.variance(cut).max(initial=0)))
            if self.effective is None and error > self.error:
                notes.append(f"the standard error is still up to {error:.2g}, above error={self.error:g}: "
                             f"raise samples={self.samples:,}")
        return Draws(p, queried, r_hat, status, notes)

    def _wait(self, futures: list[Future[int]]) -> list[int]:
        """The results of all chains, with reports of progress on the way."""
        total = self.n_chains * (self.samples + (self.burn_in or 0))
        try:
            while wait(futures, CHUNK_SECONDS).not_done:
                self.progress(self.name, min(sum(self._done), total), total)
        except BaseException:
            self._is_stopped = True
            raise
        self.progress(self.name, min(sum(self._done), total), total)
        return [future.result() for future in futures]

    def _steps(self, advance: Advance, chain: int, n: int, least: int, tally: Tally) -> int:
        """Make up to n steps of a chain, as time allows; returns how many."""
        made = 0
        while made < n and (made < least or not (self._is_stopped or self.limits.is_over())):
            now = min(self._chunk[chain], n - made)
            start = time.monotonic()
            advance(chain, now, tally)
            seconds = time.monotonic() - start
            if seconds < CHUNK_SECONDS / 2:
                self._chunk[chain] = 2 * now
            elif seconds > CHUNK_SECONDS:
                self._chunk[chain] = max(1, now // 2)
            made += now
            self._done[chain] += now
        return made


def n_processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Batches:
    """Sums over equally many steps, by chain, from which errors are estimated and burn-in is cut off."""

    def __init__(self, network: Network, tallies: list[Tally], queried: np.ndarray, is_burnt_in: bool):
        self.network, self.tallies, self.is_burnt_in = network, tallies, is_burnt_in
        self.monitored = queried[np.linspace(0, max(len(queried) - 1, 0), min(len(queried), MAX_MONITORED)).astype(int)]
        self.is_part = len(queried) > MAX_MONITORED
        shape = len(tallies), BATCHES
        self.totals = np.zeros((*shape, len(tallies[0].total)), dtype=np.float32)
        self.watched = np.zeros((*shape, len(tallies[0].watch)), dtype=np.float32)
        self.steps = np.zeros(shape, dtype=np.int64)
        # full batches, and the steps of each
        self.n, self.size = 0, FIRST_SIZE

    def forget(self) -> None:
        """Do not count the steps made so far."""
        for tally in self.tallies:
            tally.total[:], tally.watched[:] = 0, 0

    def restart(self) -> None:
        """Forget all batches."""
        for sums in (self.totals, self.watched, self.steps):
            sums[:] = 0
        self.n = 0

    def add(self, made: list[int]) -> None:
        """Take the sums of one batch from the chains; it may be shorter than the others."""
        for chain, tally in enumerate(self.tallies):
            self.totals[chain, self.n] += tally.total
            self.watched[chain, self.n] += tally.watched
            self.steps[chain, self.n] += made[chain]
        self.forget()
        self.n += min(made) == self.size

    def merge(self) -> None:
        """Merge pairs of batches."""
        half = BATCHES // 2
        for sums in (self.totals, self.watched, self.steps):
            sums[:, :half] = sums[:, 0::2] + sums[:, 1::2]
            sums[:, half:] = 0
        self.n, self.size = half, 2 * self.size

    def means(self, cut: int) -> tuple[np.ndarray, np.ndarray]:
        """The means of all batches from a number on: by value, and by watched feature."""
        n = max(1, int(self.steps[:, cut:].sum()))
        return (self.totals[:, cut:].sum((0, 1), dtype=np.float64) / n,
                self.watched[:, cut:].sum((0, 1), dtype=np.float64) / n)

    def cut(self) -> int:
        """The first batch that counts: at most half are dropped, if that makes the mean error clearly smaller."""
        if self.is_burnt_in or self.n < MIN_BATCHES:
            return 0 if self.is_burnt_in else self.n // 2
        errors = [self.variance(k).mean() if len(self.monitored) else 0.0 for k in range(self.n // 2 + 1)]
        return int(np.argmax(np.array(errors) <= CLEARLY * min(errors)))

    def variance(self, cut: int) -> np.ndarray:
        """The variance of the mean over all full batches from a number on, by monitored value."""
        flat = np.concatenate(self.totals[:, cut : self.n])[:, self.monitored]
        return np.asarray(flat.var(0, ddof=1, dtype=np.float64) / len(flat) / self.size**2)

    def is_accurate(self, error: float, effective: int | None) -> bool:
        """Whether all monitored values have a small error, or enough effective samples if their number is given."""
        cut = self.cut()
        variance = self.variance(cut)
        if effective is None:
            return bool((variance <= error**2).all())
        return bool((_effective(self.means(cut)[0][self.monitored], variance) >= effective).all())

    def diagnose(self, cut: int) -> tuple[float, list[str]]:
        """R-hat and the effective sample size of the worst variables as notes; NaN if there are too few batches."""
        half = (self.n - cut) // 2
        if self.n < MIN_BATCHES or not half or not len(self.monitored):
            return np.nan, ["too few samples to compare the chains"] if len(self.monitored) else []
        parts = [self.totals[:, a : a + half][:, :, self.monitored] for a in (self.n - 2 * half, self.n - half)]
        halves = np.concatenate([part.mean(1, dtype=np.float64) / self.size for part in parts])
        # of zeros and ones with these means
        between, within = halves.var(0, ddof=1), (halves * (1 - halves)).mean(0)
        effective, n = _effective(halves.mean(0), self.variance(cut)), half * self.size
        with np.errstate(divide="ignore", invalid="ignore"):
            # differences below the precision of the sums are rounding errors
            r_hat = np.where(between < 1e-12, 1.0, np.sqrt(np.maximum(1.0, (n - 1) / n + between / within)))
        worst, fewest = int(r_hat.argmax()), int(effective.argmin())
        if np.isinf(effective[fewest]):
            return 1.0, ["R-hat 1.000: all batches of all chains are equal"]
        part = f", of {len(self.monitored):,} monitored values" if self.is_part else ""
        shown = f"{r_hat[worst]:.3f}" if r_hat[worst] < 1000 else f"{r_hat[worst]:.2g}"
        notes = [f"R-hat at most {shown} ({self._name(worst)}), effective samples at least "
                 f"{effective[fewest]:,.0f} ({self._name(fewest)}){part}"]
        if r_hat[worst] > MAX_R_HAT:
            notes.append(f"warning: the chains do not agree, R-hat is {shown}: raise samples, or use "
                         "another method")
        return float(r_hat[worst]), notes

    def _name(self, k: int) -> str:
        return self.network.name(int(np.searchsorted(self.network.starts, self.monitored[k], "right")) - 1)


def _effective(p: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """How many independent worlds would give probabilities the same variance; infinite for those near 0 and 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = p * (1 - p) / variance
    # smaller variances are rounding errors
    return np.where((variance < 1e-14) | (np.minimum(p, 1 - p) < RARE), np.inf, found)
