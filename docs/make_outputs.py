"""Run the examples of README and docs/, and write what they print into the pages.

    python docs/make_outputs.py                          # all pages; look at the difference before you commit it
    python docs/make_outputs.py README.md docs/pairs.md

All ```python blocks of a page run in one namespace and one folder, which has a copy of examples/. A ```text block
directly after one holds what it prints. In a ```console block, `$ logicmp ...` is run, and results and messages follow
together; `$ cat FILE` shows a file, which is created if it does not exist yet. Other commands are not run. A ```mln
block is a theory, a ```db block holds facts about the theory above it: both must be readable.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str
    # where the text is in the page
    start: int
    end: int
    line: int
    # only white space separates this block from the one above
    follows: bool


def read_blocks(page: str) -> Iterator[Block]:
    end = 0
    for found in FENCE.finditer(page):
        line = page.count("\n", 0, found.start()) + 1
        yield Block(found[1], found[2], *found.span(2), line, not page[end : found.start()].strip())
        end = found.end()


def run_page(page: str, name: str) -> str:
    """Return the page with what its examples print when they run now, in the current folder."""
    import logicmp

    names: dict[str, Any] = {"__name__": name}
    # what the block above has printed, if it is a Python block
    printed: str | None = None
    theory, parts, end = None, [], 0
    for block in read_blocks(page):
        text = block.text
        if block.language == "text" and block.follows and printed is not None:
            text = printed
        printed = None
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                # empty lines in front, so that a traceback shows the line of the page
                exec(compile("\n" * block.line + text, name, "exec"), names)
            printed = as_lines(output.getvalue())
        elif block.language == "console":
            text = "".join(run_command(session) for session in re.split(r"^(?=\$ )", text, flags=re.MULTILINE))
        elif block.language == "mln":
            theory = logicmp.parse_theory(text, f"{name}:{block.line}")
        elif block.language == "db":
            assert theory is not None, f"{name}:{block.line} has no theory above it"
            assert logicmp.parse_facts(text, theory, f"{name}:{block.line}").warnings == []
        parts += [page[end : block.start], text]
        end = block.end
    return "".join([*parts, page[end:]])


def run_command(session: str) -> str:
    """Return a command line and what it prints; a command that is not run stays as it is."""
    line, _, below = session.partition("\n")
    *before, last = (shlex.split(part, comments=True) for part in line.removeprefix("$ ").split(" | "))
    stdin = "".join(Path(file).read_text(encoding="utf-8") for words in before for file in words[1:])
    if last[:1] == ["logicmp"]:
        return f"{line}\n{as_lines(run_program(last, stdin))}"
    if last[:1] == ["cat"]:
        path = Path(last[1])
        if not path.exists():
            path.write_text(as_lines(below), encoding="utf-8")
        return f"{line}\n{as_lines(path.read_text(encoding='utf-8'))}"
    return session


def run_program(words: list[str], stdin: str) -> str:
    """Return what the program prints, results and messages together."""
    from logicmp.cli import main

    with (contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output),
          contextlib.suppress(SystemExit), mock.patch("sys.argv", words), mock.patch("sys.stdin", io.StringIO(stdin))):
        main()
    return output.getvalue()


def as_lines(text: str) -> str:
    """Return the text with one line end after its last line, or nothing."""
    return text.rstrip() + "\n" if text.strip() else ""


def main(paths: list[Path]) -> None:
    os.environ["COLUMNS"] = "80"
    for path in paths:
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "examples", Path(folder, "examples"))
            with contextlib.chdir(folder):
                now = run_page(page, path.name)
        if now != page:
            path.write_text(now, encoding="utf-8")
            print(f"changed: {path.name}")


if __name__ == "__main__":
    main([Path(name).resolve() for name in sys.argv[1:]] or PAGES)
