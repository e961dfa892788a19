"""Limits on time, memory and groundings, progress callbacks, and checks for optional packages.

Room: errors -> **limits** -> all others.

    limits = Limits(seconds=60)      the clock starts here, once for a command, and all parts of the run share it
    limits.is_over(), limits.left()  methods stop with the best answer so far
    limits.check("grounding")        raises where there is no answer yet
    limits.allow(8 * n, "the ground network")            raises before too much is allocated
    with kept(limits): ...           a command: an alarm and a limit of the process, for what checks neither
    need("numba", "sampling", "method 'gibbs'")
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

from .errors import LimitError, LogicMPError

# of all rules together; a million takes about 200 megabytes, with what a method makes of them
MAX_GROUNDINGS = 10_000_000
# of the memory of the machine, unless a limit is given
SHARE = 0.8
# a command without an answer is ended this many seconds after its time; one with an answer later, by a factor and
# seconds: methods stop by themselves, and need a moment for that
SOON = 0.25
LATE, GRACE = 1.15, 0.6
# tasks before the first step of a method
PREPARATIONS = ("reading", "importing", "grounding")
# the exit status of a command that a limit of time or memory stopped
LIMIT_REACHED = 3
# called with the name of a task, how much of it is done, and how much there is to do
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """A no-op progress callback."""


class Limits:
    """Time, memory and groundings that a run may use; its clock starts when it is made.

    >>> Limits().is_over(), Limits(seconds=0).is_over()
    (False, True)

    Args:
        seconds: time limit, None for no limit.
        groundings: how many groundings of all rules together the evidence may leave open.
        memory: bytes that the run may use, None for a share of what the machine has.
        now: the clock, in seconds.
        start: when the clock started, by default now.
    """

    def __init__(self, seconds: float | None = None, groundings: int = MAX_GROUNDINGS, memory: int | None = None,
                 now: Callable[[], float] = time.monotonic, start: float | None = None):
        if seconds is not None and not (_is_number(seconds, (int, float)) and seconds >= 0):
            raise LogicMPError(f"the time limit must be a number of seconds, at least 0, got {seconds!r}")
        if not (_is_number(groundings, int) and groundings >= 0):
            raise LogicMPError(f"the limit of groundings must be a whole number, at least 0, got {groundings!r}")
        if memory is not None and not (_is_number(memory, int) and memory > 0):
            raise LogicMPError(f"the memory limit must be a whole number of bytes, above 0, got {memory!r}")
        self.seconds = seconds
        self.groundings = groundings
        self.memory = memory
        self.now = now
        self.start = now() if start is None else start
        # of which this is a part
        self._whole: Limits | None = None
        self._per_byte = 0.0

    def is_over(self, more: float = 0.0) -> bool:
        """Whether the time limit is reached.

        Args:
            more: seconds that the next step will take; it is not begun if it would end too late.
        """
        return self.seconds is not None and self.now() - self.start + more >= self.seconds

    def left(self) -> float | None:
        """The seconds that are left, None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (self.now() - self.start))

    def part(self, share: float, per_byte: float = 0.0) -> Limits:
        """Limits for a first part of the work: a share of the time that is left, from now on.

        Args:
            share: of the time.
            per_byte: seconds that the part takes for each byte that it needs; what would take too long is rejected
                before it is made.
        """
        left = self.left()
        found = Limits(None if left is None else round(share * left, 2), self.groundings, self.memory, self.now)
        found._whole, found._per_byte = self, per_byte
        return found

    def check(self, what: str) -> None:
        """Raise an error if the time is over.

        Args:
            what: the work that is not done yet, as in "while grounding".
        """
        if self.is_over():
            raise self.error(what)

    def error(self, what: str) -> LimitError:
        """The error that the time is over; `what` as for `check`."""
        if self._whole is not None and self._whole.is_over():
            # the limit that the user gave
            return self._whole.error(what)
        return LimitError(f"the time limit of {self.seconds:g} s was reached while {what}", MORE_TIME)

    def allow(self, n_bytes: float, what: str) -> None:
        """Raise an error if something needs more memory than a run may use.

        Args:
            n_bytes: the memory that it needs.
            what: the name of what needs it.
        """
        most = self.memory or int(SHARE * machine_memory())
        if n_bytes > most:
            where = "the limit" if self.memory else f"{SHARE:.0%} of the memory of this machine"
            raise LimitError(f"{what} needs {shown_bytes(n_bytes)}, {where} is {shown_bytes(most)}", MORE_MEMORY)
        if self.seconds is not None and self._per_byte * n_bytes > self.seconds > 0:
            raise LimitError(f"{what} takes about {self._per_byte * n_bytes:.3g} s, and {self.seconds:.3g} s are left "
                             "for it", MORE_TIME)


MORE_TIME = "raise --max-seconds (max_seconds), give more evidence, or use -m mean-field"
MORE_MEMORY = "raise --max-memory (max_memory), give more evidence, or name fewer candidates (--candidates)"


