"""The benchmark of many rows runs in one and in two processes, and predicts from what it has measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale import main, merged, predictions


@pytest.mark.slow
def test_one_and_two_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--people", "1500", "--triples", "60000", "--neighbours", "900", "--crowd", "1200"]
    assert main([*sizes, "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [(x["case"], x["ranks"]) for x in found] == [
        (case, ranks) for case in ("people", "triples", "neighbours", "crowd") for ranks in (1, 2)]
    # shares add up
    assert found[0]["rows"] == found[1]["rows"] > 4000
    assert found[2]["rows"] == found[3]["rows"] > 59_280
    assert found[4]["rows"] == found[5]["rows"] > 2_500
    assert found[6]["rows"] == found[7]["rows"] > 30_000
    assert found[1]["exchange alone, s"] > 0
    assert "10^10 rows on 64 machines" in capsys.readouterr().out


def test_rows_are_added_up_and_times_are_the_largest() -> None:
    assert merged([{"rows": 3, "join, s": 1.0}, {"rows": 4, "join, s": 2.0}]) == {"rows": 7, "join, s": 2.0}


def test_a_prediction_is_arithmetic() -> None:
    one = {"case": "people", "ranks": 1, "rows": 1e6, "iteration, s": 0.01, "values": 1e6, "shared": 0.0,
           "exchange alone, s": 0.0, "memory of the run, GB": 0.1}
    two = {**one, "ranks": 2, "shared": 1e5, "exchange alone, s": 0.0008, "memory of the run, GB": 0.06}
    told = predictions([one, two])
    assert "10.00 ns per row" in told[0] and "0.1 of them shared" in told[0] and "1.00 GB/s" in told[0]
    assert "20 bytes per row in every process and 80 divided" in told[0]
    # 10^9 rows * 10 ns / 8; seven cuts share 0.7 of the values: 8 bytes * 0.7 * 10^9 * 14 / 8 / 1.25 GB/s
    assert "1.25 s of computing and at most 7.84 s of exchange" in told[1]
    assert "30 GB of memory in each" in told[1]
    # 63 cuts share all
    assert "at most 12.6 s of exchange" in told[2]
