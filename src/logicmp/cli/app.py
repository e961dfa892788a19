"""The command line: one file per command, each of which only calls the library.

Stage: everything -> **cli**.  Exit 0 done, 1 the input is wrong, 2 wrong usage.  Results go to stdout, messages to
stderr. torch is imported inside the commands that need it.
"""

from __future__ import annotations

import sys

import typer

from ..errors import LogicMPError
from .check import check
from .demo import demo
from .explain import explain
from .infer import infer
from .learn import learn

app = typer.Typer(
    name="logicmp", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Logic rules in, corrected predictions out: Markov logic as tensor contractions.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(check)
app.command()(explain)
app.command()(infer)
app.command()(learn)
app.command()(demo)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"logicmp {version('logicmp')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Options of the program itself; the commands have their own."""


def main() -> None:
    """Run the command line; an error of the user's is shown without a traceback."""
    try:
        app(prog_name="logicmp")
    except LogicMPError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(130)
