"""Processes for requests: limits are kept, whatever the work does, and the server survives."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from logicmp import LogicMPError
from logicmp.serve.nursery import BusyError, CutOffError, FailedError, Nursery, Settings, WrongModelError

SETTINGS = Settings(seconds=0.4, memory=100_000_000, workers=2, queue=20)


@pytest.fixture(autouse=True)
def _tasks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    here = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])))


def run(work: Callable[[Nursery], Awaitable[Any]], settings: Settings = SETTINGS) -> Any:
    async def body() -> Any:
        nursery = Nursery("serve_tasks", settings)
        try:
            await nursery.wait()
            return await work(nursery)
        finally:
            nursery.close()

    return asyncio.run(body())


def test_every_request_has_a_process_of_its_own() -> None:
    async def work(nursery: Nursery) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(nursery.ask("echo", {"n": n}) for n in range(8))))

    found = run(work)
    assert [answer["got"]["n"] for answer in found] == list(range(8))
    assert len({answer["process"] for answer in found}) == 8


def test_limits_are_kept_and_the_next_request_is_answered() -> None:
    async def work(nursery: Nursery) -> tuple[float, list[str]]:
        start = time.monotonic()
        texts = []
        late, killed, large, gone, wrong, failed = await asyncio.gather(
            nursery.ask("sleep", {"seconds": 30}), nursery.ask("ignore_alarm", {}),
            nursery.ask("allocate", {"bytes": 10**9}), nursery.ask("vanish", {}), nursery.ask("reject", {}),
            nursery.ask("fail", {}), return_exceptions=True)
        # the alarm, then what does not hear it
        assert isinstance(late, WrongModelError) and late.problem["kind"] == "limit"
        assert "time limit of 0.4 s" in late.problem["message"]
        assert isinstance(killed, CutOffError) and "time limit" in str(killed)
        assert isinstance(large, WrongModelError) and "memory is used up" in large.problem["message"]
        assert isinstance(gone, CutOffError)
        assert isinstance(wrong, WrongModelError) and wrong.problem["text"] == "wrong\nhint: correct it"
        assert isinstance(failed, FailedError) and not failed.args
        assert (await nursery.ask("allocate", {"bytes": 50_000_000}))["n"] == 50_000_000
        texts.append("done")
        return time.monotonic() - start, texts

    seconds, texts = run(work)
    assert texts == ["done"] and seconds < 8


def test_a_request_that_nobody_waits_for_is_killed() -> None:
    async def work(nursery: Nursery) -> float:
        asked = asyncio.ensure_future(nursery.ask("ignore_alarm", {}))
        await asyncio.sleep(0.3)
        asked.cancel()
        start = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await asked
        # there is one worker, which is free again
        assert (await nursery.ask("echo", {}))["got"] == {}
        return time.monotonic() - start

    assert run(work, Settings(seconds=20, workers=1)) < 5


def test_too_many_waiting_requests_are_rejected() -> None:
    async def work(nursery: Nursery) -> list[Any]:
        return list(await asyncio.gather(*(nursery.ask("sleep", {"seconds": 0.2}) for _ in range(5)),
                                         return_exceptions=True))

    found = run(work, Settings(seconds=5, workers=1, queue=3))
    assert [isinstance(answer, BusyError) for answer in found] == [False, False, False, True, True]


def test_a_program_that_was_killed_is_started_again() -> None:
    async def work(nursery: Nursery) -> tuple[int, int]:
        first = (await nursery.ask("parent", {}))["process"]
        os.kill(first, signal.SIGKILL)
        return first, (await nursery.ask("parent", {}))["process"]

    first, second = run(work)
    assert first != second


def test_the_program_ends_with_its_server() -> None:
    async def work(nursery: Nursery) -> int:
        number: int = (await nursery.ask("parent", {}))["process"]
        return number

    number = run(work)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.parametrize("options", [{"workers": 0}, {"queue": 0}, {"groundings": 0}, {"memory": 0}, {"seconds": -1}])
def test_impossible_settings_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(LogicMPError):
        Settings(**options)
