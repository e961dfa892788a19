"""Hinge-loss random fields: the optimum of independent solvers, and an error for a loss that is not convex."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize, nnls

from logicmp import CostError, LogicMPError, RuleError, infer, parse_facts, parse_theory
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import Network
from logicmp.inference.hlmrf import (
    CompiledCopies,
    Copies,
    Feasible,
    HingeLoss,
    HingeLossMRF,
    build_loss,
    is_smooth,
    project_simplex,
)
from logicmp.inference.method import Problem
from logicmp.limits import Limits
from logicmp.testing.method_battery import FACTS, SMOKERS, MethodBattery
from logicmp.testing.random_models import random_model

# what is convex once weights are positive
FEATURES = {"formulas", "quantifiers", "equality", "symmetric", "multiclass", "functional", "hard"}


class TestHingeLossMRF(MethodBattery):
    method, tolerance = "hl-mrf", 1e-3
    # degrees that violate no rule if possible, for any weight; 0.5 for atoms that no rule mentions
    answers = {  # noqa: RUF012
        "one atom": {"S(A)": 1},
        "no arguments": {"Rain": 1, "Wet": 0.5},
        "soft evidence": {"S(A)": 1, "S(B)": 0.5},
        "unobserved in a closed predicate": {"S(A)": 0, "S(B)": 0.5},
        "labels": {"mood(A) = Glad": 1, "mood(A) = Sad": 0, "mood(B) = Sad": 1, "mood(B) = Calm": 0},
        "a value for each": {"lives(A,A)": 1, "lives(A,B)": 0},
    }


class TestLinearHingeLossMRF(TestHingeLossMRF):
    options = {"squared": False}  # noqa: RUF012


def matrices(loss: HingeLoss, network: Network) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of the hinges, and of the sums that must be one."""
    hinges = np.zeros((len(loss.bound), loss.n_values))
    np.add.at(hinges, (loss.owner, loss.value), loss.coefficient)
    return hinges, np.repeat(np.eye(len(network.cards)), network.cards, axis=1)


def linear_optimum(loss: HingeLoss, network: Network) -> float | None:
    """By HiGHS: a slack for each soft hinge, None if the constraints contradict each other or nothing is unknown."""
    if not loss.n_values:
        return None
    hinges, sums = matrices(loss, network)
    soft = np.flatnonzero(np.isfinite(loss.weight))
    slack = np.zeros((len(loss.bound), len(soft)))
    slack[soft, np.arange(len(soft))] = -1
    bounds = [(0, float(p > -np.inf)) for p in network.potentials] + [(0, None)] * len(soft)
    found = linprog(np.append(np.zeros(loss.n_values), loss.weight[soft]), np.hstack([hinges, slack]), loss.bound,
                    np.hstack([sums, np.zeros((len(sums), len(soft)))]), np.ones(len(sums)), bounds)
    return float(found.fun) if found.status == 0 else None


def squared_optimum(loss: HingeLoss, network: Network) -> float:
    """By SLSQP, on hinges as they are: their squares are smooth."""
    hinges, sums = matrices(loss, network)
    soft, hard = np.isfinite(loss.weight), np.isinf(loss.weight)
    start = Feasible(network).middle()

    def slope(x: np.ndarray) -> np.ndarray:
        return np.asarray(2 * (loss.weight[soft] * loss.distance(x)[soft]) @ hinges[soft])

    found = minimize(loss, start, jac=slope, method="SLSQP", options={"ftol": 1e-12, "maxiter": 1000},
                     bounds=[(0, float(p > -np.inf)) for p in network.potentials], constraints=[
                         {"type": "eq", "fun": lambda x: sums @ x - 1, "jac": lambda x: sums},
                         *([{"type": "ineq", "fun": lambda x: (loss.bound - hinges @ x)[hard],
                             "jac": lambda x: -hinges[hard]}] if hard.any() else [])])
    return float(found.fun)


def solve(seed: int, squared: bool) -> tuple[HingeLoss, Network, np.ndarray]:
    """A random theory whose hard rules do not contradict each other, and its truth values."""
    while True:
        model = random_model(random.Random(seed), max_ground=12, features=FEATURES)
        world = world_from_tensors(model.theory, model.unary, model.evidence)
        try:
            network = build_network(world)
            loss = build_loss(network, squared)
            if linear_optimum(loss, network) is not None:
                return loss, network, HingeLossMRF(squared=squared).minimize(loss, network, Problem(world))[0]
        except LogicMPError:
            pass
        seed += 1000


