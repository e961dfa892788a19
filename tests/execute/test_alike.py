"""Rules that differ only in labels run as one product: equal to running them one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from logicmp import CostError, LogicMP
from logicmp.execute import receive
from logicmp.testing.random_models import random_model

NAMES = [f"A{k}" for k in range(7)]
TAGGER = f"label(token) in {{{', '.join(NAMES)}}}\n" + "\n".join(
    f"{0.3 + k / 10} label(i) in {{A{k}}} => label(i+1) in {{A{k}, A{(2 * k + 1) % 7}}}" for k in range(7))
PAIRS = "r(n, n) in {P, Q, R}\n" + "\n".join(
    f"0.{k + 1} r(x,y) in {{{a}}} => r(y,x) in {{{b}}}" for k, (a, b) in enumerate(
        (a, b) for a in "PQR" for b in "PQR"))
TWO = "tag(w) in {A, B, C}\nkind(w) in {X, Y}\n" + "\n".join(
    f"0.{k + 1} tag(w) in {{{a}}} => kind(w) in {{{b}}}" for k, (a, b) in enumerate(
        (a, b) for a in "ABC" for b in "XY"))


def outputs(layer: LogicMP, unary: dict[str, Tensor], mask: Tensor | None) -> list[Tensor]:
    found = layer(unary, mask=mask)
    total = sum((x * torch.linspace(-1, 1, x.numel(), dtype=x.dtype).reshape(x.shape)).sum() for x in found.values())
    assert isinstance(total, Tensor)
    return [*found.values(), *torch.autograd.grad(total, [*unary.values(), *layer.parameters()])]


@pytest.mark.parametrize("schedule", ["paper", "adaptive"])
@pytest.mark.parametrize("rules, shapes", [
    (TAGGER, {"label": (2, 5, 7)}), (PAIRS, {"r": (2, 4, 4, 3)}), (TWO, {"tag": (2, 5, 3), "kind": (2, 5, 2)})])
@pytest.mark.parametrize("is_masked", [False, True])
def test_equal_to_one_by_one(rules: str, shapes: dict[str, tuple[int, ...]], is_masked: bool, schedule: str,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    unary = {name: torch.randn(shape, dtype=torch.float64, requires_grad=True) for name, shape in shapes.items()}
    n = next(iter(shapes.values()))[1]
    mask = torch.arange(n) < torch.tensor([[n], [n - 2]]) if is_masked else None
    # with a mask and a mean, every item has its own weights
    options: dict[str, Any] = {"dtype": torch.float64, "schedule": schedule, "reduce": "mean" if is_masked else "sum"}
    layer = LogicMP(rules, **options)
    got = outputs(layer, unary, mask)
    (executor,) = layer._solver.plans.known.values()
    assert any(receiver.alike for receiver in executor._receivers.values())
    monkeypatch.setattr(receive, "MIN_ALIKE", 10**9)
    for one, other in zip(got, outputs(LogicMP(rules, **options), unary, mask), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_random_theories(monkeypatch: pytest.MonkeyPatch) -> None:
    n_alike = 0
    for seed in range(150):
        model = random_model(random.Random(seed))
        if not any(p.labels for p in model.theory.predicates):
            continue
        found = []
        for limit in (1, 10**9):
            monkeypatch.setattr(receive, "MIN_ALIKE", limit)
            layer = LogicMP(model.theory, iterations=2, dtype=torch.float64)
            try:
                found.append(layer(model.unary, model.evidence))
            except CostError:
                break
            if limit == 1:
                n_alike += any(r.alike for e in layer._solver.plans.known.values() for r in e._receivers.values())
        if len(found) == 2:
            for name, x in found[0].items():
                torch.testing.assert_close(x, found[1][name], rtol=1e-9, atol=1e-10)
    assert n_alike >= 3
