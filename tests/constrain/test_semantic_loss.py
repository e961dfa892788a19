"""Semantic loss against the definition, and SLrelax beside it."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logicmp import LogicMP, LogicMPError, SemanticLoss, SLrelax, oracle, parse_theory
from logicmp.constrain.cnf import as_constraints
from logicmp.testing.random_models import random_model
from logicmp.testing.random_theories import ALL

CASES = st.randoms(use_true_random=False)
TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
LABELS = "label(token) in {O, B, I}\n*List(token, token)\nList(i,j) ^ label(i) in {B, I} => label(j) in {B, I}"


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_semantic_loss_is_minus_the_log_probability_that_the_rules_hold(rng: random.Random) -> None:
    model = random_model(rng, max_ground=8, features=ALL - {"negative"})
    theory = as_constraints(model.theory)
    without = type(theory)(theory.types, theory.predicates)
    try:
        log_z = oracle.log_partition(theory, model.unary, model.evidence)
    except LogicMPError:
        with pytest.raises(LogicMPError):
            SemanticLoss(model.theory)(model.unary, model.evidence)
        return
    want = oracle.log_partition(without, model.unary, model.evidence) - log_z
    found = SemanticLoss(model.theory)(model.unary, model.evidence)
    assert float(found) == pytest.approx(want, abs=1e-9)


def test_gradients_are_those_of_finite_differences() -> None:
    logits = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(SemanticLoss(TRANSITIVITY), logits)
    labels = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    evidence = {"List": torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()}
    assert torch.autograd.gradcheck(lambda x: SemanticLoss(LABELS)(x, evidence), labels)


def test_each_item_of_a_batch_has_its_own_loss() -> None:
    logits = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    loss = SemanticLoss(TRANSITIVITY, {"thing": 3})
    found = loss(logits)
    assert found.shape == (2, 4)
    torch.testing.assert_close(found[1, 2], loss(logits[1, 2]))


def test_the_loss_is_zero_where_a_world_that_obeys_is_certain() -> None:
    logits = 50 * (2 * torch.eye(3) - 1)
    assert float(SemanticLoss(TRANSITIVITY)(logits)) == pytest.approx(0, abs=1e-6)
    assert float(SLrelax(TRANSITIVITY)(logits)) == pytest.approx(0, abs=1e-6)


def test_training_on_semantic_loss_makes_the_rule_hold() -> None:
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss, optimizer = SemanticLoss(TRANSITIVITY), torch.optim.Adam([logits], lr=0.3)
    assert loss(logits).item() > 0.5
    for _ in range(60):
        optimizer.zero_grad()
        loss(logits).backward()
        optimizer.step()
    assert loss(logits).item() < 0.05


def test_rules_that_do_not_compile_point_to_slrelax() -> None:
    with pytest.raises(LogicMPError, match="SLrelax"):
        SemanticLoss(TRANSITIVITY, {"thing": 5}, max_nodes=100)


def test_evidence_that_breaks_a_rule_is_refused_with_the_rule() -> None:
    with pytest.raises(LogicMPError, match="A => B"):
        SemanticLoss("A => B\nB v D")({"D": torch.zeros(2)}, {"A": torch.ones(2).bool(), "B": torch.zeros(2).bool()})
    with pytest.raises(LogicMPError, match="no world obeys the rules and the evidence of item 1"):
        SemanticLoss("A => B\nB => D")({"B": torch.zeros(2)}, {"A": torch.ones(2).bool(),
                                                             "D": torch.tensor([1, 0]).bool()})


def test_slrelax_is_the_theory_loss_with_weights_that_stay() -> None:
    logits = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).bool()
    loss = SLrelax(f"2 {TRANSITIVITY}")
    torch.testing.assert_close(loss(logits, mask=mask), LogicMP(f"2 {TRANSITIVITY}").theory_loss(logits, mask=mask))
    assert not any(weight.requires_grad for weight in loss.parameters())


def test_for_one_grounding_slrelax_is_the_probability_whose_log_semantic_loss_takes() -> None:
    logits = {"A": torch.tensor(0.3), "B": torch.tensor(-0.7)}
    theory = parse_theory("A => B")
    torch.testing.assert_close(-torch.log1p(-SLrelax(theory)(logits)), SemanticLoss(theory)(logits))
