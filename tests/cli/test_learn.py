"""`logicmp learn`: the file it writes, its report, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Ended, Shell

LEARN = """\
person = {Anna, Bob, Carl, Dora}
Smokes(person)
Cancer(person)
Friends(person, person)

Smokes(x) => Cancer(x)
1.5 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""


def with_databases(shell: Shell) -> Shell:
    shell.write("model.mln", LEARN)
    shell.write("a.db", "Smokes(Anna)\nSmokes(Bob)\nSmokes(Carl)\nCancer(Anna)\nCancer(Bob)\n")
    shell.write("b.db", "Smokes(Anna)\nCancer(Bob)\n")
    return shell


def test_learn_writes_a_theory_with_its_report_on_top(shell: Shell) -> None:
    report = """\
pseudo-likelihood of Cancer, exact semantics; weights learned: 1
databases: a.db
log pseudo-likelihood: -2.77259 before, -2.60269 after 4 iterations (converged)
Gaussian prior: mean 0, standard deviation 100
"""
    words = ("learn", "-i", "model.mln", "-t", "a.db", "-ne", "Cancer", "-o", "learned.mln")
    assert with_databases(shell)(*words) == Ended(0, f"{report}written: learned.mln\n", "")
    written = (shell.folder / "learned.mln").read_text()
    assert written.startswith("".join(f"// {line}\n" for line in report.splitlines()))
    assert "\n// Smokes(x) => Cancer(x)\n0.693" in written
    assert shell("check", "learned.mln").status == 0
    # again with the same data: the same file
    shell(*words, "--report", "learned.html")
    assert (shell.folder / "learned.mln").read_text() == written
    page = (shell.folder / "learned.html").read_text(encoding="utf-8")
    assert "Smokes(x) =&gt; Cancer(x)</td><td>none</td><td class=\"number\">0.693" in page
    assert page.count("<polyline") == 2
    # no column of changes if no rule had a weight
    assert "<th scope=\"col\">change</th>" not in page
    shell(*words[:-1], "again.mln", "--relearn", "all", "--report", "again.html")
    page = (shell.folder / "again.html").read_text(encoding="utf-8")
    assert "<th scope=\"col\">change</th>" in page


def test_learn_as_json_from_a_list_of_databases(shell: Shell) -> None:
    status, out, err = with_databases(shell)(
        "learn", "-i", "model.mln", "-t", "a.db,b.db", "-m", "discriminative", "-ne", "Smokes,Cancer", "-o", "out.mln",
        "--relearn", "7", "--held-out", "b.db", "--checkpoint", "run", "--format", "json")
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert report["databases"] == ["a.db", "b.db"] and report["held_out"] == ["b.db"] and report["n_weights"] == 2
    assert [entry["line"] for entry in report["weights"]] == [6, 7]
    assert (shell.folder / "run").exists()


def test_methods_of_the_command_are_those_of_the_library() -> None:
    from logicmp.cli.learn import LearnMethod
    from logicmp.learning.objectives import METHODS

    assert [method.value for method in LearnMethod] == list(METHODS)


def test_interrupted_learning_leaves_a_checkpoint_and_the_old_output(
        shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from logicmp.learning import train

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    with_databases(shell).write("out.mln", "old")
    words = ("learn", "-i", "model.mln", "-t", "a.db", "-o", "out.mln", "--checkpoint", "run")
    with monkeypatch.context() as patch:
        save = train.save_checkpoint
        patch.setattr(train, "save_checkpoint", lambda *args: (save(*args), interrupted()))
        assert shell(*words) == Ended(130, "", "interrupted; run the same command again to continue from 'run'\n")
    assert (shell.folder / "out.mln").read_text() == "old" and (shell.folder / "run").exists()
    assert shell(*words).status == 0


@pytest.mark.parametrize("words, message", [
    (["-t", "a.db", "-o", "none/out.mln"],
     "cannot write 'none/out.mln': there is no folder 'none'"),
    (["-t", "c.db", "-o", "out.mln"], "cannot read 'c.db': No such file or directory"),
    (["-t", "a.db", "-o", "out.mln", "--relearn", "x"], "--relearn must be 'all' or a list of line numbers, got 'x'"),
    (["-t", "a.db", "-o", "out.mln", "-m", "discriminative"],
     "method 'discriminative' needs query predicates"),
])
def test_wrong_input_is_an_error(shell: Shell, words: list[str], message: str) -> None:
    status, out, err = with_databases(shell)("learn", "-i", "model.mln", *words)
    assert (status, out) == (1, "")
    assert err.startswith(f"error: {message}\n")
    assert not (shell.folder / "out.mln").exists()


@pytest.mark.parametrize("words, message", [
    (("-o", "model.mln"), "the learned theory would overwrite the input 'model.mln'"),
    (("-o", "b.db"), "the learned theory would overwrite the input 'b.db'"),
    (("-o", "new.mln", "--checkpoint", "new.mln"), "the checkpoint would overwrite the learned theory 'new.mln'"),
    (("-o", "new.mln", "--checkpoint", "a.db"), "the checkpoint would overwrite the input 'a.db'")])
def test_a_result_never_overwrites_an_input(shell: Shell, words: tuple[str, ...], message: str) -> None:
    got = with_databases(shell)("learn", "-i", "model.mln", "-t", "a.db,b.db", *words)
    assert got == Ended(1, "", f"error: {message}\nhint: write to another file\n")
    assert (shell.folder / "model.mln").read_text() == LEARN


def test_facts_given_as_rules_are_rejected(shell: Shell) -> None:
    assert with_databases(shell)("learn", "-i", "a.db", "-t", "b.db", "-o", "new.mln") == Ended(
        1, "", "error: -i is for rules, got the database 'a.db'\nhint: give facts with -t a.db\n")


def test_weights_are_written_as_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    from pyarrow import parquet

    shell = Shell(tmp_path, monkeypatch, capsys)
    shell.write("a.mln", "Smokes(p)\n(Smokes(x))\n")
    shell.write("a.db", "Smokes(Anna)\nSmokes(Bob)\n")
    for name in ("w.csv", "w.parquet"):
        assert shell("learn", "-i", "a.mln", "-t", "a.db", "-o", name).status == 0
    header, row = (tmp_path / "w.csv").read_text().splitlines()
    assert (header, row.rpartition(",")[0]) == ("line,rule,weight", "2,Smokes(x)")
    table = parquet.read_table(tmp_path / "w.parquet").to_pydict()
    assert table == {"line": [2], "rule": ["Smokes(x)"], "weight": [float(row.rpartition(",")[2])]}
