"""What every method takes and gives: a problem, a solution, and the answers a user reads.

Stage: ground, layer -> **infer** -> cli.

    Problem(world, formulas)   ->   Method.solve   ->   Solution(log_odds)   ->   Marginals: {"Smokes(Anna)": 0.93}

Log-odds are what is computed and ranked by: with large counts a probability is 1 in any precision long before the
log-odds stop to differ.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

from .errors import LogicMPError

# called with what is being done, how much of it is done, and how much there is
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """The progress of somebody who does not want to see it."""


class Clock:
    """Tells when the time is up; without a limit it never is.

    >>> Clock(None).is_over(), Clock(0).is_over()
    (False, True)
    """

    def __init__(self, seconds: float | None):
        self.seconds = seconds
        self.start = time.monotonic()

    def is_over(self, part: float = 1.0) -> bool:
        """Whether the time is up, or a part of it."""
        return self.seconds is not None and time.monotonic() - self.start >= part * self.seconds

    def left(self) -> float | None:
        """The seconds that are left; None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.start))


def need(module: str, extra: str, what: str) -> None:
    """Raise if a module that an extra brings is not installed.

    >>> need("no_such_module", "sampling", "method 'gibbs'")
    Traceback (most recent call last):
    logicmp.errors.LogicMPError: method 'gibbs' needs no_such_module, which is not installed
    hint: pip install "logicmp[sampling]"
    """
    try:
        importlib.import_module(module)
    except ImportError:
        raise LogicMPError(f"{what} needs {module}, which is not installed",
                           f'pip install "logicmp[{extra}]"') from None
