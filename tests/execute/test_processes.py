"""Several processes: training and learning as in one, and a rank that is killed, raises or hangs ends all by name."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import processes_of_tests
import pytest

from logicmp import LogicMPError
from logicmp.execute.processes import joined_processes


def start(task: str, n: int) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [subprocess.Popen(
        [sys.executable, str(Path(processes_of_tests.__file__)), task], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(n), "OMP_NUM_THREADS": "1",
                                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
        for rank in range(n)]


def test_training_and_learning_equal_one_process() -> None:
    want = {**{name: processes_of_tests.train(schedule=name) for name in ("paper", "adaptive")},
            "learned": processes_of_tests.learned(),
            **{f"dense-{name}": processes_of_tests.dense(schedule=name) for name in ("paper", "adaptive")}}
    for process in start("train", 2):
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        lines = [line.split() for line in out.splitlines()]
        # sharded by the first and by the second argument
        assert [line[0] for line in lines] == ["paper", "adaptive", "learned", *["dense-paper", "dense-adaptive"] * 2,
                                               "error", "error"]
        assert out.splitlines()[-2:] == ["error a tolerance needs whole tensors, got a DTensor",
                                         "error unary has values that are NaN or infinite"]
        for line in lines[:-2]:
            assert [float(x) for x in line[1:]] == pytest.approx(want[line[0]], rel=0, abs=1e-6)


@pytest.mark.parametrize("task, told", [
    ("kill", "rank 1 has not responded"),
    pytest.param("raise", "rank 1 failed: the disk is full", marks=pytest.mark.slow),
    pytest.param("stop", "rank 1 has not responded", marks=pytest.mark.slow),
    pytest.param("hang", "rank 1 hangs", marks=pytest.mark.slow)])
def test_a_rank_that_fails_is_named(task: str, told: str) -> None:
    good, bad = start(task, 2)
    try:
        _, err = good.communicate(timeout=200)
        assert good.returncode == 1
        assert told in err
    finally:
        # a stopped process does not end by itself
        bad.send_signal(signal.SIGKILL)
        bad.communicate()
        good.kill()


def test_without_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(LogicMPError, match="several processes need a launcher, which sets RANK"), joined_processes():
        pass
