"""The benchmark of sparse worlds runs every case on a small world."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import sparse
from benchmarks.sparse import CASES, METHODS, main


def test_every_case_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name in CASES if name != "psl"]
    assert main([*names, "--n", "1500", "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(names) <= set(found)
    assert found["smokers"]["iteration, s"] > 0
    for name in METHODS:
        assert found[name]["answers"] == 3000
        assert 0 < found[name]["largest memory, GiB"] < 1
    assert found["transitivity"]["candidates"] == 136 * 110
    assert found["facts"][".db, facts"] == found["facts"]["Parquet, facts"] > 14_000
    assert found["facts"][".db, GB"] > 0
    assert "with the layer, s" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java, which PSL runs on")
def test_the_comparison_with_psl_runs() -> None:
    found = CASES["psl"](400)
    # 40 people, a tenth of them observed
    assert (found["answers"], found["answers of PSL"]) == (80, 76)
    assert found["PSL / mean-field, processor"] > 0


def test_without_java_the_comparison_with_psl_is_not_run(monkeypatch: pytest.MonkeyPatch,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sparse.shutil, "which", lambda name: None)
    assert main(["psl"]) == 0
    assert "PSL needs Java, which is not installed" in capsys.readouterr().out


def test_an_unknown_case_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["smoker"])
    told = capsys.readouterr().err
    assert "unknown case 'smoker', available: smokers, bp, map, gibbs, auto, transitivity, graph, facts, psl" in told
