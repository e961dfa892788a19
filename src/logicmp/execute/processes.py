"""Processes that work together: they join, watch each other, and if one of them fails, all end with its name.

Room: **execute** -> inference, learning, cli.

    torchrun --nproc-per-node 2 -m logicmp infer ... --distributed

    with joined_processes() as shares: ...
    error: rank 1 has not responded for 25 s: it was killed or stopped, or its machine cannot be reached

torch.distributed reports a broken connection without the rank, and a rank that hangs not at all. So every process
writes a heartbeat into the store: a counter, the collective calls it has begun, and the processor time it has used.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from ..errors import LogicMPError
from ..limits import keep_freed_memory
from .shares import BrokenError, ProcessShares

# seconds between heartbeats; without one for STALE seconds a rank is gone; SOON if a connection is broken already
BEAT, STALE, SOON = 0.5, 25.0, 4.0
# a rank that neither computes nor waits for others for this long hangs; below this share of a processor it is idle
IDLE, IDLE_SHARE = 30.0, 0.005
# a collective call waits this long for ranks that still compute
PATIENCE = timedelta(hours=6)
# seconds to find out who failed when the launcher ends this process
GRACE = 6.0
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def joined_processes() -> Iterator[ProcessShares]:
    """Join the processes that a launcher such as torchrun started; leave them at the end.

    An error in one process ends all of them, with an error that names its rank.
    """
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise LogicMPError(f"several processes need a launcher, which sets {', '.join(missing)}",
                           "torchrun --nproc-per-node 2 -m logicmp infer ... --distributed")
    # the processes of one machine share its memory
    keep_freed_memory(False)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(seconds=60))))
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
    except (RuntimeError, ValueError) as cause:
        raise LogicMPError(f"rank {rank} cannot join the other processes: {str(cause).splitlines()[0]}",
                           "check MASTER_ADDR and MASTER_PORT, and that all processes are started") from None
    shares = ProcessShares()
    watch = _Watch(store, shares)
    before = signal.signal(signal.SIGTERM, watch.terminate) if _is_main() else None
    try:
        watch.start()
        yield shares
        # wait for the others, so that none ends before all have what they need
        shares.agree(False)
        watch.is_done = True
    except BaseException as cause:
        watch.is_done = True
        # then the cause is in another process
        if isinstance(cause, BrokenError):
            raise LogicMPError(watch.find_culprit(), "look at the messages of that rank") from None
        watch.tell(cause)
        raise
    finally:
        watch.stop()
        if before is not None:
            signal.signal(signal.SIGTERM, before)
        dist.destroy_process_group()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


class _Watch(threading.Thread):
    """Writes the heartbeat of this process, and reads those of the others."""

    def __init__(self, store: Any, shares: ProcessShares):
        super().__init__(daemon=True)
        self.store, self.shares = store.clone(), shares
        self.rank, self.size = shares.share.rank, shares.share.size
        self.is_done, self._ended = False, threading.Event()
        self._count = 0
        now = time.monotonic()
        # by rank: the last heartbeat, when it changed, the processor time of its last work, and when that was
        self._beats = {r: "" for r in range(self.size) if r != self.rank}
        self._heard = dict.fromkeys(self._beats, now)
        self._work = dict.fromkeys(self._beats, (0.0, now))
        self._beat()

    def run(self) -> None:
        while not self._ended.wait(BEAT):
            try:
                self._beat()
                reason = self._look(STALE)
            except (RuntimeError, ValueError):
                # the store is gone: with rank 0, or with the launcher
                reason = f"rank {self.rank} cannot reach the store of the processes: rank 0 or the launcher has ended"
            if reason and not self.is_done:
                # the main thread may wait for the others for ever
                sys.stderr.write(f"error: {reason}\n")
                sys.stderr.flush()
                os._exit(1)

    def stop(self) -> None:
        self._ended.set()
        self.join(2 * BEAT)

    def _beat(self) -> None:
        self._count += 1
        # without the time of this thread
        used = time.process_time() - (time.thread_time() if threading.current_thread() is self else 0.0)
        self.store.set(f"logicmp beat {self.rank}", f"{self._count} {int(self.shares.is_waiting)} {used:.3f}")

    def _look(self, stale: float) -> str:
        """Which rank failed, and how; empty if none has."""
        now = time.monotonic()
        for r in self._beats:
            told = f"logicmp failed {r}"
            if self.store.check([told]):
                return f"rank {r} failed: {self.store.get(told).decode()}"
            key = f"logicmp beat {r}"
            beat = self.store.get(key).decode() if self.store.check([key]) else ""
            if beat != self._beats[r]:
                self._beats[r], self._heard[r] = beat, now
                _, is_waiting, used = beat.split()
                then, since = self._work[r]
                if is_waiting == "1" or float(used) - then > IDLE_SHARE * (now - since) + 0.02:
                    self._work[r] = float(used), now
            if now - self._work[r][1] > IDLE:
                return f"rank {r} hangs: for {IDLE:.0f} s it has neither computed nor waited for others"
        # a process that computes can miss some heartbeats; one that is gone misses most
        r = min(self._heard, key=lambda r: self._heard[r], default=self.rank)
        if r != self.rank and now - self._heard[r] > stale:
            return (f"rank {r} has not responded for {now - self._heard[r]:.0f} s: it was killed or stopped, or its "
                    "machine cannot be reached")
        return ""

    def find_culprit(self) -> str:
        """Wait until it is known which rank failed; the own heartbeat goes on, so that the others do not name us."""
        until = time.monotonic() + SOON + 2
        while time.monotonic() < until:
            try:
                reason = self._look(SOON)
            except (RuntimeError, ValueError):
                return "rank 0 or the launcher has ended: the store of the processes cannot be reached"
            if reason:
                return reason
            time.sleep(BEAT / 2)
        return "a connection between the processes was lost, and all ranks still respond"

    def tell(self, cause: BaseException) -> None:
        """Tell the others why this process ends."""
        text = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
        try:
            self.store.set(f"logicmp failed {self.rank}", text)
        except (RuntimeError, ValueError):
            return

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """The launcher ends this process, because another one failed: find out which, but not for long."""
        timer = threading.Timer(GRACE, os._exit, (128 + signal.SIGTERM,))
        timer.daemon = True
        timer.start()
