"""A process killed at a random moment (SIGKILL) leaves the old file or the new one, and a resumed run ends the same."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from experiments.runs import Result, load_results, run_all
from logicmp import LogicMP
from logicmp.cli.app import main

# kills of each test: few in `make test`, 200 together in `make nightly`
KILLS = [2, pytest.param(50, marks=pytest.mark.slow)]
# a killed process cannot remove its temporary file, which has a name that no user's file has
LEFT = re.compile(r"\.[0-9a-f]{16}\.part")

PEOPLE = [f"P{k}" for k in range(15)]
DECLARED = f"person = {{{', '.join(PEOPLE)}}}\nFriends(person, person)\nSmokes(person)\n"
RULES = f"{DECLARED}1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)\n-1 Friends(x, y)\n"
UNWEIGHTED = f"{DECLARED}(Friends(x, y))\n(Smokes(x))\n(Smokes(x) ^ Friends(x, y) => Smokes(y))\n"
FACTS = "\n".join(f"Smokes({a})\nFriends({a}, {b})" for a, b in zip(PEOPLE[::3], PEOPLE[1::3], strict=False))
OTHERS = "\n".join(f"Smokes({a})\nFriends({a}, {b})" for a, b in zip(PEOPLE[1::2], PEOPLE[::2], strict=False))
PLANS = [Result("made_up", "test", "one", seed) for seed in range(30)]


# what the processes do


def command(*words: str) -> None:
    """Run the program without its output."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere), \
            contextlib.redirect_stderr(nowhere), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["logicmp", *words])
        with contextlib.suppress(SystemExit):
            main()


def answer(facts: str) -> None:
    command("infer", "-i", "model.mln", "-e", facts, "-q", "Friends,Smokes", "-m", "bp", "--iterations", "5", "-r",
            "answers")


def answer_in_turn() -> None:
    while True:
        answer("one.db")
        answer("two.db")


def save(weight: float) -> None:
    LogicMP(f"1 P(x) ^ Q(x, y) => P(y)\n{weight} P(x)").save("layer")


def save_in_turn() -> None:
    while True:
        save(2.0)
        save(3.0)


def train() -> None:
    # the prior bounds the weights, so that the last digits of the optimum are determined
    command("learn", "-i", "model.mln", "-t", "one.db", "-o", "learned.mln", "--checkpoint", "state",
            "--prior-std", "2", "--tolerance", "1e-6")


def work(plan: Result) -> list[Result]:
    return [replace(plan, values={"f1": 50.0 + plan.seed})]


def run_plans() -> None:
    run_all(PLANS, work, Path())


# how they are killed


def begin(folder: Path, job: Callable[..., None], args: tuple[Any, ...], started: Connection) -> None:
    os.chdir(folder)
    started.send(None)
    job(*args)


def start(folder: Path, job: Callable[..., None], *args: Any) -> Any:
    """A process that runs the job in the folder, as soon as it does."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["logicmp.cli.app", "logicmp.layer", "logicmp.inference.bp.method",
                                      "logicmp.learning.train", "experiments.runs"])
    here, there = processes.Pipe()
    process = processes.Process(target=begin, args=(folder, job, args, there))
    process.start()
    here.recv()
    return process


def finish(folder: Path, job: Callable[..., None], *args: Any) -> float:
    """Run a job to its end; returns the seconds it took."""
    process = start(folder, job, *args)
    before = time.monotonic()
    process.join()
    assert process.exitcode == 0
    return time.monotonic() - before


def kill(process: Any, seconds: float) -> bool:
    """Kill a process after a while; returns whether it was still running."""
    process.join(seconds)
    process.kill()
    process.join()
    return bool(process.exitcode)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not LEFT.fullmatch(path.name)}


@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_inference_leaves_the_old_answers_or_the_new_ones(tmp_path: Path, kills: int) -> None:
    (tmp_path / "model.mln").write_text(RULES)
    (tmp_path / "one.db").write_text(FACTS)
    (tmp_path / "two.db").write_text(OTHERS)
    (tmp_path / "answers.part").write_text("of the user")
    seconds, possible = 0.0, []
    for facts in ("one.db", "two.db"):
        seconds += finish(tmp_path, answer, facts)
        possible.append((tmp_path / "answers").read_text())
    assert possible[0] != possible[1] and all(text.count("\n") == 15 * 16 for text in possible)
    before, rng = files(tmp_path), random.Random(kills)
    for _ in range(kills):
        assert kill(start(tmp_path, answer_in_turn), rng.uniform(0, seconds))
        assert (tmp_path / "answers").read_text() in possible
        assert files(tmp_path) == before


@pytest.mark.parametrize("kills", KILLS)
def test_a_layer_killed_while_it_is_saved_is_the_old_one_or_the_new_one(tmp_path: Path, kills: int) -> None:
    seconds, rng = finish(tmp_path, save, 2.0), random.Random(kills)
    for _ in range(kills):
        assert kill(start(tmp_path, save_in_turn), rng.uniform(0, 2 * seconds))
        # a file that is not whole would be rejected
        assert LogicMP.load(tmp_path / "layer").weights[1].item() in (2.0, 3.0)
        assert files(tmp_path) == {"layer"}


@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_training_resumes_and_ends_with_the_same_weights(tmp_path: Path, kills: int) -> None:
    (tmp_path / "model.mln").write_text(UNWEIGHTED)
    (tmp_path / "one.db").write_text(FACTS)
    seconds = finish(tmp_path, train)

    def weights() -> list[float]:
        return [float(x) for x in re.findall(r"^-?\d[\d.e-]*", (tmp_path / "learned.mln").read_text(), re.MULTILINE)]

    expected = weights()
    assert len(expected) == 3
    rng, done = random.Random(kills), 0
    while done < kills:
        (tmp_path / "state").unlink(missing_ok=True)
        (tmp_path / "learned.mln").write_text("old")
        while kill(start(tmp_path, train), rng.uniform(0, 1.5 * seconds)):
            done += 1
            assert (tmp_path / "learned.mln").read_text() == "old" or weights() == pytest.approx(expected, abs=1e-4)
        # within the tolerance: a resumed run takes other steps
        assert weights() == pytest.approx(expected, abs=1e-4)
    assert files(tmp_path) == {"model.mln", "one.db", "state", "learned.mln"}


@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_experiment_continues_with_the_plans_that_are_left(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    (tmp_path / "whole").mkdir()
    seconds = finish(tmp_path / "whole", run_plans)
    expected = [(r.key, r.values) for r in load_results(tmp_path / "whole")]
    assert len(expected) == len(PLANS)
    for k in range(kills):
        folder = tmp_path / str(k)
        folder.mkdir()
        kill(start(folder, run_plans), rng.uniform(0, seconds))
        stored = [(r.key, r.values) for r in load_results(folder)]
        assert stored == expected[: len(stored)]
        finish(folder, run_plans)
        assert [(r.key, r.values) for r in load_results(folder)] == expected
