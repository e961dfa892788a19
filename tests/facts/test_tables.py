"""Facts from tables equal the same facts as text; errors name file or predicate, row and column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logicmp import Evidence, LogicMPError, infer, load_facts, parse_facts, parse_theory

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


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    """The same table in every form that is installed."""
    pandas = pytest.importorskip("pandas")
    names = list(columns)
    found = [columns, {name: np.array(column, dtype=object) for name, column in columns.items()},
             np.array(list(zip(*columns.values(), strict=True)), dtype=object), pandas.DataFrame(columns),
             pandas.DataFrame(columns, index=range(7, 7 + len(columns[names[0]]))),
             pandas.DataFrame(columns).astype("category")]
    return found


@pytest.mark.parametrize("kind", range(6))
def test_tables_equal_text(kind: int) -> None:
    friends = {"a": ["Anna", "Bob", "Anna"], "b": ["Bob", "Carl", "Dora"]}
    age = {"who": ["Bob", "Anna"], "years": [31, 7]}
    label = {"token": [1, 2], "label": ["O", "B"]}
    got = load_facts({name: frames(table)[kind] for name, table in
                      (("Friends", friends), ("Age", age), ("label", label))}, THEORY)
    want = parse_facts("Friends(Anna,Bob)\nFriends(Bob,Carl)\nFriends(Anna,Dora)\nAge(Bob,31)\nAge(Anna,7)\n"
                       "label(1) = O\nlabel(2) = B", THEORY)
    assert show(got) == show(want)
    assert got.theory == want.theory


def test_values_of_facts() -> None:
    table = {"x": ["A", "B", "C", "D"], "value": [1, 0, 0.25, None]}
    assert show(load_facts({"Smokes": table}, THEORY)) == [
        "Smokes(A) 1", "Smokes(B) 0", "Smokes(C) 0.25", "Smokes(D) nan"]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "friends.csv"
    path.write_text('a,b,value\nAnna,"de Bob, B.",1\nBob,Anna,0.5\n\nCarl, Anna,\n')
    got = load_facts([f"Friends={path}"], THEORY)
    assert show(got) == ["Friends(Anna,de Bob, B.) 1", "Friends(Bob,Anna) 0.5", "Friends(Carl,Anna) nan"]
    more = tmp_path / "more.db"
    more.write_text("Smokes(Anna)\nFriends(Anna, Eve)\n")
    both = load_facts([f"Friends={path}", more], THEORY)
    assert show(both)[3:] == ["Friends(Anna,Eve) 1", "Smokes(Anna) 1"]


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

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


@pytest.mark.parametrize("tables, message", [
    ({"Freinds": {"a": ["A"]}}, "predicate 'Freinds' is used but not declared\nhint: did you mean 'Friends'?"),
    ({"Friends": {"a": ["A"]}}, "Friends: 1 columns ('a'), expected 2, because Friends(person, person)"),
    ({"Friends": {"a": ["A", "B"], "b": ["A", None]}}, "Friends, row 2, column 'b': the constant is missing"),
    ({"Friends": {"a": ["A", "B"], "b": ["A", 0.5]}},
     "Friends, row 2, column 'b': expected a name or a whole number, got 0.5"),
    ({"Friends": {"a": ["A", "B"], "b": ["A"]}}, "Friends: the columns have different lengths: 'a' 2, 'b' 1"),
    ({"Smokes": {"x": ["A", "B"], "value": [1, 2]}},
     "Smokes, row 2, column 'value': expected a number between 0 and 1, got 2"),
    ({"Smokes": {"x": ["A"], "value": ["yes"]}}, "Smokes, column 'value': could not convert string to float: 'yes'"),
    ({"Smokes": 3}, "Smokes: expected a table, got a int"),
    ({"label": {"t": [1], "l": ["X"]}}, "label: 'X' is not a label of label"),
    ({"Likes": {"a": ["A", "B"], "c": ["Red", "Blue"]}},
     "'Blue' is not a constant of type 'color', whose constants are listed\n --> Likes, row 2"),
    ({"Smokes": {"x": ["A", "B", "A"], "value": [1, 0, 0]}},
     "Smokes(A) is given two different values\n --> Smokes, row 1\n --> Smokes, row 3"),
])
def test_errors_name_the_place(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(LogicMPError, match="^" + re.escape(message)):
        load_facts(tables, THEORY)


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
    assert facts.warnings == ["Smokes: 1 fact of Smokes is given again, first on line 3"]
