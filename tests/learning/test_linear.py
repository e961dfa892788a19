"""Pseudo-likelihood over listed atoms: equal to the dense one where the sum is over the listed atoms only."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from logicmp import LogicMPError, learn, parse_facts, parse_theory
from logicmp.facts.world import World
from logicmp.ground.engine import Grounding
from logicmp.learning import databases as module
from logicmp.learning.databases import read_databases
from logicmp.learning.objectives import PseudoLikelihood
from logicmp.testing.thread_shares import run_shares

PEOPLE = [f"P{k}" for k in range(9)]
THEORIES = {
    "premises observed": ("F(p, p)\nK(p, p)\nK(x, y)\nF(x, y) ^ F(y, z) => K(x, z)\nF(x, y) => K(y, x)", ["K"]),
    "all predicted": ("F(p, p)\nK(p, p)\nK(x, y)\nF(x, y)\nF(x, y) ^ F(y, z) => K(x, z)\nK(x, y) ^ K(y, z) => F(x, z)",
                      []),
    "a fact as its own premise": ("F(p, p)\nF(x, y)\nF(x, y) ^ F(y, z) => F(x, z)\nF(x, y) => F(y, x)", []),
    "inequalities, a hard rule, a weight": ("F(p, p)\nK(p, p)\n!K(x, x).\n0.7 K(x, y)\nF(x, y) ^ F(z, y) ^ x != z => "
                                            "K(x, z)\nK(x, y) => F(x, y)", []),
    "a dense predicate": ("F(p, p)\nS(p)\nF(x, y)\nS(x) ^ F(x, y) => S(y)\nF(x, y) ^ F(y, z) => F(x, z)", []),
    "symmetric": ("F(p, p)\nsymmetric K(p, p)\nK(x, y)\nF(x, y) ^ F(y, z) => K(x, z)", ["K"]),
}


def facts(names: list[str], seed: int) -> str:
    rng = random.Random(seed)
    return "\n".join(f"{name}({', '.join(rng.choices(PEOPLE, k=2 - (name == 'S')))})" for name in names
                     for _ in range(3 if name == "S" else 14))


def both(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[PseudoLikelihood, World, PseudoLikelihood]:
    """The objective over lists, its world, and the dense objective."""
    monkeypatch.setattr(module, "DENSE_ATOMS", 10)
    monkeypatch.setattr(module.reach, "__defaults__", (*module.reach.__defaults__[:-1], 10))
    text, query = THEORIES[name]
    theory = parse_theory(text)
    evidence = parse_facts(facts([p.name for p in theory.predicates], seed), theory)
    worlds = [read_databases(theory, [evidence], query, times)[1][0].world for times in (1, 0)]
    assert worlds[0].supports
    assert not worlds[1].supports
    return PseudoLikelihood(worlds[0], query, "exact"), worlds[0], PseudoLikelihood(worlds[1], query, "exact")


def loss_of_listed(dense: PseudoLikelihood, world: World, weights: list[Tensor]) -> Tensor:
    """Minus the log-probability of the listed atoms given all others, from the log-odds of all atoms."""
    total = torch.zeros((), dtype=torch.float64)
    for name, odds in dense.log_odds(weights).items():
        each = torch.nn.functional.softplus(odds) - dense.truth[name] * odds
        if name in world.supports:
            rows, columns = (torch.from_numpy(c).long() for c in world.supports[name].columns)
            if world.theory.predicate[name].symmetric:
                rows, columns = rows[rows <= columns], columns[rows <= columns]
            each = each[rows, columns]
        total = total + each.sum()
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", THEORIES)
def test_values_and_slopes_equal_the_dense_ones(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, world, dense = both(name, seed, monkeypatch)
    rng = torch.Generator().manual_seed(seed)
    weights = [torch.randn((), generator=rng, dtype=torch.float64, requires_grad=True) for _ in world.theory.rules]
    want = loss_of_listed(dense, world, weights)
    slopes = torch.autograd.grad(want, weights)
    for is_linear in (True, False):
        if not is_linear:
            sparse.__dict__["linear"] = None
        got = sparse.loss(weights)
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(torch.autograd.grad(got, weights), slopes, rtol=1e-9, atol=1e-9)
        for found, expected in zip(sparse.counts(weights), dense.counts(weights), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", THEORIES)
def test_several_processes_equal_one(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, world, _ = both(name, 0, monkeypatch)

    def results(objective: PseudoLikelihood, is_linear: bool) -> list[Tensor]:
        # cached_property locks all threads of Python 3.11
        objective.__dict__["linear"] = PseudoLikelihood.linear.func(objective) if is_linear else None
        rng = torch.Generator().manual_seed(0)
        weights = [torch.randn((), generator=rng, dtype=torch.float64, requires_grad=True) for _ in world.theory.rules]
        loss = objective.loss(weights)
        slopes = torch.autograd.grad(loss, weights, create_graph=True)
        curved = torch.autograd.grad(sum(x.square() for x in slopes), weights, materialize_grads=True)
        counts = [x for pair in objective.counts(weights) for x in pair]
        return [loss, *slopes, *curved, *counts]

    query = THEORIES[name][1]
    for is_linear in (True, False):
        want = results(one, is_linear)
        for got in run_shares(n, lambda shares, is_linear=is_linear: results(
                PseudoLikelihood(world, query, "exact", Grounding(shares=shares)), is_linear)):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["premises observed", "all predicted", "a fact as its own premise"])
def test_lists_are_counted_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, _, _ = both(name, 0, monkeypatch)
    assert sparse.linear is not None
    n_atoms = sum(len(x) for x in sparse.truth.values())
    assert float(sparse.linear.n_atoms.sum()) == n_atoms
    assert len(sparse.linear.n_atoms) < n_atoms


def test_learn_takes_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, _, _ = both("premises observed", 1, monkeypatch)
    text, query = THEORIES["premises observed"]
    theory = parse_theory(text)
    evidence = parse_facts(facts(["F", "K"], 1), theory)
    found = learn(theory, [evidence], query=query, reach=1, prior_std=2.0)
    weights = [w.clone().requires_grad_() for w in found.weights]
    loss = sparse.loss(weights) + sum(w.square().sum() for w in weights) / 8
    assert all(abs(float(g)) < 1e-3 for g in torch.autograd.grad(loss, weights))
    with pytest.raises(LogicMPError, match="needs all atoms, so it cannot use reach"):
        learn(theory, [evidence], "discriminative", query, reach=1)
