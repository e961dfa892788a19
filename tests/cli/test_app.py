"""The program itself: help, versions, exit status, errors without a traceback."""

from __future__ import annotations

import platform
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from fixtures_reader import ROOT
from shell import Ended, Shell
from typer.main import get_command

import logicmp
from logicmp.cli.app import app

COMMANDS = list(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_help_with_an_example_and_a_section_in_the_docs(shell: Shell, command: str) -> None:
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


def help_of(shell: Shell, command: str) -> str:
    return shell(*command.split(), "--help").out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_examples_in_the_help_are_valid_in_bash(shell: Shell, command: str) -> None:
    # a backslash continues a line
    lines = help_of(shell, command).replace("\\\n", "").splitlines()
    examples = [line.strip() for line in lines if re.match(r" +(.* \| )?logicmp ", line)]
    assert bool(examples) == bool(command)
    for example in examples:
        run = subprocess.run(["bash", "-n", "-c", example], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, ""), example


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_pages_in_the_help_have_a_title_and_are_in_the_repository(shell: Shell, command: str) -> None:
    text = " ".join(help_of(shell, command).split())
    pages = re.findall(r'see "([^"]+)" in the documentation \((\S+) in the repository\)', text)
    assert text.count("docs/") == len(pages)
    for title, path in pages:
        assert (ROOT / path).read_text(encoding="utf-8").startswith(f"# {title}\n")
    assert bool(pages) == (command == "infer")


def test_version(shell: Shell) -> None:
    assert shell("--version") == Ended(0, f"logicmp {logicmp.__version__}\n", "")


def test_the_version_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', text, re.MULTILINE) == [logicmp.__version__]


@pytest.mark.parametrize("words", [("--version", "--verbose"), ("--verbose", "--version")])
def test_verbose_version_lists_what_is_installed(
        shell: Shell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]) -> None:
    monkeypatch.setattr("logicmp.cli.app.PACKAGES", ("torch", "no-such-package"))
    assert shell(*words) == Ended(0, f"""\
logicmp {logicmp.__version__}
Python {platform.python_version()}
platform {platform.platform()}
torch {version("torch")}
no-such-package not installed
""", "")


def test_verbose_version_names_every_dependency_and_extra() -> None:
    from logicmp.cli.app import PACKAGES

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = text[text.index("\ndependencies = ["):text.index("\nall = [")]
    names = set(re.findall(r'"([\w-]+)>=', declared)) - {"rich", "lark"}
    assert names == set(PACKAGES)


@pytest.mark.parametrize("words", [(), ("check", "smoking.mln")])
def test_verbose_needs_version(shell: Shell, words: tuple[str, ...]) -> None:
    status, out, err = shell("--verbose", *words)
    assert (status, out) == (2, "")
    assert "Error: Invalid value for --verbose: use it with --version" in err


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


@pytest.mark.parametrize("words, message", [
    (["chek", "smoking.mln"], "No such command 'chek'. Did you mean 'check'?"),
    (["check", "smoking.mln", "--fromat", "json"], "No such option: --fromat (Possible options: --format)"),
    (["--verison"], "No such option: --verison (Possible options: --verbose, --version)"),
    (["check"], "Missing argument 'FILE'"),
    (["check", "smoking.mln", "--format", "xml"], "Invalid value for '--format'"),
    (["explain", "smoking.mln", "--semantic", "paper"], "No such option: --semantic"),
])
def test_wrong_usage(shell: Shell, words: list[str], message: str) -> None:
    status, out, err = shell(*words)
    assert (status, out) == (2, "")
    assert f"Error: {message}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("place", ["logicmp.cli.app.app", "logicmp.cli.check.load_theory"])
