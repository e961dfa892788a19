"""Every command as a user meets it: what it prints where, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures_reader import ROOT
from shell import Ended, Shell
from typer.main import get_command

from logicmp.cli.app import app

COMMANDS = list(get_command(app).commands)  # type: ignore[attr-defined]
SMOKING = """\
person = {Anna, Bob}
Smokes(person)
Friends(person, person)
Cancer(person)
Rain

1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
Smokes(x) <=> Cancer(x).
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    shell = Shell(tmp_path, monkeypatch, capsys)
    shell.write("smoking.mln", SMOKING)
    return shell


# help


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_help_with_an_example_and_stands_in_the_docs(shell: Shell, command: str) -> None:
    for option in ("--help", "-h"):
        status, out, err = shell(command, option)
        assert (status, err) == (0, "")
        assert out.startswith(f"Usage: logicmp {command} ")
        assert f"\n      logicmp {command}" in out
    assert f"\n## logicmp {command}\n" in (ROOT / "docs/cli.md").read_text(encoding="utf-8")


def test_without_a_command_there_is_help(shell: Shell) -> None:
    assert shell("--help").out.startswith("Usage: logicmp [OPTIONS] COMMAND [ARGS]...\n")
    # no command is wrong usage, so it is a message and not a result
    assert shell() == Ended(2, "", shell("--help").out)


def test_no_line_of_the_list_of_commands_is_cut(shell: Shell) -> None:
    assert "..." not in shell("--help").out.split("Commands:")[1]


def test_version(shell: Shell) -> None:
    import logicmp

    assert shell("--version") == Ended(0, f"logicmp {logicmp.__version__}\n", "")


# check


def test_check_says_what_it_read(shell: Shell) -> None:
    assert shell("check", "smoking.mln") == Ended(0, """\
smoking.mln: 1 type, 4 predicates, 2 rules, 2 warnings

types
  person       2 constants: Anna, Bob

predicates
  Smokes(person)
  Friends(person, person)
  Cancer(person)
  Rain

rules
     7: 1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
     8: Smokes(x) <=> Cancer(x).

warnings
  line 5: predicate Rain stands in no rule
  line 7: a weighted implication also lowers its premise: an atom there becomes less likely where the conclusion is \
unlikely
""", "")


def test_check_reads_the_facts_too(shell: Shell) -> None:
    shell.write("open.mln", "Works(person, firm)\n*Big(firm)\n1 Works(x, y) v Big(y)")
    shell.write("open.db", "\n".join(f"Works(P{k}, Acme)" for k in range(8)) + "\n!Big(Acme)\nBig(Bolt)\n!Big(Acme)")
    assert shell("check", "open.mln", "-e", "open.db") == Ended(0, """\
open.mln: 2 types, 2 predicates, 1 rule, 1 warning

types
  person       8 constants: P0, P1, P2, P3, P4, P5, ...   (open: facts may add constants)
  firm         2 constants: Acme, Bolt   (open: facts may add constants)

predicates
  Works(person, firm)
  *Big(firm)

rules
     3: 1 Works(x, y) v Big(y)

facts: 10
  Works        8
  Big          2

warnings
  open.db: 1 fact of Big is given again, first on line 11
""", "")


def test_check_as_json(shell: Shell) -> None:
    shell.write("smoking.db", "Smokes(Anna)\n!Friends(Bob, Anna)\n")
    status, out, err = shell("check", "smoking.mln", "--evidence", "smoking.db", "--format", "json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "types": {"person": {"constants": ["Anna", "Bob"], "closed": True}},
        "predicates": {"Smokes": "Smokes(person)", "Friends": "Friends(person, person)", "Cancer": "Cancer(person)",
                       "Rain": "Rain"},
        "rules": [
            {"line": 7, "rule": "1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)", "weight": 1.5, "hard": False,
             "variables": {"x": "person", "y": "person"}},
            {"line": 8, "rule": "Smokes(x) <=> Cancer(x).", "weight": None, "hard": True,
             "variables": {"x": "person"}},
        ],
        "facts": {"Smokes": 1, "Friends": 1},
        "warnings": [
            "line 5: predicate Rain stands in no rule",
            "line 7: a weighted implication also lowers its premise: an atom there becomes less likely "
            "where the conclusion is unlikely",
        ],
    }
    assert json.loads(shell("check", "smoking.mln", "--format", "json").out)["facts"] is None


