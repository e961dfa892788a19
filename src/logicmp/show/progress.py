"""Messages on standard error, and progress of long work, shown on a terminal only and cleared when it is done."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# seconds of work before it is worth a bar
AFTER = 0.5


def print_message(text: str) -> None:
    """Print a line on standard error; drop it if it cannot be written, because the results matter more."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@contextmanager
def shown_progress(quiet: bool = False, after: float = AFTER) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback `(what, done, total)` that draws a bar for each `what`; text in brackets can change on the way.

    Args:
        quiet: draw nothing.
        after: seconds before anything is drawn.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    bars = _Bars()
    timer = threading.Timer(after, bars.start)
    timer.daemon = True
    if after:
        timer.start()
    else:
        bars.start()
    try:
        yield bars.show
    finally:
        timer.cancel()
        bars.stop()


class _Bars:
    """The state of all tasks, and the bars of those that are not done; a timer starts drawing from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: dict[str, tuple[str, int, int]] = {}
        self._tasks: dict[str, TaskID] = {}
        self._drawn: Progress | None = None
        self._is_over = False

    def show(self, what: str, done: int, total: int) -> None:
        key = what.partition(" (")[0]
        with self._lock:
            if key not in self._state:
                self._finish_others()
            self._state[key] = what, done, total
            self._draw(key)

    def _finish_others(self) -> None:
        """Work of unknown size, or that is done, ends when the next begins."""
        for key in [key for key, (_, done, total) in self._state.items() if done >= total]:
            del self._state[key]
            if self._drawn is not None and key in self._tasks:
                self._drawn.remove_task(self._tasks.pop(key))

    def _draw(self, key: str) -> None:
        if self._drawn is None:
            return
        what, done, total = self._state[key]
        if key not in self._tasks:
            self._tasks[key] = self._drawn.add_task(what, total=total or None)
        self._drawn.update(self._tasks[key], description=what, completed=done, total=total or None)

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        with self._lock:
            if self._is_over:
                return
            self._drawn = Progress(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
                                   TimeElapsedColumn(), Left(), TextColumn("left"), console=Console(stderr=True),
                                   transient=True)
            self._drawn.start()
            for key in self._state:
                self._draw(key)

    def stop(self) -> None:
        with self._lock:
            self._is_over = True
            if self._drawn is not None:
                self._drawn.stop()


@contextmanager
def shown_status(start: str) -> Iterator[Callable[[str, float], None]]:
    """Yield a callback `(text, done)` that replaces the text of one line, for work of which a share is done."""
    if not sys.stderr.isatty():
        yield lambda text, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("about"),
                  TimeRemainingColumn(), TextColumn("left"), console=Console(stderr=True), transient=True) as bars:
        # without a total, the bar shows that work goes on
        task = bars.add_task(start, total=None)
        yield lambda text, done: bars.update(task, description=text, completed=done, total=1.0)
