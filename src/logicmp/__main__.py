"""`python -m logicmp` and `logicmp`: the command line."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Run the command line; an interrupt while it is imported is reported without a traceback."""
    # limits of time count from the start of the process
    started = time.monotonic() - _age()
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    from .limits import LIMIT_REACHED

    try:
        run(started)
    except SystemExit as end:
        if end.code == LIMIT_REACHED:
            # at once: freeing gigabytes and unloading modules takes a second
            with suppress(OSError):
                sys.stdout.flush()
            os._exit(LIMIT_REACHED)
        raise


def _age() -> float:
    """The seconds that this process has run, or waited for a processor where the system counts that."""
    try:
        running, waiting, _ = Path("/proc/self/schedstat").read_text().split()
        return max((int(running) + int(waiting)) / 1e9, time.process_time())
    except (OSError, ValueError):
        return time.process_time()


if __name__ == "__main__":
    main()
