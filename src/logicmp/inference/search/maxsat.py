"""The most probable world by MaxSAT, with a proof that it is the best.

Room: inference/search; used by map and decode, and by samplers whose hard rules are difficult.

    a variable with values a, b, c       one proposition for each, exactly one of which is true
    2 Smokes(A) => Cancer(A)             the soft clause !s v c, of weight 2
    -2 Smokes(A) => Cancer(A)            y => s,  y => !c,  and the soft clause y, of weight 2
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from ...ground.propagate import contradiction
from ...limits import need
from ..moves.arrays import GroundArrays

# MaxSAT needs integer weights: the largest weight becomes this
SCALE = 10**9


class Propositions:
    """The numbers of a SAT solver for the values of a network's variables."""

    def __init__(self, arrays: GroundArrays):
        self.arrays = arrays
        g = arrays.ground
        self.starts, self.cards = g.starts.tolist(), np.diff(g.starts).tolist()
        # by set: the values inside it, and those outside
        rows = [row[:card] for row, card in zip(g.member, arrays.network.sets.cards, strict=False)]
        self.inside = [np.flatnonzero(row).tolist() for row in rows]
        self.outside = [np.flatnonzero(~row).tolist() for row in rows]
        self.n = int(g.starts[-1])

    def value(self, v: int, x: int) -> int:
        """The literal that is true if a variable has a value; two values share one proposition."""
        place: int = self.starts[v] + 1
        return place + x if self.cards[v] != 2 else place if x else -place

    def clause(self, v: int, chosen: int, inside: bool) -> list[int]:
        """The clause that is true if a variable's value is inside a set, or outside it."""
        return [self.value(v, x) for x in (self.inside if inside else self.outside)[chosen]]

    def literals(self, f: int) -> Iterator[tuple[int, int]]:
        g = self.arrays.ground
        span = slice(g.begins[f], g.begins[f + 1])
        return zip(g.var[span].tolist(), g.set[span].tolist(), strict=True)

    def negated(self, f: int) -> list[int]:
        """The clause that is true if a feature is false."""
        return [p for v, chosen in self.literals(f) for p in self.clause(v, chosen, inside=False)]

    def hard_clauses(self) -> Iterator[list[int]]:
        """Exactly one value for each variable, no impossible value, and the hard rules."""
        domain = self.arrays.ground.domain.tolist()
        for v, card in enumerate(self.cards):
            for x in range(card):
                if not domain[self.starts[v] + x]:
                    yield [-self.value(v, x)]
            if card != 2:
                yield [self.value(v, x) for x in range(card)]
                yield from ([-self.value(v, x), -self.value(v, y)] for x in range(card) for y in range(x))
        for f in np.flatnonzero(self.arrays.ground.is_hard).tolist():
            yield self.negated(f)

    def world(self, model: list[int]) -> np.ndarray:
        """The values of all variables in a model of the clauses."""
        is_true = {p for p in model if p > 0}
        return np.array([next((x for x in range(card - 1, 0, -1) if self.value(v, x) in is_true), 0)
                         for v, card in enumerate(self.cards)], dtype=np.int32)


def hard_world(arrays: GroundArrays) -> np.ndarray | None:
    """A world that satisfies the hard rules, by a SAT solver; None if there is none."""
    from pysat.solvers import Cadical153

    propositions = Propositions(arrays)
    with Cadical153(bootstrap_with=propositions.hard_clauses()) as solver:
        return propositions.world(solver.get_model()) if solver.solve() else None


def is_satisfiable(arrays: GroundArrays, max_conflicts: int) -> bool | None:
    """Whether a world satisfies the hard rules; None if the solver cannot decide it within so many conflicts."""
    from pysat.solvers import Glucose4

    with Glucose4(bootstrap_with=Propositions(arrays).hard_clauses()) as solver:
        solver.conf_budget(max_conflicts)
        found: bool | None = solver.solve_limited()
        return found


def solve_maxsat(arrays: GroundArrays, seconds: float | None) -> tuple[np.ndarray | None, bool]:
    """The best world by RC2, and whether that is proven; None if it found none in time.

    Args:
        arrays: with soft evidence as features.
    """
    need("pysat", "map", "solver 'maxsat'")
    from pysat.examples.rc2 import RC2Stratified
    from pysat.formula import WCNF

    # RC2 fails without soft clauses
    if not arrays.ground.log_weight.any():
        found = hard_world(arrays)
        if found is None:
            raise contradiction(arrays.network)
        return found, True
    propositions = Propositions(arrays)
    formula = WCNF()
    for clause in propositions.hard_clauses():
        formula.append(clause)
    top = float(np.abs(arrays.ground.log_weight).max(initial=0)) or 1.0
    n = propositions.n
    for f in np.flatnonzero(arrays.ground.log_weight).tolist():
        w = float(arrays.ground.log_weight[f])
        units = max(1, round(abs(w) / top * SCALE))
        if w < 0:
            formula.append(propositions.negated(f), weight=units)
            continue
        n += 1
        for v, chosen in propositions.literals(f):
            formula.append([-n, *propositions.clause(v, chosen, inside=True)])
        formula.append([n], weight=units)
    with RC2Stratified(formula, solver="g4") as solver:
        ended, is_late = threading.Event(), threading.Event()

        def interrupt() -> None:
            # repeatedly: RC2 loses an interruption that comes between two of its calls
            ended.wait(seconds)
            while not ended.is_set():
                is_late.set()
                solver.interrupt()
                ended.wait(0.05)

        watcher = threading.Thread(target=interrupt, daemon=True)
        watcher.start()
        try:
            model = solver.compute(expect_interrupt=True)
        finally:
            ended.set()
            watcher.join()
    if model is None and is_late.is_set():
        return None, False
    if model is None:
        raise contradiction(arrays.network)
    return propositions.world(model), True
