"""The command line: one file per command; a command reads its options, calls the library and prints.

Room: everything -> **cli**.  Exit status: 0 done, 1 wrong input, 2 wrong usage, 3 stopped by a limit of time or memory,
130 interrupted.  Results go to stdout, messages to stderr.  torch is imported by the commands that need it, after the
input has been read.
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from .. import __version__
from ..errors import LimitError, LogicMPError
from ..limits import LIMIT_REACHED
from ..show.progress import print_message
from .check import check
from .compare import compare
from .convert import convert
from .demo import demo
from .explain import explain
from .flags import check_flags
from .infer import infer
from .learn import learn
from .serve import serve

# packages to name in a bug report; optional ones may be missing
PACKAGES = ("torch", "numpy", "opt_einsum", "safetensors", "typer", "numba", "python-sat", "scipy", "PySDD",
            "matplotlib", "pandas", "polars", "pyarrow", "scikit-learn", "fastapi", "uvicorn",
            "duckdb", "adbc-driver-postgresql", "pyspark")


class Commands(TyperGroup):
    """All commands; an interrupt is reported."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # typer itself would end without a message
            _end_interrupted()


def _end_interrupted() -> NoReturn:
    print_message("interrupted")
    sys.exit(130)


app = typer.Typer(
    name="logicmp", cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Correct predictions with first-order logic rules: Markov logic as tensor contractions.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(check)
app.command()(explain)
app.command()(infer)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(compare)
app.command()(learn)
app.command()(convert)
app.command()(demo)
app.command()(serve)


def _show_version(context: typer.Context, value: bool) -> None:
    if value:
        typer.echo(f"logicmp {__version__}")
        if context.params.get("verbose"):
            typer.echo(f"Python {platform.python_version()}\nplatform {platform.platform()}")
            for package in PACKAGES:
                typer.echo(f"{package} {_installed(package)}")
        raise typer.Exit
    if context.params.get("verbose"):
        raise typer.BadParameter("use it with --version", param_hint="--verbose")


def _installed(package: str) -> str:
    """The version of a package, without importing it."""
    try:
        return version_of(package)
    except PackageNotFoundError:
        return "not installed"


@app.callback()
def _options(
    # not eager, so that --verbose has been read
    version: bool = typer.Option(False, "--version", callback=_show_version, help="Show the version and exit."),
    verbose: bool = typer.Option(
        False, "--verbose", is_eager=True, help="With --version: also show Python, platform and packages."),
) -> None:
    """Options of the program itself; the commands have their own."""


def main(started: float | None = None) -> None:
    """Run the command line; print errors in the user's input without a traceback.

    Args:
        started: when limits of time begin, on the monotonic clock; by default with the command.
    """
    _open_streams()
    try:
        check_flags(sys.argv[1:])
    except LogicMPError as error:
        print_message(f"error: {error}")
        sys.exit(2)
    try:
        app(prog_name="logicmp", obj=started)
    except LogicMPError as error:
        print_message(f"error: {error}")
        sys.exit(LIMIT_REACHED if isinstance(error, LimitError) else 1)
    except OSError as cause:
        if cause.errno not in (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF):
            raise
        # what is left in the buffer would fail again when Python exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print_message(f"error: cannot write to the standard output: {cause.strerror}")
        sys.exit(1)
    except KeyboardInterrupt:
        _end_interrupted()


def _open_streams() -> None:
    """Replace streams that the caller closed (`>&-`): no input, an output that reports an error, no messages."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        # opened for reading, so that writing fails
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
