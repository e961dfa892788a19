"""The scores of groups of records, and the data they are computed from."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest

from benchmarks import records

FACTS = """\
Author(Class_1,Author_a_blum_)
Author(Class_2,Author_blum_)
Author(Class_3,Author_smith_)
Title(Class_1,Title_learning_theory_)
Title(Class_2,Title_learning_theories_)
Title(Class_3,Title_graphs_)
Venue(Class_1,Venue_colt_)
Venue(Class_2,Venue_colt_)
Venue(Class_3,Venue_icml_)
SameBib(Class_1, Class_2)
SameBib(Class_2,Class_1)
!SameBib(Class_1,Class_3)
"""


def test_metrics_are_those_of_their_definitions() -> None:
    assert doctest.testmod(records).failed == 0
    truth = np.array([0, 0, 1, 2])
    assert records.pairwise(truth, truth) == records.b_cubed(truth, truth) == (1, 1, pytest.approx(1))
    assert records.pairwise(np.arange(4), truth)[2] == 0


def test_a_split_has_candidates_and_true_clusters(tmp_path: Path) -> None:
    (tmp_path / "facts").write_text(FACTS)
    split = records.read_split(tmp_path)
    assert split.truth.tolist() == [0, 0, 2]
    # a common word of the author or of the title
    assert (split.one.tolist(), split.other.tolist()) == ([0], [1])
    assert split.similarities[0].round(2).tolist() == [0.5, 0.8, 0.33, 0.88, 1, 1]
    assert records.without(split, "Title").similarities.shape == (1, 4)
    for labels in (records.components(split, np.array([0.9]), 0.5), records.resolved(split, np.array([0.9]), 0.5, 0.5),
                   records.agglomerative(split, np.array([0.9]), "average", 0.5)):
        assert records.pairwise(labels, split.truth)[2] == 1


def test_speed_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert records.main(["speed", "--n", "450"]) == 0
    out = capsys.readouterr().out
    assert "| 450 | blocks |" in out and "| random |" in out
