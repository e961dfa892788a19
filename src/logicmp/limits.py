"""Limits on time and groundings, progress callbacks, and checks for optional packages.

Room: errors -> **limits** -> all others.

    limits = Limits(seconds=60)      the clock starts here, once for a command, and all parts of the run share it
    limits.is_over(), limits.left()
    need("numba", "sampling", "method 'gibbs'")
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module

from .errors import LogicMPError

# of all rules together; a million takes about 200 megabytes, with what a method makes of them
MAX_GROUNDINGS = 10_000_000
# called with the name of a task, how much of it is done, and how much there is to do
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """A no-op progress callback."""


class Limits:
    """Time and groundings that a run may use; its clock starts when it is made.

    >>> Limits().is_over(), Limits(seconds=0).is_over()
    (False, True)

    Args:
        seconds: time limit, None for no limit.
        groundings: how many groundings of all rules together the evidence may leave open.
        now: the clock, in seconds.
    """

    def __init__(self, seconds: float | None = None, groundings: int = MAX_GROUNDINGS,
                 now: Callable[[], float] = time.monotonic):
        if seconds is not None and not (_is_number(seconds, (int, float)) and seconds >= 0):
            raise LogicMPError(f"the time limit must be a number of seconds, at least 0, got {seconds!r}")
        if not (_is_number(groundings, int) and groundings >= 0):
            raise LogicMPError(f"the limit of groundings must be a whole number, at least 0, got {groundings!r}")
        self.seconds = seconds
        self.groundings = groundings
        self.now = now
        self.start = now()

    def is_over(self) -> bool:
        """Whether the time limit is reached."""
        return self.seconds is not None and self.now() - self.start >= self.seconds

    def left(self) -> float | None:
        """The seconds that are left, None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (self.now() - self.start))

    def part(self, share: float) -> Limits:
        """Limits for a first part of the work: a share of the time that is left, from now on."""
        left = self.left()
        return Limits(None if left is None else share * left, self.groundings, self.now)


def _is_number(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


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
