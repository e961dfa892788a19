"""What comes out: a mapping, tables, tensors, and the probabilities that files with exact answers publish."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from published import published

from logicmp import LogicMPError, infer, load_facts, load_theory, parse_facts, parse_theory
from logicmp.inference.answers import as_probability, log_odds_of
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
    with pytest.raises(KeyError, match=r"'Friends\(Anna,Bib\)' was not asked for; did you mean 'Friends\(Anna,Bob\)'"):
        got["Friends(Anna,Bib)"]


def test_tensors_have_the_shape_of_the_predicate() -> None:
    tensors = infer(SMOKERS, FACTS, "Friends(Anna, x), Smokes").to_tensors()
    assert {name: list(tensor.shape) for name, tensor in tensors.items()} == {"Friends": [3, 3], "Smokes": [3]}


def test_a_table_has_a_row_for_each_answer() -> None:
    table = infer(SMOKERS, FACTS, "Cancer").to_pandas()
    assert table.columns.tolist() == ["atom", "probability", "log_odds"]
    assert table.atom.tolist() == ["Cancer(Anna)", "Cancer(Bob)", "Cancer(Carl)"]
    assert table.log_odds.iloc[1] == -np.inf


def test_a_predicate_in_a_formula_is_asked_for_and_so_left_open() -> None:
    got = infer(SMOKERS, FACTS, "Smokes(x) => Cancer(x)")
    assert {name for name, why in got.world.closed.items() if why} == {"Friends"}
    assert 0 < got["Smokes(Anna) => Cancer(Anna)"] < 1


def test_without_a_query_every_open_predicate_is_answered() -> None:
    assert list(infer(SMOKERS, "Friends(Anna, Bob)\nSmokes(Carl)")) == [f"Cancer({p})" for p in ("Anna", "Bob", "Carl")]


def test_files_are_read_by_the_classes(tmp_path: Path) -> None:
    (tmp_path / "rules.mln").write_text(SMOKERS)
    (tmp_path / "one.db").write_text("Friends(Anna, Bob)")
    (tmp_path / "two.db").write_text("Smokes(Anna)")
    theory = load_theory(tmp_path / "rules.mln")
    evidence = load_facts([tmp_path / "one.db", tmp_path / "two.db"], theory)
    assert infer(theory, evidence, "Smokes")["Smokes(Anna)"] == 1


def test_evidence_of_another_theory_is_refused() -> None:
    other = parse_theory("p = {A}\nS(p)\n1 S(x)")
    with pytest.raises(LogicMPError) as caught:
        infer(SMOKERS, parse_facts("S(A)", other))
    assert str(caught.value) == ("the evidence was read for another theory\nhint: read it with "
                                 "load_facts(path, theory)")


@pytest.mark.parametrize("options, message", [
    ({"method": "exakt"}, "unknown method 'exakt'\nhint: did you mean 'exact'?"),
    ({"semantics": "fuzzy"}, "unknown semantics 'fuzzy'\nhint: known: exact, paper, alchemy"),
    ({"method": "exact", "semantics": "paper"},
     "semantics 'paper' treats equal atoms of a grounding as independent, which no ground network can do\nhint: use "
     "semantics 'exact' or 'alchemy', or method mean-field"),
])
def test_a_wrong_choice_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        infer(SMOKERS, FACTS, "Smokes", **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_the_function_has_its_name_however_rooms_are_imported() -> None:
    import logicmp.inference.exact.method
    import logicmp.normalize.cubes as cubes

    assert logicmp.infer is infer
    assert cubes.__name__ == "logicmp.normalize.cubes"


def test_probabilities_keep_their_digits_at_both_ends() -> None:
    odds = log_odds_of(np.array([1e-300, 0.25, 0.75]))
    assert odds.tolist() == pytest.approx([np.log(1e-300), np.log(1 / 3), np.log(3)])
    assert as_probability(odds)[0] == pytest.approx(1e-300)
    assert as_probability(np.array([-900.0, 900.0])).tolist()[0] > 0
