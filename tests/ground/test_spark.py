"""Spark runs the same text as DuckDB; `make test` holds the text (test_sql.py), and this one runs it."""

from __future__ import annotations

import shutil

import pytest
from test_sparse import RULES, case_of
from test_sql import counted

from logicmp.execute.sparse import build_sparse_executor
from logicmp.ground.engine import BuiltIn, Grounding, Share


# no warning about the version of pandas, or about columns that torch cannot write
@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_spark_has_the_same_rows() -> None:
    assert shutil.which("java"), "Spark needs Java, which is not installed"
    from logicmp.ground.spark import Spark

    spark = Spark("local[2]")
    n = 0

    class Both:
        def join(self, patterns, wanted, keep, guard, conditions, is_grouped, share):  # type: ignore[no-untyped-def]
            nonlocal n
            n += 1
            want = BuiltIn().join(patterns, wanted, keep, guard, conditions, is_grouped, Share(1, 2))
            got = spark.join(patterns, wanted, keep, guard, conditions, is_grouped, Share(1, 2))
            assert counted(got, keep, wanted) == counted(want, keep, wanted)
            assert all(column.flags.writeable for column in (*got.columns.values(), *got.places.values()))
            return spark.join(patterns, wanted, keep, guard, conditions, is_grouped, share)

        def close(self) -> None:
            spark.close()

    for name in ("transitivity", "four-cycle", "inequality", "offsets", "constants"):
        text, sparse, observed = RULES[name]
        case = case_of(text, sparse, observed=observed)
        build_sparse_executor(case.theory, case.sizes, case.supports, case.observed, case.semantics,
                              grounding=Grounding(Both()))
    spark.close()
    assert n > 8
