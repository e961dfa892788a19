"""Joins of sorted columns against nested loops, and the counts that are known before rows are made."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from logicmp.facts.supports import make_support
from logicmp.ground import patterns as module
from logicmp.ground.patterns import Pattern, box, estimate_rows, join_patterns, project, select, sort_order
from logicmp.normalize.cubes import Const, Differ, Same, Var
from logicmp.parse.load import parse_theory

N = 5


def random_pattern(rng: np.random.Generator, names: tuple[str, ...], share: float = 0.4) -> Pattern:
    columns = np.nonzero(rng.random((N,) * len(names)) < share)
    return Pattern(names, tuple(c.astype(np.int32) for c in columns), (N,) * len(names))


def rows_of(p: Pattern) -> set[tuple[int, ...]]:
    return set(zip(*(c.tolist() for c in p.columns), strict=True))


SHAPES = {
    "one": ["xy"], "chain": ["xy", "yz"], "triangle": ["xy", "yz", "xz"], "square": ["ab", "bc", "cd", "da"],
    "apart": ["xy", "z"], "inside": ["xyz", "xz", "y"], "same": ["xy", "xy"],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("piece", [1, 7, 2**22])
def test_a_join_has_the_rows_of_nested_loops(shape: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", piece)
    rng = np.random.default_rng(0)
    patterns = [random_pattern(rng, tuple(names)) for names in SHAPES[shape]]
    names = sorted({n for p in patterns for n in p.names})
    conditions = [Differ(Var(names[0]), Var(names[1]))]
    got = join_patterns(patterns, range(len(patterns)), names, lambda n: None, conditions)
    want = []
    for values in itertools.product(range(N), repeat=len(names)):
        at = dict(zip(names, values, strict=True))
        if at[names[0]] != at[names[1]] and all(tuple(at[n] for n in p.names) in rows_of(p) for p in patterns):
            want.append(values)
    found = list(zip(*(got.columns[n].tolist() for n in names), strict=True))
    assert sorted(found) == want
    assert got.n == len(want)
    for k, p in enumerate(patterns):
        for row, place in zip(found, got.places[k].tolist(), strict=True):
            at = dict(zip(names, row, strict=True))
            assert tuple(int(c[place]) for c in p.columns) == tuple(at[n] for n in p.names)


def test_the_estimate_is_exact_for_two_lists() -> None:
    rng = np.random.default_rng(1)
    pair = [random_pattern(rng, ("x", "y")), random_pattern(rng, ("y", "z"))]
    assert estimate_rows(pair) == join_patterns(pair, (), (), lambda n: None).n
    assert estimate_rows(pair[:1]) == pair[0].n


def test_rows_are_counted_before_the_last_ones_are_made() -> None:
    hub = Pattern(("x", "y"), (np.zeros(1000, dtype=np.int32), np.arange(1000, dtype=np.int32)), (1, 1000))
    asked: list[int] = []
    join_patterns([hub, hub.renamed(("x", "z"))], (), ("y", "z"), asked.append)
    assert max(asked) == 1_000_000

    def guard(n: int) -> None:
        if n > 10_000:
            raise MemoryError

    with pytest.raises(MemoryError):
        join_patterns([hub, hub.renamed(("x", "z"))], (), ("y", "z"), guard)


def test_select() -> None:
    predicate = parse_theory("F(t, t)").predicate["F"]
    support = make_support(predicate, [np.array([0, 0, 1, 2, 3]), np.array([0, 1, 2, 3, 0])], {"t": 4})
    x, y = Var("x"), Var("y")
    everything = {"x": (0, 4), "y": (0, 4)}
    assert rows_of(select(support, (x, y), everything)) == {(0, 0), (0, 1), (1, 2), (2, 3), (3, 0)}
    assert rows_of(select(support, (x, y), everything, [Differ(x, y)])) == {(0, 1), (1, 2), (2, 3), (3, 0)}
    assert rows_of(select(support, (x, y), everything, [Same(x, y)])) == {(0, 0)}
    assert rows_of(select(support, (x, x), everything)) == {(0,)}
    assert rows_of(select(support, (x, Const(3)), everything)) == {(2,)}
    assert rows_of(select(support, (Var("x"), Var("x", 1)), {"x": (0, 3)})) == {(0,), (1,), (2,)}
    assert rows_of(select(support, (x, y), {"x": (1, 3), "y": (0, 4)})) == {(1, 2), (2, 3)}
    assert select(support, (Const(1), Const(2)), {}).n == 1
    assert select(support, (Const(1), Const(1)), {}).n == 0
    # the place of a row is that of its atom
    assert select(support, (x, Const(3)), everything).places.tolist() == [3]


def test_project_and_box() -> None:
    pattern, number = project([np.array([2, 0, 2]), np.array([1, 1, 1])], ("x", "y"), (3, 2))
    assert [c.tolist() for c in pattern.columns] == [[0, 2], [1, 1]]
    assert number.tolist() == [1, 0, 1]
    assert rows_of(box(("x", "y"), [(1, 3), (0, 2)], (3, 2))) == {(1, 0), (1, 1), (2, 0), (2, 1)}


def test_sort_order_of_large_keys() -> None:
    keys = np.array([2**40, 5, 2**40, 1])
    assert sort_order(keys).tolist() == [3, 1, 0, 2]
