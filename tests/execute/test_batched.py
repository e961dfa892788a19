"""Rules that differ only in constants run as one: equal to running them one by one, values and gradients."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from logicmp import CostError, LogicMP, Theory
from logicmp.execute.batched import BatchedExecutor
from logicmp.execute.dense import DenseExecutor
from logicmp.execute.plans import build_executor
from logicmp.execute.state import Call
from logicmp.normalize.build import SEMANTICS
from logicmp.parse.syntax import Constant, Term, Variable, map_terms
from logicmp.parse.theory import Rule
from logicmp.plan import batch
from logicmp.testing.executor_battery import weights_of
from logicmp.testing.random_models import random_model

NAMES = [f"A{k}" for k in range(9)]
TREE = f"l = {{{', '.join(NAMES)}}}\nL(l)\n" + "\n".join(
    f"{0.3 + k / 10} L({NAMES[k]}) => L({NAMES[(k - 1) // 2]})" for k in range(1, 9))


def copies(theory: Theory, n: int, rng: random.Random) -> Theory:
    """Every rule n times, each time with other constants in place of one of its variables."""
    def made(rule: Rule, name: str, k: int) -> Rule:
        def constant(v: Variable) -> Term:
            names = theory.type[v.type].constants
            return v if v.name != name or v.offset or v.per_constant else Constant(names[k % len(names)], v.type)

        weight = None if rule.weight is None else rule.weight + k / 10
        return replace(rule, formula=map_terms(rule.formula, constant), weight=weight)

    chosen = [(rule, rng.choice(sorted(rule.variables))) for rule in theory.rules if rule.variables]
    return replace(theory, rules=tuple(made(rule, name, k) for rule, name in chosen for k in range(n)))


def messages(executor: DenseExecutor, q: dict[str, Tensor], call: Call, inputs: list[Tensor]) -> list[Tensor]:
    found = executor.messages(q, call, executor.constants(call))
    total = sum((x * torch.linspace(-1, 1.3, x.numel()).to(x).reshape(x.shape)).sum() + 0.1 * (x * x).sum()
                for x in found.values())
    assert isinstance(total, Tensor)
    if not total.requires_grad:
        return list(found.values())
    return [*found.values(), *torch.autograd.grad(total, inputs, materialize_grads=True, allow_unused=True)]


@pytest.mark.parametrize("first", range(0, 75, 25))
def test_random_theories(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n_batched = 0
    for seed in range(first, first + 25):
        rng = random.Random(seed)
        model = random_model(rng, max_rules=2, max_atoms=3)
        theory, semantics = copies(model.theory, 4, rng), SEMANTICS[seed % 3]
        observed = [p.name for p in theory.predicates if rng.random() < 0.2]
        found = []
        for limit in (4, 10**9):
            monkeypatch.setattr(batch, "MIN_RULES", limit)
            try:
                executor = build_executor(theory, model.sizes, observed, semantics)
            except CostError:
                break
            if limit == 4 and not isinstance(executor, BatchedExecutor):
                break
            leaves = {name: x.unsqueeze(0).requires_grad_() for name, x in model.q.items() if name not in observed}
            # two items, each with weights of its own
            q = {name: torch.cat([x, x * x]) for name, x in leaves.items()}
            weights = [torch.stack([w.reshape(w.shape[1:]), 1.5 * w.reshape(w.shape[1:])]).requires_grad_()
                       for w in weights_of(theory, model.sizes)]
            known = {name: model.q[name].unsqueeze(0) for name in observed}
            like = next(iter(q.values()), torch.zeros(2, dtype=torch.float64))
            call = Call(weights, model.sizes, like, {}, known)
            if q:
                found.append(messages(executor, q, call, [*leaves.values(), *weights]))
        if len(found) == 2:
            n_batched += 1
            for one, other in zip(*found, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert n_batched >= 4


@pytest.mark.parametrize("schedule, reduce", [("paper", "sum"), ("adaptive", "mean")])
@pytest.mark.parametrize("is_masked", [False, True])
def test_in_the_layer(schedule: str, reduce: str, is_masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = TREE.split("\n")[2:]
    text = f"l = {{{', '.join(NAMES)}}}\nL(l, n)\n" + "\n".join(rule.replace(")", ",x)") for rule in rules)
    torch.manual_seed(0)
    unary = torch.randn(2, 9, 4, dtype=torch.float64, requires_grad=True)
    mask = {"n": torch.arange(4) < torch.tensor([[4], [2]])} if is_masked else None
    found = []
    for limit in (4, 10**9):
        monkeypatch.setattr(batch, "MIN_RULES", limit)
        layer = LogicMP(text, dtype=torch.float64, schedule=schedule, reduce=reduce)
        out = layer(unary, mask=mask)
        slopes = torch.autograd.grad((out * torch.linspace(-1, 1, 72).reshape(2, 9, 4)).sum(),
                                     [unary, *layer.parameters()])
        found.append([out, layer.violations(unary, mask=mask), *slopes])
        (executor,) = layer._solver.plans.known.values()
        assert isinstance(executor, BatchedExecutor) == (limit == 4)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_a_mask_of_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    unary, mask = torch.randn(2, 9, dtype=torch.float64), torch.arange(9) < torch.tensor([[9], [6]])
    found = []
    for limit in (4, 10**9):
        monkeypatch.setattr(batch, "MIN_RULES", limit)
        found.append(LogicMP(TREE, dtype=torch.float64)(unary, mask=mask))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)


def test_large_tensors_are_not_gathered() -> None:
    rules = "\n".join(f"0.5 L(x,y,{NAMES[k]}) => L(y,x,{NAMES[k + 1]})" for k in range(8))
    layer = LogicMP(f"l = {{{', '.join(NAMES)}}}\nL(n, n, l)\n{rules}")
    assert isinstance(layer.executor({"n": 20, "l": 9}), BatchedExecutor)
    assert not isinstance(layer.executor({"n": 200, "l": 9}), BatchedExecutor)


def test_one_plan_serves_inputs_of_other_sizes() -> None:
    rules = "C(t, t)\nD(t)\n" + "\n".join(
        f"{0.5 + k} C({NAMES[k]}, {NAMES[k + 1]}) => D({NAMES[k]})" for k in range(7))
    layer = LogicMP(rules, schedule="paper", dtype=torch.float64)
    for n in (16, 17, 16):
        unary = {"C": torch.randn(2, n, n, dtype=torch.float64), "D": torch.randn(2, n, dtype=torch.float64)}
        found, fresh = layer(unary), LogicMP(rules, schedule="paper", dtype=torch.float64)(unary)
        assert all(torch.equal(found[name], fresh[name]) for name in fresh)
    (executor,) = layer._solver.plans.known.values()
    assert isinstance(executor, BatchedExecutor)
