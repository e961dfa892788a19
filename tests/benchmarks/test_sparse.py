"""The benchmark of sparse worlds runs every case on a small world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.sparse import CASES, _knowledge_graph, knowledge_graph, main


def test_every_case_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGICMP_DATA", raising=False)
    assert main(["--n", "1500", "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(CASES) - {"fb15k"} <= set(found)
    assert found["smokers"]["iteration, s"] > 0
    assert found["transitivity"]["candidates"] == 136 * 110
    shown = capsys.readouterr()
    assert "with the layer, s" in shown.out
    assert "fb15k: skipped, set LOGICMP_DATA to a folder with kg/fb15k-237/rules.mln and train.db" in shown.err


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


def test_an_unknown_case_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["smoker"])
    assert "unknown case 'smoker', available: smokers, transitivity, graph, fb15k" in capsys.readouterr().err
