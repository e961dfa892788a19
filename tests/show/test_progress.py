"""Progress is shown on a terminal and nowhere else."""

from __future__ import annotations

import io

import pytest

from logicmp.show.progress import shown_progress, shown_status


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(quiet: bool) -> None:
    with shown_progress(quiet) as show:
        show("grounding", 1, 2)
        show("grounding", 2, 2)


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    run(quiet=False)
    assert "grounding" in terminal.getvalue() and "2/2" in terminal.getvalue()


def test_a_quiet_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    run(quiet=True)
    assert terminal.getvalue() == ""


def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr", file := io.StringIO())
    run(quiet=False)
    with shown_status("reading") as show:
        show("iteration 1", 0.5)
    assert file.getvalue() == "" and capsys.readouterr().out == ""


def test_a_status_line_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with shown_status("reading") as show:
        show("iteration 1", 0.5)
    assert "iteration 1" in terminal.getvalue() and "left" in terminal.getvalue()
