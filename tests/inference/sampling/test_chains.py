"""Chains and batches: what they count, when they stop, and what they report."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of

from logicmp.ground.network import Network
from logicmp.inference.sampling.chains import BATCHES, Batches, Chains, Draws, Tally, new_tally
from logicmp.limits import Limits, silent


def network() -> Network:
    return network_of("p = {A, B}\nS(p)\n1 S(x)")


def run(draw, samples: int = 2000, error: float = 0.0, burn_in: int = 10, seconds: float | None = None) -> Draws:
    """Two chains of which each step gives S(A) and S(B) the probability `draw(chain, step)`."""
    steps = [0, 0]

    def advance(chain: int, n: int, tally: Tally) -> None:
        for _ in range(n):
            p = draw(chain, steps[chain])
            tally.total[:] += [1 - p, p, 1 - p, p]
            tally.square[:] += [(1 - p) ** 2, p**2, (1 - p) ** 2, p**2]
            steps[chain] += 1

    return Chains(2, burn_in, samples, error, "test", Limits(seconds), silent).run(advance, network())


def test_the_burn_in_is_not_counted() -> None:
    found = run(lambda chain, step: 1.0 if step < 10 else 0.25)
    assert found.p.tolist() == pytest.approx([0.75, 0.25] * 2)
    assert found.notes[0].endswith("after 10 to burn in")
    assert found.notes[1] == "R-hat 1.000: all batches of all chains are equal"


def test_chains_stop_as_soon_as_the_error_is_small() -> None:
    rng = np.random.default_rng(0)
    found = run(lambda chain, step: rng.random(), samples=100_000, error=0.02)
    assert found.notes[0].startswith("2 chains of 500 samples each")
    assert abs(found.p[1] - 0.5) < 0.06


def test_chains_that_disagree_are_reported() -> None:
    found = run(lambda chain, step: 0.2 + 0.6 * chain + 0.01 * (step % 2))
    assert found.r_hat > 1.05
    assert found.notes[2].startswith("warning: the chains do not agree")


def test_a_run_without_time_makes_at_least_one_step_of_each_chain() -> None:
    found = run(lambda chain, step: float(chain), seconds=0.0)
    assert 0 < found.p[1] < 1
    assert found.notes[0] == "test was stopped after 0.0 s"
    assert found.notes[-1] == "too few samples to compare the chains"


def test_merged_batches_have_the_means_of_their_pairs() -> None:
    batches = Batches(network(), 2)
    rng = np.random.default_rng(0)
    batches.means[:] = rng.random(batches.means.shape)
    batches.n, before = BATCHES, batches.means.copy()
    variance = before.reshape(2 * BATCHES, -1).var(0, ddof=1) / (2 * BATCHES)
    assert batches.error() == pytest.approx(float(np.sqrt(variance.max())), rel=1e-4)
    batches.merge()
    assert (batches.n, batches.size) == (BATCHES // 2, 50)
    np.testing.assert_allclose(batches.means[:, : batches.n], before.reshape(2, BATCHES // 2, 2, -1).mean(2), rtol=1e-6)


def test_a_tally_watches_the_features_of_queried_formulas() -> None:
    tally = new_tally(network())
    assert [len(column) for column in tally] == [4, 4, 0, 0]
