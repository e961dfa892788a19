"""What the runs of all experiments share: where they stand, so that they can be taken up again, and what they gave.

    standing = Checkpoint(path)
    standing.load()                     None, or what the last `save` was given
    standing.save(module=..., step=3)   at most every 20 seconds, whole or not at all
    standing.remove()                   when the result is stored

    save_result(result, path)           a dataclass, as JSON
    exit_code(work)                     of a command, with errors as its user should see them
"""

from __future__ import annotations

import io
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from logicmp import LogicMPError
from logicmp.files import write_whole


class Checkpoint:
    """Where a run stands, in one file; without a path nothing is kept."""

    def __init__(self, path: Path | None = None, every: float = 20.0):
        self.path = path
        self.every = every
        self._last = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        if self.path is None or not self.path.exists():
            return None
        try:
            # tensors and plain values only: nothing in the file can run
            return dict(torch.load(self.path, weights_only=True))
        except Exception as cause:
            raise LogicMPError(f"{str(self.path)!r} is not a checkpoint: {cause}",
                               "take the file away to start anew") from None

    def save(self, **state: Any) -> None:
        if self.path is None or time.monotonic() - self._last < self.every:
            return
        buffer = io.BytesIO()
        torch.save(state, buffer)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, buffer.getvalue(), "a checkpoint")
        self._last = time.monotonic()

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def save_result(result: Any, path: Path) -> None:
    """Keep a dataclass as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(result), indent=1) + "\n", "a result")


def exit_code(work: Callable[[], None]) -> int:
    """Do the work of a command; to be terminated is to be interrupted, and takes processes of its own along."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        work()
    except LogicMPError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept: the same command goes on from there", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def commit() -> str:
    """The commit a run was made with."""
    try:
        return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True,
                              cwd=Path(__file__).parent).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def peak_memory() -> float:
    """The most memory this process has had, in MB."""
    # in kilobytes on Linux, in bytes on macOS
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
