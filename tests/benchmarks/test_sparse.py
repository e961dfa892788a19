"""The benchmark of sparse worlds runs every case on a small world."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from benchmarks import sparse
from benchmarks.sparse import CASES, METHODS, TEXT_TARGETS, _knowledge_graph, knowledge_graph, main


def test_every_case_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGICMP_DATA", raising=False)
    # mc-sat takes more than a minute here
    names = [name for name in CASES if name not in ("psl", "text-mc-sat")]
    assert main([*names, "--n", "1500", "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(names) <= set(found)
    assert found["smokers"]["iteration, s"] > 0
    for name in METHODS:
        assert found[name]["answers"] == 3000
        # the first run compiles its loops, which takes more than the data
        assert 0 < found[name]["largest memory, GiB"] < 1.5
    for name in set(TEXT_TARGETS) - {"mc-sat"}:
        # 40 documents, 4 of them observed
        assert found[f"text-{name}"]["answers"] == 400
    assert found["transitivity"]["candidates"] == 136 * 110
    assert found["facts"][".db, facts"] == found["facts"]["Parquet, facts"] > 14_000
    assert found["facts"][".db, GB"] > 0
    assert found["fb15k"] == {"not run": "set LOGICMP_DATA to a folder with kg/fb15k-237/rules.mln and train.db"}
    assert "with the layer, s" in capsys.readouterr().out


def test_rules_with_many_premises_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rules.mln").write_text("A(e, e)\nB(e, e)\nA(x, y) ^ A(y, z) => B(x, z)\nB(x, y) => A(y, x)\n")
    (tmp_path / "train.db").write_text("".join(f"A(E{k}, E{(k + step) % 40})\n" for k in range(40) for step in (1, 2)))
    found = knowledge_graph(tmp_path / "rules.mln", tmp_path / "train.db", dense_atoms=100)
    # 80 facts of A; B(k, k + 2), ..., B(k, k + 4)
    assert (found["rules"], found["atoms"]) == (2, 80 + 120)
    assert found["iteration, s of the CPU"] > 0
    assert found["memory, GiB"] < 2
    few = _knowledge_graph(tmp_path / "rules.mln", tmp_path / "train.db", 130, 100, torch.get_num_threads())
    assert (few["rules"], few["rules left out"]) == (1, 1)


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
    assert f"unknown case 'smoker', available: {', '.join(CASES)}" in told
