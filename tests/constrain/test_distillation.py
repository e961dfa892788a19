"""Distillation: the target, the atoms that count, and the share of the teacher."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from logicmp import LogicDist, LogicMP, LogicMPError, distill
from logicmp.constrain.distillation import distillation_loss

TRANSITIVITY = "2 C(a,b) ^ C(b,c) => C(a,c)"
LABELS = "label(token) in {O, B, I}\n3 label(i) in {O} => label(i+1) in {O, B}"


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", ["mse", "kl"])
def test_no_gradient_goes_through_the_target(kind: str) -> None:
    layer = LogicMP(TRANSITIVITY, dtype=torch.float64)
    logits = randn(2, 4, 4).requires_grad_()
    distill(layer, logits, kind=kind).sum().backward()
    target = layer(logits).detach()
    if kind == "mse":
        want = 2 * (logits - target) / 16
    else:
        want = (torch.sigmoid(logits) - torch.sigmoid(target)) / 16
    torch.testing.assert_close(logits.grad, want.detach())
    assert all(weight.grad is None for weight in layer.parameters())


def test_the_kl_of_labels_is_that_of_torch() -> None:
    logits, target = randn(2, 4, 3), randn(2, 4, 3, seed=1)
    want = functional.kl_div(logits.log_softmax(-1), target.log_softmax(-1), log_target=True, reduction="none")
    torch.testing.assert_close(distillation_loss(LABELS, logits, target, "kl"), want.sum(-1).mean(-1))


@pytest.mark.parametrize("declaration", ["P(t, t!)", "P(t, t?)", "symmetric P(t, t)"])
def test_the_kl_vanishes_where_the_target_is_the_same(declaration: str) -> None:
    logits = randn(3, 3)
    theory = f"{declaration}\n1 P(x,y) => P(y,x)"
    assert float(distillation_loss(theory, logits, logits.clone(), "kl")) == pytest.approx(0, abs=1e-12)
    assert float(distillation_loss(theory, logits, randn(3, 3, seed=1), "kl")) > 0.01


@pytest.mark.parametrize("kind", ["mse", "kl"])
def test_observed_and_missing_atoms_do_not_count(kind: str) -> None:
    layer = LogicMP(TRANSITIVITY, dtype=torch.float64)
    evidence = torch.full((4, 4), torch.nan, dtype=torch.float64)
    evidence[0, 1] = 1
    mask = torch.tensor([1, 1, 1, 0]).bool()
    logits = randn(4, 4).requires_grad_()
    distill(layer, {"C": logits}, {"C": evidence}, mask, kind).backward()
    assert logits.grad is not None
    counts = mask[:, None] & mask & evidence.isnan()
    assert torch.equal(logits.grad != 0, counts)


def test_distillation_moves_the_model_to_the_layer_output() -> None:
    layer, logits = LogicMP(TRANSITIVITY, iterations=3), torch.tensor([[3.0, 3, -1], [0, 3, 3], [0, 0, 3]])
    logits.requires_grad_()
    optimizer = torch.optim.SGD([logits], lr=0.5)
    before = layer.theory_loss(logits).item()
    for _ in range(50):
        optimizer.zero_grad()
        distill(layer, logits).backward()
        optimizer.step()
    assert layer.theory_loss(logits).item() < before / 5


def test_an_unknown_kind_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="kind must be 'mse' or 'kl', got 'js'"):
        distillation_loss(LABELS, randn(2, 3), randn(2, 3), "js")


# LogicDist


def test_at_the_first_step_the_loss_is_the_cross_entropy_of_the_labels() -> None:
    logits, labels = randn(2, 4, 3), torch.tensor([[0, 1, 2, 0], [0, 0, 1, 1]])
    found = LogicDist(LABELS)(logits, {"label": labels}, step=0)
    want = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").reshape(2, 4).mean(1)
    torch.testing.assert_close(found.loss, want)
    assert found.pi == 0


def test_the_loss_is_shared_between_labels_and_teacher() -> None:
    logits = randn(3, 3).requires_grad_()
    labels = torch.eye(3).bool()
    dist = LogicDist(TRANSITIVITY, dtype=torch.float64)
    found = dist(logits, {"C": labels}, step=3)
    q = torch.sigmoid(found.teacher)
    want = (1 - found.pi) * functional.binary_cross_entropy_with_logits(logits, labels.double())
    want = want + found.pi * functional.binary_cross_entropy_with_logits(logits, q)
    torch.testing.assert_close(found.loss, want)
    assert found.pi == pytest.approx(1 - 0.9**3)
    assert not found.teacher.requires_grad


def test_atoms_without_a_label_learn_from_the_teacher_only() -> None:
    labels = torch.full((2, 3), torch.nan, dtype=torch.float64)
    labels[0] = torch.tensor([1.0, 0, 0])
    logits = randn(2, 3).requires_grad_()
    LogicDist(LABELS)(logits, {"label": labels}, step=0).loss.backward()
    assert logits.grad is not None and logits.grad[0].abs().min() > 0 and logits.grad[1].abs().max() == 0


def test_the_teacher_is_the_papers_loop_with_weights_times_strength() -> None:
    logits = randn(3, 3)
    dist = LogicDist(TRANSITIVITY, strength=2.0, iterations=4, dtype=torch.float64)
    layer = LogicMP(TRANSITIVITY.replace("2", "4", 1), iterations=4, dtype=torch.float64, schedule="paper")
    torch.testing.assert_close(dist.teacher(logits), layer(logits))
    assert not any(weight.requires_grad for weight in dist.parameters())


def test_the_strength_counts_where_weights_are_kept_positive() -> None:
    dist = LogicDist(TRANSITIVITY, strength=2.0, positive_weights=True)
    assert float(dist.teacher.weights[0]) == pytest.approx(4)


@pytest.mark.parametrize("options, message", [
    ({"strength": 0.0}, "strength must be above 0 and finite, got 0.0"),
    ({"pi_max": 1.5}, "pi_max must be from 0 to 1, got 1.5"),
    ({"alpha": -0.1}, "alpha must be from 0 to 1, got -0.1"),
])
def test_wrong_options_are_rejected(options: dict[str, float], message: str) -> None:
    with pytest.raises(LogicMPError, match=message):
        LogicDist(TRANSITIVITY, **options)
