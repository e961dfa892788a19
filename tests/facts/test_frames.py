"""Columns become frames of every kind, and files that read back."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import parquet

from logicmp import LogicMPError, infer, learn, load_facts, parse_theory
from logicmp.facts.frames import kind_of, make_frame, table_bytes

COLUMNS: dict[str, Any] = {"id": np.array(["a", "b"], dtype=object), "n": np.array([1, 2]), "p": [0.5, np.inf]}
FRIENDS = "Friends(person, person)\nSmokes(person)\n0.8 Friends(x,y) => (Smokes(x) <=> Smokes(y))"


@pytest.mark.parametrize("kind, frame", [("pandas", pandas.DataFrame), ("polars", polars.DataFrame),
                                         ("arrow", pyarrow.Table), ("dict", dict)])
def test_columns_become_a_frame(kind: str, frame: type) -> None:
    made = make_frame(COLUMNS, kind)
    assert isinstance(made, frame)
    assert kind_of(made) == kind
    back = made.to_pydict() if kind == "arrow" else {name: list(made[name]) for name in COLUMNS}
    assert back == {name: list(column) for name, column in COLUMNS.items()}


def test_a_file_has_the_same_columns() -> None:
    table = parquet.read_table(io.BytesIO(table_bytes(COLUMNS, ".parquet")))
    assert table.to_pydict() == {name: list(column) for name, column in COLUMNS.items()}
    assert table_bytes(COLUMNS, ".csv") == b"id,n,p\na,1,0.5\nb,2,inf\n"


def test_answers_are_tables() -> None:
    found = infer(FRIENDS, {"Friends": {"a": ["Anna", "Bob"], "b": ["Bob", "Carl"]}, "Smokes": {"who": ["Anna"]}},
                  ["Smokes", "Friends(Anna, x)"], opened=["Friends"])
    whole = found.to_pandas()
    assert list(whole["atom"]) == list(found)
    np.testing.assert_array_equal(whole["probability"], found.probabilities)
    one = found.to_polars("Friends")
    assert one.columns == ["person_1", "person_2", "probability", "log_odds"]
    assert one["person_1"].to_list() == ["Anna"] * 3
    assert {f"Friends(Anna,{x})": p for x, p in one.select("person_2", "probability").iter_rows()} == {
        text: p for text, p in found.items() if text.startswith("Friends")}
    assert found.to_arrow("Smokes").column_names == ["person", "probability", "log_odds"]
    with pytest.raises(LogicMPError, match="'Smoke' was not queried\nhint: did you mean 'Smokes'"):
        found.to_pandas("Smoke")


def test_a_table_of_answers_reads_back_as_soft_evidence() -> None:
    found = infer("label(token) in {O, B}\n1 label(x) in {B}", "?label(T1) = O\nlabel(T2) = O", "label")
    table = found.to_pandas("label")
    assert table[["token", "label"]].to_numpy().tolist() == [["T1", "O"], ["T1", "B"], ["T2", "O"], ["T2", "B"]]
    theory = parse_theory("label(token) in {O, B}")
    back = load_facts({"label": table.drop(columns="probability")}, theory).tables["label"].values
    np.testing.assert_allclose(back, found.probabilities, atol=1e-12)


def test_learned_weights_are_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("Smokes(Anna)\nCancer(Anna)\nSmokes(Bob)\n")
    learned = learn("Smokes(p)\nCancer(p)\n\nSmokes(x) => Cancer(x)\n(Smokes(x))", [tmp_path / "a.db"])
    for table in (learned.to_pandas(), learned.to_polars(), learned.to_arrow().to_pandas()):
        assert list(table["line"]) == [4, 5]
        assert list(table["rule"]) == ["Smokes(x) => Cancer(x)", "Smokes(x)"]
        assert list(table["weight"]) == [rule.weight for rule in learned.to_theory().rules]


@pytest.mark.parametrize("unscored, want", [("false", [0.9, 0.4]), ("skip", [0.9, 0.4]), (0.1, [0.9, 0.4, 0.1, 0.1])])
def test_unscored_atoms_count_as_said(unscored: float | str, want: list[float]) -> None:
    pairs = {"a": ["A", "B"], "b": ["B", "A"], "score": [0.9, 0.4]}
    found = infer("Same(r, r)\n1 Same(x, y) => Same(x, y)", {"Same": pairs}, "Same", unscored=unscored)
    assert sorted(found.probabilities.round(6).tolist(), reverse=True) == want


def test_skipped_conclusions_have_no_effect() -> None:
    pairs = {"a": ["A", "B"], "b": ["B", "C"], "score": [0.9, 0.9]}
    rules = "symmetric Same(r, r)\n2 Same(a,b) ^ Same(b,c) => Same(a,c)"
    skipped, counted = (infer(rules, {"Same": pairs}, "Same(A, B)", unscored=how)["Same(A,B)"]
                        for how in ("skip", "false"))
    assert skipped == pytest.approx(0.9, abs=1e-6)
    assert counted < 0.7


@pytest.mark.parametrize("unscored, facts, message", [
    ("no", "0.5 P(A)", "unscored must be 'false', 'skip' or a probability, got 'no'"),
    (1.0, "0.5 P(A)", "unscored must be a probability above 0 and below 1, got 1"),
    (0.5, "P(A)", "unscored is given, but no fact has a score"),
])
def test_a_wrong_unscored_is_rejected(unscored: float | str, facts: str, message: str) -> None:
    with pytest.raises(LogicMPError, match=message):
        infer("P(t)\n1 P(x)", facts, "P", unscored=unscored)


@pytest.mark.parametrize("series", [pandas.Series(["Anna", "Bob"]), pandas.Series(["Anna", "Bob"], name="who"),
                                    polars.Series("who", ["Anna", "Bob"])])
def test_a_series_is_a_table_of_one_column(series: Any) -> None:
    assert load_facts({"Smokes": series}, parse_theory(FRIENDS)).tables["Smokes"].args == [("Anna",), ("Bob",)]


def test_a_frame_without_its_predicate_is_an_error() -> None:
    with pytest.raises(LogicMPError, match=r"evidence is a DataFrame(.|\n)*name the predicate of the table"):
        infer(FRIENDS, pandas.DataFrame({"who": ["Anna"]}), "Smokes")  # type: ignore[arg-type]
