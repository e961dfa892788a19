"""Gibbs sampling: the exact marginals within the sampling error, and a warning about chains that disagree."""

from __future__ import annotations

from published import PublishedCases

from logicmp import infer
from logicmp.testing.method_battery import SamplingBattery


class TestGibbs(PublishedCases, SamplingBattery):
    method, tolerance = "gibbs", 0.01


def test_chains_in_two_modes_give_a_warning() -> None:
    # all true or all false, and no way between them for single moves
    people = ", ".join(f"P{i}" for i in range(12))
    got = infer(f"p = {{{people}}}\nS(p)\n1.5 S(x) <=> S(y)", query="S", method="gibbs", block_weight=1000)
    assert any(note.startswith("warning: the chains do not agree") for note in got.notes)
