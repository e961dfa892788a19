"""Schedules: what they accept, and the loop under each of them against the same loop written out on the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from logicmp import LogicMP, LogicMPError, Theory, oracle, parse_theory
from logicmp.execute.schedule import SCHEDULES, Schedule, make_schedule
from logicmp.execute.solve import Options
from logicmp.execute.state import Call

TRANSITIVITY = "0.9 C(a,b) ^ C(b,c) => C(a,c)"
THEORIES = {
    "transitivity": (TRANSITIVITY, {"thing": 4}),
    "weak": ("0.01 C(a,b) ^ C(b,c) => C(a,c)", {"thing": 3}),
    "smokers": ("1.4 S(x) ^ F(x,y) => S(y)\n-0.6 S(x)\n0.8 F(x,y) => F(y,x)", {"thing": 3}),
    "without weights": ("S(x) ^ F(x,y) => S(y)\nF(x,y) => F(y,x)", {"thing": 4}),
    "dense without weights": ("C(a,b) ^ C(b,c) => C(a,c)", {"thing": 5}),
    "hard": ("S(t)\nT(t)\nS(x) => T(x).\n2 S(x) ^ S(y) => T(y)", {"t": 3}),
}


def random_logits(theory: Theory, sizes: dict[str, int], *batch: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {p.name: torch.randn(*batch, *p.shape(sizes), generator=generator, dtype=torch.float64)
            for p in theory.predicates}


def rms(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([x.detach().reshape(-1) for x in tensors.values()]).square().mean().sqrt()


def from_mean(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x.detach() - x.detach().mean() for name, x in tensors.items()}


def supported(unary: dict[str, Tensor], push: dict[str, Tensor]) -> Tensor:
    """The slope of the logits on the pushes, in units of the slope that log-odds would have; by predicate, weighted."""
    total = precision = torch.tensor(0.0, dtype=torch.float64)
    for name, u in unary.items():
        u, x = u.detach(), push[name].detach()
        if x.numel() > 1:
            pairs = torch.stack([u.reshape(-1), x.reshape(-1), torch.sigmoid(u).reshape(-1)])
            cov = torch.cov(pairs, correction=0)
            slope, error = cov[0, 1] / cov[1, 1], cov[0, 0] / (x.numel() * cov[1, 1])
            weight = cov[0, 2] ** 2 / error
            total, precision = total + weight * slope / cov[0, 2], precision + weight
    return (1.5 * total + 2) / (precision + 1)


def overturned(unary: dict[str, Tensor], logits: dict[str, Tensor], push: dict[str, Tensor]) -> Tensor:
    changed = torch.cat([((logits[name] > 0) != (u > 0)).reshape(-1).double() for name, u in unary.items()]).mean()
    spread = rms(from_mean(push))
    return changed * (spread / (rms(push) ** 2 - spread**2).sqrt()).clamp_max(1)


def written_out(theory: Theory, schedule: Schedule, unary: dict[str, Tensor], weights: list[Tensor],
                sizes: dict[str, int]) -> dict[str, Tensor]:
    """The loop of one item, message by message, from the oracle's update without unary potentials."""
    zeros = {name: torch.zeros_like(x) for name, x in unary.items()}
    logits, temperature = unary, torch.tensor(schedule.temperature, dtype=torch.float64)
    floor, factor, dense = 0.1 * rms(unary).clamp(0.3, 1), torch.tensor(1.0, dtype=torch.float64), 0.0

    def pushes(q: dict[str, Tensor], weights: list[Tensor]) -> dict[str, Tensor]:
        step = oracle.mean_field_step(theory, zeros, q, sizes=sizes, weights=weights)
        return {name: torch.logit(x) for name, x in step.items()}

    for t in range(schedule.iterations):
        if schedule.gradients is not None and t == schedule.iterations - schedule.gradients:
            logits = {name: x.detach() for name, x in logits.items()}
        kept = temperature if schedule.sharpen is not None else torch.ones(())
        q = {name: torch.sigmoid((x.detach() + kept * (x - x.detach())) / temperature) for name, x in logits.items()}
        push = pushes(q, weights)
        size = rms(push)
        if schedule.sharpen is not None and t == 0:
            temperature = torch.minimum(torch.maximum(schedule.sharpen / size, floor), torch.ones_like(floor))
            temperature = temperature ** (rms(from_mean(unary)) / 0.2).clamp_max(1)
        if schedule.push is not None and t == 0:
            dense = float(2 * size / schedule.push[1] - 1)
            dense = min(1.0, max(0.0, dense))
            if schedule.calibrate and all(rule.weight is None and not rule.is_hard for rule in theory.rules):
                unit = pushes(q, [torch.ones_like(w) for w in weights])
                factor = supported(unary, unit).clamp(0.05, 5) ** (1 - dense)
        scale = factor * schedule.factor
        if schedule.ramp:
            scale = scale * min(1.0, (t + 1) / (schedule.ramp * schedule.iterations)) ** 2
        if schedule.push is not None:
            first, last = schedule.push
            limit = first * (last / first) ** min(1.0, t / round(0.6 * schedule.iterations))
            if schedule.lift is not None:
                limit = limit * (40 * dense * (overturned(unary, logits, push) - schedule.lift).clamp_min(0)).exp()
            scale = torch.minimum(scale, limit / size)
        logits = {name: schedule.damping * logits[name] + (1 - schedule.damping) * (unary[name] + scale * push[name])
                  for name in unary}
    return logits