@pytest.mark.parametrize("seed", range(30))
def test_the_linear_optimum_is_that_of_a_linear_program(seed: int) -> None:
    loss, network, truth = solve(seed, squared=False)
    assert loss(truth) == pytest.approx(linear_optimum(loss, network), abs=1e-4)
    assert loss.violation(truth) < 1e-4


@pytest.mark.parametrize("seed", range(30))
def test_the_squared_optimum_is_that_of_another_solver(seed: int) -> None:
    loss, network, truth = solve(seed, squared=True)
    assert loss(truth) == pytest.approx(squared_optimum(loss, network), abs=1e-4)
    assert loss.violation(truth) < 1e-4


def test_a_rule_is_violated_by_its_distance_in_the_logic_of_lukasiewicz() -> None:
    theory = parse_theory("p = {A}\nS(p)\nT(p)\n2 S(x) => T(x)")
    network = build_network(build_world(parse_facts("", theory)))
    # S is 0.9 true and T is 0.3
    truth = np.array([0.1, 0.9, 0.7, 0.3])
    assert build_loss(network, False)(truth) == pytest.approx(2 * 0.6)
    assert build_loss(network, True)(truth) == pytest.approx(2 * 0.6**2)


def test_squares_share_what_a_line_gives_to_the_stronger() -> None:
    theory = "p = {A}\nS(p)\n3 S(x)\n1 !S(x)"
    assert infer(theory, query="S", method="hl-mrf")["S(A)"] == pytest.approx(0.75, abs=1e-4)
    assert infer(theory, query="S", method="hl-mrf", squared=False)["S(A)"] == pytest.approx(1, abs=1e-4)


def test_a_negative_weight_of_one_atom_is_a_positive_one_of_its_negation() -> None:
    one, two = (infer(f"p = {{A}}\nS(p)\n3 S(x)\n{rule}", query="S", method="hl-mrf")
                for rule in ("-1 S(x)", "1 !S(x)"))
    assert one.log_odds == pytest.approx(two.log_odds)


def test_a_rule_that_makes_the_loss_concave_is_rejected_with_the_methods_that_allow_it() -> None:
    with pytest.raises(RuleError) as caught:
        infer("p = {A}\nS(p)\nT(p)\n1 S(x)\n-2 S(x) => T(x)", query="S", method="hl-mrf")
    assert str(caught.value) == """\
method 'hl-mrf' allows no negative weight for a rule with several literals: -2 S(x) => T(x)
 --> <text>:5:1
5 | -2 S(x) => T(x)
  | ^^^^^^^^^^^^^^^
hint: its loss would have many minima; negate the rule, or use exact, mean-field, bp, gibbs or mc-sat"""


def test_hard_rules_are_constraints() -> None:
    got = infer("p = {A}\nS(p)\nT(p)\n5 S(x)\n1 !T(x)\nS(x) => T(x).", query="S, T, S(x) => T(x)", method="hl-mrf",
                squared=False)
    assert (got["S(A)"], got["T(A)"]) == pytest.approx((1, 1), abs=1e-3)
    assert got["S(A) => T(A)"] == pytest.approx(1, abs=1e-3)


def test_an_existential_is_as_true_as_its_cases_together() -> None:
    got = infer("p = {A, B}\nS(p)\n1 !S(x)\nEXIST x S(x).", query="S, EXIST x S(x)", method="hl-mrf")
    assert got["S(A)"] == pytest.approx(0.5, abs=1e-3)
    assert got["EXIST x (S(x))"] == pytest.approx(1, abs=1e-3)


def test_a_contradiction_of_single_rules_is_an_error_and_a_deeper_one_a_note() -> None:
    with pytest.raises(LogicMPError, match="no world satisfies the hard rules"):
        infer("p = {A}\nS(p)\nS(x).\n!S(x).", query="S", method="hl-mrf")
    # three values of which two people must each have all, in any degrees
    rules = "\n".join(f"mood(A) in {{{label}}} v mood(B) in {{{label}}}." for label in "KLM")
    got = infer(f"p = {{A, B}}\nmood(p) in {{K, L, M}}\n{rules}", query="mood", method="hl-mrf", iterations=500)
    assert got.notes[0].startswith("hl-mrf did not converge in 500 rounds")
    assert got.notes[1] == "a hard rule is still violated by 0.33: the hard rules may contradict each other"


