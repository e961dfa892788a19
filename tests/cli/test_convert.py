"""`logicmp convert`: files for other programs, lines for what they lack, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import Shell

MODEL = """\
person = {Anna, Bob}
*Friends(person, person)
Smokes(person)
0.8 Friends(x,y) => (Smokes(x) <=> Smokes(y))
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    shell = Shell(tmp_path, monkeypatch, capsys)
    shell.write("model.mln", MODEL)
    shell.write("facts.db", "Friends(Anna, Bob)\n0.7 Smokes(Anna)\n")
    return shell


def test_an_mln_file_and_its_db_are_written(shell: Shell) -> None:
    ended = shell("convert", "model.mln", "-e", "facts.db", "out.mln")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err == "Friends is closed (*): run Alchemy with -cw Friends\n1 rule and 2 facts in out.mln\n"
    assert (shell.folder / "out.db").read_text() == "Friends(Anna,Bob)\n"
    # soft evidence is a rule about one atom
    assert (shell.folder / "out.mln").read_text() == (
        "person = {Anna, Bob}\n\nFriends(person, person)\nSmokes(person)\n\n"
        "0.8 Friends(x, y) => (Smokes(x) <=> Smokes(y))\n0.8472978603872034 Smokes(Anna)\n")


@pytest.mark.parametrize("dialect", ["tuffy", "pracmln", "expressgnn", "psl", "csv"])
def test_there_and_back_gives_the_same_answers(shell: Shell, dialect: str) -> None:
    out = "out.mln" if dialect in ("tuffy", "pracmln") else "out"
    assert shell("convert", "model.mln", "-e", "facts.db", out, "--to", dialect).status == 0
    facts = ["-e", "out.db"] if out == "out.mln" else []
    assert shell("convert", out, *facts, "back.mln", "--from", dialect, "--to", "alchemy").status == 0
    words = ("-q", "Smokes", "-cw", "Friends", "-m", "exact", "--quiet")
    want = shell("infer", "-i", "model.mln", "-e", "facts.db", *words)
    assert shell("infer", "-i", "back.mln", "-e", "back.db", *words) == want


def test_the_dialect_of_a_folder_is_found(shell: Shell) -> None:
    for dialect in ("expressgnn", "psl", "csv"):
        assert shell("convert", "model.mln", "-e", "facts.db", dialect, "--to", dialect).status == 0
        ended = shell("convert", dialect, f"{dialect}.mln")
        assert ended.status == 0
        assert (shell.folder / f"{dialect}.db").read_text().count("Friends") == 1


@pytest.mark.parametrize("words, message", [
    (("model.mln", "out"), "the dialect of 'out' is not known\nhint: add --to alchemy, tuffy, pracmln, "),
    (("model.mln", "model.mln"), "the rules would overwrite the input 'model.mln'"),
    (("model.mln", "model.db", "--to", "tuffy", "-e", "model.db"), "the rules would overwrite the input 'model.db'"),
    (("model.mln", "facts.db", "--to", "psl"), "cannot write the folder 'facts.db': it is a file"),
    (("model.mln", "none/out", "--to", "psl"), "cannot write the folder 'none/out': there is no folder 'none'"),
    ((".", ".", "--to", "csv"), "the files would overwrite the input '.'"),
    (("none.mln", "out.mln"), "cannot read 'none.mln': No such file or directory"),
    (("model.psl", "out.mln", "-e", "facts.db"), "-e is given, but PSL's facts are listed in its .data file"),
])
def test_errors_say_what_to_do(shell: Shell, words: tuple[str, ...], message: str) -> None:
    ended = shell("convert", *words)
    assert ended.status == 1
    assert message in ended.err
