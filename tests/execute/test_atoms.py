"""Atoms by process: logits, bound, counts and gradients equal those of one process, under every schedule."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from test_sparse import RULES, Case, case_of, random_case
from torch import Tensor

from logicmp import CostError, LogicMP
from logicmp.execute import schedule
from logicmp.execute.lists import read_rows
from logicmp.execute.mean_field import Run
from logicmp.execute.schedule import Schedule, make_schedule
from logicmp.ground import places
from logicmp.ground.engine import Alone, BuiltIn, Grounding
from logicmp.ground.places import find_places
from logicmp.testing.executor_battery import weights_of
from logicmp.testing.thread_shares import ThreadShares, run_shares

SCHEDULES = [Schedule(6, 0.5, tolerance=1e-2), *map(make_schedule, schedule.SCHEDULES)]


def tensors_of(case: Case, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Random log-odds, and evidence on some atoms, of rows or whole tensors."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    unary = {name: torch.randn(case.rows(name, case.q[name])[0].shape, generator=generator, dtype=torch.float64)
             for name in case.latent}
    evidence = {name: case.q[name][0].bool() if name not in case.supports else
                torch.ones(case.supports[name].n_values, dtype=torch.bool) for name in case.observed}
    for name, x in unary.items():
        p = case.theory.predicate[name]
        if not p.is_categorical and not p.symmetric and rng.random() < 0.5:
            known = torch.where(torch.rand(x.shape, generator=generator) < 0.3, 1.0, torch.nan).double()
            evidence[name] = torch.where(torch.rand(x.shape, generator=generator) < 0.2, 0.0, known)
    return unary, evidence


def check(case: Case, n: int, seed: int, schedules: Sequence[Schedule]) -> int:
    """Compare all ranks with one process; returns how many atoms the largest rank lacks."""
    unary, evidence = tensors_of(case, seed)
    if not unary or not all(x.numel() for x in unary.values()):
        # rejected: a list without rows has no atoms
        return 0
    weights = [w[0] if rule.per_constant else w
               for w, rule in zip(weights_of(case.theory, case.sizes), case.theory.rules, strict=True)]

    def results(run: Run) -> tuple[list[Tensor], int]:
        found: list[Tensor] = []
        seen: list[Tensor] = []
        with torch.no_grad():
            for own in schedules:
                logits = run.iterate(own, watch=lambda i: seen.extend([i.elbo(), i.push(), i.temperature()]))
                found += run.outputs(logits).values()
                found += run.whole(logits).values()
                found.append(run.counts(run.marginals(logits)))
            start = run.take({name: torch.linspace(-1, 1, int(np.prod(shape)), dtype=torch.float64).reshape(shape)
                              for name, shape in run.shapes.items()})
            found += run.whole(run.iterate(Schedule(2), start)).values()
        return found + seen, sum(x.numel() for x in run.base.values())

    def slopes(make: Callable[[dict[str, Tensor], list[Tensor]], Run]) -> list[Tensor]:
        """Of the output, the bound and the counts, by log-odds and weights."""
        found: list[Tensor] = []
        for own in schedules:
            leaves = {name: x.clone().requires_grad_() for name, x in unary.items()}
            learned = [w.clone().requires_grad_() for w in weights]
            run = make(leaves, learned)
            logits = run.iterate(own)
            q = run.marginals(logits)
            total = (run.elbo(q) + (run.counts(q, weighted=True) * torch.arange(1, len(learned) + 1)).sum()).sum()
            for x in run.outputs(logits).values():
                total = total + (x * torch.linspace(-1, 1.3, x.numel()).to(x).reshape(x.shape)).sum()
            found += torch.autograd.grad(total, [*leaves.values(), *learned], materialize_grads=True,
                                         allow_unused=True)
        return found

    def all_results(grounding: Grounding) -> tuple[list[Tensor], int]:
        def make(unary: dict[str, Tensor], weights: list[Tensor]) -> Run:
            inputs, executor = read_rows(case.theory, case.sizes, case.supports, unary, evidence, case.semantics,
                                         grounding)
            return Run(executor, inputs, weights)

        found, n_own = results(make(unary, weights))
        return found + slopes(make), n_own

    want, n_atoms = all_results(Grounding())
    largest = 0
    for got, n_own in run_shares(n, lambda shares: all_results(Grounding(BuiltIn(), shares))):
        for x, y in zip(got, want, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)
        largest = max(largest, n_own)
    return n_atoms - largest


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    text, sparse, observed = RULES[name]
    check(case_of(text, sparse, observed=observed), 2 + len(name) % 2, len(name), SCHEDULES[1:3])


@pytest.mark.parametrize("first", range(0, 45, 15))
def test_random_theories(first: int) -> None:
    n_checked = n_saved = 0
    for seed in range(first, first + 15):
        case = random_case(seed)
        if case is None:
            continue
        try:
            n_saved += check(case, 2 + seed % 2, seed, SCHEDULES) > 0
        except CostError:
            # quantifiers over all constants are rejected
            continue
        n_checked += 1
    assert n_checked >= 4
    assert n_saved >= 2


def test_parts_divide_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place has one owner, and shared ones are added up, in pieces of any size."""
    columns = [np.array([0, 3, 3]), np.array([3, 5, 8]), np.array([], dtype=np.int32)]
    for piece in (2, 5, 100):
        monkeypatch.setattr(places, "PIECE", piece)

        def parts(shares: ThreadShares) -> tuple[list[int], list[int], list[float]]:
            found = find_places([columns[shares.share.rank]], 12, 1, shares)
            added = found.add_up(np.full(len(found), 1.0 + shares.share.rank))
            return (found.places.tolist(), found.places[found.is_own].tolist(),
                    added[np.isin(found.places, 3)].tolist())

        found = run_shares(3, parts)
        assert [places for places, _, _ in found] == [[0, 1, 2, 3], [3, 4, 5, 6, 7, 8], [9, 10, 11]]
        assert sorted(place for _, own, _ in found for place in own) == list(range(12))
        assert [added for _, _, added in found] == [[3.0], [3.0], []]


