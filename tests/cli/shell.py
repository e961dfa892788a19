"""Run the program in a folder of its own; get its output, its messages and its exit status."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import pytest

from logicmp.cli.app import main

SMOKING = """\
person = {Anna, Bob}
Smokes(person)
Friends(person, person)
Cancer(person)
Rain

1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
Smokes(x) <=> Cancer(x).
"""


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Shell:
    """Runs the program in a folder of its own, in this process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "80")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def __call__(self, *words: str, stdin: str = "") -> Ended:
        self.monkeypatch.setattr("sys.argv", ["logicmp", *words])
        self.monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        status = 0
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        return Ended(status, *self.capsys.readouterr())


LINKS = """\
Friends(person, person)
Knows(person, person)
Smokes(person)
1.5 Friends(x,y) ^ Smokes(x) => Smokes(y)
0.8 Friends(x,y) ^ Friends(y,z) => Knows(x,z)
"""


def write_links(shell: Shell) -> None:
    """A graph with so many people that Friends and Knows are lists."""
    shell.write("links.mln", LINKS)
    shell.write("links.db", "".join(f"Friends(P{k},P{k + 1})\n" for k in range(1100)) + "Smokes(P1)\nKnows(P1,P2)\n")
    shell.write("knows.db", "".join(f"Knows(P{k},P{k + 2})\n" for k in range(0, 600)))
