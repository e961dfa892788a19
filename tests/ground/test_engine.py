"""Shares of joins: those of all ranks together are the rows of one process, whatever the keys."""

from __future__ import annotations

import numpy as np
import pytest

from logicmp import LogicMPError
from logicmp.ground import engine
from logicmp.ground.engine import BuiltIn, Share, choose_variable, make_engine
from logicmp.ground.patterns import Joined, Pattern
from logicmp.normalize.cubes import Differ, Var

N = 40


def edges(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Distinct edges: at random, all at one hub, or between even numbers only."""
    a, b = rng.integers(0, N, (2, 150))
    if kind == "hub":
        a = np.where(rng.random(150) < 0.8, 3, a)
    if kind == "even":
        a, b = a // 2 * 2, b // 2 * 2
    keys = np.unique(a * N + b)
    return (keys // N).astype(np.int32), (keys % N).astype(np.int32)


def rows_of(found: Joined) -> list[tuple[int, ...]]:
    columns = [*(found.columns[n] for n in sorted(found.columns)), *(found.places[k] for k in sorted(found.places))]
    return sorted(zip(*(c.tolist() for c in columns), strict=True))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["random", "hub", "even"])
@pytest.mark.parametrize("by_range", [False, True])
def test_shares_add_up(kind: str, n: int, by_range: bool) -> None:
    first, second = (edges(kind, np.random.default_rng(seed)) for seed in (0, 1))
    patterns = [Pattern(("x", "y"), first, (N, N)), Pattern(("y", "z"), second, (N, N)),
                Pattern(("x", "z"), first, (N, N))]
    for chosen in (patterns[:1], patterns[:2], patterns):
        names = list(dict.fromkeys(name for p in chosen for name in p.names))
        conditions = [Differ(Var("x"), Var("z"))] if "z" in names else []
        parts = [BuiltIn().join(chosen, range(len(chosen)), names, lambda n: None, conditions, False,
                                Share(rank, n, by_range)) for rank in range(n)]
        whole = BuiltIn().join(chosen, range(len(chosen)), names, lambda n: None, conditions, False, Share())
        assert whole.n > 20 or kind == "even"
        assert sorted(row for part in parts for row in rows_of(part)) == rows_of(whole)


@pytest.mark.parametrize("by_range", [False, True])
def test_a_hub_does_not_decide_the_shares(by_range: bool) -> None:
    hub = Pattern(("x", "y"), (np.full(30, 7), np.arange(30)), (N, N))
    assert choose_variable([hub], Share(0, 3, by_range))[0] == "y"
    sizes = [BuiltIn().join([hub], [0], [], lambda n: None, (), False, Share(rank, 3, by_range)).n for rank in range(3)]
    assert sizes == [10, 10, 10]


def test_ranges_of_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are counted by ranges, and in pieces; the parts are nearly equal, and in order."""
    monkeypatch.setattr(engine, "MAX_BINS", 64)
    monkeypatch.setattr(engine, "PIECE", 100)
    rng = np.random.default_rng(0)
    column = np.sort((1000 * rng.random(5000) ** 3).astype(np.int32))
    pattern = Pattern(("x",), (column,), (1000,))
    parts = [BuiltIn().join([pattern], [], ["x"], lambda n: None, (), False, Share(rank, 4, by_range=True))
             for rank in range(4)]
    assert np.concatenate([part.columns["x"] for part in parts]).tolist() == column.tolist()
    # a quarter of all rows is in the first sixty-fourth of the values
    assert max(part.n for part in parts) < 1.6 * 5000 / 4


def test_unknown_engine() -> None:
    with pytest.raises(LogicMPError, match="unknown engine 'sqlite'"):
        make_engine("sqlite")
