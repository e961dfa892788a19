"""Shares of rows in threads of one process, for tests: what `ProcessShares` does, without processes.

Room: ground, execute -> **testing** -> tests.

    run_shares(3, lambda shares: infer(..., shares=shares))      the answers of three ranks
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..execute.shares import AddUp, Copy
from ..ground.engine import Share

T = TypeVar("T")


class ThreadShares:
    """The share of one thread.

    Args:
        rank: of this thread.
        barrier: of all threads.
        board: where they write what the others need.
    """

    def __init__(self, rank: int, barrier: threading.Barrier, board: list[Any]):
        self.share = Share(rank, barrier.parties, by_range=True)
        self.barrier, self.board = barrier, board
        # what was exchanged: all ranks must do the same in the same order
        self.log: list[str] = []

    def gather(self, x: np.ndarray) -> list[np.ndarray]:
        return self._gather(f"gather {x.dtype} {x.shape[1:]}", x)

    def _gather(self, what: str, x: Any) -> list[Any]:
        self.log.append(what)
        self.board[self.share.rank] = what, x
        self.barrier.wait(20)
        found = list(self.board)
        self.barrier.wait(20)
        assert len({name for name, _ in found}) == 1, f"ranks exchange different values: {[name for name, _ in found]}"
        return [value for _, value in found]

    def total(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(sum(self._gather(f"total {x.shape}", x)))

    def union(self, keys: np.ndarray) -> np.ndarray:
        return np.unique(np.concatenate(self.gather(keys)))

    def agree(self, flag: bool) -> bool:
        return any(self._gather("agree", flag))

    def largest(self, x: float) -> float:
        return float(max(self._gather("largest", x)))

    def maxima(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum.reduce(self._gather(f"maxima {x.shape}", x)))

    def add_up(self, x: Tensor) -> Tensor:
        found: Tensor = AddUp.apply(self, x)  # type: ignore[no-untyped-call]
        return found

    def copy(self, x: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and x.requires_grad):
            return x
        found: Tensor = Copy.apply(self, x)  # type: ignore[no-untyped-call]
        return found

    def all_reduce(self, x: Tensor) -> Tensor:
        parts = self._gather(f"sum {tuple(x.shape)}", x.detach())
        return torch.stack(parts).sum(0)


def run_shares(n: int, run: Callable[[ThreadShares], T]) -> list[T]:
    """Call a function in n threads, each with its share; the results by rank.

    Args:
        n: the number of ranks.
        run: called with the shares of each rank.
    """
    barrier, board = threading.Barrier(n), [None] * n
    found: list[Any] = [None] * n
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            found[rank] = run(ThreadShares(rank, barrier, board))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if errors:
        raise (real or errors)[0]
    return found
