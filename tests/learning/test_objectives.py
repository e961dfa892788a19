"""Losses of all methods, compared with enumeration."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from worlds import (
    Assignment,
    all_assignments,
    conditional_scores,
    features,
    random_assignment,
    score,
    to_tensors,
    to_world,
)

from logicmp import Theory, oracle, parse_theory
from logicmp.learning.objectives import Discriminative, PseudoLikelihood
from logicmp.testing.random_theories import ALL, random_theory

SOFT = ALL - {"hard"}
CASES = st.randoms(use_true_random=False)
SMOKERS = parse_theory("""
person = {Anna, Bob}
Smokes(person)
Cancer(person)
*Friends(person, person)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
(Smokes(x))
""")


def random_weights(theory: Theory, rng: random.Random, scale: float = 1.0) -> list[Tensor]:
    shapes = [[theory.sizes[rule.variables[name]] for name in rule.per_constant] for rule in theory.rules]
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    return [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


# pseudo-likelihood


def pseudo_likelihood(theory: Theory, assignment: Assignment, weights: list[Tensor], semantics: str) -> float:
    return sum(float(torch.log_softmax(scores, 0)[assignment[variable]])
               for variable, scores in conditional_scores(theory, assignment, weights, semantics).items())


@given(CASES, st.sampled_from(["exact", "alchemy"]))
@settings(max_examples=80, deadline=None)
def test_pseudo_likelihood_equals_enumeration_of_conditionals(rng: random.Random, semantics: str) -> None:
    theory = random_theory(rng, max_ground=8, features=SOFT)
    assignment, weights = random_assignment(theory, rng), random_weights(theory, rng)
    found = PseudoLikelihood(to_world(theory, assignment), (), semantics).loss(weights)
    assert float(-found) == pytest.approx(pseudo_likelihood(theory, assignment, weights, semantics), abs=1e-9)


@pytest.mark.parametrize("declaration", [
    "symmetric P(t, t)", "P(t) in {L, M, N}", "P(t, t!)", "P(t, t?)", "P(t!, t!)", "P(t?, t)"])
def test_pseudo_likelihood_counts_each_variable_once_where_it_is_(declaration: str) -> None:
    label = " in {L}" if "in" in declaration else ""
    x, xy = ("P(x)", "P(y)") if label else ("P(x, y)", "P(y, x)")
    theory = parse_theory(f"t = {{A, B}}\n{declaration}\nQ(t)\n{x}{label} ^ Q(x) => Q(y)\n{xy}{label} v Q(y)")
    rng = random.Random(1)
    for _ in range(4):
        assignment, weights = random_assignment(theory, rng), random_weights(theory, rng)
        found = PseudoLikelihood(to_world(theory, assignment), (), "exact").loss(weights)
        assert float(-found) == pytest.approx(pseudo_likelihood(theory, assignment, weights, "exact"), abs=1e-9)


def test_only_query_predicates_enter_the_pseudo_likelihood() -> None:
    assignment = random_assignment(SMOKERS, random.Random(3))
    weights = random_weights(SMOKERS, random.Random(4))
    found = PseudoLikelihood(to_world(SMOKERS, assignment), ["Cancer"], "exact").loss(weights)
    want = sum(float(torch.log_softmax(scores, 0)[assignment[variable]])
               for variable, scores in conditional_scores(SMOKERS, assignment, weights).items()
               if variable.predicate == "Cancer")
    assert float(-found) == pytest.approx(want, abs=1e-9)


def test_pseudo_likelihood_is_consistent() -> None:
    """Over all worlds, each as often as it is probable, its slope is zero at the weights they come from."""
    worlds = all_assignments(SMOKERS)
    weights = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in (1.2, 0.7, -0.4)]
    scores = torch.stack([features(SMOKERS, world) for world in worlds]) @ torch.stack(weights).detach()
    loss = sum(p * PseudoLikelihood(to_world(SMOKERS, world), (), "exact").loss(weights)
               for p, world in zip(scores.softmax(0), worlds, strict=True))
    for slope in torch.autograd.grad(loss, weights):
        assert abs(float(slope)) < 1e-9


# counts


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_counts_are_those_of_the_oracle(rng: random.Random) -> None:
    theory = random_theory(rng, max_ground=8, features=SOFT - {"per_constant"})
    assignment = random_assignment(theory, rng)
    counts = PseudoLikelihood(to_world(theory, assignment), (), "exact").counts(random_weights(theory, rng))
    violated = oracle.expected_violations(theory, to_tensors(theory, assignment))
    torch.testing.assert_close(torch.stack([is_false for is_false, _ in counts]), violated)
    torch.testing.assert_close(torch.stack([is_true for _, is_true in counts]), features(theory, assignment))


# mean field


@given(CASES)
@settings(max_examples=20, deadline=None)
def test_mean_field_likelihood_is_never_below_the_exact_one(rng: random.Random) -> None:
    """The bound lies below log Z and, found from the data, above the score of the data."""
    theory = random_theory(rng, max_ground=8, features=SOFT)
    assignment, weights = random_assignment(theory, rng), random_weights(theory, rng)
    objective = Discriminative(to_world(theory, assignment), [p.name for p in theory.predicates], "exact")
    exact = oracle.log_partition(theory, weights=weights) - score(theory, assignment, weights)
    assert -1e-6 < float(objective.loss(weights)) < exact + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_mean_field_objective_equals_finite_differences(seed: int) -> None:
    rng = random.Random(seed)
    theory = parse_theory(f"{SMOKERS}label(person) in {{L, M, N}}\n"
                          "label(x) in {L} ^ Friends(x, y) => label(y) in {L}")
    objective = Discriminative(to_world(theory, random_assignment(theory, rng)), ["Smokes", "Cancer", "label"], "exact")
    weights = [w.requires_grad_() for w in random_weights(theory, rng)]
    gradient = torch.autograd.grad(objective.loss(weights), weights)
    for f, slope in enumerate(gradient):
        up, down = ([w.detach() + (f == k) * h for k, w in enumerate(weights)] for h in (1e-4, -1e-4))
        difference = (float(objective.loss(up)) - float(objective.loss(down))) / 2e-4
        assert float(slope) == pytest.approx(difference, abs=1e-5)


def test_mean_field_is_exact_where_query_atoms_do_not_meet() -> None:
    rng = random.Random(5)
    assignment, weights = random_assignment(SMOKERS, rng), random_weights(SMOKERS, rng)
    truth = to_tensors(SMOKERS, assignment)
    given = {name: truth[name] for name in ("Smokes", "Friends")}
    found = Discriminative(to_world(SMOKERS, assignment), ["Cancer"], "exact").loss(weights)
    exact = (oracle.log_partition(SMOKERS, evidence=given, weights=weights)
             - oracle.log_partition(SMOKERS, evidence=truth, weights=weights))
    assert float(found) == pytest.approx(exact, abs=1e-7)


def test_mean_field_converges_where_undamped_updates_oscillate() -> None:
    """Twelve atoms that all repel each other: parallel updates flip all of them at once."""
    theory = parse_theory(f"t = {{{', '.join(f'A{k}' for k in range(12))}}}\nP(t)\nP(x) => !P(y)")
    world = to_world(theory, random_assignment(theory, random.Random(0)))
    objective = Discriminative(world, ["P"], "exact")
    weights = [torch.tensor(2.0, dtype=torch.float64, requires_grad=True)]
    (slope,) = torch.autograd.grad(objective.loss(weights), weights)
    up, down = (float(objective.loss([weights[0].detach() + h])) for h in (1e-4, -1e-4))
    assert float(slope) == pytest.approx((up - down) / 2e-4, abs=1e-4)
