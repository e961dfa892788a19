"""Fixture files: what goes in, then, indented, what must come out.

    # why the case is there
    2 Smokes(x) => Cancer(x)
      Smokes(thing)
      ...

A comment is a line that starts with `# ` (so that `#include` is none). A blank line between two indented lines belongs
to what must come out; a block ends where the next line without indentation starts.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    """The pairs (text, expected) of a fixture file, both without the last newline."""
    given: list[str] = []
    expected: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), "# end"]:
        is_comment = line == "#" or line.startswith("# ")
        if line[:1].isspace():
            assert given, f"{path}: {line!r} is indented, but nothing stands above it"
            expected.append(line)
        elif not line:
            (expected or given).append(line)
        else:
            if expected:
                yield "\n".join(given).strip("\n"), textwrap.dedent("\n".join(expected)).strip("\n")
                given, expected = [], []
            if not is_comment:
                given.append(line)
    assert not "".join(given), f"{path}: the last block has nothing that must come out"