def test_the_loss_and_the_rounds_are_told() -> None:
    got = infer(SMOKERS, FACTS, "Smokes, Cancer", method="hl-mrf")
    assert got.notes[0].startswith("hl-mrf converged after ")
    assert got.notes[-1] == "hinge loss 0.634615 (squared); the answers are degrees of truth, not probabilities"


def test_a_run_stops_at_its_limits_with_what_it_has() -> None:
    got = infer(SMOKERS, FACTS, "Smokes", method="hl-mrf", iterations=3)
    assert got.notes[0].startswith("hl-mrf did not converge in 3 rounds")
    assert got.status == "iterations"
    got = infer(SMOKERS, FACTS, "Smokes", method="hl-mrf", limits=Limits(60, now=count().__next__), tolerance=0)
    assert got.notes[0].startswith("hl-mrf was stopped after 60 s and 19 rounds, the last change was 0.0")
    assert got.status == "time"


def test_no_rounds_give_no_answers() -> None:
    with pytest.raises(CostError, match="method 'hl-mrf' stopped before its first step"):
        infer(SMOKERS, FACTS, "Smokes", method="hl-mrf", iterations=0)


def test_a_step_size_of_zero_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="step_size must be above 0, got 0"):
        infer(SMOKERS, FACTS, "Smokes", method="hl-mrf", step_size=0)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.1, 5)), min_size=2, max_size=6))
def test_the_projection_is_the_nearest_point_of_the_simplex(entries: list[tuple[float, float]]) -> None:
    x, weight = np.array(entries).T
    got = project_simplex(x[None], 1 / weight[None])[0]
    assert got.sum() == pytest.approx(1)
    # the same by nonnegative least squares, with a heavy row for the sum
    scale = np.sqrt(weight)
    want, _ = nnls(np.vstack([np.diag(scale), np.full(len(x), 1e4)]), np.append(scale * x, 1e4))
    assert got == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_compiled_loop_moves_copies_as_numpy_does(seed: int, squared: bool) -> None:
    rng = np.random.default_rng(seed)
    n_values, counts = 9, rng.integers(1, 5, 12)
    owner = np.repeat(np.arange(12), counts).astype(np.int32)
    value = np.concatenate([rng.permutation(n_values)[:n] for n in counts]).astype(np.int32)
    loss = HingeLoss(n_values, owner, value, rng.choice([-1, 1], len(owner)).astype(np.int8), rng.normal(0, 1, 12),
                     rng.choice([0.5, 2.0, np.inf], 12), squared)
    truth = rng.random(n_values)
    plain, compiled = Copies(loss, truth), CompiledCopies(loss, truth)
    for step_size in (1.0, 0.5, 2.0):
        one, other = plain.move(truth, step_size), compiled.move(truth, step_size)
        np.testing.assert_allclose(one[0], other[0], atol=1e-12)
        assert one[1] == pytest.approx(other[1])
        truth = one[0].clip(0, 1)
        for copies in (plain, compiled):
            copies.rescale(truth, 0.7)
    np.testing.assert_allclose(plain.held, compiled.held, atol=1e-12)


def test_one_value_after_the_other_finds_the_minimum_of_admm() -> None:
    n_smooth = 0
    for seed in range(60):
        model = random_model(random.Random(seed), features={"formulas", "equality"}, max_ground=8)
        rules = tuple(replace(rule, weight=abs(rule.weight or 1.0)) for rule in model.theory.rules)
        world = world_from_tensors(replace(model.theory, rules=rules), model.unary, model.evidence)
        network = build_network(world)
        loss = build_loss(network, squared=True)
        if not is_smooth(loss, network) or not loss.n_entries:
            continue
        n_smooth += 1
        method = HingeLossMRF(tolerance=1e-9)
        one, other = (solve(loss, network, Problem(world))[0] for solve in (
            method.descend, partial(method.agree, kind=Copies)))
        assert loss(one) == pytest.approx(loss(other), abs=1e-6)
        assert one.reshape(-1, 2).sum(1) == pytest.approx(1)
    assert n_smooth > 30


@pytest.mark.parametrize("theory, smooth", [
    ("p = {A}\nS(p)\n1 S(x)", True), ("p = {A}\nS(p)\nT(p)\nS(x) v T(x).", False),
    ("p = {A}\nmood(p) in {K, L, M}\n1 mood(x) = K", False)])
def test_constraints_and_values_that_share_a_sum_are_not_smooth(theory: str, smooth: bool) -> None:
    network = build_network(build_world(parse_facts("", parse_theory(theory))))
    assert is_smooth(build_loss(network, squared=True), network) is smooth
    assert not is_smooth(build_loss(network, squared=False), network)
