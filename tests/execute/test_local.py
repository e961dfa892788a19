"""Atoms by process: logits, bound and counts equal those of one process, under every schedule, for any ranks."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from test_sparse import RULES, Case, case_of, random_case
from torch import Tensor

from logicmp import CostError
from logicmp.execute import local, schedule
from logicmp.execute.lists import read_rows
from logicmp.execute.local import find_part, make_local_run
from logicmp.execute.mean_field import Run
from logicmp.execute.schedule import Schedule, make_schedule
from logicmp.ground.engine import Alone, BuiltIn, Grounding
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

    inputs, executor = read_rows(case.theory, case.sizes, case.supports, unary, evidence, case.semantics)
    want, n_atoms = results(Run(executor, inputs, weights))

    def own(shares: ThreadShares) -> tuple[list[Tensor], int]:
        return results(make_local_run(case.theory, case.sizes, case.supports, unary, evidence, case.semantics, weights,
                                      Grounding(BuiltIn(), shares)))

    largest = 0
    for got, n_own in run_shares(n, own):
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
        monkeypatch.setattr(local, "PIECE", piece)

        def parts(shares: ThreadShares) -> tuple[list[int], list[int], list[float]]:
            part = find_part([columns[shares.share.rank]], 12, 1, shares)
            added = part.add_up(np.full(len(part.places), 1.0 + shares.share.rank))
            return part.places.tolist(), part.places[part.own].tolist(), added[np.isin(part.places, 3)].tolist()

        found = run_shares(3, parts)
        assert [places for places, _, _ in found] == [[0, 1, 2, 3], [3, 4, 5, 6, 7, 8], [9, 10, 11]]
        assert sorted(place for _, own, _ in found for place in own) == list(range(12))
        assert [added for _, _, added in found] == [[3.0], [3.0], []]


def test_one_process_has_all() -> None:
    part = find_part([np.array([4])], 6, 1, Alone())
    assert part.places.tolist() == part.own.tolist() == list(range(6))
    assert not part.n_shared
