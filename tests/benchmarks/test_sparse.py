"""The benchmark of sparse worlds runs every case on a small world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.sparse import CASES, METHODS, main


def test_every_case_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--n", "1500", "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(CASES) <= set(found)
    assert found["smokers"]["iteration, s"] > 0
    for name in METHODS:
        assert found[name]["answers"] == 3000
        assert 0 < found[name]["largest memory, GiB"] < 1
    assert found["transitivity"]["candidates"] == 136 * 110
    assert "with the layer, s" in capsys.readouterr().out


def test_an_unknown_case_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["smoker"])
    told = capsys.readouterr().err
    assert "unknown case 'smoker', available: smokers, bp, map, gibbs, auto, transitivity, graph" in told
