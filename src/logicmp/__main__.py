"""`python -m logicmp` and `logicmp`: the command line."""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Run the command line; an interrupt while it is imported is reported without a traceback."""
    # limits of time count from the start of the process, up to the time that it had to wait
    started = time.monotonic() - time.process_time()
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    run(started)


if __name__ == "__main__":
    main()