def test_one_process_has_all() -> None:
    found = find_places([np.array([4])], 6, 1, Alone())
    assert found.places.tolist() == list(range(6))
    assert found.is_own.all()
    assert not found.n_shared


# the layer

LAYER = """F(p, p)
C(p, p)
S(p)
D(p)
0.7 C(a,b) ^ C(b,c) => C(a,c)
0.3 S(a) ^ F(a,b) => S(b)
-0.2 S(a) ^ C(+a,b)
0.4 F(a,b) ^ D(b) => S(a)
"""
N = 12


def layer_inputs(n_items: int) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Candidates of C for one item, a dense batch for more; links F, and entities that are missing."""
    generator = torch.Generator().manual_seed(n_items)
    links = torch.unique(torch.randint(0, N * N, (40,), generator=generator))
    links = torch.stack([links // N, links % N])
    batch = (n_items,) if n_items > 1 else ()
    unary = {name: torch.randn(*batch, N, generator=generator, dtype=torch.float64) for name in ("S", "D")}
    if n_items == 1:
        pairs = torch.unique(torch.randint(0, N * N, (50,), generator=generator))
        values = torch.randn(len(pairs), generator=generator, dtype=torch.float64)
        unary["C"] = torch.sparse_coo_tensor(torch.stack([pairs // N, pairs % N]), values, (N, N),
                                             check_invariants=False).coalesce()
    else:
        unary["C"] = torch.randn(*batch, N, N, generator=generator, dtype=torch.float64)
    mask = torch.ones(*batch, N, dtype=torch.float64)
    mask[..., -2:] = 0
    return unary, {"F": links}, mask


def layer_results(shares: ThreadShares | None, n_items: int, masked: bool, **options: Any) -> list[Tensor]:
    layer = LogicMP(LAYER, dtype=torch.float64, sizes={"p": N}, **options)
    if shares is not None:
        # as the layer with a process group does
        layer._solver._grounding = Grounding(shares=shares)
    unary, evidence, mask = layer_inputs(n_items)
    leaves = [(x.values() if x.is_sparse else x).clone().requires_grad_() for x in unary.values()]
    given = {name: torch.sparse_coo_tensor(x.indices(), leaf, x.shape, is_coalesced=True,
                                          check_invariants=False) if x.is_sparse else leaf
             for (name, x), leaf in zip(unary.items(), leaves, strict=True)}
    rest = (evidence, mask if masked else None)
    out = layer(given, *rest)
    # no process has all atoms
    parts = layer._solver._sparse.kept[-1][2].executor.parts
    assert shares is None or any(len(part) < part.found.n for part in parts.values())
    flat = [x.values() if x.is_sparse else x for x in out.values()]
    scores = [layer.violations(out, *rest), layer.theory_loss(out, *rest), layer.elbo(given, out, *rest)]
    loss = sum((x.sigmoid().square() * torch.linspace(0, 2, x.numel()).to(x).reshape(x.shape)).sum()
               for x in (*flat, *scores[:1])) + scores[1].sum() + scores[2].sum()
    slopes = torch.autograd.grad(loss, [*leaves, *layer.raw_weights], materialize_grads=True, allow_unused=True)
    trace = layer.trace(given, *rest)
    seen: list[Tensor] = []
    last = layer.run(given, *rest, start=given,
                     watch=lambda i: seen.extend([*i.marginals.values(), *i.logits.values()]))
    assert [x.shape for x in last.values()] == [given[name].shape for name in last]
    report = layer.report(given, *rest)
    numbers = [report.change, *report.moved.values(), *(x for rule in report.rules for x in (
        rule.before, rule.after, rule.push, rule.support, rule.error))]
    assert report.status in ("converged", "changing", "oscillating")
    return [*flat, *scores, *slopes, *trace.marginals[-1].values(), *trace.logits.values(), trace.elbo, trace.push,
            *(x.to_dense() for x in last.values()), *seen, torch.tensor(numbers, dtype=torch.float64)]


@pytest.mark.parametrize("options", [{"schedule": "paper"}, {"schedule": "adaptive", "reduce": "mean"},
                                     {"schedule": "cold", "iterations": 4},
                                     {"schedule": "paper", "damping": 0.3, "tolerance": 0.02, "iterations": 40}],
                         ids=str)
@pytest.mark.parametrize("n_items, masked", [(1, False), (1, True), (3, True)])
def test_the_layer(options: dict[str, Any], n_items: int, masked: bool) -> None:
    want = layer_results(None, n_items, masked, **options)
    for got in run_shares(2 + n_items % 2, lambda shares: layer_results(shares, n_items, masked, **options)):
        for x, y in zip(got, want, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)
