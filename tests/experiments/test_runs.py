"""Results, the runner and checkpoints, which all experiments share."""

from __future__ import annotations

import doctest
import importlib
import json
import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import tables
from experiments.checkpoint import Checkpoint
from experiments.runs import Result, exit_code, load_results, run_all, save_results, unfinished
from logicmp import LogicMPError

PLANS = [Result("made_up", "test", method, seed) for method in ("one", "two") for seed in (1, 0)]


def with_values(plan: Result) -> list[Result]:
    return [replace(plan, values={"f1": 50.0 + plan.seed}, seconds=1.0)]


def save_many(folder: Path, method: str, n: int) -> None:
    for seed in range(n):
        save_results([Result("made_up", "test", method, seed)], folder)


def kill_itself(plan: Result) -> list[Result]:
    os.kill(os.getpid(), signal.SIGKILL)
    return [plan]


def never_end(plan: Result) -> list[Result]:
    time.sleep(600)
    return [plan]


def test_a_data_set_has_one_file_with_one_sorted_line_per_run(tmp_path: Path) -> None:
    run_all(PLANS, with_values, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["made_up.json"]
    lines = (tmp_path / "made_up.json").read_text().splitlines()
    assert lines[0] == "[" and lines[-1] == "]"
    found = [json.loads(line.rstrip(",")) for line in lines[1:-1]]
    assert [(entry["method"], entry["seed"]) for entry in found] == [("one", 0), ("one", 1), ("two", 0), ("two", 1)]
    assert [r.values for r in load_results(tmp_path)] == [entry["values"] for entry in found]
    assert all(r.commit and r.memory > 0 and r.threads > 0 for r in load_results(tmp_path))


def test_a_stored_run_is_skipped_unless_it_is_wanted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_all(PLANS[:1], with_values, tmp_path)
    assert capsys.readouterr().out.startswith("made_up/test one seed 1: f1 51, 1.0 s, ")
    run_all(PLANS[:1], kill_itself, tmp_path)
    assert capsys.readouterr().err == "made_up/test one seed 1: already stored\n"
    run_all(PLANS[:1], lambda plan: [replace(plan, status="other")], tmp_path, again=True)
    assert [r.status for r in load_results(tmp_path)] == ["other"]


def test_one_run_may_give_the_results_of_several_plans(tmp_path: Path) -> None:
    seen = []

    def work(plan: Result) -> list[Result]:
        seen.append(plan.key)
        return [result for other in PLANS for result in with_values(other)]

    run_all(PLANS, work, tmp_path)
    assert len(seen) == 1 and len(load_results(tmp_path)) == 4


def test_processes_that_finish_at_once_lose_no_result(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=save_many, args=(tmp_path, method, 20)) for method in ("one", "two", "three")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(load_results(tmp_path)) == 60


def test_a_process_that_is_killed_or_late_is_stored_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all(PLANS[:1], kill_itself, tmp_path, limit=60)
    monkeypatch.setattr("experiments.runs.GRACE", 0.5)
    run_all(PLANS[1:2], never_end, tmp_path, limit=0.5)
    assert [(r.seed, r.status) for r in load_results(tmp_path)] == [(0, "> cap"), (1, "killed by signal 9")]


def test_a_checkpoint_is_deleted_after_the_result_is_stored(tmp_path: Path) -> None:
    path = unfinished(PLANS[0], tmp_path)

    def work(plan: Result) -> list[Result]:
        Checkpoint(path, every=0).save(step=3)
        assert path.exists()
        return [plan]

    run_all(PLANS[:1], work, tmp_path)
    assert not path.exists() and len(load_results(tmp_path)) == 1


def test_a_file_of_other_content_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "made_up.json").write_text('{"f1": 3}')
    with pytest.raises(LogicMPError, match=r"made_up\.json' is not a list of results"):
        load_results(tmp_path)


def test_a_file_that_is_no_checkpoint_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kept.pt").write_bytes(b"nothing")
    with pytest.raises(LogicMPError, match=r"kept\.pt' is not a checkpoint"):
        Checkpoint(tmp_path / "kept.pt").load()


@pytest.mark.parametrize("experiment", ["relational", "text", "documents"])
def test_the_readme_has_the_tables_of_the_stored_results(experiment: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = importlib.import_module(f"experiments.{experiment}.__main__")
    readme = Path(command.__file__).with_name("README.md").read_text()
    assert command.main(["table"]) == 0
    tables = [part for part in capsys.readouterr().out.split("\n\n") if part.startswith("|")]
    assert len(tables) > 1
    for found in tables:
        assert found in readme


def test_examples_in_docstrings() -> None:
    found = doctest.testmod(tables)
    assert found.attempted and not found.failed


def test_a_terminated_command_says_that_finished_runs_are_stored(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert exit_code(lambda: os.kill(os.getpid(), signal.SIGTERM)) == 130
    assert capsys.readouterr().err == "interrupted; finished runs are stored: the same command continues from there\n"
    assert signal.getsignal(signal.SIGTERM) is before
