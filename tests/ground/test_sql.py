"""Joins as SQL: the text, and its rows in DuckDB and in the built-in join."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from test_sparse import random_case

from logicmp import CostError, normalize_theory, parse_theory
from logicmp.execute.sparse import build_sparse_executor
from logicmp.facts.supports import make_support
from logicmp.ground.engine import BuiltIn, Grounding, Share
from logicmp.ground.patterns import Joined, Pattern
from logicmp.ground.sql import Recorded, Tables, column_names, join_sql
from logicmp.plan.eliminate import build_rows

N = 6
# a ring, a chord, and a loop
RING = [np.array([0, 1, 2, 3, 4, 5, 0, 4]), np.array([1, 2, 3, 4, 5, 0, 2, 4])]

TEXTS = {
    # the list with the fewest rows comes first; x != z is a condition of the literal that has both
    "C(t, t)\nD(t, t)\n2 C(x,y) ^ C(y,z) ^ x != z => D(x,z)": """\
SELECT r0, r1, r2
FROM (SELECT a0 AS x, a1 AS z, place AS r2 FROM p_d WHERE a0 <> a1) AS t2
JOIN (SELECT a0 AS x, a1 AS y, place AS r0 FROM p_c) AS t0 USING (x)
JOIN (SELECT a0 AS y, a1 AS z, place AS r1 FROM p_c) AS t1 USING (y, z)""",
    # a constant, and a variable that is no letter
    "t = {A, B, E, F, G, H}\nC(t, t)\nS(t)\n2 C(B,who) => S(who)":
        "SELECT v_who, r0\nFROM (SELECT a1 AS v_who, place AS r0 FROM p_c WHERE a0 = 1) AS t0",
    # a repeated variable
    "C(t, t)\nS(t)\n2 C(x,x) ^ C(x,y) => S(y)": """\
SELECT y, r0, r1
FROM (SELECT a0 AS x, place AS r0 FROM p_c WHERE a0 = a1) AS t0
JOIN (SELECT a0 AS x, a1 AS y, place AS r1 FROM p_c) AS t1 USING (x)""",
    # an offset and its window
    "C(t, t)\nS(t)\n2 C(i,i+1) => S(i)": "SELECT i, r0\nFROM (SELECT a0 AS i, place AS r0 FROM p_c WHERE a0 < 5 AND "
                                         "a0 = a1 - 1) AS t0",
}


@pytest.mark.parametrize("rule", TEXTS)
def test_texts(rule: str) -> None:
    """The text that DuckDB and Spark run."""
    assert TEXTS[rule] in texts(rule, ["C", "D"])


def test_observed_rows_are_counted_by_groups() -> None:
    # C(y,z) is counted by y before it meets C(x,y)
    assert texts("C(t, t)\nS(t)\n2 C(x,y) ^ C(y,z) => S(x)", ["C"], ["C"])[0] == (
        "SELECT y, count(*) AS n\nFROM (SELECT a0 AS y, a1 AS z FROM p_c) AS t0\nGROUP BY y")


def test_the_share_of_a_rank() -> None:
    pattern = Pattern(("x", "y"), tuple(c.astype(np.int32) for c in RING), (N, N))
    source = Tables().sources([pattern])
    told = [join_sql([pattern], source, [0], [], share=Share(rank, 2, by_range)).splitlines()[-1]
            for by_range in (False, True) for rank in (0, 1)]
    assert told == ["WHERE x % 2 = 0", "WHERE x % 2 = 1", "WHERE x >= 0 AND x < 3", "WHERE x >= 3 AND x < 6"]


def texts(rule: str, sparse: list[str], observed: list[str] | None = None) -> list[str]:
    theory = parse_theory(rule)
    sizes = {"t": N}
    supports = {name: make_support(theory.predicate[name], RING, sizes) for name in sparse if name in theory.predicate}
    recorded = Recorded()
    build_rows(normalize_theory(theory, sizes=sizes), sizes, supports, observed or [], grounding=Grounding(recorded))
    return recorded.statements


def test_names_that_sql_does_not_distinguish() -> None:
    columns = (np.zeros(1, dtype=np.int32),) * 4
    assert column_names([Pattern(("x", "X", "select", "n"), columns, (1, 1, 1, 1))]) == {
        "x": "x", "X": "w_1", "select": "v_select", "n": "v_n"}


class Both:
    """The built-in join and DuckDB, which must have the same rows."""

    def __init__(self) -> None:
        from logicmp.ground.duckdb import DuckDB

        self.duckdb, self.n = DuckDB(100_000_000), 0

    def join(self, patterns, wanted, keep, guard, conditions, is_grouped, share):  # type: ignore[no-untyped-def]
        for part in (share, Share(0, 2), Share(1, 2), Share(0, 2, True), Share(1, 2, True)):
            want = BuiltIn().join(patterns, wanted, keep, guard, conditions, is_grouped, part)
            got = self.duckdb.join(patterns, wanted, keep, guard, conditions, is_grouped, part)
            assert counted(got, keep, wanted) == counted(want, keep, wanted)
            self.n += 1
        return self.duckdb.join(patterns, wanted, keep, guard, conditions, is_grouped, share)

    def close(self) -> None:
        self.duckdb.close()


def counted(found: Joined, keep: list[str], wanted: list[int]) -> Counter[tuple[int, ...]]:
    """How often each row is there."""
    columns = [found.columns[n].tolist() for n in sorted(keep)] + [found.places[k].tolist() for k in sorted(wanted)]
    rows = list(zip(*columns, strict=True)) if columns else [()] * found.n
    total: Counter[tuple[int, ...]] = Counter()
    for row, n in zip(rows, [1] * found.n if found.counts is None else found.counts.tolist(), strict=True):
        total[row] += int(n)
    return +total


def test_engines_have_the_same_rows_on_random_theories() -> None:
    both = Both()
    for seed in range(10):
        case = random_case(seed)
        if case is None:
            continue
        try:
            build_sparse_executor(case.theory, case.sizes, case.supports, case.observed, case.semantics,
                                  grounding=Grounding(both))
        except CostError:
            # quantifiers over all constants are rejected
            continue
    both.duckdb.close()
    assert both.n > 40
