"""Progress is shown on a terminal and nowhere else."""

from __future__ import annotations

import io
import time

import pytest

from logicmp.show.progress import shown_progress, shown_status


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(quiet: bool) -> None:
    with shown_progress(quiet, after=0) as show:
        show("grounding", 1, 2)
        show("grounding", 2, 2)


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    run(quiet=False)
    assert "grounding" in terminal.getvalue() and "100%" in terminal.getvalue() and "left" in terminal.getvalue()


def test_short_work_shows_nothing_and_long_work_what_it_does_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    with shown_progress() as show:
        show("reading", 0, 0)
    assert terminal.getvalue() == ""
    with shown_progress(after=0.01) as show:
        show("reading", 0, 0)
        show("comparing (bp)", 0, 2)
        deadline = time.monotonic() + 30
        while "comparing (bp)" not in terminal.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # the next text of the same bar
        show("comparing (exact)", 1, 2)
    assert "50%" in terminal.getvalue() and "reading" not in terminal.getvalue()


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
