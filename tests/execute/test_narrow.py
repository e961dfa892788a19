"""Waves against enumeration of a network's worlds: log Z, marginals, best worlds, scores, gradients, extremes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from networks import network_of, random_network, worlds
from torch import Tensor

from logicmp.execute.narrow import NEVER, Pick, Waves, is_impossible
from logicmp.ground.elimination import build_elimination
from logicmp.ground.features import log_weights, true_features
from logicmp.ground.network import Network
from logicmp.ground.reduce import Reduced, reduce_network

CHAIN = "t = {A, B, C, D, E}\nL(t)\n1.3 L(x) ^ L(x+1) => L(x+2)\n0.7 L(x) => L(x+1)\n!(L(x) ^ L(x+3)).\n-0.4 L(x)"


def waves_of(network: Network) -> tuple[Reduced, Waves]:
    reduced = reduce_network(network)
    return reduced, Waves(build_elimination(reduced), torch.device("cpu"))


def enumerate_worlds(reduced: Reduced, waves: Waves, potentials: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all worlds, [worlds, variables], and the log-weight of each."""
    network, row_of = reduced.network, waves.plan.row_of
    rows, weights = [], []
    for world in worlds(network):
        own = row_of + world
        rows.append(own)
        weights.append(log_weights(network)[true_features(network, world)].sum()
                       + potentials[:, 0].detach().numpy()[own].sum())
    return np.array(rows), np.array(weights)


def small_networks() -> list[Network]:
    found = [random_network(seed, max_ground=7) for seed in range(40)]
    return [network for network in found if len(network.cards) and np.prod(network.cards.astype(float)) < 2000]


@pytest.mark.parametrize("network", small_networks())
def test_log_z_marginals_and_best_world_equal_enumeration(network: Network) -> None:
    reduced, waves = waves_of(network)
    if np.prod(reduced.network.cards.astype(float)) > 5000:
        return
    potentials = torch.randn(waves.plan.n_rows, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    tables = waves.tables(torch.from_numpy(network.weights))
    rows, weights = enumerate_worlds(reduced, waves, potentials)
    found, total = waves.marginals(potentials, tables)
    if not np.isfinite(weights).any():
        assert bool(is_impossible(total).all())
        return
    log_z = float(np.logaddexp.reduce(weights))
    assert float(total) == pytest.approx(log_z, abs=1e-9)
    assert float(waves.log_z(potentials, tables)) == pytest.approx(log_z, abs=1e-9)
    p = np.zeros(waves.plan.n_rows)
    np.add.at(p, rows, np.exp(weights - log_z)[:, None])
    np.testing.assert_allclose(found.exp()[:, 0].numpy(), p, atol=1e-9)
    world, best = waves.best(potentials, tables)
    assert float(best) == pytest.approx(weights.max(), abs=1e-9)
    assert float(waves.score(potentials, tables, world)) == pytest.approx(weights.max(), abs=1e-9)


@pytest.mark.parametrize("network", small_networks()[:12])
def test_gradients(network: Network) -> None:
    _, waves = waves_of(network)
    potentials = torch.randn(waves.plan.n_rows, 2, dtype=torch.float64,
                             generator=torch.Generator().manual_seed(0)).requires_grad_()
    weights = torch.from_numpy(network.weights).clone().requires_grad_()
    if bool(is_impossible(waves.log_z(potentials, waves.tables(weights)).detach()).any()):
        return

    def marginals(potentials: Tensor, weights: Tensor) -> Tensor:
        found, _ = waves.marginals(potentials, waves.tables(weights))
        return found.masked_fill(is_impossible(found), 0)

    assert torch.autograd.gradcheck(marginals, (potentials, weights))
    assert torch.autograd.gradcheck(lambda x, w: waves.log_z(x, waves.tables(w)), (potentials, weights))


def test_a_chain_with_tables_over_three_variables() -> None:
    network = network_of(CHAIN)
    reduced, waves = waves_of(network)
    # messages over several variables, which the narrow path does not see
    assert any(group.parent_cells is not None for group in waves.plan.groups)
    potentials = torch.randn(waves.plan.n_rows, 1, dtype=torch.float64)
    _, weights = enumerate_worlds(reduced, waves, potentials)
    total = waves.log_z(potentials, waves.tables(torch.from_numpy(network.weights)))
    assert float(total) == pytest.approx(float(np.logaddexp.reduce(weights)), abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_single_precision_agrees_with_double(scale: float) -> None:
    network = network_of("t = {A, B, C, D, E, F}\nL(t)\nL(x) => L(x+1).\n2 L(x) v L(x+2)")
    _, waves = waves_of(network)
    potentials = scale * torch.randn(waves.plan.n_rows, 8, generator=torch.Generator().manual_seed(1))
    slope = torch.randn(waves.plan.n_rows, 8, generator=torch.Generator().manual_seed(2))
    results = []
    for dtype in (torch.float32, torch.float64):
        leaf = potentials.detach().clone().to(dtype).requires_grad_()
        found, _ = waves.marginals(leaf, waves.tables(torch.from_numpy(network.weights).to(dtype)))
        possible = ~is_impossible(found.detach())
        (found * possible * slope.to(dtype)).sum().backward()
        assert leaf.grad is not None and bool(leaf.grad.isfinite().all())
        results.append((torch.where(possible, found, 0).double(), leaf.grad.double()))
    (low, low_grad), (high, high_grad) = results
    torch.testing.assert_close(low, high, rtol=1e-4, atol=1e-3 * max(1.0, scale / 30))
    torch.testing.assert_close(low_grad, high_grad, rtol=1e-2, atol=1e-2)


def test_impossible_cells_are_finite() -> None:
    assert bool(is_impossible(torch.tensor([NEVER, 3 * NEVER + 5, NEVER + 1e6])).all())
    assert not bool(is_impossible(torch.tensor([-1e20, 0.0, 1e30])).any())


def test_picked_rows_add_up_on_the_way_back() -> None:
    rows = torch.randn(4, 3, dtype=torch.float64).requires_grad_()
    pick = Pick(torch.tensor([2, 0, 2]), 4)
    assert torch.equal(pick(rows), rows[[2, 0, 2]])
    assert torch.autograd.gradcheck(pick, (rows,))
