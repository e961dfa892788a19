"""Semantic loss, SLrelax and SPL compared with enumeration of the worlds that satisfy the rules."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from worlds import all_assignments, to_tensors

from logicmp import SPL, LogicMP, LogicMPError, SemanticLoss, SLrelax, Theory, oracle, parse_theory
from logicmp.constrain.cnf import as_constraints
from logicmp.execute.values import as_evidence
from logicmp.testing.random_models import random_model
from logicmp.testing.random_theories import ALL

CASES = st.randoms(use_true_random=False)
TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
LISTS = "label(token) in {O, B, I}\n*List(token, token)\nList(i,j) ^ label(i) in {B, I} => label(j) in {B, I}"
LABELS = "token = {1, ..., 3}\nlabel(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}\nlabel(1) in {O, B}"


# SemanticLoss and SLrelax


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_semantic_loss_is_minus_the_log_probability_of_the_rules(rng: random.Random) -> None:
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


def test_gradients_of_semantic_loss_are_those_of_finite_differences() -> None:
    logits = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(SemanticLoss(TRANSITIVITY), logits)
    labels = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    evidence = {"List": torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()}
    assert torch.autograd.gradcheck(lambda x: SemanticLoss(LISTS)(x, evidence), labels)


def test_each_item_of_a_batch_has_its_own_loss() -> None:
    logits = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    loss = SemanticLoss(TRANSITIVITY, {"thing": 3})
    found = loss(logits)
    assert found.shape == (2, 4)
    torch.testing.assert_close(found[1, 2], loss(logits[1, 2]))


def test_the_loss_is_zero_if_a_world_that_satisfies_the_rules_is_certain() -> None:
    logits = 50 * (2 * torch.eye(3) - 1)
    assert float(SemanticLoss(TRANSITIVITY)(logits)) == pytest.approx(0, abs=1e-6)
    assert float(SLrelax(TRANSITIVITY)(logits)) == pytest.approx(0, abs=1e-6)


def test_training_on_semantic_loss_satisfies_the_rule() -> None:
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
        SemanticLoss(TRANSITIVITY, {"thing": 6}, max_nodes=100)


def test_evidence_that_violates_a_rule_is_rejected_with_the_rule() -> None:
    with pytest.raises(LogicMPError, match="A => B"):
        SemanticLoss("A => B\nB v D")({"D": torch.zeros(2)}, {"A": torch.ones(2).bool(), "B": torch.zeros(2).bool()})
    with pytest.raises(LogicMPError, match=r"these cannot all be satisfied:\n  A => B\.\n  B => D\."):
        SemanticLoss("A => B\nB => D")({"B": torch.zeros(2)}, {"A": torch.ones(2).bool(),
                                                             "D": torch.tensor([1, 0]).bool()})
    nan = torch.nan
    with pytest.raises(LogicMPError, match=r"no world satisfies the hard rules and the evidence of item 1"):
        SemanticLoss("A => B\nB => D")({"B": torch.zeros(2)}, {"A": torch.tensor([nan, 1]),
                                                             "D": torch.tensor([nan, 0])})


def test_slrelax_is_the_theory_loss_with_fixed_weights() -> None:
    logits = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).bool()
    loss = SLrelax(f"2 {TRANSITIVITY}")
    torch.testing.assert_close(loss(logits, mask=mask), LogicMP(f"2 {TRANSITIVITY}").theory_loss(logits, mask=mask))
    assert not any(weight.requires_grad for weight in loss.parameters())


def test_for_one_grounding_slrelax_is_the_probability_whose_log_semantic_loss_takes() -> None:
    logits = {"A": torch.tensor(0.3), "B": torch.tensor(-0.7)}
    theory = parse_theory("A => B")
    torch.testing.assert_close(-torch.log1p(-SLrelax(theory)(logits)), SemanticLoss(theory)(logits))


# SPL


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_marginals_of_spl_equal_enumeration(rng: random.Random) -> None:
    model = random_model(rng, max_ground=8, features=ALL - {"negative"})
    try:
        want = oracle.exact_marginals(as_constraints(model.theory), model.unary, model.evidence)
    except LogicMPError:
        with pytest.raises(LogicMPError):
            SPL(model.theory)(model.unary, model.evidence)
        return
    for name, found in SPL(model.theory)(model.unary, model.evidence).items():
        torch.testing.assert_close(found, want[name])


def log_weight(theory: Theory, unary: dict[str, Tensor], world: dict[str, Tensor]) -> float:
    """The exponent of Eq. 1 without rules; the two atoms of a symmetric pair are one variable."""
    return sum(float(((unary[p.name] + unary[p.name].mT) / 2 * world[p.name]).triu().sum() if p.symmetric
                     else (unary[p.name] * world[p.name]).sum()) for p in theory.predicates)


def satisfies(theory: Theory, world: dict[str, Tensor]) -> bool:
    try:
        oracle.log_partition(theory, evidence=world)
    except LogicMPError:
        return False
    return True


@given(CASES)
@settings(max_examples=25, deadline=None)
def test_no_answer_that_satisfies_the_rules_is_more_probable_than_the_predicted_one(rng: random.Random) -> None:
    model = random_model(rng, max_ground=5, features=ALL - {"negative"})
    theory, spl = as_constraints(model.theory), SPL(model.theory)
    worlds = [to_tensors(theory, assignment) for assignment in all_assignments(theory)]
    scores = [log_weight(theory, model.unary, world) for world in worlds if satisfies(theory, world)]
    if not scores:
        return
    answer = {name: x.double() for name, x in as_evidence(theory, spl.predict(model.unary)).items()}
    assert satisfies(theory, answer)
    assert log_weight(theory, model.unary, answer) == pytest.approx(max(scores), abs=1e-9)
    want = float(torch.logsumexp(torch.tensor(scores, dtype=torch.float64), 0)) - max(scores)
    assert float(spl.loss(model.unary, spl.predict(model.unary))) == pytest.approx(want, abs=1e-9)


def test_the_probabilities_of_all_answers_that_satisfy_the_rules_add_up_to_one() -> None:
    theory = parse_theory(LABELS)
    spl, logits = SPL(theory), torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    total = 0.0
    for assignment in all_assignments(theory):
        labels = {"label": torch.tensor(list(assignment.values()))}
        try:
            total += float(torch.exp(-spl.loss(logits, labels)))
        except LogicMPError:
            continue
    assert total == pytest.approx(1)


def test_the_loss_of_some_labels_sums_over_the_others() -> None:
    spl, logits = SPL("A v B"), {"A": torch.tensor(0.5), "B": torch.tensor(-1.0)}
    both = [float(torch.exp(-spl.loss(logits, {"A": torch.tensor(True), "B": torch.tensor(b)}))) for b in (True, False)]
    assert float(torch.exp(-spl.loss(logits, {"A": torch.tensor(True)}))) == pytest.approx(sum(both))


def test_gradients_of_loss_and_marginals_are_those_of_finite_differences() -> None:
    spl = SPL(TRANSITIVITY)
    logits = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: spl.loss(x, {"C": torch.eye(3).bool().expand(2, 3, 3)}), logits)
    assert torch.autograd.gradcheck(lambda x: spl(x)["C"], logits)


def test_labels_that_violate_a_rule_are_rejected_with_the_rule() -> None:
    with pytest.raises(LogicMPError, match=r"C\(a,b\) \^ C\(b,c\)"):
        SPL(TRANSITIVITY).loss(torch.zeros(3, 3), {"C": torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 1]])})


def test_a_label_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="the label 3; expected 0 to 2"):
        SPL(LABELS).loss(torch.zeros(3, 3), {"label": torch.tensor([0, 3, 1])})


def test_a_batch_is_predicted_item_by_item() -> None:
    spl, logits = SPL(LABELS), 3 * torch.randn(2, 5, 3, 3, generator=torch.Generator().manual_seed(0))
    found = spl.predict(logits)["label"]
    assert found.shape == (2, 5, 3)
    assert torch.equal(found[1, 3], spl.predict(logits[1, 3])["label"])
