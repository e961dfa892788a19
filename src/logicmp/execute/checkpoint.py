"""The state of a long mean-field run in a file: whole or not at all, for any number of processes.

Room: files -> **execute** -> inference.

    kept = RunCheckpoint(path, fingerprint(...), shares)
    kept.save(whole, logits, ...)           every minute, by the first process, which gathers the logits of all
    kept.load(shapes, dtype)                None if there is no file yet; the others get what the first one reads
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import LogicMPError
from ..files import load_tensors, save_tensors
from ..ground.engine import Shares

# seconds between two files
PAUSE = 60.0
# from the logits of one process, those of all
Whole = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]


@dataclass(frozen=True)
class RunState:
    """Where a run was: its logits, how often it got more damping, and its iterations since then."""

    logits: dict[str, Tensor]
    attempt: int
    damping: float
    done: int


class RunCheckpoint:
    """The file of one run.

    Args:
        path: of the file.
        belongs_to: the fingerprint of rules, facts and options.
        shares: the processes of the run.
    """

    def __init__(self, path: Path, belongs_to: str, shares: Shares):
        self.path, self.belongs_to, self.shares = path, belongs_to, shares
        self._last = time.monotonic()

    def save(self, whole: Whole, logits: Mapping[str, Tensor], number: int, *, attempt: int, damping: float,
             before: int) -> None:
        """Write the file, if the last one is old enough; only the first process writes.

        Args:
            whole: from the logits of this process, those of all.
        """
        if not number or not self.shares.agree(time.monotonic() - self._last >= PAUSE):
            return
        self._last = time.monotonic()
        logits = whole(logits)
        if self.shares.share.rank:
            return
        numbers = {"attempt": str(attempt), "damping": repr(damping), "done": str(before + number)}
        save_tensors(self.path, {name: x.contiguous() for name, x in logits.items()},
                     {**numbers, "belongs_to": self.belongs_to}, "the checkpoint")

    def load(self, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> RunState | None:
        """The state in the file; None if there is none.

        Args:
            shapes: of the logits of all processes.
            dtype: of the logits.
        """
        # attempt, damping, done; or -1 for no file, -2 for an error
        head, tensors, error = np.zeros(3), dict[str, Tensor](), None
        if self.shares.share.rank == 0:
            try:
                head, tensors = self._read(shapes)
            except LogicMPError as cause:
                head, error = np.array([-2.0, 0, 0]), cause
        head = self.shares.total(head)
        if error is not None:
            raise error
        if head[0] == -2:
            raise LogicMPError("the first process cannot read the checkpoint")
        if head[0] < 0:
            return None
        found = {name: torch.from_numpy(np.asarray(self.shares.total(
            tensors[name].numpy() if tensors else np.zeros(shape)))).to(dtype) for name, shape in shapes.items()}
        return RunState(found, int(head[0]), float(head[1]), int(head[2]))

    def _read(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[np.ndarray, dict[str, Tensor]]:
        if not self.path.exists():
            return np.array([-1.0, 0, 0]), {}
        tensors, metadata = load_tensors(self.path, "the checkpoint", "remove the file to start over")
        found = {name: tuple(x.shape) for name, x in tensors.items()}
        if metadata.get("belongs_to") != self.belongs_to or found != dict(shapes):
            raise LogicMPError(f"the checkpoint {str(self.path)!r} belongs to a run with other rules, facts or options",
                               "remove the file to start over, or give another file")
        return np.array([float(metadata["attempt"]), float(metadata["damping"]), float(metadata["done"])]), tensors


def fingerprint(texts: Sequence[str], arrays: Mapping[str, np.ndarray]) -> str:
    """A hash of texts and arrays.

    >>> fingerprint(["a"], {"x": np.zeros(1)}) == fingerprint(["a"], {"x": np.ones(1)})
    False
    """
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode() + b"\0")
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].shape} {arrays[name].dtype}\0".encode())
        found.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return found.hexdigest()
