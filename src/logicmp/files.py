"""Files, includes and folders: from a path to a theory.

Stage: files -> **parse**.

    Theory.from_file("smoking.mln")            an .mln file of Alchemy, Tuffy or pracmln
    Theory.from_file("uw_cse/ai")              a folder of ExpressGNN with `predicates`, `rules` and `facts`
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from .errors import LogicMPError, RuleError, Source, Span


def read_stdin(hint: str) -> Source:
    try:
        return Source("<stdin>", sys.stdin.read())
    except UnicodeDecodeError as cause:
        raise LogicMPError(f"cannot read the standard input: {cause}", hint) from None


def read_source(path: Path, span: Span | None = None) -> Source:
    """The text of a file; an error names the file, the reason, and the line that asked for it."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise RuleError(f"cannot read {str(path)!r}: {reason}", span, _similar(path)) from None
    for encoding in ("utf-8-sig", "latin-1"):
        try:
            # universal newlines, by hand because the bytes may be latin-1
            return Source(str(path), data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n"))
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 decodes every byte")


def _similar(path: Path) -> str | None:
    import difflib

    folder = path.parent
    if not os.path.isdir(folder):
        return f"there is no folder {str(folder)!r}"
    try:
        close = difflib.get_close_matches(path.name, {p.name for p in folder.iterdir()} - {path.name}, n=1)
    except OSError:
        return None
    return f"did you mean {str(folder / close[0])!r}?" if close else None


def write_whole(path: Path, data: bytes | str, what: str = "") -> None:
    """Write a file whole or not at all: under another name first, then renamed; errors say `what` it is."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)
        temporary.replace(path)
    except OSError as cause:
        raise LogicMPError(f"cannot write {what and what + ' to '}{str(path)!r}: {cause.strerror or cause}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
