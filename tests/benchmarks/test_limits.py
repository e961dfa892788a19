"""The benchmark of limits runs commands, and keeps what it has measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.limits import Run, main
from logicmp import LogicMPError


def write_split(folder: Path) -> None:
    split = folder / "relational/uw_cse/language"
    split.mkdir(parents=True)
    (split / "predicates").write_text("advisedBy(person, person)\nstudent(person)\n")
    (split / "rules").write_text("1.0 !advisedBy(s, p) v student(s)\n")
    (split / "facts").write_text("student(Anna)\n!student(Bob)\n")


def test_runs_are_measured_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_split(tmp_path)
    words = ["--data", str(tmp_path), "--on", "language", "--methods", "bp", "--seconds", "50", "--json",
             str(tmp_path / "out.json")]
    assert main(words) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    run = Run(**found["runs"][0])
    assert (run.split, run.method, run.outcome, run.is_within) == ("language", "bp", "complete", True)
    assert run.about.startswith("converged; bp converged after ")
    assert run.gigabytes > 0
    assert "| language | `bp` | 50 | " in capsys.readouterr().out
    # the second time it only prints
    assert main(words) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == found


def test_a_run_without_answers_is_an_error_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_split(tmp_path)
    assert main(["--data", str(tmp_path), "--on", "language", "--methods", "bp", "--seconds", "0"]) == 0
    # by the alarm, or by the method if it comes that far
    assert re.search(r"\| error: (the time limit of 0 s was reached while |method 'bp' stopped before its first step)",
                     capsys.readouterr().out)


def test_without_data_it_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match="no split of UW-CSE"):
        main(["--data", str(tmp_path)])
