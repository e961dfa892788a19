"""The most probable world by an integer program, with a proof that it is the best.

Room: inference/search; used by map and decode.

    a variable with two values           one column, 1 if its value is 1
    a variable with values a, b, c       one column for each, which sum to 1
    2 Smokes(A) => Cancer(A)             minimize 2 y, where  y >= s + (1 - c) - 1
    -2 Smokes(A) => Cancer(A)            minimize 2 z, where  z >= 1 - s  and  z >= c

Groundings enter the program when a solution violates them, so most never do. The program is solved without integrality
first, all components together; only components with fractional values are solved as integer programs, each alone. The
time grows with the groundings that solutions violate, and steeply with the size of a fractional component.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from ...errors import LogicMPError
from ...ground.join import ragged_ranges
from ...ground.propagate import contradiction
from ...limits import need
from ..moves.arrays import GroundArrays

# of a value that counts as whole, and of a violation that counts
ACCURACY = 1e-6
# status numbers of HiGHS in SciPy
DONE, LATE, INFEASIBLE = 0, 1, 2


def solve_ilp(arrays: GroundArrays, seconds: float | None, max_active: int | None = None
              ) -> tuple[np.ndarray | None, bool]:
    """The best world by SciPy's HiGHS, and whether that is proven; None if it found no world in time.

    Args:
        arrays: with soft evidence as features.
        seconds: time limit.
        max_active: give up if solutions violate more groundings than this together.
    """
    need("scipy", "map", "solver 'ilp'")
    end = None if seconds is None else time.monotonic() + seconds
    program = Program(arrays, max_active)
    if not program.n_columns:
        return program.world(np.zeros(0)), True
    everything = np.arange(len(program.lengths))
    x, is_done = program.solve(np.unique(program.variable), everything, end, is_whole=False)
    if x is None:
        return None, False
    is_fractional = np.abs(x - x.round()) > ACCURACY
    for k in np.unique(program.component[is_fractional]).tolist():
        own = np.flatnonzero(program.component == k)
        found, is_proven = program.solve(np.flatnonzero(program.label == k),
                                         np.flatnonzero(program.of_feature == k), end, is_whole=True)
        is_done &= is_proven
        if found is None:
            return None, False
        x[own] = found[own]
    x = x.round()
    return (None, False) if program.violates_hard(x) else (program.world(x), is_done)


class Program:
    """The columns of a ground network, and its features as linear forms over them."""

    def __init__(self, arrays: GroundArrays, max_active: int | None = None):
        from scipy.sparse import coo_array, csr_array
        from scipy.sparse.csgraph import connected_components

        self.arrays, self.max_active = arrays, max_active
        g, network = arrays.ground, arrays.network
        cards = np.diff(g.starts)
        n_variables = len(cards)
        # by value, its column; a variable with two values has one for its value 1, one in no feature has none
        is_used = np.bincount(g.var, minlength=n_variables) > 0
        has_column = np.repeat(is_used & (cards != 2), cards)
        has_column[g.starts[:-1][is_used & (cards == 2)] + 1] = True
        self.column = np.where(has_column, np.cumsum(has_column) - 1, -1)
        self.n_columns = int(has_column.sum())
        owner = np.repeat(np.arange(n_variables), cards)
        self.variable = owner[has_column]
        value = np.flatnonzero(has_column)
        other = g.domain[g.starts[self.variable]] | (cards[self.variable] != 2)
        self.upper = g.domain[value].astype(float)
        self.lower = np.where(other, 0.0, self.upper)
        # literals as linear forms: a set with most of the values is one minus the others
        self.lengths = np.diff(g.begins)
        small, is_other = (part[g.set] for part in network.sets.smaller())
        literal, x = network.sets.values_of(small)
        sign = np.where(is_other, -1.0, 1.0)
        self.literals = csr_array(coo_array(
            (sign[literal], (literal, self.column[g.starts[g.var[literal]] + x])), (len(g.set), self.n_columns)))
        self.constant = is_other.astype(float)
        self.of_literal = np.repeat(np.arange(len(self.lengths)), self.lengths)
        # components, of variables and of features
        first = g.var[g.begins[:-1]].astype(np.int64)[self.of_literal]
        pairs = coo_array((np.ones(len(first), dtype=np.int8), (first, g.var)), (n_variables, n_variables))
        self.label = connected_components(pairs, directed=False)[1]
        self.of_feature = self.label[g.var[g.begins[:-1]]] if len(self.lengths) else np.zeros(0, dtype=np.int64)
        self.component = self.label[self.variable]
        # one literal: a cost of its columns, or a bound if it is hard
        self.cost = np.zeros(self.n_columns)
        alone = np.flatnonzero((self.lengths == 1) & ~g.is_hard)
        self.cost -= self.literals[g.begins[alone]].T @ g.log_weight[alone]
        # whether a feature enters the program when it is violated, and whether it is in
        self.is_row = g.is_hard | ((self.lengths > 1) & (g.log_weight != 0))
        self.is_active = np.zeros(len(self.lengths), dtype=bool)

    def violations(self, x: np.ndarray, features: np.ndarray) -> np.ndarray:
        """How much the features are violated: true ones that should be false, and false ones that should be true."""
        g = self.arrays.ground
        truth = self.literals @ x + self.constant
        total = np.add.reduceat(truth, g.begins[:-1])[features] - (self.lengths[features] - 1)
        wanted = g.log_weight[features] > 0
        if not wanted.any():
            return np.asarray(total)
        lowest = np.minimum.reduceat(truth, g.begins[:-1])[features]
        return np.asarray(np.where(wanted, 1 - lowest, total))

    def violates_hard(self, x: np.ndarray) -> bool:
        hard = np.flatnonzero(self.arrays.ground.is_hard)
        return bool(len(hard) and (self.violations(x, hard) > ACCURACY).any())

    def solve(self, variables: np.ndarray, features: np.ndarray, end: float | None, is_whole: bool
              ) -> tuple[np.ndarray | None, bool]:
        """The best values of the columns of some variables, and whether they are the best for all features.

        Args:
            variables: of one component, or all.
            features: those over these variables.
            end: when to stop.
            is_whole: whether values must be 0 or 1.
        """
        features = features[self.is_row[features]]
        columns = np.flatnonzero(np.isin(self.variable, variables))
        x: np.ndarray | None = None
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return x, False
            new, status = self._run(variables, columns, features[self.is_active[features]], left, is_whole)
            if new is None:
                return x, False
            x = new
            if status != DONE:
                return x, False
            waiting = features[~self.is_active[features]]
            if not len(waiting):
                return x, True
            violated = waiting[self.violations(x, waiting) > ACCURACY]
            if not len(violated):
                return x, True
            self.is_active[violated] = True
            if self.max_active is not None and self.is_active.sum() > self.max_active:
                return x, False

    def _run(self, variables: np.ndarray, columns: np.ndarray, active: np.ndarray, seconds: float | None,
             is_whole: bool) -> tuple[np.ndarray | None, int]:
        """One call of HiGHS; the values of all columns, those of other variables 0."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array, csr_array, vstack

        g, n = self.arrays.ground, len(columns)
        place = np.full(self.n_columns, -1, dtype=np.int64)
        place[columns] = np.arange(n)
        soft = active[~g.is_hard[active]]
        penalty = np.full(len(self.lengths), -1, dtype=np.int64)
        penalty[soft] = n + np.arange(len(soft))
        parts: list[csr_array] = []
        low: list[np.ndarray] = []
        high: list[np.ndarray] = []
        width = n + len(soft)
        several = variables[np.diff(g.starts)[variables] != 2]
        if len(several):
            owner, value = ragged_ranges(g.starts[several], np.diff(g.starts)[several])
            parts.append(csr_array(coo_array((np.ones(len(owner)), (owner, place[self.column[value]])),
                                             (len(several), width))))
            low.append(np.ones(len(several)))
            high.append(np.ones(len(several)))
        wanted = g.log_weight[active] > 0
        for features, is_wanted in ((active[~wanted], False), (active[wanted], True)):
            if not len(features):
                continue
            counts = self.lengths[features]
            row, literal = ragged_ranges(g.begins[features], counts)
            entries = self.literals[literal].tocoo()
            at = entries.coords[0] if is_wanted else row[entries.coords[0]]
            n_rows = len(literal) if is_wanted else len(features)
            own = penalty[features[row] if is_wanted else features]
            has_own = np.flatnonzero(own >= 0)
            # y >= sum of literals - (n - 1), or for each literal  z >= 1 - literal
            sign = -1.0 if is_wanted else 1.0
            parts.append(csr_array(coo_array(
                (np.concatenate([sign * entries.data, -np.ones(len(has_own))]),
                 (np.concatenate([at, has_own]), np.concatenate([place[entries.coords[1]], own[has_own]]))),
                (n_rows, width))))
            low.append(np.full(n_rows, -np.inf))
            high.append(self.constant[literal] - 1 if is_wanted else
                        counts - 1 - np.bincount(row, self.constant[literal], len(features)))
        found = _interruptibly(lambda: milp(
            np.concatenate([self.cost[columns], np.abs(g.log_weight[soft])]),
            integrality=np.concatenate([np.full(n, int(is_whole)), np.zeros(len(soft))]),
            bounds=Bounds(np.concatenate([self.lower[columns], np.zeros(len(soft))]),
                          np.concatenate([self.upper[columns], np.ones(len(soft))])),
            constraints=LinearConstraint(vstack(parts).tocsr(), np.concatenate(low), np.concatenate(high))
            if parts else None,
            options={"mip_rel_gap": 0.0} | ({} if seconds is None else {"time_limit": max(seconds, 0.01)})))
        if found.status == INFEASIBLE:
            raise contradiction(self.arrays.network)
        if found.status not in (DONE, LATE):
            raise LogicMPError(f"HiGHS gave up: {found.message}", "use solver='maxsat' or 'walksat'")
        if found.x is None:
            return None, found.status
        x = np.zeros(self.n_columns)
        x[columns] = found.x[:n].round() if is_whole else found.x[:n]
        return x, found.status

    def world(self, x: np.ndarray) -> np.ndarray:
        """The values of all variables, from the columns."""
        g = self.arrays.ground
        cards = np.diff(g.starts)
        has_column = self.column >= 0
        truth = np.where(has_column, np.append(x, 0.0)[self.column], -1.0)
        # the other value of two, and any possible value of a variable without columns
        of_binary = g.starts[self.variable[cards[self.variable] == 2]]
        truth[of_binary] = 1 - truth[of_binary + 1]
        is_used = np.zeros(len(cards), dtype=bool)
        is_used[self.variable] = True
        alone = ~np.repeat(is_used, cards)
        truth[alone] = g.domain[alone]
        values = np.zeros(len(cards), dtype=np.int32)
        for card in np.unique(cards).tolist():
            some = np.flatnonzero(cards == card)
            values[some] = truth[g.starts[some][:, None] + np.arange(card)].argmax(1)
        return values


def _interruptibly(solve: Callable[[], Any]) -> Any:
    """Run a solver in a thread of its own, because HiGHS ignores Ctrl-C; it ends with the process at the latest."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(solve())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not future.done():
        # Windows delivers an interrupt only between two waits
        thread.join(0.1)
    return future.result()
