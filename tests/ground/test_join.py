"""Joins, and the two ways to number rows and ranges that the other files build on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logicmp.ground.join import Rows, Table, join, number_rows, ragged_ranges, table_of
from logicmp.ground.patterns import Listed, Pattern
from logicmp.normalize.cubes import Const, Differ, Same, Var


def brute_force(relations: list[Table], conditions: list[Same | Differ],
                windows: dict[str, tuple[int, int]]) -> set[tuple[int, ...]]:
    found = set()
    for values in itertools.product(*(range(*window) for window in windows.values())):
        bound = dict(zip(windows, values, strict=True))

        def value(term: Var | Const, bound: dict[str, int] = bound) -> int:
            return bound[term.name] + term.offset if isinstance(term, Var) else term.index

        if all(r.table[tuple(bound[name] for name in r.names)] for r in relations) and all(
                (value(c.left) == value(c.right)) == isinstance(c, Same) for c in conditions):
            found.add(values)
    return found


@pytest.mark.parametrize("piece", [2, 2**20])
def test_a_join_finds_exactly_the_bindings_that_satisfy_all_relations(piece: int,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logicmp.ground.join.PIECE", piece)
    rng = np.random.default_rng(0)
    for _ in range(200):
        sizes = {name: int(rng.integers(1, 5)) for name in "xyz"}
        windows = {name: (0, size) for name, size in sizes.items()}
        tables, relations = [], []
        for k in range(rng.integers(0, 4)):
            names = tuple(rng.permutation(list("xyz"))[: rng.integers(0, 4)].tolist())
            table = Table(names, rng.random([sizes[name] for name in names]) < rng.choice([0.2, 0.7, 1.0]))
            tables.append(table)
            relations.append(table if rng.random() < 0.5 else as_list(k, table, rng))
        terms = [Var("x"), Var("y"), Var("z", -1), Const(0)]
        conditions: list[Same | Differ] = []
        for _ in range(rng.integers(0, 3)):
            i, j = rng.choice(4, 2, replace=False)
            conditions.append((Same, Differ)[rng.integers(2)](terms[i], terms[j]))
        got: list[tuple[int, ...]] = []
        for rows in join(relations, conditions, windows, lambda n: None):
            assert 0 < rows.n <= piece
            got += zip(*(rows.columns[name].tolist() for name in windows), strict=True)
            for r in relations:
                if isinstance(r, Listed):
                    check_places(r, rows)
        assert set(got) == brute_force(tables, conditions, windows)
        assert len(got) == len(set(got))


def as_list(k: int, table: Table, rng: np.random.Generator) -> Listed:
    """The same relation as a list: of some places that allow it, or, negated, of all that do not and some others."""
    is_negated = bool(rng.integers(2))
    inside = ~table.table | (rng.random(table.sizes) < 0.3) if is_negated else table.table
    columns = tuple(c.astype(np.int32) for c in np.nonzero(inside)) if table.names else (
        np.zeros(int(inside), dtype=np.int32),)
    pattern = Pattern(table.names, columns, table.sizes or (1,))
    return Listed(k, pattern, table.table[inside].reshape(-1), is_negated, keep_places=True)


def check_places(r: Listed, rows: Rows) -> None:
    for row, place in enumerate(rows.places[r.number].tolist()):
        own = [int(rows.columns[name][row]) for name in r.names]
        at = [j for j in range(r.pattern.n) if [int(c[j]) for c in r.pattern.columns[: len(r.names)]] == own]
        assert [place] == (at or [-1])


def test_a_literal_with_constants_repeats_and_shifts_is_a_relation() -> None:
    table = np.arange(9).reshape(3, 3) % 2 == 0
    assert table_of(table, (Const(1), Var("y")), {"y": 3}).table.tolist() == table[1].tolist()
    shifted = table_of(table, (Var("i"), Var("i", 1)), {"i": 3})
    assert shifted.names == ("i",)
    assert shifted.table.tolist() == [bool(table[0, 1]), bool(table[1, 2]), False]


@given(st.integers(0, 2**32), st.integers(0, 30))
def test_equal_rows_get_equal_numbers_in_the_order_of_their_values(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [rng.integers(-3, 4, n), rng.integers(0, 2, n).astype(bool), rng.choice([0.5, -np.inf, 2.0], n),
             rng.choice(rng.integers(2**64, size=4, dtype=np.uint64), n), rng.choice([-2**62, 0, 2**62], n)]
    columns = [kinds[k] for k in rng.integers(len(kinds), size=rng.integers(1, 6))]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    known = sorted(set(rows))
    assert number_rows(*columns).tolist() == [known.index(row) for row in rows]


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), max_size=8))
def test_ragged_ranges_are_those_of_a_loop(ranges: list[tuple[int, int]]) -> None:
    first, counts = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    owner, number = ragged_ranges(first, counts)
    want = [(k, first + step) for k, (first, count) in enumerate(ranges) for step in range(count)]
    assert list(zip(owner.tolist(), number.tolist(), strict=True)) == want


def test_the_guard_sees_the_number_of_rows_before_they_are_made() -> None:
    seen: list[int] = []
    everything = Table(("x", "y"), np.ones((3, 4), dtype=bool))
    (rows,) = join([everything], [], {"x": (0, 3), "y": (0, 4)}, seen.append)
    assert rows.n == 12
    assert seen == [12]
