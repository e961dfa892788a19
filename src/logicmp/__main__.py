"""`python -m logicmp` and `logicmp`: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; an interrupt while it is imported is reported without a traceback."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
