"""Mean field as a method: the paper's updates to the letter, and what happens when they do not converge."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from published import published

from logicmp import CostError, LogicMP, LogicMPError, Schedule, infer, oracle
from logicmp.errors import LimitError
from logicmp.execute.worlds import world_from_tensors
from logicmp.inference.answers import as_probability
from logicmp.inference.exact.method import Exact
from logicmp.inference.mean_field import MeanField
from logicmp.inference.method import Problem
from logicmp.limits import Limits
from logicmp.testing.method_battery import FACTS, SMOKERS, MethodBattery
from logicmp.testing.random_models import Model, models


class TestMeanField(MethodBattery):
    method, tolerance = "mean-field", 1e-5


@pytest.mark.parametrize("damping", [0.0, 0.4])
@settings(max_examples=60, deadline=None)
@given(model=models(max_ground=8))
def test_so_many_iterations_are_so_many_synchronous_updates(damping: float, model: Model) -> None:
    """Three steps of the oracle; damping acts on log-odds, which it does not know: there one step is compared."""
    world = world_from_tensors(model.theory, model.unary, model.evidence)
    assume(world.latent)
    n = 1 if damping else 3
    try:
        got = MeanField(iterations=n, damping=damping, tolerance=0).solve(Problem(world))
    except CostError:
        assume(False)
    zero = {p.name: torch.zeros_like(model.unary[p.name]) for p in model.theory.predicates}
    unary = {name: torch.from_numpy(world.unary.get(name, zero[name].numpy())) for name in zero}
    start = MeanField(iterations=0, damping=0, tolerance=0).solve(Problem(world)).log_odds
    q = {name: torch.from_numpy(as_probability(odds)) for name, odds in start.items()}
    for _ in range(n):
        q = oracle.mean_field_step(model.theory, unary, q, model.evidence, model.sizes)
    if damping:
        assume(all(not p.is_categorical for p in model.theory.predicates))
        for name, want in q.items():
            mixed = (1 - damping) * torch.logit(want).numpy() + damping * start[name]
            np.testing.assert_allclose(as_probability(got.log_odds[name]), as_probability(np.where(
                np.isinf(start[name]), start[name], mixed)), atol=1e-9)
        return
    for name, want in q.items():
        np.testing.assert_allclose(as_probability(got.log_odds[name]), want.numpy(), atol=1e-9)


def test_the_bound_lies_below_the_partition_function() -> None:
    field, exact = (infer(SMOKERS, FACTS, "Smokes, Cancer", method=m) for m in ("mean-field", "exact"))
    assert exact.log_partition is not None
    assert field.solution.elbo is not None
    assert field.solution.elbo < exact.log_partition
    assert field.solution.elbo == pytest.approx(exact.log_partition, abs=0.1)


def test_satisfied_hard_rules_add_nothing_to_the_bound() -> None:
    got = infer("p = {A, B}\nS(p)\nT(p)\nS(x) ^ T(x).\n1 S(x)", query="S", method="mean-field")
    # two worlds' worth of weight 1, next to nothing for the worlds that break a rule of weight 10
    assert got.solution.elbo == pytest.approx(2, abs=1e-3)


def test_a_run_that_oscillates_is_damped_until_it_converges() -> None:
    # everybody wants to be the only one: synchronous updates jump between all and none
    theory = "p = {A, B, C, D}\nS(p)\n4 S(x)\n5 x != y => !(S(x) ^ S(y))"
    got = infer(theory, query="S", method="mean-field", damping=0.0, correction="none")
    assert got.notes == ["mean field did not converge in 200 iterations: damping was raised to 0.75"]
    assert got.status == "converged"


def test_a_run_that_never_converges_says_so() -> None:
    options = {"iterations": 1, "damping": 0.9, "tolerance": 1e-12}
    got = infer(SMOKERS, FACTS, "Smokes", method="mean-field", correction="none", **options)
    assert len(got.notes) == 1
    assert got.notes[0].startswith("mean field did not converge: after 4 iterations with damping up to 0.99375 ")
    assert got.status == "iterations"


def test_a_corrected_run_that_never_converges_gives_plain_mean_field_and_says_so() -> None:
    options = {"iterations": 1, "damping": 0.9, "tolerance": 1e-12}
    plain, got = (infer(SMOKERS, FACTS, "Smokes", method="mean-field", correction=name, **options)
                  for name in ("none", "tap"))
    assert got.notes[0].startswith("mean field without the TAP correction: with it, the updates did not converge: ")
    assert got.notes[1:] == plain.notes
    assert got.log_odds.tolist() == plain.log_odds.tolist()
    assert got.solution.elbo == plain.solution.elbo


@pytest.mark.parametrize("options, why", [
    ({"tolerance": 0.0}, "tolerance is 0"),
    ({"schedule": "paper"}, "the schedule does not run until convergence"),
    ({"semantics": "paper"}, "the paper's semantics has no ground network"),
    ({"max_groundings": 3}, "the evidence leaves at least 6 groundings of this rule open, after 3 of those before "
     "it (limit 3)")])
def test_the_notes_report_why_a_run_has_no_correction(options: dict[str, Any], why: str) -> None:
    facts = "Smokes(Anna)"
    plain, got = (infer(SMOKERS, facts, "Smokes", method="mean-field", correction=name, **options)
                  for name in ("none", "tap"))
    assert got.notes == [f"mean field without the TAP correction: {why}", *plain.notes]
    assert got.log_odds.tolist() == plain.log_odds.tolist()


def test_a_time_limit_that_ends_while_grounding_leaves_no_answer() -> None:
    with pytest.raises(LimitError, match="method 'mean-field' stopped before its first step"):
        infer(SMOKERS, FACTS, "Smokes", method="mean-field", max_seconds=0)


def test_evidence_against_a_hard_rule_is_answered_without_a_correction() -> None:
    got = infer("p = {A}\nS(p)\nT(p)\nS(x).\n1 T(x)", "!S(A)\n?T(A)", "T", method="mean-field", opened=["T"])
    assert got["T(A)"] == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-6)
    assert len(got.notes) == 1
    assert got.notes[0].startswith("mean field without the TAP correction: the evidence violates this hard rule")


def test_the_correction_brings_two_tied_atoms_closer_to_their_probability() -> None:
    theory = "p = {A, B}\nS(p)\n1.5 S(A) <=> S(B)\n0.5 S(A)"
    exact, tap, plain = (infer(theory, query="S, S(A) ^ S(B)", **options)["S(A)"] for options in (
        {"method": "exact"}, {"method": "mean-field"}, {"method": "mean-field", "correction": "none"}))
    assert abs(tap - exact) < 0.2 * abs(plain - exact)


def test_published_cases_are_met_more_closely_with_the_correction(data: Path) -> None:
    errors = {name: [np.mean([abs(case.got[atom] - p) for atom, p in case.marginals.items()])
                     for case in published(data, "mean-field", correction=name) if case.semantics == "exact"]
              for name in ("tap", "none")}
    assert np.mean(errors["none"]) == pytest.approx(0.0512, abs=1e-4)
    assert np.mean(errors["tap"]) < 0.02
    # no case is worse
    assert all(tap <= plain + 1e-4 for tap, plain in zip(errors["tap"], errors["none"], strict=True))


def test_an_unknown_correction_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="correction must be tap or none, got third"):
        infer(SMOKERS, FACTS, "Smokes", method="mean-field", correction="third")


@settings(max_examples=40, deadline=None)
@given(model=models(max_ground=8))
def test_the_bound_stays_a_bound_with_the_correction(model: Model) -> None:
    assume(not any(rule.is_hard for rule in model.theory.rules))
    problem = Problem(world_from_tensors(model.theory, model.unary, model.evidence))
    assume(problem.world.latent)
    try:
        exact, got = Exact().solve(problem), MeanField().solve(problem)
    except CostError:
        assume(False)
    assert exact.log_partition is not None
    assert got.elbo is not None
    assert got.elbo <= exact.log_partition + 1e-9


def test_restarts_keep_the_run_with_the_highest_bound() -> None:
    # two equal modes, all true and all false, and the symmetric saddle between them where the first run stays
    theory = "p = {A, B, C, D}\nS(p)\n2 x != y => (S(x) <=> S(y))"
    one = infer(theory, query="S", method="mean-field", correction="none")
    best = infer(theory, query="S", method="mean-field", restarts=8, correction="none")
    assert one["S(A)"] == pytest.approx(0.5)
    assert abs(best["S(A)"] - 0.5) > 0.4
    assert best.solution.elbo > one.solution.elbo + 0.1  # type: ignore[operator]
    assert best.notes == ["the best of 8 runs"]


def test_a_trace_has_every_iteration() -> None:
    got = infer(SMOKERS, FACTS, "Smokes", method="mean-field", iterations=7, damping=0.0, tolerance=0.0, trace=True)
    trace = got.solution.trace
    assert [i.number for i in trace] == list(range(8))
    assert trace[-1].elbo == pytest.approx(got.solution.elbo)
    assert all(len(i.violations) == 2 for i in trace)
    assert all(later.elbo >= before.elbo - 1e-9 for before, later in itertools.pairwise(trace[3:]))


def test_no_restart_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="restarts must be at least 1, got 0"):
        infer(SMOKERS, FACTS, "Smokes", method="mean-field", restarts=0)


def test_a_schedule_of_the_layer_gives_the_layers_answer_and_says_what_it_is() -> None:
    theory = "p = {A, B, C}\nF(p, p)\n2 F(x, y) ^ F(y, z) => F(x, z)"
    facts = "0.9 F(A, B)\n0.8 F(B, C)\n0.3 F(A, C)"
    got = infer(theory, facts, "F", method="mean-field", schedule="adaptive")
    unary = torch.zeros(3, 3, dtype=torch.float64)
    for (i, j), p in {(0, 1): 0.9, (1, 2): 0.8, (0, 2): 0.3}.items():
        unary[i, j] = np.log(p) - np.log1p(-p)
    with torch.no_grad():
        want = LogicMP(theory, schedule="adaptive", dtype=torch.float64)(unary)
    np.testing.assert_allclose(got.log_odds, want.reshape(-1).numpy(), atol=1e-9)
    assert got.notes[0].startswith("F: 6 of 9 atoms have no fact, prior probability 0.5")
    assert got.notes[1:] == [
        "mean field without the TAP correction: the schedule does not run until convergence",
        "schedule 'adaptive': the answers are scores to decide by, not probabilities"]
    assert got.status == "iterations"


def test_a_temperature_is_that_of_the_layer() -> None:
    rules = "t = {A, B, C}\nP(t)\nR(t, t)\n1.5 P(x) ^ R(x, y) => P(y)\n0.4 P(A)\n"
    found = infer(rules, "R(A, B)\nR(B, C)", "P", "mean-field", iterations=4, damping=0.25, tolerance=0.0,
                  correction="none", temperature=0.5)
    layer = LogicMP(rules, schedule=Schedule(4, 0.25, 0.5), dtype=torch.float64)
    links = torch.zeros(3, 3).bool()
    links[[0, 1], [1, 2]] = True
    expected = torch.sigmoid(layer({"P": torch.zeros(3, dtype=torch.float64)}, {"R": links})["P"])
    assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-12)
    with pytest.raises(LogicMPError, match="temperature must be above 0, got 0"):
        infer(rules, "R(A, B)", "P", "mean-field", temperature=0.0)


def test_an_unknown_schedule_is_named() -> None:
    with pytest.raises(LogicMPError, match="unknown schedule 'warm'"):
        infer(SMOKERS, FACTS, "Smokes", method="mean-field", schedule="warm")


def test_no_iterations_give_no_answers() -> None:
    with pytest.raises(CostError, match="method 'mean-field' stopped before its first step") as caught:
        infer(SMOKERS, FACTS, "Smokes", method="mean-field", iterations=0)
    assert caught.value.hint == "set iterations to at least 1"


@pytest.mark.parametrize("options", [{"restarts": 3, "tolerance": 0.01}, {"iterations": 2}])
def test_the_time_limit_counts_what_was_done_before_it(options: dict[str, Any]) -> None:
    # a clock that advances when it is read; the limit is reached in a restart or a run with more damping, before its
    # first iteration
    statuses = set()
    for seconds in range(1, 60):
        limits = Limits(seconds, now=itertools.count().__next__)
        try:
            got = infer(SMOKERS, FACTS, "Smokes", method="mean-field", limits=limits, correction="none", **options)
        except LimitError:
            assert seconds < 3
            continue
        assert got["Smokes(Carl)"] != 0.5
        statuses.add(str(got.status))
    assert statuses == {"time", "converged" if "restarts" in options else "iterations"}
