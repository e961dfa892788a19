"""Write docs/cli.md from the help texts of the live program.

    python docs/make_cli.py
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# The command line

Written by `python docs/make_cli.py` from the program itself; edit the help texts in `src/logicmp/cli/` instead.

Results go to standard output, messages to standard error. `-` as a file is standard input. The exit status is

- 0 when all is done,
- 1 when the input is wrong (the error shows where),
- 2 when the command is used wrongly,
- 3 when a limit of time or memory was reached. Either the answers are the best so far, with a warning and
  `"complete": false` in JSON; or there are none, and an error says how far the command came.
"""


def build_page() -> str:
    """The whole page: the help of the program, then of each command."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from logicmp.cli.app import app

    def section(*words: str) -> str:
        # help is folded to the terminal's width
        found = CliRunner().invoke(app, [*words, "--help"], prog_name="logicmp", env={"COLUMNS": "80"})
        assert found.exit_code == 0, found.output
        return f"\n## {' '.join(('logicmp', *words))}\n\n```text\n{found.output.rstrip()}\n```\n"

    return INTRODUCTION + section() + "".join(section(name) for name in get_command(app).commands)  # type: ignore[attr-defined]


if __name__ == "__main__":
    PAGE.write_text(build_page(), encoding="utf-8")
