"""Lifted belief propagation: the messages of `bp`, sent once per group."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logicmp import LogicMPError, infer
from logicmp.execute.worlds import world_from_tensors
from logicmp.inference.answers import as_probability
from logicmp.inference.bp.lifted import LiftedBeliefPropagation
from logicmp.inference.bp.method import BeliefPropagation
from logicmp.inference.method import Problem
from logicmp.testing.method_battery import SMOKERS, MethodBattery
from logicmp.testing.random_models import Model, models


class TestLiftedBeliefPropagation(MethodBattery):
    method, tolerance = "lifted-bp", 1e-6


@pytest.mark.parametrize("rounds, damping", [(3, 0.0), (1000, 0.3)])
@settings(max_examples=75, deadline=None)
@given(model=models(max_ground=12))
def test_every_round_is_that_of_bp(rounds: int, damping: float, model: Model) -> None:
    problem = Problem(world_from_tensors(model.theory, model.unary, model.evidence))
    try:
        want = BeliefPropagation(iterations=rounds, damping=damping).solve(problem)
    except LogicMPError:
        assume(False)
    got = LiftedBeliefPropagation(iterations=rounds, damping=damping).solve(problem)
    for name, odds in want.log_odds.items():
        np.testing.assert_allclose(as_probability(got.log_odds[name]), as_probability(odds), atol=1e-6)


def people(n: int) -> str:
    return SMOKERS.replace("{Anna, Bob, Carl}", f"{{{', '.join(f'P{i}' for i in range(n))}}}")


def test_people_without_evidence_are_one_group() -> None:
    got = infer(people(40), "Smokes(P0)", "Smokes, Cancer, Friends", method="lifted-bp", opened=["Friends"])
    want = infer(people(40), "Smokes(P0)", "Smokes, Cancer, Friends", method="bp", opened=["Friends"])
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-6)
    # who smokes; the cancer of P0 and of the others; friends of P0, of the others, and those that no rule leaves open
    assert got.notes[0] == "1,679 variables in 6 groups, 1,560 factors in 3: 657x fewer messages"
    assert got.notes[-1] == want.notes[-1]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_friends_give_the_answers_of_bp(seed: int) -> None:
    rng = random.Random(seed)
    facts = "\n".join(f"Friends(P{rng.randrange(12)}, P{rng.randrange(12)})" for _ in range(15))
    query = "Smokes, Cancer, Smokes(x) ^ Cancer(x), Smokes(P0) v Smokes(P1)"
    got, want = (infer(people(12), facts, query, method=m) for m in ("lifted-bp", "bp"))
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-6)


def test_the_order_of_constants_splits_no_group() -> None:
    # every rule is grounded in both orders of its two people, as a table and as a product
    theory = people(6) + "0.5 x != y => (Smokes(x) <=> Smokes(y))\n0.2 x != y => (Cancer(x) => Smokes(y))\n"
    got = infer(theory, "Friends(P0, P0)", "Smokes, Cancer", method="lifted-bp")
    assert got.notes[0] == "12 variables in 2 groups, 51 factors in 3: 17x fewer messages"


def test_two_circles_that_bp_cannot_tell_apart_are_one_group() -> None:
    six = "\n".join(f"Friends(P{i}, P{(i + 1) % 6})" for i in range(6))
    threes = "\n".join(f"Friends(P{i}, P{3 * (i // 3) + (i + 1) % 3})" for i in range(6))
    one, two = (infer(people(6), facts, "Smokes, Cancer", method="lifted-bp") for facts in (six, threes))
    assert one.notes[0] == two.notes[0] == "12 variables in 2 groups, 12 factors in 2: 6x fewer messages"
    np.testing.assert_allclose(one.probabilities, two.probabilities, atol=1e-12)
