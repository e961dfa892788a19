"""The table of compile times, at small sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import compile_time
from benchmarks.case import Disagreement


def test_the_table_has_a_row_for_each_size_and_one_for_the_layer(tmp_path: Path,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    assert compile_time.main(["--tokens", "3", "--layer-tokens", "8", "--json", str(path)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].startswith("| 3 | 9 | 12 |") and rows[3].startswith("| 8, layer | 64 | 512 |")
    assert json.loads(path.read_text())["circuits"][0]["models"] == 171


def test_a_row_stops_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = compile_time.Row(8, 64, 512, 0.01)
    assert "| 4 | 16 | 36 | > 0 |" in compile_time.as_markdown([compile_time.compile_row(4, 0.0)], layer, 0.0)
    # a process that does not check the clock is stopped from outside
    monkeypatch.setattr(compile_time, "COMPILE", "import time\ntime.sleep(60)")
    monkeypatch.setattr(compile_time, "GRACE_SECONDS", 0.1)
    assert compile_time.compile_row(3, 0.1).seconds is None


def test_a_circuit_with_a_wrong_count_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_time, "COMPILE", "print(0.1, 52, 118, 172)")
    with pytest.raises(Disagreement, match="172 models, expected 171"):
        compile_time.compile_row(3, 10)
