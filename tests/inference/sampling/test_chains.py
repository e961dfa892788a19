"""Chains and batches: what they count, when they stop, and what they report."""

from __future__ import annotations

import time

import numpy as np
import pytest
from networks import network_of

from logicmp import infer
from logicmp.inference.sampling import chains as chains_module
from logicmp.inference.sampling.chains import BATCHES, Batches, Chains, Draws, Tally, new_tally
from logicmp.inference.sampling.fields import Prepared, prepare
from logicmp.limits import Limits, silent


def prepared() -> Prepared:
    return prepare(network_of("p = {A, B}\nS(p)\n1 S(x)"))


def run(draw, samples: int = 2000, error: float = 0.0, burn_in: int | None = None, seconds: float | None = None,
        effective: int | None = None, disagree=lambda: False) -> Draws:
    """Two chains of which each step gives S(A) and S(B) the probability `draw(chain, step)`."""
    steps = [0, 0]

    def advance(chain: int, n: int, tally: Tally) -> None:
        for _ in range(n):
            p = draw(chain, steps[chain])
            tally.total[:] += [1 - p, p, 1 - p, p]
            steps[chain] += 1

    found = prepared()
    return Chains(2, burn_in, samples, error, effective, "test", Limits(seconds), silent).run(
        advance, found, found.queried_values(()), disagree)


def test_a_fixed_burn_in_is_not_counted() -> None:
    found = run(lambda chain, step: 1.0 if step < 10 else 0.25, burn_in=10)
    assert found.p.tolist() == pytest.approx([0.75, 0.25] * 2)
    assert found.notes[0].endswith("after 10 to burn in")
    assert found.notes[1] == "R-hat 1.000: all batches of all chains are equal"


def test_first_batches_that_differ_are_burn_in() -> None:
    rngs = [np.random.default_rng(k) for k in range(2)]
    found = run(lambda chain, step: 0.9 if step < 120 else 0.2 + 0.1 * rngs[chain].random())
    assert found.p[1] == pytest.approx(0.25, abs=0.005)
    # whole batches of 200, and few more than needed
    assert found.notes[0] in [f"2 chains of {2000 - n:,} samples each after {n} to burn in" for n in (200, 400)]
    # those that do not differ are counted
    found = run(lambda chain, step: 0.2 + 0.1 * (step % 2))
    assert found.notes[0].endswith("after 0 to burn in")


def test_chains_stop_as_soon_as_the_error_is_small() -> None:
    rngs = [np.random.default_rng(k) for k in range(2)]
    found = run(lambda chain, step: rngs[chain].random(), samples=100_000, error=0.02)
    assert found.status == "converged"
    assert int(found.notes[0].split()[3].replace(",", "")) <= 500
    assert abs(found.p[1] - 0.5) < 0.06


def test_chains_stop_as_soon_as_the_effective_samples_are_enough() -> None:
    rngs = [np.random.default_rng(k) for k in range(2)]
    found = run(lambda chain, step: float(rngs[chain].random() < 0.3), samples=100_000, effective=5000)
    assert found.status == "converged"
    # independent draws: about as many samples as effective ones
    assert 1500 <= int(found.notes[0].split()[3].replace(",", "")) <= 6000


def test_chains_that_disagree_are_reported_and_may_change_how_they_step() -> None:
    found = run(lambda chain, step: 0.2 + 0.6 * chain + 0.01 * (step % 2))
    assert found.r_hat > 1.05
    assert found.notes[2].startswith("warning: the chains do not agree")
    is_apart, calls = [True], []

    def disagree() -> bool:
        is_apart[0] = False
        calls.append(1)
        return len(calls) == 1

    found = run(lambda chain, step: 0.2 + 0.6 * chain * is_apart[0] + 0.01 * (step % 2), disagree=disagree)
    assert len(calls) == 1
    # nothing of the time before counts
    assert found.p[1] == pytest.approx(0.205)
    assert found.notes[0].endswith("after 250 to burn in")


def test_a_run_without_time_makes_at_least_one_step_of_each_chain() -> None:
    found = run(lambda chain, step: float(chain), seconds=0.0)
    assert found.p[1] == 0.5
    assert found.notes[0] == "test was stopped after 0 s"
    assert found.notes[-1] == "too few samples to compare the chains"


def test_an_interrupted_run_ends_its_threads() -> None:
    def progress(what: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    found = prepared()

    def advance(chain: int, n: int, tally: Tally) -> None:
        # one step at a time, so that the run would never end
        time.sleep(0.06 * n)

    with pytest.raises(KeyboardInterrupt):
        Chains(2, 10**9, 10, 0.0, None, "test", Limits(), progress).run(advance, found, found.queried_values(()))


def test_answers_of_a_seed_do_not_depend_on_the_number_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    theory = "p = {A, B, C}\nS(p)\nF(p, p)\n1 S(x) ^ F(x, y) => S(y)\nS(A) v S(B)."
    for method in ("gibbs", "mc-sat"):
        found = []
        for n in (1, 3):
            monkeypatch.setattr(chains_module, "n_processors", lambda n=n: n)
            found.append(infer(theory, query="S", method=method, samples=500, seed=7).log_odds.tolist())
        assert found[0] == found[1]


def test_merged_batches_have_the_sums_of_their_pairs() -> None:
    found = prepared()
    batches = Batches(found.network, [new_tally(found) for _ in range(2)], found.queried_values(()), True)
    rng = np.random.default_rng(0)
    batches.totals[:] = 25 * rng.random(batches.totals.shape)
    batches.n, before = BATCHES, batches.totals.copy()
    want = (before / 25).reshape(2 * BATCHES, -1).var(0, ddof=1) / (2 * BATCHES)
    assert batches.variance(0) == pytest.approx(want, rel=1e-4)
    batches.merge()
    assert (batches.n, batches.size) == (BATCHES // 2, 50)
    np.testing.assert_allclose(batches.totals[:, : batches.n], before.reshape(2, BATCHES // 2, 2, -1).sum(2), rtol=1e-6)


def test_a_tally_watches_the_features_of_queried_formulas() -> None:
    assert [len(column) for column in new_tally(prepared())] == [4, 0, 0]