@pytest.mark.parametrize("schedule", [*SCHEDULES, Schedule(3, 0.3, 0.5, 2.0, gradients=1)], ids=str)
@pytest.mark.parametrize("name", THEORIES)
def test_values_and_gradients_are_those_of_the_loop_written_out(name: str, schedule: str | Schedule) -> None:
    text, sizes = THEORIES[name]
    theory, chosen = parse_theory(text), make_schedule(schedule)
    layer = LogicMP(theory, schedule=schedule, dtype=torch.float64)
    unary = {key: x.requires_grad_() for key, x in random_logits(theory, sizes).items()}
    weights = [w.detach().clone().requires_grad_() for w in layer.weights]
    got, want = layer(unary), written_out(theory, chosen, unary, weights, sizes)
    seed = random_logits(theory, sizes, seed=1)
    results = []
    for out, parameters in ((got, [*unary.values(), *layer.parameters()]), (want, [*unary.values(), *weights])):
        torch.testing.assert_close(out[next(iter(out))], want[next(iter(out))], rtol=1e-7, atol=1e-9)
        total = torch.stack([(x * seed[key]).sum() for key, x in out.items()]).sum()
        results.append(torch.autograd.grad(total, [p for p in parameters if p.requires_grad], materialize_grads=True))
    trained = [k for k, rule in enumerate(theory.rules) if not rule.is_hard]
    n = len(unary)
    for k in range(n):
        torch.testing.assert_close(results[0][k], results[1][k], rtol=1e-6, atol=1e-8)
    for k, f in enumerate(trained):
        torch.testing.assert_close(results[0][n + k], results[1][n + f], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_items_of_a_batch_and_padding_do_not_change_an_item(schedule: str) -> None:
    layer = LogicMP(TRANSITIVITY, schedule=schedule, dtype=torch.float64)
    small, large = torch.randn(3, 3).double(), 4 * torch.randn(5, 5).double()
    batch = torch.stack([torch.nn.functional.pad(small, (0, 2, 0, 2), value=7.0), large])
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    got = layer(batch, mask=mask)
    torch.testing.assert_close(got[0, :3, :3], layer(small))
    torch.testing.assert_close(got[1], layer(large))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_observed_atoms_do_not_count_in_the_size_of_messages(schedule: str) -> None:
    layer = LogicMP("1 S(x) ^ F(x,y) => S(y)", schedule=schedule, dtype=torch.float64)
    unary = random_logits(layer.theory, {"thing": 4})
    friends = torch.rand(4, 4) < 0.5
    as_whole = layer({"S": unary["S"]}, {"F": friends})["S"]
    one_by_one = layer(unary, {"F": friends.double()})["S"]
    torch.testing.assert_close(as_whole, one_by_one)


def test_adaptive_finds_planted_clusters_that_the_paper_loses() -> None:
    generator = torch.Generator().manual_seed(7)
    cluster = torch.randint(6, (48,), generator=generator)
    truth = cluster[:, None] == cluster
    noise = torch.randn(48, 48, generator=generator)
    logits = 2.0 * truth - 1.0 + 1.2 * (noise + noise.T) / 2**0.5
    off = ~torch.eye(48, dtype=torch.bool)

    def f1(found: Tensor) -> float:
        true_positives = ((found > 0) & truth & off).sum()
        return float(2 * true_positives / (((found > 0) & off).sum() + (truth & off).sum()))

    with torch.no_grad():
        paper, adaptive = (LogicMP("C(a,b) ^ C(b,c) => C(a,c)", schedule=s)(logits) for s in ("paper", "adaptive"))
    assert f1(paper) < 0.05 < f1(logits)
    assert f1(adaptive) > f1(logits) + 0.2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_large_matrix_in_half_precision_ends_as_in_single(dtype: torch.dtype) -> None:
    logits = 2 * torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    layer = LogicMP("C(a,b) ^ C(b,c) => C(a,c)")
    with torch.no_grad():
        whole, half = layer(logits), layer(logits.to(dtype))
    assert half.dtype == dtype
    assert ((whole > 0) == (half > 0)).float().mean() > 0.97


def test_categorical_and_symmetric_predicates_run_under_every_schedule() -> None:
    theory = parse_theory("label(token) in {O, B, I}\nsymmetric Same(token, token)\n"
                          "2 label(i) in {O} => label(i+1) in {O, B}\n1 Same(i,j) ^ label(i) in {B} => label(j) in {B}")
    unary = random_logits(theory, {"token": 4}, 2)
    for schedule in SCHEDULES:
        got = LogicMP(theory, schedule=schedule, dtype=torch.float64)(unary)
        assert all(x.isfinite().all() for x in got.values())
        torch.testing.assert_close(got["Same"], got["Same"].mT)


def test_a_schedule_survives_saving(tmp_path: Path) -> None:
    layer = LogicMP(TRANSITIVITY, schedule=Schedule(7, push=(0.1, 3.0), sharpen=0.5))
    layer.save(tmp_path / "layer.safetensors")
    assert LogicMP.load(tmp_path / "layer.safetensors").options == layer.options


def test_an_adaptive_layer_compiles_to_one_graph() -> None:
    torch._dynamo.reset()
    layer = LogicMP(TRANSITIVITY, schedule="adaptive", iterations=3)
    logits = torch.randn(2, 5, 5)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits), layer(logits), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options, message", [
    ({"iterations": -1}, "iterations must be a whole number and at least 0, got -1"),
    ({"gradients": 1.5}, "gradients is 1.5; expected a whole number or None"),
    ({"push": (1.0,)}, "push has 1 entries; expected 2"),
    ({"push": "strong"}, "push is 'strong'; expected a tuple or None"),
    ({"damping": "0.5"}, "damping is '0.5'; expected a number"),
    ({"damping": 1}, "damping must be at least 0 and below 1, got 1"),
    ({"temperature": 0}, "temperature must be above 0 and finite, got 0"),
    ({"factor": -2}, "factor must be at least 0 and finite, got -2"),
    ({"ramp": 2}, "ramp must be between 0 and 1, got 2"),
    ({"lift": 2, "push": (1.0, 2.0)}, "lift must be between 0 and 1, got 2"),
    ({"calibrate": True}, "lift and calibrate need push\nhint: for example push=(0.2, 3)"),
    ({"sharpen": 0}, "sharpen must be above 0 and finite, got 0"),
    ({"tolerance": float("nan")}, "tolerance must be at least 0 and finite, got nan"),
    ({"push": (1.0, 0.0)}, "push must be two numbers above 0, got (1.0, 0.0)\nhint: for example push=(0.2, 3)"),
])
def test_a_setting_out_of_range_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        Schedule(**options)
    assert str(caught.value) == message


