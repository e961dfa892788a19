"""A shell for every test of a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import SMOKING, Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The program, in a folder with `smoking.mln`."""
    shell = Shell(tmp_path, monkeypatch, capsys)
    shell.write("smoking.mln", SMOKING)
    return shell
