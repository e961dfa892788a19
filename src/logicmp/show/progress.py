"""Messages on standard error, and progress of long work, shown on a terminal only and cleared when it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def print_message(text: str) -> None:
    """Print a line on standard error; drop it if it cannot be written, because the results matter more."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@contextmanager
def shown_progress(quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback `(what, done, total)` that draws a bar for each `what`."""
    if quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                  TimeRemainingColumn(), TextColumn("left"),
                  console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show


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
