"""Facts divided over processes: together the shares are the whole table, and every process knows all constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logicmp import LogicMPError, load_facts, parse_theory
from logicmp.facts import divided, stores
from logicmp.facts.columns import Evidence
from logicmp.facts.divided import Division
from logicmp.facts.stores import write_parts

RULES = "Friends(person, person)\nSmokes(person)\n1 Friends(x, y) ^ Smokes(x) => Smokes(y)"


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PIECE", 7)


def columns(seed: int = 0, n: int = 60, n_people: int = 25) -> dict[str, np.ndarray]:
    """Random facts; half of them are those of one person, and one is given twice."""
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, n_people, n), rng.integers(0, n_people, n)
    one[: n // 2] = 3
    keys = rng.permutation(np.unique(one * n_people + other))
    keys = np.append(keys, keys[0])
    return {"one": keys // n_people, "other": keys % n_people}


def parts(folder: Path, seed: int = 0) -> str:
    found = columns(seed)
    pieces = [np.array_split(column, 3) for column in found.values()]
    write_parts(folder, [dict(zip(found, part, strict=True)) for part in zip(*pieces, strict=True)])
    return f"Friends={folder}/"


def shares(place: Any, size: int, rules: str = RULES, **options: Any) -> list[Evidence]:
    theory = parse_theory(rules)
    return [load_facts(place, theory, division=Division(("Friends",), rank, size), **options) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 40])
@pytest.mark.parametrize("seed", range(3))
def test_shares_are_the_whole_table(tmp_path: Path, size: int, seed: int) -> None:
    place = parts(tmp_path / "friends", seed)
    whole = load_facts(place, parse_theory(RULES))
    found = shares(place, size)
    for evidence in found:
        assert evidence.theory == whole.theory
        assert evidence.tables["Friends"].is_share
    together = [args for evidence in found for args in evidence.tables["Friends"].args]
    assert sorted(together) == sorted(whole.tables["Friends"].args)


def test_a_share_has_its_part_of_the_facts(tmp_path: Path) -> None:
    lengths = [len(evidence) for evidence in shares(parts(tmp_path / "friends"), 2)]
    # the first argument is one person half of the time, so the second one splits them
    assert max(lengths) < 0.65 * sum(lengths)


def test_pieces_of_every_kind_of_table(tmp_path: Path) -> None:
    import duckdb
    import pyarrow
    from pyarrow import parquet

    found = columns()
    frame = pyarrow.table(found)
    parquet.write_table(frame, tmp_path / "friends.parquet")
    (tmp_path / "friends.csv").write_text("one,other\n" + "".join(f"{a},{b}\n" for a, b in zip(*found.values(),
                                                                                            strict=True)))
    with duckdb.connect(str(tmp_path / "friends.duckdb")) as connection:
        connection.sql("CREATE TABLE friends AS SELECT * FROM frame")
    want = [evidence.tables["Friends"].args for evidence in shares(parts(tmp_path / "friends"), 2)]
    for place in (f"Friends={tmp_path}/friends.parquet", f"Friends={tmp_path}/friends.csv",
                  f"Friends={tmp_path}/friends.duckdb#friends", {"Friends": frame}):
        assert [evidence.tables["Friends"].args for evidence in shares(place, 2)] == want


def test_names_are_numbered_as_in_one_process(tmp_path: Path) -> None:
    names = np.array(["Anna", "Bob", "7", "Zoë", "07"])
    write_parts(tmp_path / "friends", [{"a": names[[3, 1]], "b": names[[1, 2]]}, {"a": names[[0, 3, 4]],
                                                                              "b": names[[2, 0, 0]]}])
    place = f"Friends={tmp_path}/friends/"
    whole = load_facts(place, parse_theory(RULES))
    assert [evidence.theory == whole.theory for evidence in shares(place, 2)] == [True, True]


def test_false_facts_stay_false(tmp_path: Path) -> None:
    write_parts(tmp_path / "friends", [{"a": np.arange(20), "b": np.arange(20)[::-1], "value": np.arange(20) % 2}])
    found = [evidence.tables["Friends"] for evidence in shares(f"Friends={tmp_path}/friends/", 3)]
    assert sum(float(table.values.sum()) for table in found) == 10
    assert all(int(args[0]) % 2 == value for table in found
               for args, value in zip(table.args, table.values.tolist(), strict=True))


@pytest.mark.parametrize("value, message", [
    ([1.0, 0.3, 1.0], r"row 2: a fact of divided Friends must be true or false, got 0.3"),
    ([1.0, 1.0, np.nan], r"row 3: a fact of divided Friends must be true or false, got nan"),
])
def test_uncertain_facts_are_rejected(tmp_path: Path, value: list[float], message: str) -> None:
    write_parts(tmp_path / "friends", [{"a": np.arange(3), "b": np.arange(3), "value": np.array(value)}])
    with pytest.raises(LogicMPError, match=message):
        shares(f"Friends={tmp_path}/friends/", 2)


def test_an_error_in_a_later_piece_names_its_place(tmp_path: Path) -> None:
    write_parts(tmp_path / "friends", [{"a": np.array(["A"] * 9 + [None], dtype=object),
                                       "b": np.array([f"B{k}" for k in range(10)])}])
    with pytest.raises(LogicMPError, match="friends/, rows after 7, row 3, column 'a': the constant is missing"):
        shares(f"Friends={tmp_path}/friends/", 2)


def test_parts_with_different_columns(tmp_path: Path) -> None:
    write_parts(tmp_path / "friends", [{"a": np.arange(3), "b": np.arange(3)}, {"a": np.arange(3), "c": np.arange(3)}])
    with pytest.raises(LogicMPError, match=r"have different columns: a, b, and a, c in part-00001.parquet"):
        shares(f"Friends={tmp_path}/friends/", 2)


def test_constants_of_a_closed_type(tmp_path: Path) -> None:
    write_parts(tmp_path / "friends", [{"a": np.arange(8), "b": np.arange(8)}])
    rules = "person = {0, 1, 2, 3, 4, 5, 6}\n" + RULES
    for rank in range(2):
        with pytest.raises(LogicMPError, match="'7' is not a constant of type 'person'"):
            load_facts(f"Friends={tmp_path}/friends/", parse_theory(rules), division=Division(("Friends",), rank, 2))


@pytest.mark.parametrize("rules, message", [
    (f"symmetric {RULES}", "both orders are one atom"),
    ("Friends(person, person!)", "its atoms depend on each other"),
])
def test_predicates_that_cannot_be_divided(tmp_path: Path, rules: str, message: str) -> None:
    place = parts(tmp_path / "friends")
    with pytest.raises(LogicMPError, match=message):
        shares(place, 2, rules)


def test_other_sources_of_the_same_facts(tmp_path: Path) -> None:
    place = parts(tmp_path / "friends")
    (tmp_path / "more.db").write_text("Friends(1, 2)\n")
    for places in ([place, str(tmp_path / "more.db")], [str(tmp_path / "more.db"), place], [place, place]):
        with pytest.raises(LogicMPError, match="divided facts of Friends must come from one table"):
            shares(places, 2)
    with pytest.raises(LogicMPError, match="facts of Friends cannot be divided over processes: they are in no table"):
        shares([str(tmp_path / "more.db")], 2)
    with pytest.raises(LogicMPError, match="predicate 'Freinds' is used but not declared"):
        load_facts(place, parse_theory(RULES), division=Division(("Freinds",), 0, 2))


@pytest.mark.parametrize("last", [([1], [1]), ([1, 2, 2], [1, 2, 1]), ([1, 3], [1, 1])])
@pytest.mark.parametrize("n_before, is_whole", [(2, True), (1, True), (2, False)])
def test_a_table_that_changes_while_it_is_read(last: Any, n_before: int, is_whole: bool) -> None:
    made = np.array if is_whole else list
    given = iter([([1, 2], [1, 2])] * n_before + [last] * 2)

    def pieces() -> list[Any]:
        return [{name: made(column) for name, column in zip("ab", next(given), strict=True)}]

    predicate = parse_theory(RULES).predicate["Friends"]
    if n_before == 1 and last != ([1, 3], [1, 1]):
        # what changes before constants are numbered is read as it is then
        divided.read_share(predicate, pieces, Division(("Friends",), 0, 1), "Friends")
        return
    with pytest.raises(LogicMPError, match="Friends changed while it was read"):
        divided.read_share(predicate, pieces, Division(("Friends",), 0, 1), "Friends")