def test_check_reads_standard_input(shell: Shell) -> None:
    from_file, from_stdin = shell("check", "smoking.mln"), shell("check", "-", stdin=SMOKING)
    assert from_stdin == from_file._replace(out=from_file.out.replace("smoking.mln", "-"))


def test_check_takes_the_grammar(shell: Shell) -> None:
    shell.write("prac.mln", "P(t)\n1 P(x)")
    assert '  1 P("x")\n' not in shell("check", "prac.mln").out
    assert '1 P("x")\n' in shell("check", "prac.mln", "--grammar", "prac").out


def test_check_of_a_rule_that_costs_too_much_is_a_warning(shell: Shell) -> None:
    shell.write("parity.mln", "P(t)\n1 " + " <=> ".join(f"P({name})" for name in "abcdefghijkl"))
    status, out, err = shell("check", "parity.mln")
    assert (status, err) == (0, "")
    assert out.endswith("\nwarnings\n  line 2: this rule needs more than 512 products (1024 so far): "
                        "split it into smaller rules, or raise max_cubes\n")


# explain


def test_explain_shows_the_products(shell: Shell) -> None:
    assert shell("explain", "smoking.mln") == Ended(0, """\
1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
  + Smokes(x) Friends(x,y) !Smokes(y) [x!=y]

Smokes(x) <=> Cancer(x).
  + Smokes(x) !Cancer(x)
  + !Smokes(x) Cancer(x)
""", "")


def test_explain_in_another_semantics_from_standard_input(shell: Shell) -> None:
    rule = "2 Smokes(x) ^ Friends(x, y) => Smokes(y)"
    assert shell("explain", "-", "--semantics", "paper", stdin=rule) == Ended(0, """\
2 Smokes(x) ^ Friends(x, y) => Smokes(y)
  + Smokes(x) Friends(x,y) !Smokes(y)
""", "")


def test_explain_as_json(shell: Shell) -> None:
    status, out, err = shell("explain", "smoking.mln", "--format", "json", "--semantics", "alchemy")
    assert (status, err) == (0, "")
    assert json.loads(out) == {"semantics": "alchemy", "rules": [
        {"rule": "1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)", "line": 7, "clauses": 1, "terms": [
            {"sign": 1, "product": "Smokes(x) Friends(x,y) !Smokes(y) [x!=y]",
             "variables": {"x": "person", "y": "person"}}]},
        {"rule": "Smokes(x) <=> Cancer(x).", "line": 8, "clauses": 1, "terms": [
            {"sign": 1, "product": "Smokes(x) !Cancer(x)", "variables": {"x": "person"}},
            {"sign": 1, "product": "Cancer(x) !Smokes(x)", "variables": {"x": "person"}}]},
    ]}


# learn


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
    shell(*words)
    assert (shell.folder / "learned.mln").read_text() == written


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
    from logicmp.cli.learn import Method
    from logicmp.learning.objectives import METHODS

    assert [method.value for method in Method] == list(METHODS)


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
        assert shell(*words) == Ended(130, "", "interrupted; the same command goes on from 'run'\n")
    assert (shell.folder / "out.mln").read_text() == "old" and (shell.folder / "run").exists()
    assert shell(*words).status == 0


