"""The integer program: its optimum, a network without variables, interrupts and errors of the solver."""

from __future__ import annotations

import _thread
import signal
import threading

import numpy as np
import pytest
from networks import network_of, random_network, score, worlds

from logicmp import LogicMPError, infer
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.search.ilp import solve_ilp


@pytest.mark.parametrize("seed", range(15))
def test_the_optimum_is_the_best_of_all_worlds(seed: int) -> None:
    network = random_network(seed, max_ground=5)
    if np.prod(network.cards, dtype=float) > 2**10:
        return
    best = max((score(network, values) for values in worlds(network)), default=0.0)
    if best == -np.inf:
        with pytest.raises(LogicMPError, match="no world satisfies"):
            solve_ilp(build_arrays(network, unary_features=True), None)
        return
    values, is_proven = solve_ilp(build_arrays(network, unary_features=True), None)
    assert values is not None and is_proven
    assert score(network, values) == pytest.approx(best, abs=1e-6)


def test_a_network_without_variables_has_one_world() -> None:
    values, is_proven = solve_ilp(build_arrays(network_of("p = {A}\nS(p)\n1 S(x)", "S(A)")), None)
    assert values is not None and len(values) == 0 and is_proven


def test_an_interrupt_is_raised_while_the_solver_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()

    def slow(*_: object, **__: object) -> None:
        assert threading.current_thread() is not threading.main_thread(), "a solver in C++ would ignore the interrupt"
        _thread.interrupt_main()
        is_over.wait()

    monkeypatch.setattr("scipy.optimize.milp", slow)
    # a shell lets jobs in the background ignore interrupts
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            solve_ilp(build_arrays(network_of("p = {A}\nS(p)\n1 S(x)"), unary_features=True), None)
    finally:
        signal.signal(signal.SIGINT, before)
        is_over.set()


def test_an_error_of_the_solver_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise MemoryError("too large")

    monkeypatch.setattr("scipy.optimize.milp", failing)
    with pytest.raises(MemoryError, match="too large"):
        solve_ilp(build_arrays(network_of("p = {A}\nS(p)\n1 S(x)"), unary_features=True), None)


def test_a_variable_in_no_rule_may_have_more_values_than_those_in_rules() -> None:
    found = infer("p = {A}\nQ(p) in {L, M, N}\nS(p)\n1 S(x)", "", "Q, S", "map", solver="ilp")
    assert found["S(A)"] == 1
    assert sum(found[f"Q(A) = {label}"] for label in "LMN") == 1
