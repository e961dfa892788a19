"""The state of a training run in one file, so that the run can be resumed.

    checkpoint = Checkpoint(path)
    checkpoint.load({"seed": 0})         None, or what the last `save` was given
    checkpoint.save(module=..., step=3)  at most every 20 seconds, whole or not at all
    checkpoint.seconds                   since the start, time before an interruption included
    checkpoint.remove()                  after the result is stored
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from logicmp import LogicMPError
from logicmp.files import write_whole

from .files import make_folder


class Checkpoint:
    """Saves at most once in `every` seconds; without a path it saves nothing."""

    def __init__(self, path: Path | None = None, every: float = 20.0):
        self.path = path
        self.every = every
        self.made_with: dict[str, Any] = {}
        self._started = self._saved = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def load(self, made_with: Mapping[str, Any] | None = None, restart: bool = False) -> dict[str, Any] | None:
        """The saved state, or None.

        Args:
            made_with: what the run depends on, such as its settings; a state that was made with something else is
                an error. None accepts any.
            restart: start over instead.
        """
        self.made_with = dict(made_with or {})
        if self.path is None or not self.path.exists():
            return None
        try:
            # tensors and plain values only: loading the file runs no code
            state = dict(torch.load(self.path, weights_only=True))
        except Exception as cause:
            raise LogicMPError(f"{str(self.path)!r} is not a checkpoint: {cause}",
                               "delete the file to start over") from None
        before = state.get("made_with", {})
        other = next((name for name in self.made_with if before.get(name) != self.made_with[name]), None)
        if other is not None:
            found = f"{str(self.path)!r} was made with {other} = {before.get(other)!r}, not {self.made_with[other]!r}"
            if not restart:
                raise LogicMPError(found, "delete the file to start over, or choose another --work")
            print(f"{found}: starting over", file=sys.stderr)
            return None
        self._started -= state["seconds"]
        return state

    def save(self, **state: Any) -> None:
        if self.path is None or time.monotonic() - self._saved < self.every:
            return
        buffer = io.BytesIO()
        torch.save({"seconds": self.seconds, "made_with": self.made_with, **state}, buffer)
        make_folder(self.path.parent)
        write_whole(self.path, buffer.getvalue(), "a checkpoint")
        self._saved = time.monotonic()

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)