def test_an_unknown_schedule_gets_a_hint() -> None:
    with pytest.raises(LogicMPError, match="unknown schedule 'adaptiv'\nhint: did you mean 'adaptive'"):
        LogicMP(TRANSITIVITY, schedule="adaptiv")


def test_the_layer_is_adaptive_unless_told_otherwise() -> None:
    assert LogicMP(TRANSITIVITY).options.schedule == Options().schedule == SCHEDULES["adaptive"]
    assert LogicMP(TRANSITIVITY, 7, 0.5).options.schedule == replace(SCHEDULES["adaptive"], iterations=7, damping=0.5)


@pytest.mark.parametrize("options", [{}, {"iterations": 8}, {"damping": 0.5}])
def test_paper_is_algorithm_1_bit_for_bit(options: dict[str, Any]) -> None:
    layer = LogicMP(TRANSITIVITY, schedule="paper", **options)
    unary = 2 * torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0))
    executor = layer.executor({"thing": 5})
    call = Call([w.detach() for w in layer.weights], {"thing": 5}, unary)
    constants, damping = executor.constants(call), options.get("damping", 0.0)
    with torch.no_grad():
        logits = unary
        for _ in range(options.get("iterations", 5)):
            updated = executor.subtract_messages({"C": unary}, {"C": logits.sigmoid()}, call, constants)["C"]
            logits = torch.lerp(updated, logits, damping) if damping else updated
        assert torch.equal(layer(unary), logits)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_does_not_stop_while_pushes_still_grow(schedule: str) -> None:
    # sharpened marginals of certain logits hardly move while the pushes are small
    logits = torch.tensor([[4.0, 3.0, -2.0], [3.0, 4.0, 3.0], [-2.0, 3.0, 4.0]], dtype=torch.float64)
    layer, early = (LogicMP(f"6 {TRANSITIVITY[4:]}", schedule=schedule, tolerance=tolerance, dtype=torch.float64)
                    for tolerance in (0.0, 1e-3))
    torch.testing.assert_close(early(logits).sigmoid(), layer(logits).sigmoid(), rtol=0, atol=0.03)


def test_an_adaptive_layer_can_be_exported_with_open_sizes() -> None:
    layer, n = LogicMP(TRANSITIVITY, iterations=3).eval(), torch.export.Dim("n")
    exported = torch.export.export(layer, (torch.randn(2, 6, 6),), dynamic_shapes=({1: n, 2: n},))
    logits = torch.randn(2, 9, 9)
    torch.testing.assert_close(exported.module()(logits), layer(logits), rtol=1e-4, atol=1e-4)
