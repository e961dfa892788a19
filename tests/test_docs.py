"""Every document runs: Python blocks, console sessions, and the examples in docstrings.

A ```python block is run, all blocks of a document in one namespace and one folder; a ```text block directly after it is
what it prints. In a ```console block, `$ logicmp ...` is run and the lines below are what comes out, results and
messages together; `$ cat FILE` shows a file, which is made if nothing has made it yet. Other commands are not run.
A ```mln block is a theory, a ```db block holds facts about the theory above it: both must be readable.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fixtures_reader import ROOT

import logicmp
from logicmp.cli.app import main

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str
    line: int
    # only blanks stand between this block and the one above
    follows: bool


def read_blocks(text: str) -> Iterator[Block]:
    end = 0
    for found in FENCE.finditer(text):
        yield Block(found[1], found[2], text.count("\n", 0, found.start()) + 1, not text[end : found.start()].strip())
        end = found.end()


def run_program(words: list[str], stdin: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the program prints, results and messages together."""
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        main()
    return printed.getvalue()


def run_console(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = session.partition("\n")
        *before, last = ([*shlex.split(part, comments=True)] for part in command.split(" | "))
        stdin = "".join(Path(name).read_text(encoding="utf-8") for words in before for name in words[1:])
        if last[:1] == ["logicmp"]:
            assert run_program(last, stdin, monkeypatch).rstrip() == expected.rstrip(), f"$ {command}"
        elif last[:1] == ["cat"]:
            path = Path(last[1])
            if not path.exists():
                path.write_text(expected.rstrip() + "\n", encoding="utf-8")
            assert path.read_text(encoding="utf-8").rstrip() == expected.rstrip(), f"$ {command}"


def run_document(text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = list(read_blocks(text))
    names: dict[str, Any] = {"__name__": name}
    theory = None
    for block, after in zip(blocks, [*blocks[1:], None], strict=False):
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                # blank lines in front, so that a traceback has the line of the document
                exec(compile("\n" * block.line + block.text, name, "exec"), names)
            if after is not None and after.language == "text" and after.follows:
                assert printed.getvalue().rstrip() == after.text.rstrip(), f"{name}:{block.line}"
        elif block.language == "console":
            run_console(block.text, monkeypatch)
        elif block.language == "mln":
            theory = logicmp.parse_theory(block.text, f"{name}:{block.line}")
        elif block.language == "db":
            assert theory is not None, f"{name}:{block.line} has no theory above it"
            assert logicmp.parse_facts(block.text, theory, f"{name}:{block.line}").warnings == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_document_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    run_document(path.read_text(encoding="utf-8"), path.name, monkeypatch)


@pytest.mark.parametrize("text", [
    "```python\nprint(1)\n```\n\n```text\n2\n```\n",
    "```python\n1 / 0\n```\n",
    "```console\n$ cat a.mln\n1 P(x)\n$ logicmp explain a.mln\nsomething else\n```\n",
    "```console\n$ logicmp explain missing.mln\n```\n",
    "```mln\n1 P(x\n```\n",
    "```mln\n1 P(x)\n```\n```db\nQ(A)\n```\n",
])
def test_a_wrong_document_fails(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, ZeroDivisionError, logicmp.LogicMPError)):
        run_document(text, "wrong.md", monkeypatch)


def test_a_right_document_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_document("""
```python
x = 1
print(x)
```
```text
1
```
In between.
```console
$ cat a.mln
1 P(x) => P(y)
$ cat a.mln | logicmp explain -
1 P(x) => P(y)
  + P(x) !P(y) [x!=y]
$ make something
never looked at
```
```python
assert x == 1 and open("a.mln").read() == "1 P(x) => P(y)\\n"
```
""", "right.md", monkeypatch)


def test_the_page_of_the_command_line_is_current() -> None:
    spec = importlib.util.spec_from_file_location("make_cli", ROOT / "docs/make_cli.py")
    assert spec is not None and spec.loader is not None
    make_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_cli)
    assert make_cli.PAGE.read_text(encoding="utf-8") == make_cli.build_page(), "run: python docs/make_cli.py"


@pytest.mark.parametrize("module", [
    "logicmp", *(found.name for found in pkgutil.walk_packages(logicmp.__path__, "logicmp."))])
def test_examples_in_docstrings(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