def machine_memory() -> int:
    """The bytes of memory of this machine, or of the container that the process is in."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**33
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            found = min(found, int(Path(path).read_text()))
        except (OSError, ValueError):
            continue
    return found


def shown_bytes(n: float) -> str:
    """A number of bytes for people.

    >>> shown_bytes(2_500_000_000), shown_bytes(12_000), shown_bytes(7)
    ('2.5 GB', '12 kB', '7 bytes')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n:g} bytes"


@contextmanager
def kept(limits: Limits, progress: Progress = silent, is_process: bool = False) -> Iterator[Progress]:
    """End the work inside when it is late or needs too much memory, and say how far it came.

    Methods look at the clock themselves and stop with the best answer so far. What does not (a long join, a solver, the
    import of a package) is interrupted by an alarm: soon if no method has made a step, else a little later. A memory
    limit is one of the process.

    Args:
        limits: what to keep.
        progress: called as usual; the callback to hand on is yielded.
        is_process: whether the process may be ended if the work does not react to the alarm, as in an import.
    """
    last = [""]
    has_step = [False]

    def note(what: str, done: int, total: int) -> None:
        last[0] = f" while {what}, {done:,} of {total:,} done" if total else f" while {what}"
        has_step[0] = done > 0 and what not in PREPARATIONS
        progress(what, done, total)

    def ring(number: int, frame: FrameType | None) -> None:
        assert limits.seconds is not None
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        late = limits.now() - limits.start - LATE * limits.seconds - GRACE
        if has_step[0] and late < 0:
            return
        package = _imported(frame)
        if package:
            last[0] = f" while importing {package}"
        error = LimitError(f"the time limit of {limits.seconds:g} s was reached{last[0]}", MORE_TIME)
        # a module that is imported in part cannot be used again, so an import goes on while there is time for it
        if late < 0.2 and package:
            return
        if is_process and late >= 0.2:
            os.write(2, f"error: {error}\n".encode())
            os._exit(LIMIT_REACHED)
        # llvmlite calls Python from C, where an exception would be printed and lost; the next alarm comes soon
        if not package and not _runs(frame, "llvmlite"):
            # time to clean up
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            raise error

    has_alarm = (limits.seconds is not None and hasattr(signal, "SIGALRM")
                 and threading.current_thread() is threading.main_thread())
    old = _limit_memory(limits.memory)
    if has_alarm:
        assert limits.seconds is not None
        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(limits.seconds + SOON - (limits.now() - limits.start), 1e-3))
    try:
        yield note
    except (MemoryError, RuntimeError) as cause:
        if isinstance(cause, RuntimeError) and "can't allocate memory" not in str(cause):
            raise
        most = f"the limit is {shown_bytes(limits.memory)}" if limits.memory else "the machine has no more"
        raise LimitError(f"the memory is used up{last[0]}: {most}", MORE_MEMORY) from None
    finally:
        if has_alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        _limit_memory(None, old)


def _imported(frame: FrameType | None) -> str:
    """The package that is imported in a frame, the first of another project if there are several; "" if none is."""
    found, own = "", __name__.partition(".")[0]
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            package = str(frame.f_locals.get("name", "")).partition(".")[0]
            found = package if package not in ("", own) else found or own
        frame = frame.f_back
    return found


def _runs(frame: FrameType | None, package: str) -> bool:
    """Whether a function of a package is running in a frame."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            return True
        frame = frame.f_back
    return False


def _limit_memory(n_bytes: int | None, old: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Limit the memory that this process may map for data, or set an old limit again; return the limit before."""
    if n_bytes is None and old is None:
        return None
    try:
        import resource
    except ImportError:
        # not on this system: only estimates limit the memory
        return None
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = before[1] if before[1] != resource.RLIM_INFINITY else None
    if old is not None:
        resource.setrlimit(resource.RLIMIT_DATA, old)
    elif n_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes if most is None else min(n_bytes, most), before[1]))
    return before


def _is_number(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def keep_freed_memory(is_kept: bool) -> None:
    """Whether the C library keeps the memory of freed arrays for later ones, or returns it to the machine at once.

    By default glibc keeps that of arrays of up to 32 MB, into which later ones need not fit. Kept memory saves time
    where the same arrays are made again and again.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
        library.mallopt(-3, 2**25 if is_kept else 2**18)
        library.mallopt(-1, 2**26 if is_kept else 2**18)
        library.malloc_trim(0)


def need(module: str, extra: str, what: str, instead: str = "") -> None:
    """Raise an error with the command to type if an optional package is not installed.

    >>> need("no_such_module", "sampling", "method 'gibbs'")
    Traceback (most recent call last):
    logicmp.errors.LogicMPError: method 'gibbs' needs no_such_module, which is not installed
    hint: pip install "logicmp[sampling]"

    Args:
        extra: the extra of this package that installs the module.
        what: the part of the program that needs it.
        instead: what the user can do without it.
    """
    try:
        import_module(module)
    except ImportError as cause:
        why = "is not installed" if isinstance(cause, ModuleNotFoundError) else f"cannot be imported: {cause}"
        raise LogicMPError(f"{what} needs {module}, which {why}",
                           f'pip install "logicmp[{extra}]"{f"; or {instead}" if instead else ""}') from None
