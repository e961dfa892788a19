"""Inference over shares of the rows: the same answers as in one process, for every schedule and for bp."""

from __future__ import annotations

from typing import Any

import pytest
from test_sparse_worlds import RULES, facts

from logicmp import LogicMPError, infer
from logicmp.facts import world
from logicmp.inference.bp.lifted import LiftedBeliefPropagation
from logicmp.inference.bp.method import BeliefPropagation
from logicmp.inference.mean_field import MeanField
from logicmp.testing.thread_shares import run_shares

QUERY = ["Smokes", "Cancer", "Knows", "Knows(x, y) ^ Smokes(x)"]
ALLOWED = "\n".join(f"Knows(P{a}, P{b})" for a in range(12) for b in range(a, 12) if (a * b) % 3 == 1)


@pytest.fixture(autouse=True)
def sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed predicates as lists, whatever their size."""
    for method in (MeanField, BeliefPropagation, LiftedBeliefPropagation):
        monkeypatch.setattr(method, "dense_atoms", 0)
    monkeypatch.setattr(world, "SPARSE_SHARE", 2.0)


def check(n: int, method: str, **options: Any) -> None:
    given: dict[str, Any] = {"closed": ["Friends"], "candidates": ALLOWED, **options}
    want = infer(RULES, facts(3), QUERY, method, **given)
    assert want.world.supports.keys() == {"Friends", "Knows"}
    for got in run_shares(n, lambda shares: infer(RULES, facts(3), QUERY, method, shares=shares, **given)):
        assert dict(got) == pytest.approx(dict(want), rel=0, abs=1e-9)
        assert got.solution.status == want.solution.status
        assert got.solution.n_rows == want.solution.n_rows
        assert got.solution.elbo == pytest.approx(want.solution.elbo)


@pytest.mark.parametrize("options", [{"iterations": 20, "tolerance": 1e-2}, {"schedule": "paper"},
                                     {"schedule": "adaptive"}, {"schedule": "cold"},
                                     {"restarts": 2, "max_seconds": 100, "iterations": 5, "tolerance": 0}], ids=str)
def test_mean_field(options: dict[str, Any]) -> None:
    check(2, "mean-field", **options)


def test_three_ranks() -> None:
    check(3, "mean-field", correction="none", iterations=30, tolerance=1e-3)


@pytest.mark.parametrize("method", ["bp", "lifted-bp"])
def test_belief_propagation(method: str) -> None:
    check(3, method, max_seconds=100)


def test_a_method_of_one_process() -> None:
    with pytest.raises(LogicMPError, match="method 'gibbs' runs in one process"):
        run_shares(1, lambda shares: infer(RULES, facts(3), "Smokes", "gibbs", shares=shares))


def test_an_engine_for_a_ground_network() -> None:
    with pytest.raises(LogicMPError, match="method 'bp' makes a ground network, so it has no engine 'duckdb'"):
        infer(RULES, facts(3), "Smokes", "bp", engine="duckdb")


def test_duckdb_gives_the_same_answers() -> None:
    given: dict[str, Any] = {"closed": ["Friends"], "candidates": ALLOWED, "correction": "none"}
    want, got = (infer(RULES, facts(3), QUERY, "mean-field", engine=engine, **given) for engine in ("torch", "duckdb"))
    assert dict(got) == pytest.approx(dict(want), rel=0, abs=1e-9)


def test_processes_with_other_facts() -> None:
    with pytest.raises(LogicMPError, match="rank 1 has other rules, facts or queries than rank 0"):
        run_shares(2, lambda shares: infer(RULES, facts(shares.share.rank), "Smokes", "bp", shares=shares))
