"""The rows of joins as Parquet parts: all of them, each in the part of its variable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from logicmp import LogicMPError
from logicmp.cli.app import app
from logicmp.facts.stores import read_parts

RULES = ("Friends(person, person)\nSmokes(person)\n"
         "1 Friends(x,y) ^ Friends(y,z) ^ Friends(x,z) ^ Smokes(x) => Smokes(z)\n")
N = 1100


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """More than a million pairs, so that Friends is a list: a ring and its chords, which make N triangles."""
    (tmp_path / "rules.mln").write_text(RULES)
    (tmp_path / "facts.db").write_text("".join(f"Friends(P{k}, P{(k + step) % N})\n" for k in range(N)
                                               for step in (1, 2)))
    return [str(tmp_path / "rules.mln"), "--sql", "-e", str(tmp_path / "facts.db"), "-q", "Smokes"]


@pytest.mark.parametrize("engine", ["torch", "duckdb"])
def test_parts_of_a_join(files: list[str], tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    app(["explain", *files, "--rows", str(tmp_path / "rows"), "--parts", "3", "--engine", engine],
        standalone_mode=False)
    out, err = capsys.readouterr()
    assert "-- line 3: 1 Friends(x, y) ^ Friends(y, z)" in out
    folders = sorted((tmp_path / "rows").iterdir())
    assert f"1,100 rows of {len(folders)} join" in err
    for folder in folders:
        assert (folder / "join.sql").read_text().startswith("SELECT x, z\nFROM (SELECT")
        table = read_parts(folder).to_pydict()
        # the constants are numbered in the order of the facts
        rows = set(zip(table["x"], table["z"], strict=True))
        assert len(rows) == len(table["x"]) == N
        parts = [parquet.read_table(path).to_pydict() for path in sorted(folder.glob("*.parquet"))]
        assert len(parts) == 3
        assert any(all(bool((np.array(part[name]) % 3 == k).all()) for k, part in enumerate(parts)) for name in "xz")


def test_rows_need_sql(files: list[str], tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match="--rows needs --sql"):
        app(["explain", *[word for word in files if word != "--sql"], "--rows", str(tmp_path)], standalone_mode=False)
