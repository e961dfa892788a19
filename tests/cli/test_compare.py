"""`logicmp compare`: one table, a process for each method."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Shell

FILES = ("-i", "model.mln", "-e", "facts.db", "-q", "Smokes")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    shell = Shell(tmp_path, monkeypatch, capsys)
    shell.write("model.mln", "1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n0.4 Smokes(x)\n")
    shell.write("facts.db", "Friends(Anna, Bob)\nFriends(Bob, Carl)\nSmokes(Anna)\n")
    return shell


def test_methods_beside_each_other(shell: Shell) -> None:
    status, out, err = shell("compare", *FILES, "-m", "bp,hl-mrf", "--plot", "two.png", "--report", "two.html",
                             "--max-seconds", "60")
    assert (status, err) == (0, "report in two.html\nplot in two.png\n")
    head, bp, hlmrf, last = out.splitlines()
    assert head.split() == ["method", "seconds", "memory", "status", "log", "Z", "largest", "mean"]
    assert bp.split()[0] == "bp" and bp.split()[4:] == ["converged", "-", "-", "-"]
    assert hlmrf.split()[0] == "hl-mrf" and 0 < float(hlmrf.split()[-2]) < 1
    assert last == "largest and mean difference to bp over 3 answers"
    assert (shell.folder / "two.png").stat().st_size > 10_000
    page = (shell.folder / "two.html").read_text(encoding="utf-8")
    assert "hl-mrf" in page and page.count("<circle") == 3
    assert f'<td>bp</td><td class="number">{float(bp.split()[1]):g}</td>' in page


def test_json_has_the_answers_and_a_method_that_fails_is_a_row(shell: Shell) -> None:
    status, out, _ = shell("compare", *FILES, "-m", "bp,hl-mrf", "--format", "json", "--set", "step_size=1")
    # bp has no such option, and the reference must have answers
    assert (status, out) == (1, "")
    status, out, _ = shell("compare", *FILES, "-m", "hl-mrf,bp", "--format", "json", "--set", "step_size=1")
    first, second = json.loads(out)
    assert status == 0
    assert set(first["answers"]) == {"Smokes(Anna)", "Smokes(Bob)", "Smokes(Carl)"}
    assert first["memory"] > 10_000_000 and first["seconds"] > 0 and first["largest"] == 0
    assert (second["status"], second["answers"]) == ("failed", None)
    assert second["error"].startswith("method 'bp' has no option 'step_size'")


@pytest.mark.parametrize("words, message", [
    (("-m", "bp,gibs"), "unknown method 'gibs'\nhint: did you mean 'gibbs'?"),
    (("-m", "bp"), "compare needs at least two methods, got 'bp'\nhint: for example -m exact,bp"),
    (("--results", "a.txt"), "compare has no option '--results'"),
    (("-e", "-"), "compare cannot read from standard input"),
    (("-m", "bp,hl-mrf", "--wrld", "open"), "logicmp infer rejects these options:"),
])
def test_wrong_usage_is_an_error(shell: Shell, words: tuple[str, ...], message: str) -> None:
    ended = shell("compare", *FILES, *words)
    assert ended.status == 1
    assert ended.err.startswith(f"error: {message}")