@pytest.mark.parametrize("words, message", [
    (["-t", "a.db", "-o", "none/out.mln"],
     "cannot write 'none/out.mln': it is a folder, or is in one that is not there"),
    (["-t", "c.db", "-o", "out.mln"], "cannot read 'c.db': No such file or directory"),
    (["-t", "a.db", "-o", "out.mln", "--relearn", "x"], "--relearn 'x' is not 'all' and not a list of lines"),
    (["-t", "a.db", "-o", "out.mln", "-m", "discriminative"],
     "the method 'discriminative' needs to know which predicates are asked for"),
])
def test_what_cannot_be_learned_is_an_error(shell: Shell, words: list[str], message: str) -> None:
    status, out, err = with_databases(shell)("learn", "-i", "model.mln", *words)
    assert (status, out) == (1, "")
    assert err.startswith(f"error: {message}\n")
    assert not (shell.folder / "out.mln").exists()


# what goes wrong


@pytest.mark.parametrize("command", ["check", "explain"])
def test_misspelt_predicate_is_shown_without_traceback(shell: Shell, command: str) -> None:
    shell.write("wrong.mln", "Friends(person, person)\n1 Freinds(x, y) => Friends(y, x)\n")
    assert shell(command, "wrong.mln") == Ended(1, "", """\
error: predicate 'Freinds' is used but not declared
 --> wrong.mln:2:3
2 | 1 Freinds(x, y) => Friends(y, x)
  |   ^^^^^^^
hint: did you mean 'Friends'?
""")


@pytest.mark.parametrize("command", ["check", "explain"])
def test_missing_file_with_a_suggestion(shell: Shell, command: str) -> None:
    assert shell(command, "smokin.mln") == Ended(1, "", """\
error: cannot read 'smokin.mln': No such file or directory
hint: did you mean 'smoking.mln'?
""")


def test_wrong_facts(shell: Shell) -> None:
    shell.write("smoking.db", "Smokes(Anna)\nSmokes(Carl)\n")
    assert shell("check", "smoking.mln", "-e", "smoking.db") == Ended(1, "", """\
error: 'Carl' is not a constant of type 'person', whose constants are listed
 --> smoking.db:2:1
2 | Smokes(Carl)
  | ^^^^^^^^^^^^
hint: declared constants: Anna, Bob
""")


def test_rule_that_costs_too_much_cannot_be_explained(shell: Shell) -> None:
    rule = "1 " + " <=> ".join(f"P({name})" for name in "abcdefghijkl")
    assert shell("explain", "-", stdin=rule) == Ended(1, "", f"""\
error: this rule needs more than 512 products (1024 so far)
 --> <stdin>:1:1
1 | {rule}
  | {'^' * len(rule)}
hint: split it into smaller rules, or raise max_cubes
""")


@pytest.mark.parametrize("words, message", [
    (["chek", "smoking.mln"], "No such command 'chek'"),
    (["check"], "Missing argument 'FILE'"),
    (["check", "smoking.mln", "--format", "xml"], "Invalid value for '--format'"),
    (["explain", "smoking.mln", "--semantic", "paper"], "No such option: --semantic"),
])
def test_wrong_usage(shell: Shell, words: list[str], message: str) -> None:
    status, out, err = shell(*words)
    assert (status, out) == (2, "")
    assert f"Error: {message}" in err
    assert "Traceback" not in err


def test_interrupt_ends_quietly(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(prog_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("logicmp.cli.app.app", interrupted)
    assert shell("check", "smoking.mln") == Ended(130, "", "interrupted\n")


# the program itself


def test_installed_program_ends_with_the_same_status(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("logicmp")
    run = subprocess.run([program, "check", "-"], input=b"1 P(x", cwd=tmp_path, capture_output=True, check=False)
    assert (run.returncode, run.stdout) == (1, b"")
    assert run.stderr.decode().startswith("error: bracket '(' is never closed\n --> <stdin>:1:4\n")


@pytest.mark.parametrize("words", [[], ["--help"], ["check", "smoking.mln"], ["explain", "smoking.mln"]])
def test_torch_is_not_imported_for(shell: Shell, words: list[str]) -> None:
    code = """
import sys
import logicmp
if len(sys.argv) > 1:
    from logicmp.cli.app import main
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
assert "torch" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code, *words], cwd=shell.folder, capture_output=True, text=True,
                         check=False)
    assert (run.returncode, run.stderr) == (0, "")
