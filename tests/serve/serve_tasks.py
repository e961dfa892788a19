"""Work for children that does what it must not: too long, too large, wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from logicmp.errors import LogicMPError


def prepare() -> None:
    """Nothing to import."""


def echo(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    return {"got": ask, "process": os.getpid()}


def sleep(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    time.sleep(ask["seconds"])
    return {}


def ignore_alarm(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    """As a compiled loop that never returns to Python."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)
    return {}


def allocate(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    return {"n": len(bytearray(ask["bytes"]))}


def fail(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    raise ValueError("a secret of the program")


def reject(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    raise LogicMPError("wrong", "correct it")


def vanish(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def parent(ask: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    return {"process": os.getppid()}


TASKS = {function.__name__: function for function in
         (echo, sleep, ignore_alarm, allocate, fail, reject, vanish, parent)}
