"""Exact inference: the oracle's numbers on every random theory, and an error for components that are too wide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from published import published

from logicmp import CostError, LogicMPError, infer, oracle, parse_facts, parse_theory
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import shorten
from logicmp.inference import auto as auto_module
from logicmp.inference.answers import as_probability
from logicmp.inference.bp.method import BeliefPropagation
from logicmp.inference.exact.method import Exact, ExactModel
from logicmp.inference.method import Problem, Status
from logicmp.limits import Limits
from logicmp.testing.method_battery import MethodBattery
from logicmp.testing.random_models import Model, models


class TestExact(MethodBattery):
    method, tolerance, status = "exact", 1e-9, Status.EXACT


class TestAuto(MethodBattery):
    method, tolerance, status = "auto", 1e-9, Status.EXACT


@pytest.mark.parametrize("semantics", ["exact", "alchemy"])
@settings(max_examples=150, deadline=None)
@given(model=models(max_ground=9))
def test_marginals_are_those_of_the_enumeration(semantics: str, model: Model) -> None:
    problem = Problem(world_from_tensors(model.theory, model.unary, model.evidence), semantics=semantics)
    try:
        want = oracle.exact_marginals(model.theory, model.unary, model.evidence, model.sizes, semantics)
    except LogicMPError:
        with pytest.raises(LogicMPError, match=r"no world satisfies|violates this hard rule"):
            Exact().solve(problem)
        return
    got = Exact().solve(problem)
    for name, marginals in want.items():
        np.testing.assert_allclose(as_probability(got.log_odds[name]), marginals.numpy(), rtol=1e-7, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(model=models(max_ground=8, features={
    "formulas", "quantifiers", "equality", "symmetric", "multiclass", "offsets"}))
def test_a_formula_has_the_probability_of_its_worlds(model: Model) -> None:
    # the queried formula is the theory's first rule
    rule = model.theory.rules[0]
    world = world_from_tensors(model.theory, model.unary, model.evidence)
    query = str(rule.formula)
    from logicmp.parse.query import parse_queries

    try:
        (asked,) = parse_queries(f"({query})", model.theory)
    except LogicMPError:
        return
    got = Exact().solve(Problem(world, (asked.as_rule(),))).formulas[0]
    # P(f) by the oracle: the slope of log Z by the weight of a copy of the formula for one binding
    step = 1e-4
    from dataclasses import replace

    theory = replace(model.theory, rules=(*model.theory.rules, asked.as_rule()))
    shape = got.shape
    for place in np.ndindex(*shape):
        z = []
        for sign in (1, -1):
            weight = torch.zeros(shape, dtype=torch.float64)
            weight[place] = sign * step
            z.append(oracle.log_partition(theory, model.unary, model.evidence, model.sizes,
                                             weights=[*([None] * len(model.theory.rules)), weight]))
        want = (z[0] - z[1]) / (2 * step)
        assert as_probability(got[place]) == pytest.approx(want, abs=1e-5)


def test_log_partition_and_its_gradient_are_those_of_the_oracle() -> None:
    theory = parse_theory("p = {A, B}\nS(p)\nF(p, p)\n0.7 F(x, y) ^ S(x) => S(y)\n-0.3 F(x, y) <=> F(y, x)")
    network = build_network(build_world(parse_facts("F(A, B)\n!S(B)", theory), ["F", "S"]))
    model = ExactModel(network)
    weights, potentials = torch.tensor(network.weights), torch.tensor(model.network.potentials)
    weights.requires_grad_()
    log_z = model.log_partition(weights, potentials)
    nan = float("nan")
    evidence = {"F": torch.tensor([[nan, 1.0], [nan, nan]]), "S": torch.tensor([nan, 0.0])}
    assert log_z.item() == pytest.approx(oracle.log_partition(theory, evidence=evidence))
    slope = torch.autograd.grad(log_z, weights)[0]
    for k in range(2):
        z = [oracle.log_partition(theory, evidence=evidence, weights=[
            w + sign * 1e-5 * (j == k) for j, w in enumerate((0.7, -0.3))]) for sign in (1, -1)]
        assert slope[k].item() == pytest.approx((z[0] - z[1]) / 2e-5, abs=1e-7)


def test_a_long_disjunction_is_split_into_a_chain() -> None:
    people = ", ".join(f"P{i}" for i in range(60))
    theory = f"p = {{{people}}}\nS(p)\n0.1 S(x)\n3 EXIST x S(x)"
    got = infer(theory, query="S, EXIST x S(x)", method="exact")
    # sixty independent atoms, and e^3 against 1 for not all false
    odds = np.exp(0.1)
    none = 1.0
    some = np.exp(3) * ((1 + odds) ** 60 - 1)
    assert got["EXIST x (S(x))"] == pytest.approx(some / (some + none), rel=1e-12)
    assert got.log_partition == pytest.approx(np.log(some + none))
    network = build_network(build_world(parse_facts("", parse_theory(theory))))
    assert max(np.diff(shorten(network).begins)) <= 6


WIDE = ("p = {" + ", ".join(f"P{i}" for i in range(9)) + "}\nR(p, p)\nS(p)\n0.5 R(x, y) ^ R(y, z) => R(x, z)\n1 S(x)")


def test_a_component_that_is_too_wide_is_rejected_with_numbers() -> None:
    with pytest.raises(CostError) as caught:
        infer(WIDE, query="R", method="exact", max_cells=2**20)
    assert caught.value.message.startswith("1 of 10 components are too wide to be summed: that of R(P0,P0), R(P0,P1), "
                                           "R(P0,P2), ... has 81 unobserved variables and needs more than ")
    assert caught.value.hint == ("use auto, which uses mean field for these, or mean-field; or close predicates; or "
                                 "raise max_cells")


@pytest.mark.parametrize("options, method, name, why", [
    ({}, "bp", "belief propagation", None),
    ({"max_messages": 100}, "mean-field", "mean field", "it would need 1,737 messages (limit 100)"),
    ({"trace": True}, "mean-field", "mean field", "a trace is one of mean field")])
def test_auto_is_exact_where_possible_and_says_which_approximation_it_used(options: dict[str, Any], method: str,
                                                                          name: str, why: str | None) -> None:
    got = infer(WIDE, query="R, S, R(x, x) ^ S(x), S(x) ^ !S(y)", method="auto", **options)
    field = infer(WIDE, query="R, S, R(x, x) ^ S(x)", method=method)
    assert got["S(P1)"] == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-12)
    assert got["R(P1,P2)"] == field["R(P1,P2)"]
    assert got["R(P1, P1) ^ S(P1)"] == field["R(P1, P1) ^ S(P1)"]
    assert got["S(P1) ^ !S(P2)"] == pytest.approx(np.e / (1 + np.e) ** 2, abs=1e-12)
    assert got.notes[0].startswith(f"exact on 9 of 10 components; {name} on the others, with 81 unobserved "
                                   "variables, ")
    assert got.notes[1] == f"{name} for 1 of 2 queried formulas, which connect too many atoms"
    if why is not None:
        assert got.notes[2:] == [f"mean field instead of belief propagation: {why}"]
    assert got.log_partition is None


def test_auto_uses_mean_field_where_belief_propagation_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BeliefPropagation, "iterations", 1)
    monkeypatch.setattr(BeliefPropagation.__init__, "__defaults__", (1, 0.3, 1e-8))
    got = infer(WIDE, query="R", method="auto")
    assert got["R(P1,P2)"] == infer(WIDE, query="R", method="mean-field")["R(P1,P2)"]
    assert "mean field on the others" in got.notes[0]
    assert got.notes[1].startswith("mean field instead of belief propagation: bp did not converge in 1 rounds: ")


def test_auto_without_exact_inference_is_close_on_published_cases(data: Path) -> None:
    errors = [abs(case.got[atom] - p) for case in published(data, "auto", max_cells=0) if case.semantics == "exact"
              for atom, p in case.marginals.items()]
    assert np.mean(errors) < 0.01


def test_auto_leaves_all_to_mean_field_where_groundings_are_too_many() -> None:
    got = infer(WIDE, query="S", method="auto", max_groundings=100)
    assert got.notes[0] == ("mean field on all components: the evidence leaves at least 729 groundings of this rule "
                            "open (limit 100), in line 4")


def test_auto_leaves_time_for_mean_field() -> None:
    def late(what: str) -> tuple[list[str], float]:
        """The notes and the answer if some work takes 9 of 10 seconds."""
        seconds = [0.0]

        def report(now: str, done: int, total: int) -> None:
            if now == what:
                seconds[0] = 9.0

        got = infer(WIDE, query="R", method="auto", progress=report, limits=Limits(10, now=lambda: seconds[0]))
        return got.notes, got["R(P1,P2)"]

    field = infer(WIDE, query="R", method="mean-field")["R(P1,P2)"]
    notes, answer = late("grounding")
    assert notes[0] == "mean field on all components: the time limit of 4 s was reached while grounding"
    assert answer == pytest.approx(field)
    notes, answer = late("making factors")
    assert notes[1] == ("mean field instead of belief propagation: the time limit of 5 s was reached while making "
                        "factors")
    assert answer == pytest.approx(field)


def test_auto_skips_groundings_that_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_module, "SECONDS_PER_BYTE", 1.0)
    got = infer(WIDE, query="R", method="auto", limits=Limits(10, now=lambda: 0.0))
    assert re.fullmatch(r"mean field on all components: the ground network of at least \d+ groundings takes about "
                        r"[\d.e+]+ s, and 4 s are left for it", got.notes[0])
    assert got["R(P1,P2)"] == pytest.approx(infer(WIDE, query="R", method="mean-field")["R(P1,P2)"])


def test_auto_skips_belief_propagation_that_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_module, "SECONDS", 1.0)
    got = infer(WIDE, query="R", method="auto", limits=Limits(10, now=lambda: 0.0))
    assert got.notes[1] == ("mean field instead of belief propagation: it would need more than 5 s, half of the time "
                            "that is left")


def test_a_queried_formula_is_never_divided() -> None:
    theory = "p = {A, B}\nS(p)\nT(p)\n1 S(x) <=> T(x)"
    got = infer(theory, "S(A)\nT(A)\n!S(B)\n!T(B)", "S(x) <=> T(x), S(x) ^ (T(x) v S(B)), FORALL x (S(x) v !T(x))",
                method="exact", semantics="alchemy", opened=["S", "T"])
    assert dict(got) == {"S(A) <=> T(A)": 1.0, "S(B) <=> T(B)": 1.0, "S(A) ^ (T(A) v S(B))": 1.0,
                         "S(B) ^ (T(B) v S(B))": 0.0, "FORALL x (S(x) v !T(x))": 1.0}


def test_a_contradiction_names_its_rules() -> None:
    with pytest.raises(LogicMPError) as caught:
        infer("p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\n!T(x).", query="S", method="exact")
    assert str(caught.value) == """\
no world satisfies the hard rules and the evidence; these cannot all be satisfied:
  S(x) v T(x).
  !S(x) v T(x).
  !T(x).
hint: give one of them a weight, or correct the evidence"""
