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


def test_a_hard_component_too_large_to_be_listed_is_drawn_by_samplesat_near_the_truth() -> None:
    people = ", ".join(f"P{i}" for i in range(70))
    got = infer(f"p = {{{people}}}\nS(p)\n1 S(P0)\nS(x) <=> S(y).", query="S", method="mc-sat", samples=3000)
    assert got.notes[-1].startswith("SampleSAT drew ")
    assert got["S(P7)"] == pytest.approx(np.e / (1 + np.e), abs=0.05)


def test_chains_in_two_modes_of_soft_rules_start_samplesat() -> None:
    people = ", ".join(f"P{i}" for i in range(14))
    theory = f"p = {{{people}}}\nS(p)\nF(p, p)\n1 S(x) ^ F(x, y) => S(y)"
    got = infer(theory, query="S", method="mc-sat", effective=500)
    assert got.notes[-1].startswith("SampleSAT drew ")
    assert not any(note.startswith("warning") for note in got.notes)
    # all or none, which are equally probable
    assert got.probabilities == pytest.approx(0.5, abs=0.08)


def test_a_search_that_finds_nothing_keeps_the_old_world_and_is_counted() -> None:
    people = ", ".join(f"P{i}" for i in range(70))
    got = infer(f"p = {{{people}}}\nS(p)\nS(x) <=> S(y).", query="S", method="mc-sat", max_search_flips=0, samples=100)
    drawn, failed = (int(word.replace(",", "")) for word in got.notes[-1].split() if word[0].isdigit())
    assert 0 < failed <= drawn
