"""Facts from tables equal the same facts as text; errors name file or predicate, row and column."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import parquet

from logicmp import Evidence, LogicMPError, infer, load_facts, parse_facts, parse_theory
from logicmp.facts import tables

THEORY = parse_theory("""
color = {Red, Green}
Friends(person, person)
Age(person, number)
Likes(person, color)
label(token) in {O, B}
Smokes(person)
1 Friends(x,y) ^ Smokes(x) => Smokes(y)
""")


def show(facts: Evidence) -> list[str]:
    return [f"{name}({','.join(args)}) {value:g}" for name, table in facts.tables.items()
            for args, value in zip(table.args, table.values.tolist(), strict=True)]


class Stream:
    """An object that has the Arrow interface, and nothing else."""

    def __init__(self, table: pyarrow.Table):
        self.table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "lists": lambda columns: columns,
    "arrays": lambda columns: {name: np.array(column) for name, column in columns.items()},
    "objects": lambda columns: {name: np.array(column, dtype=object) for name, column in columns.items()},
    "2-d array": lambda columns: np.array(list(zip(*columns.values(), strict=True)), dtype=object),
    "pandas": pandas.DataFrame,
    "pandas, other index": lambda columns: pandas.DataFrame(columns, index=range(7, 7 + len(columns["a"]))),
    "pandas categories": lambda columns: pandas.DataFrame(columns).astype("category"),
    "pandas by pyarrow": lambda columns: pandas.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": polars.DataFrame,
    "polars categories": lambda columns: polars.DataFrame(columns).with_columns(polars.col("a").cast(
        polars.String).cast(polars.Categorical)),
    "polars columns": lambda columns: {name: polars.Series(column) for name, column in columns.items()},
    "pyarrow": pyarrow.table,
    "pyarrow in pieces": lambda columns: pyarrow.concat_tables(
        [pyarrow.table(columns).slice(0, 1), pyarrow.table(columns).slice(1)]),
    "pyarrow dictionaries": lambda columns: pyarrow.table(
        {name: pyarrow.chunked_array([column[:1], column[1:]]).dictionary_encode()
         for name, column in columns.items()}),
    "pyarrow batch": lambda columns: pyarrow.table(columns).to_batches()[0],
    "Arrow interface": lambda columns: Stream(pyarrow.table(columns)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tables_equal_text(kind: str) -> None:
    friends = {"a": ["Anna", "Bob", "Anna"], "b": ["Bob", "Carl", "Dora"]}
    age = {"a": ["Bob", "Anna"], "years": [31, 7]}
    label = {"a": [1, 2], "label": ["O", "B"]}
    got = load_facts({name: KINDS[kind](table) for name, table in
                      (("Friends", friends), ("Age", age), ("label", label))}, THEORY)
    want = parse_facts("Friends(Anna,Bob)\nFriends(Bob,Carl)\nFriends(Anna,Dora)\nAge(Bob,31)\nAge(Anna,7)\n"
                       "label(1) = O\nlabel(2) = B", THEORY)
    assert show(got) == show(want)
    assert got.theory == want.theory


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_facts(kind: str) -> None:
    table = {"a": ["A", "B", "C", "D"], "value": [1.0, 0.0, 0.25, None]}
    assert show(load_facts({"Smokes": KINDS[kind](table) if kind != "2-d array" else table}, THEORY)) == [
        "Smokes(A) 1", "Smokes(B) 0", "Smokes(C) 0.25", "Smokes(D) nan"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_names_the_place_of_an_error(kind: str) -> None:
    if kind == "2-d array":
        with pytest.raises(LogicMPError, match=r"^Friends, row 2, column '1': the constant is missing\nhint: remove"):
            load_facts({"Friends": np.array([["A", "B"], ["B", None]], dtype=object)}, THEORY)
        return
    with pytest.raises(LogicMPError, match=r"^Friends, row 3, column 'b': the constant is missing\nhint: remove the"):
        load_facts({"Friends": KINDS[kind]({"a": ["A", "B", "C"], "b": ["A", "B", None]})}, THEORY)
    with pytest.raises(LogicMPError, match=r"^Age, row 1, column 'n': expected a name or a whole number, got 0\.5\n"
                       "hint: convert the column to strings"):
        load_facts({"Age": KINDS[kind]({"a": ["A", "B"], "n": [0.5, 1.5]})}, THEORY)
    with pytest.raises(LogicMPError, match=r"^Smokes, row 2, column 'value': expected a number between 0 and 1, got 2"):
        load_facts({"Smokes": KINDS[kind]({"a": ["A", "B"], "value": [1.0, 2.0]})}, THEORY)


def test_a_frame_that_is_not_computed_yet() -> None:
    with pytest.raises(LogicMPError, match=r"^Friends: expected a table, got a LazyFrame, which is not computed yet\n"
                       r"hint: call \.collect\(\) on it$"):
        load_facts({"Friends": polars.LazyFrame({"a": ["A"], "b": ["B"]})}, THEORY)


@pytest.mark.parametrize("kind", ["pandas", "polars", "lists"])
def test_frames_are_read_without_pyarrow(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    table = KINDS[kind]({"a": ["Anna", "Bob"], "b": ["Bob", "Carl"]})
    assert show(load_facts({"Friends": table}, THEORY)) == ["Friends(Anna,Bob) 1", "Friends(Bob,Carl) 1"]


def test_integers_are_numbered_in_order_of_appearance() -> None:
    rng = np.random.default_rng(0)
    for low, high, kind in ((0, 9, int), (-5, 5, int), (10**9, 10**9 + 7, int), (-2**62, 2**62, int),
                            # the difference of two of them is none of them
                            (-128, 128, np.int8), (-500, 500, np.int16), (2**64 - 9, 2**64, np.uint64)):
        column = rng.integers(low, high, 40, dtype=kind)
        chunks = pyarrow.chunked_array([column[:30], column[30:30], column[30:]])
        for table in ({"x": column}, pyarrow.table({"x": chunks})):
            found = load_facts({"Smokes": table}, THEORY).tables["Smokes"]
            assert [row[0] for row in found.args] == [str(x) for x in dict.fromkeys(column.tolist())]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "friends.csv"
    path.write_text('a,b,value\nAnna,"de Bob, B.",1\nBob,Anna,0.5\n\nCarl, Anna,\n')
    got = load_facts([f"Friends={path}"], THEORY)
    assert show(got) == ["Friends(Anna,de Bob, B.) 1", "Friends(Bob,Anna) 0.5", "Friends(Carl,Anna) nan"]
    more = tmp_path / "more.db"
    more.write_text("Smokes(Anna)\nFriends(Anna, Eve)\n")
    both = load_facts([f"Friends={path}", more], THEORY)
    assert show(both)[3:] == ["Friends(Anna,Eve) 1", "Smokes(Anna) 1"]


def test_an_unreadable_parquet_file(tmp_path: Path) -> None:
    (tmp_path / "friends.parquet").write_text("a,b\n")
    with pytest.raises(LogicMPError, match=r"^cannot read .*friends\.parquet"):
        load_facts(f"Friends={tmp_path / 'friends.parquet'}", THEORY)


def test_parquet(tmp_path: Path) -> None:
    table = pyarrow.table({"a": ["Anna", "Bob"], "b": ["Bob", "Carl"]})
    parquet.write_table(table, tmp_path / "friends.parquet")
    want = show(parse_facts("Friends(Anna,Bob)\nFriends(Bob,Carl)", THEORY))
    assert show(load_facts(f"Friends={tmp_path / 'friends.parquet'}", THEORY)) == want
    assert show(load_facts({"Friends": table}, THEORY)) == want


def test_infer_takes_tables() -> None:
    rules = "Friends(p, p)\nSmokes(p)\n2 Friends(x,y) ^ Smokes(x) => Smokes(y)"
    tables = {"Friends": {"a": ["A"], "b": ["B"]}, "Smokes": {"x": ["A"]}}
    got = infer(rules, tables, "Smokes")
    assert dict(got) == dict(infer(rules, "Friends(A,B)\nSmokes(A)", "Smokes"))


@pytest.mark.parametrize("given, message", [
    ({"Freinds": {"a": ["A"]}}, "predicate 'Freinds' is used but not declared\nhint: did you mean 'Friends'?"),
    ({"Friends": {"a": ["A"]}}, "Friends: 1 columns ('a'), expected 2, because Friends(person, person)"),
    ({"Friends": {"a": ["A", "B"], "b": ["A", None]}}, "Friends, row 2, column 'b': the constant is missing"),
    ({"Friends": {"a": ["A", "B"], "b": ["A", 0.5]}},
     "Friends, row 2, column 'b': expected a name or a whole number, got 0.5"),
    ({"Friends": {"a": ["A", "B"], "b": ["A"]}}, "Friends: the columns have different lengths: 'a' 2, 'b' 1"),
    ({"Smokes": {"x": ["A", "B"], "value": [1, 2]}},
     "Smokes, row 2, column 'value': expected a number between 0 and 1, got 2"),
    ({"Smokes": {"x": ["A", "B"], "value": ["1", "yes"]}},
     "Smokes, row 2, column 'value': expected a number between 0 and 1, got 'yes'"),
    ({"Smokes": 3}, "Smokes: expected a table, got a int"),
    ({"label": {"t": [1, 2], "l": ["O", "X"]}}, "label, row 2, column 'l': 'X' is not a label of label"),
    ({"Likes": {"a": ["A", "B"], "c": ["Red", "Blue"]}},
     "'Blue' is not a constant of type 'color', whose constants are listed\n --> Likes, row 2, column 'c'"),
    ({"Smokes": {"x": ["A", "B", "A"], "value": [1, 0, 0]}},
     "Smokes(A) is given two different values\n --> Smokes, row 1\n --> Smokes, row 3"),
])
def test_errors_name_the_place(given: dict[str, Any], message: str) -> None:
    with pytest.raises(LogicMPError, match="^" + re.escape(message)):
        load_facts(given, THEORY)


def test_errors_of_files(tmp_path: Path) -> None:
    path = tmp_path / "friends.csv"
    path.write_text("a,b\nA,B\nA\n")
    with pytest.raises(LogicMPError, match=r"friends.csv, row 2: 1 fields, but the header has 2"):
        load_facts(f"Friends={path}", THEORY)
    with pytest.raises(LogicMPError, match="is a table, and does not name its predicate\nhint: write Friends="):
        load_facts(path, THEORY)
    with pytest.raises(LogicMPError, match=r"^cannot read .*none\.csv"):
        load_facts(f"Friends={tmp_path / 'none.csv'}", THEORY)


def test_repeated_rows_are_kept_once_with_a_warning() -> None:
    facts = load_facts({"Smokes": {"x": ["A", "B", "A"]}}, THEORY)
    assert show(facts) == ["Smokes(A) 1", "Smokes(B) 1"]
    assert facts.warnings == ["Smokes: 1 fact of Smokes is given again, first on row 3"]


@pytest.mark.parametrize("text, is_plain", [
    ("a,b\nAnna,Bob\n\nBob,Carl\n", True), ("a,b,value\nAnna,Bob,1\nBob,Carl,\nAnna,Carl,0.25\n", True),
    ('a,b\n"Anna",Bob\n', False), ("a, b\nAnna, Bob\n", False), ("a,b\r\nAnna,Bob\r\n", False)])
def test_plain_files_are_read_without_python_objects(tmp_path: Path, text: str, is_plain: bool,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "friends.csv"
    path.write_text(text, newline="")
    got = load_facts(f"Friends={path}", THEORY).tables["Friends"]
    assert (tables._read_plain_csv(path) is not None) == is_plain
    monkeypatch.setattr(tables, "_read_plain_csv", lambda path: None)
    want = load_facts(f"Friends={path}", THEORY).tables["Friends"]
    assert got.args == want.args
    np.testing.assert_array_equal(got.values, want.values)


SAME = parse_theory("symmetric Same(record, record)\n2 Same(a,b) ^ Same(b,c) => Same(a,c)")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", tables.SCORES)
def test_a_score_becomes_soft_evidence(kind: str, name: str) -> None:
    if kind == "2-d array":
        # its columns have no names
        return
    scores = [0.9, 0.25] if name in tables.PROBABILITIES else [np.log(9), np.log(1 / 3)]
    got = load_facts({"Same": KINDS[kind]({"a": [1, 2], "b": [2, 3], name: scores})}, SAME).tables["Same"].values
    np.testing.assert_allclose(got, [0.9, 0.25], rtol=1e-12)


def test_a_score_is_never_certain_but_an_infinite_logit_is() -> None:
    for name, scores, want in (("score", [0, 1], [1e-6, 1 - 1e-6]), ("logit", [-np.inf, np.inf, 99, np.nan],
                               [0, 1, 1 / (1 + np.exp(-30)), np.nan]), ("value", [0, 1], [0, 1])):
        np.testing.assert_array_equal(tables.read_values(scores, "Same", name), want)


def test_a_column_of_scores_can_be_an_argument() -> None:
    theory = parse_theory("Rated(film, score)")
    assert show(load_facts({"Rated": {"film": ["Up"], "score": [3]}}, theory)) == ["Rated(Up,3) 1"]
    assert show(load_facts({"Rated": {"film": ["Up"], "n": [3], "score": [0.5]}}, theory)) == ["Rated(Up,3) 0.5"]


@pytest.mark.parametrize("columns, message", [
    ({"scor": [0.5]}, "3 columns ('a', 'b', 'scor'), expected 2, because symmetric Same(record, record)\n"
                      "hint: rename the column 'scor' to 'score'"),
    ({"Probability": [0.5]}, "hint: rename the column 'Probability' to 'probability'"),
    ({"x": [0.5]}, "hint: one column for each argument, in order, and a column 'value', 'score', 'probability' or "
                   "'logit' if not all facts are true"),
    ({"score": [0.5], "logit": [1]}, "the columns 'score' and 'logit' both give the value of a fact\n"
                                     "hint: keep one of them"),
    ({"score": [1.5]}, "row 1, column 'score': expected a number between 0 and 1, got 1.5\nhint: a probability, empty "
                       "for unobserved; name the column 'logit' if it has log-odds"),
    ({"logit": ["high"]}, "row 1, column 'logit': expected a number, got 'high'"),
])
def test_a_wrong_column_of_scores_is_named(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(LogicMPError, match=re.escape(message)):
        load_facts({"Same": {"a": [1], "b": [2], **columns}}, SAME)
