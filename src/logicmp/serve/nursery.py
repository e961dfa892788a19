"""One process for each request, forked from a process that has everything imported, with limits, and killed when late.

Room: **serve** (reading, answers -> nursery -> app).

    nursery = Nursery("logicmp.serve.answers", Settings())
    answer = await nursery.ask("answer", {"rules": ...})       about 10 ms more than the work itself

The nursery is a program of its own (`python -m logicmp.serve.nursery`), without threads, so that forking is safe. A
socket leads to it. For each request the server sends one end of a new socket through it, and the forked child reads the
request there, and writes its process number and the answer. It needs a system that can fork: Linux or macOS.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..errors import LogicMPError
from ..limits import GRACE, LATE, MAX_GROUNDINGS, Limits, kept

# bytes of an answer
MAX_ANSWER = 64_000_000
# seconds that the server waits after a child should have ended by itself
PATIENCE = 1.0
# seconds that the nursery may take to import everything
START = 120.0
# what an answer starts with
DONE, WRONG, FAILED = "done", "wrong", "failed"
# an error, and the request that it is about, as a value for the page
Describe = Callable[[LogicMPError], dict[str, Any]]


@dataclass(frozen=True)
class Settings:
    """What a request may use, and how many may run and wait.

    Args:
        seconds: time of one request.
        memory: bytes of one request, on top of what the program itself has.
        groundings: groundings that the evidence of a request may leave open.
        workers: requests that run at once, of those that need torch and of those that do not.
        queue: requests that wait for their turn; more are rejected.
    """

    seconds: float = 10.0
    memory: int = 1_000_000_000
    groundings: int = 300_000
    workers: int = 2
    queue: int = 100

    def __post_init__(self) -> None:
        if self.workers < 1 or self.queue < 1 or not 0 < self.groundings <= MAX_GROUNDINGS:
            raise LogicMPError("workers, queue and groundings must be at least 1")
        # checks the other two
        Limits(self.seconds, self.groundings, self.memory)


class BusyError(Exception):
    """Too many requests are waiting."""


class CutOffError(Exception):
    """The process of a request was ended before it answered."""


class FailedError(Exception):
    """The work raised an unexpected error, which is in the log."""


class WrongModelError(Exception):
    """The model is wrong, or over a limit; the argument is the description of the problem."""

    def __init__(self, problem: dict[str, Any]):
        super().__init__(problem)
        self.problem = problem


class Nursery:
    """A program that forks a child for each request; it is started at once, and again if it ends.

    Args:
        module: its `TASKS` are the work, by name, and its `prepare` is called before the first child.
        settings: limits.
    """

    def __init__(self, module: str, settings: Settings):
        self.module = module
        self.settings = settings
        self._turns = asyncio.Semaphore(settings.workers)
        self._waiting = 0
        # whether a child has answered
        self.is_ready = False
        self._start()

    def _start(self) -> None:
        self._control, other = socket.socketpair()
        # one thread: forking is safe, and requests do not compete for cores
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "logicmp.serve.nursery", self.module, str(other.fileno())]
        with other:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[other.fileno()],
                                             env=environment, start_new_session=True)

    def close(self) -> None:
        """End the program and its children."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            # a session of its own, so its group has no other processes
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    async def wait(self) -> None:
        """Wait until everything is imported."""
        await self._ask("ready", {})

    async def ask(self, task: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, from a process of its own.

        Args:
            task: the name of the work.
            request: its argument.

        Raises:
            BusyError: too many requests are waiting.
            CutOffError: the process ended without an answer, because of its limits.
            FailedError: the work has a defect.
            WrongModelError: the model is wrong.
        """
        if self._waiting >= self.settings.queue:
            raise BusyError
        self._waiting += 1
        try:
            async with self._turns:
                return await self._ask(task, request)
        finally:
            self._waiting -= 1

    async def _ask(self, task: str, request: Mapping[str, Any], is_again: bool = False) -> dict[str, Any]:
        own, other = socket.socketpair()
        with other:
            try:
                socket.send_fds(self._control, [b"."], [other.fileno()])
            except OSError:
                own.close()
                return await self._retry(task, request, is_again)
        reader, writer = await asyncio.open_connection(sock=own, limit=MAX_ANSWER)
        number = 0
        try:
            settings = self.settings
            order = {"task": task, "request": request, "seconds": settings.seconds, "memory": settings.memory,
                     "groundings": settings.groundings}
            # the nursery reads when it has imported everything
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(START):
                    writer.write(json.dumps(order).encode() + b"\n")
                    await writer.drain()
                    number = int(await reader.readline() or 0)
            if not number:
                return await self._retry(task, request, is_again)
            self.is_ready = True
            answer = b""
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(LATE * settings.seconds + GRACE + PATIENCE):
                    while not reader.at_eof():
                        answer += await reader.read(MAX_ANSWER)
            # it has ended, and its number may belong to another process
            number = 0
        except TimeoutError:
            raise CutOffError(f"the time limit of {self.settings.seconds:g} s was reached") from None
        finally:
            if number:
                # late, or nobody waits for the answer any more
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            writer.close()
        return _read_answer(answer)

    async def _retry(self, task: str, request: Mapping[str, Any], is_again: bool) -> dict[str, Any]:
        """Start the program again if it has ended, and ask once more."""
        if is_again:
            raise CutOffError("the process that answers ended twice")
        for _ in range(20):
            # its sockets are closed a moment before it has ended
            if self._process.poll() is None:
                await asyncio.sleep(0.05)
        if self._process.poll() is not None:
            self._control.close()
            self._start()
        return await self._ask(task, request, is_again=True)


def _read_answer(data: bytes) -> dict[str, Any]:
    status, _, body = data.partition(b"\n")
    if status.decode() not in (DONE, WRONG, FAILED):
        raise CutOffError("the request needs more memory than its limit, or was ended")
    found: dict[str, Any] = json.loads(body)
    if status.decode() == WRONG:
        raise WrongModelError(found)
    if status.decode() == FAILED:
        raise FailedError
    return found


# the program


def main(module: str, descriptor: int) -> None:
    """Import everything, then fork a child for each socket that arrives, until the server closes the connection.

    Args:
        module: see `Nursery`.
        descriptor: of the socket that leads to the server.
    """
    # not imported by the server, which needs neither numpy nor the parser
    from .reading import describe_error

    found = import_module(module)
    found.prepare()
    tasks = {**found.TASKS, "ready": lambda ask, limits: {}}
    # the system removes children that ended
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as control:
        while True:
            mark, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not mark:
                return
            if os.fork() == 0:
                control.close()
                _serve(tasks, describe_error, descriptors[0])
            os.close(descriptors[0])


def _serve(tasks: Mapping[str, Any], describe: Describe, descriptor: int) -> None:
    """Answer one request, and end the process."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with socket.socket(fileno=descriptor) as connection, connection.makefile("rb") as received:
            connection.sendall(b"%d\n" % os.getpid())
            order = json.loads(received.readline())
            status, body = _work(tasks, describe, order)
            connection.sendall(f"{status}\n{json.dumps(body)}".encode())
            code = 0
    except BrokenPipeError:
        pass
    finally:
        # without the exit of the parent's interpreter
        sys.stderr.flush()
        os._exit(code)


def _work(tasks: Mapping[str, Any], describe: Describe, order: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    try:
        limits = Limits(order["seconds"], order["groundings"], order["memory"] + _own_memory())
        _limit_processor(order["seconds"])
        with kept(limits):
            return DONE, tasks[order["task"]](order["request"], limits)
    except LogicMPError as error:
        return WRONG, describe(error)
    except RecursionError:
        return WRONG, describe(LogicMPError("the model is nested too deep", "split long formulas"))
    except BaseException:
        # into the log of the server, not to the page
        traceback.print_exc()
        return FAILED, {}


def _own_memory() -> int:
    """The bytes of data that the program has before the request."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as lines:
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:"))
    return 0


def _limit_processor(seconds: float) -> None:
    """End the process if it computes for too long, also if the server is gone."""
    import resource

    most = int(LATE * seconds + GRACE + PATIENCE) + 2
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + most, used + most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
