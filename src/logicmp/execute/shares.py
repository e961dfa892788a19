"""Rows in several processes: what one of them has is added up by torch.distributed.

Room: ground, plan -> **execute** -> layer, inference, learning.

    shares = ProcessShares(group)                 rank 1 of 3 has the rows with x % 3 = 1
    total = shares.add_up(partial)                messages of all rows, the same in every process
    partial = f(shares.copy(q))                   from values that all have; gradients are added up on the way back

These functions are for values that all processes have, such as weights; atoms are divided as well (`atoms.py`). The two
functions are each other's derivative: the gradient of a sum goes to every part, and the gradient of a copy comes from
every part.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import LogicMPError
from ..ground.engine import Share


class ProcessShares:
    """The shares of the processes of a group.

    Args:
        group: of torch.distributed; None for all processes.
    """

    def __init__(self, group: Any = None):
        if not dist.is_available() or not dist.is_initialized():
            raise LogicMPError("there is no process group", "start the processes with torchrun, and call "
                               "torch.distributed.init_process_group first")
        self.group = group
        self.share = Share(dist.get_rank(group), dist.get_world_size(group), by_range=True)
        # collective calls, their bytes and seconds, and whether one is under way
        self.calls, self.bytes, self.seconds = 0, 0, 0.0
        self.is_waiting = False

    def total(self, x: np.ndarray) -> np.ndarray:
        if self.share.size == 1:
            return x
        found = torch.from_numpy(np.ascontiguousarray(x, np.int64 if x.dtype.kind in "iub" else np.float64)).clone()
        return self.all_reduce(found).numpy()

    def gather(self, x: np.ndarray) -> list[np.ndarray]:
        if self.share.size == 1:
            return [x]
        lengths = np.zeros(self.share.size, dtype=np.int64)
        lengths[self.share.rank] = len(x)
        lengths = self.total(lengths)
        # all parts have one length in a gather
        own = torch.zeros(int(lengths.max()), *x.shape[1:], dtype=torch.from_numpy(x[:0]).dtype)
        own[: len(x)] = torch.from_numpy(np.ascontiguousarray(x))
        parts = [torch.empty_like(own) for _ in range(self.share.size)]
        self._timed(lambda: dist.all_gather(parts, own, group=self.group), own.nbytes * self.share.size)
        return [part[:n].numpy() for part, n in zip(parts, lengths, strict=True)]

    def union(self, keys: np.ndarray) -> np.ndarray:
        return keys if self.share.size == 1 else np.unique(np.concatenate(self.gather(keys.astype(np.int64))))

    def agree(self, flag: bool) -> bool:
        return bool(self.total(np.array([int(flag)]))[0])

    def largest(self, x: float) -> float:
        found = torch.tensor([x], dtype=torch.float64)
        self._timed(lambda: dist.all_reduce(found, dist.ReduceOp.MAX, group=self.group), found.nbytes)
        return float(found)

    def maxima(self, x: np.ndarray) -> np.ndarray:
        found = torch.from_numpy(x.astype(np.int64))
        self._timed(lambda: dist.all_reduce(found, dist.ReduceOp.MAX, group=self.group), found.nbytes)
        return found.numpy()

    def add_up(self, x: Tensor) -> Tensor:
        found: Tensor = x if self.share.size == 1 else AddUp.apply(self, x)  # type: ignore[no-untyped-call]
        return found

    def copy(self, x: Tensor) -> Tensor:
        if self.share.size == 1 or not (torch.is_grad_enabled() and x.requires_grad):
            return x
        found: Tensor = Copy.apply(self, x)  # type: ignore[no-untyped-call]
        return found

    def all_reduce(self, x: Tensor) -> Tensor:
        """Add up in place."""
        self._timed(lambda: dist.all_reduce(x, group=self.group), x.nbytes)
        return x

    def _timed(self, run: Any, n_bytes: int) -> None:
        start = perf_counter()
        self.is_waiting = True
        try:
            run()
        except RuntimeError as cause:
            raise BrokenError(str(cause)) from None
        finally:
            self.is_waiting = False
        self.seconds += perf_counter() - start
        self.calls += 1
        self.bytes += n_bytes


class BrokenError(RuntimeError):
    """A connection to another process is lost."""


class AddUp(torch.autograd.Function):
    """The sum over all processes; all of them compute the same from it, so its gradient is already that of all."""

    @staticmethod
    def forward(ctx: Any, shares: Any, x: Tensor) -> Tensor:
        ctx.shares = shares
        found: Tensor = shares.all_reduce(x.detach().clone(memory_format=torch.contiguous_format))
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        # the part of this process; differentiable again
        return None, ctx.shares.copy(gradients[0])


class Copy(torch.autograd.Function):
    """The same values, for use with the rows of this process; the gradient is the sum over all processes."""

    @staticmethod
    def forward(ctx: Any, shares: Any, x: Tensor) -> Tensor:
        ctx.shares = shares
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, ctx.shares.add_up(gradients[0])
