"""The semantic probabilistic layer against enumeration of the worlds that obey the rules."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from worlds import all_assignments, to_tensors

from logicmp import SPL, LogicMPError, Theory, oracle, parse_theory
from logicmp.constrain.cnf import as_constraints
from logicmp.constrain.tensors import as_evidence
from logicmp.testing.random_models import random_model
from logicmp.testing.random_theories import ALL

CASES = st.randoms(use_true_random=False)
TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
LABELS = "token = {1, ..., 3}\nlabel(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}\nlabel(1) in {O, B}"


@given(CASES)
@settings(max_examples=40, deadline=None)
def test_marginals_equal_enumeration(rng: random.Random) -> None:
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


def obeys(theory: Theory, world: dict[str, Tensor]) -> bool:
    try:
        oracle.log_partition(theory, evidence=world)
    except LogicMPError:
        return False
    return True


@given(CASES)
@settings(max_examples=25, deadline=None)
def test_no_answer_that_obeys_is_more_probable_than_the_predicted_one(rng: random.Random) -> None:
    model = random_model(rng, max_ground=5, features=ALL - {"negative"})
    theory, spl = as_constraints(model.theory), SPL(model.theory)
    worlds = [to_tensors(theory, assignment) for assignment in all_assignments(theory)]
    scores = [log_weight(theory, model.unary, world) for world in worlds if obeys(theory, world)]
    if not scores:
        return
    answer = {name: x.double() for name, x in as_evidence(theory, spl.predict(model.unary)).items()}
    assert obeys(theory, answer)
    assert log_weight(theory, model.unary, answer) == pytest.approx(max(scores), abs=1e-9)
    want = float(torch.logsumexp(torch.tensor(scores, dtype=torch.float64), 0)) - max(scores)
    assert float(spl.loss(model.unary, spl.predict(model.unary))) == pytest.approx(want, abs=1e-9)


def test_the_probabilities_of_all_answers_that_obey_add_up_to_one() -> None:
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


def test_labels_that_break_a_rule_are_refused_with_the_rule() -> None:
    with pytest.raises(LogicMPError, match=r"C\(a,b\) \^ C\(b,c\)"):
        SPL(TRANSITIVITY).loss(torch.zeros(3, 3), {"C": torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 1]])})


def test_a_label_that_does_not_exist_is_refused() -> None:
    with pytest.raises(LogicMPError, match="outside 0 to 2"):
        SPL(LABELS).loss(torch.zeros(3, 3), {"label": torch.tensor([0, 3, 1])})


def test_a_batch_is_predicted_item_by_item() -> None:
    spl, logits = SPL(LABELS), 3 * torch.randn(2, 5, 3, 3, generator=torch.Generator().manual_seed(0))
    found = spl.predict(logits)["label"]
    assert found.shape == (2, 5, 3)
    assert torch.equal(found[1, 3], spl.predict(logits[1, 3])["label"])
