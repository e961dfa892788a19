"""What comes out: a mapping, tables, tensors, and the probabilities that files with exact answers publish."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from published import published

from logicmp import LogicMPError, infer, load_theory
from logicmp.inference.answers import as_probability, log_odds_of
from logicmp.inference.method import Status
from logicmp.testing.method_battery import FACTS, SMOKERS


@pytest.mark.parametrize("method", ["exact", "auto"])
def test_every_published_case_is_met_to_a_millionth(data: Path, method: str) -> None:
    for case in published(data, method):
        for atom, p in case.marginals.items():
            assert case.got[atom] == pytest.approx(p, abs=1e-6), f"{case.name}: {atom}, {case.semantics}"
        if case.log_partition is not None:
            assert case.got.log_partition == pytest.approx(case.log_partition, abs=1e-6), case.name


def test_friendsmoker_gives_the_number_its_authors_published(data: Path) -> None:
    folder = data / "mln/friendsmoker_forclift"
    got = infer(load_theory(folder / "model.mln"), query="friends(Guy, Nima)")
    assert got["friends(Guy,Nima)"] == pytest.approx(0.4580488556024473, abs=1e-12)


def test_a_mapping_finds_atoms_however_they_are_spaced() -> None:
    got = infer(SMOKERS, FACTS, "Friends, Smokes(x) => Cancer(x)")
    assert got["Friends(Anna, Bob)"] == got["Friends(Anna,Bob)"] == 1.0
    assert "Smokes(Bob) => Cancer(Bob)" in got
    assert len(got) == 12
    with pytest.raises(KeyError, match=r"'Friends\(Anna,Bib\)' was not queried; did you mean 'Friends\(Anna,Bob\)'"):
        got["Friends(Anna,Bib)"]


def test_tensors_have_the_shape_of_the_predicate() -> None:
    tensors = infer(SMOKERS, FACTS, "Friends(Anna, x), Smokes").to_tensors()
    assert {name: list(tensor.shape) for name, tensor in tensors.items()} == {"Friends": [3, 3], "Smokes": [3]}


def test_a_table_has_a_row_for_each_answer() -> None:
    table = infer(SMOKERS, FACTS, "Cancer").to_pandas()
    assert table.columns.tolist() == ["atom", "probability", "log_odds"]
    assert table.atom.tolist() == ["Cancer(Anna)", "Cancer(Bob)", "Cancer(Carl)"]
    assert table.log_odds.iloc[1] == -np.inf


def test_a_table_without_pandas_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = infer(SMOKERS, FACTS, "Cancer")
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(LogicMPError) as caught:
        found.to_pandas()
    assert str(caught.value) == ('to_pandas needs pandas, which is not installed\nhint: pip install "logicmp[pandas]"')


def test_answers_have_the_status_of_their_solution() -> None:
    found = infer(SMOKERS, FACTS, "Cancer", method="bp")
    assert found.status is found.solution.status is Status.CONVERGED


def test_probabilities_keep_their_digits_at_both_ends() -> None:
    odds = log_odds_of(np.array([1e-300, 0.25, 0.75]))
    assert odds.tolist() == pytest.approx([np.log(1e-300), np.log(1 / 3), np.log(3)])
    assert as_probability(odds)[0] == pytest.approx(1e-300)
    assert as_probability(np.array([-900.0, 900.0])).tolist()[0] > 0
