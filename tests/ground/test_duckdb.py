"""DuckDB within a memory limit: it writes to disk, removes what it wrote, and reports a full disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logicmp import CostError, LogicMPError
from logicmp.ground.duckdb import DuckDB
from logicmp.ground.engine import BuiltIn, Share
from logicmp.ground.patterns import Pattern


def large(n: int = 1_000_000) -> list[Pattern]:
    """Two lists of about n rows, with a join of as many."""
    rng = np.random.default_rng(0)
    return [Pattern(names, tuple(c.astype(np.int32) for c in np.divmod(np.unique(rng.integers(0, n * n, n)), n)),
                    (n, n)) for names in (("x", "y"), ("y", "z"))]


def join(engine: object, patterns: list[Pattern]) -> object:
    return engine.join(patterns, [0, 1], [], lambda n: None, (), False, Share())  # type: ignore[attr-defined]


def test_a_join_beyond_the_memory_limit_is_written_to_disk(tmp_path: Path) -> None:
    patterns = large(1_500_000)
    engine = DuckDB(40_000_000, tmp_path)
    got, want = join(engine, patterns), join(BuiltIn(), patterns)
    assert got.n == want.n > 1_400_000
    # the same pairs of rows, in any order
    keys = [found.places[0].astype(np.int64) * 10_000_000 + found.places[1] for found in (got, want)]
    assert [int(k.sum()) for k in keys[:1]] == [int(k.sum()) for k in keys[1:]]
    assert int((keys[0] ** 2 % 1_000_003).sum()) == int((keys[1] ** 2 % 1_000_003).sum())
    assert engine.spilled > 1_000_000
    engine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_with_its_path_and_size(tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match=rf"cannot write more temporary files to '{tmp_path}.*limit 1 MB") as caught:
        # groups of pairs are written to disk too
        DuckDB(16_000_000, tmp_path, max_spill=1_000_000).join(large(800_000)[:1], [], ["x", "y"], lambda n: None, (),
                                                               True, Share())
    assert "TMPDIR" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_too_many_rows_are_noticed_while_they_are_read(tmp_path: Path) -> None:
    def guard(n: int) -> None:
        if n > 1000:
            raise CostError("too many", None)

    with pytest.raises(CostError, match="too many"):
        DuckDB(10**9, tmp_path).join(large(5_000), [0, 1], [], guard, (), False, Share())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(LogicMPError, match="no folder for temporary files"):
        join(DuckDB(10**8, Path("/nowhere")), large(1000))
