"""MC-SAT: the exact marginals within the sampling error, with hard and with strong rules."""

from __future__ import annotations

import numpy as np
import pytest
from published import PublishedCases

from logicmp import infer
from logicmp.testing.method_battery import SamplingBattery


class TestMCSat(PublishedCases, SamplingBattery):
    method, tolerance = "mc-sat", 0.02


def test_a_hard_conjunction_gives_one() -> None:
    got = infer("p = {A, B}\nS(p)\nT(p)\nS(x) ^ T(x).", query="S, T", method="mc-sat")
    assert set(got.values()) == {1.0}


def test_two_modes_that_gibbs_cannot_leave_are_both_visited() -> None:
    people = ", ".join(f"P{i}" for i in range(8))
    got = infer(f"p = {{{people}}}\nS(p)\n1 S(P0)\nS(x) <=> S(y).", query="S", method="mc-sat")
    assert got["S(P7)"] == pytest.approx(np.e / (1 + np.e), abs=0.02)


def test_components_too_large_to_be_listed_are_drawn_by_samplesat_near_the_truth() -> None:
    theory = "p = {A, B, C, D}\nR(p, p)\nS(p)\n0.5 R(x, y) ^ R(y, z) => R(x, z)\n1 S(x) => R(x, x)\nR(x, y) v R(y, x)."
    got = infer(theory, query="R, S", method="mc-sat", max_states=4)
    want = infer(theory, query="R, S", method="exact")
    assert got.notes[-1].startswith("SampleSAT drew ")
    assert got.probabilities == pytest.approx(want.probabilities, abs=0.02)


def test_a_search_that_finds_nothing_keeps_the_old_world_and_is_counted() -> None:
    theory = "p = {A, B, C, D}\nR(p, p)\n8 R(x, y) ^ R(y, z) => R(x, z)\nR(x, y) v R(y, x)."
    got = infer(theory, query="R", method="mc-sat", max_states=1, max_search_flips=0, samples=500)
    drawn, failed = (int(word.replace(",", "")) for word in got.notes[-1].split() if word[0].isdigit())
    assert 0 < failed <= drawn