def test_an_interrupt_is_reported_without_traceback(
        shell: Shell, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    assert shell("check", "smoking.mln") == Ended(130, "", "interrupted\n")


@pytest.mark.parametrize("program", [[Path(sys.executable).with_name("logicmp")], [sys.executable, "-m", "logicmp"]],
                         ids=["script", "module"])
def test_installed_program_ends_with_the_same_status(tmp_path: Path, program: list[str]) -> None:
    run = subprocess.run([*program, "check", "-"], input=b"1 P(x", cwd=tmp_path, capture_output=True, check=False)
    assert (run.returncode, run.stdout) == (1, b"")
    assert run.stderr.decode().startswith("error: bracket '(' is never closed\n --> <stdin>:1:4\n")


@pytest.mark.parametrize("words", [
    [], ["--help"], ["--version", "--verbose"], ["check", "smoking.mln"], ["explain", "smoking.mln"]])
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


# one line for every command that prints results
PRINTING = [
    ["--help"], ["--version"], ["check", "smoking.mln"], ["explain", "smoking.mln"],
    ["infer", "-i", "smoking.mln", "-q", "Rain", "-m", "bp", "--quiet"],
    ["compare", "-i", "smoking.mln", "-q", "Rain", "-m", "bp,hl-mrf", "--quiet"],
    ["learn", "-i", "smoking.mln", "-t", "all.db", "-o", "learned.mln", "--relearn", "all"], ["demo"],
]


def test_every_command_prints_below() -> None:
    # these two print messages only: files that were written, the address of the page
    assert {words[0] for words in PRINTING if words[0][0] != "-"} == set(COMMANDS) - {"convert", "serve"}


def run_in_bash(shell: Shell, words: list[str], redirection: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of the program with a redirection."""
    shell.write("all.db", "Smokes(Anna)\n")
    line = f"{shlex.join([sys.executable, '-m', 'logicmp', *words])} {redirection}; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", line], cwd=shell.folder, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("words", PRINTING, ids=lambda words: words[0])
def test_a_full_disk_is_reported_without_traceback(shell: Shell, words: list[str]) -> None:
    assert run_in_bash(shell, words, "> /dev/full") == (
        1, "", "error: cannot write to the standard output: No space left on device\n")


@pytest.mark.parametrize("words", PRINTING, ids=lambda words: words[0])
def test_a_closed_pipe_ends_the_program_quietly(shell: Shell, words: list[str]) -> None:
    assert run_in_bash(shell, words, "| true") == (1, "", "")


def test_a_closed_output_is_reported_if_there_is_a_result(shell: Shell) -> None:
    assert run_in_bash(shell, PRINTING[2], ">&-") == (
        1, "", "error: cannot write to the standard output: Bad file descriptor\n")
    words = ["infer", "-i", "smoking.mln", "-q", "Rain", "-m", "bp"]
    assert run_in_bash(shell, [*words, "-r", "answers"], "<&- >&- 2>&-")[0] == 0
    assert (shell.folder / "answers").read_text() == "Rain 0.5\n"


@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-"])
def test_messages_that_cannot_be_written_do_not_cost_the_results(shell: Shell, redirection: str) -> None:
    words = ["infer", "-i", "smoking.mln", "-q", "Rain", "-m", "bp"]
    assert run_in_bash(shell, words, redirection) == (0, "Rain 0.5\n", "")
    assert run_in_bash(shell, ["check", "no.mln"], redirection) == (1, "", "")


def test_a_closed_input_is_empty(shell: Shell) -> None:
    status, out, err = run_in_bash(shell, ["check", "-"], "<&-")
    assert (status, out) == (1, "") and err.startswith("error: the theory is empty\n")


def test_another_error_of_the_system_is_a_fault_of_the_program(
        shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise ChildProcessError(10, "No child processes")

    monkeypatch.setattr("logicmp.cli.check.load_theory", failing)
    with pytest.raises(ChildProcessError):
        shell("check", "smoking.mln")


def test_an_interrupt_during_the_imports_is_reported_without_traceback(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from logicmp.__main__ import main

    class Interrupted:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "logicmp.cli", Interrupted())
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr()) == (130, ("", "interrupted\n"))
