"""`logicmp compare`: several methods on one's own files, as one table.

Each method runs as a `logicmp infer` of its own, so that its seconds and memory are its own, and one that fails or is
stopped by a limit does not end the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import LogicMPError, closest
from ..files import check_places, write_whole
from ..inference.run import METHODS
from ..show.compare import Row, to_html, to_json, to_table
from ..show.progress import print_message, shown_progress
from .options import Format, FormatOption


def compare(
    context: typer.Context,
    methods: Annotated[str, typer.Option(
        "-m", "--methods", metavar="M,N,...", help="Methods to compare, the reference first: auto, exact, mean-field, "
        "gibbs, mc-sat, bp, lifted-bp, hl-mrf, map.")] = "exact,bp,mc-sat,mean-field",
    fmt: FormatOption = Format.text,
    plot: Annotated[Path | None, typer.Option(
        help="Draw the answers of each method against those of the first to this .png, .svg or .pdf file.")] = None,
    report: Annotated[Path | None, typer.Option(
        metavar="FILE.html", help="Also write the table and a drawing of the answers as a page to this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the table and errors only.")] = False,
) -> None:
    """Compare several methods on the same queries.

    The table has seconds and memory of each command, its start included, log Z, and the difference to the first method.

    All other options are those of `logicmp infer`; limits hold for each method.

    \b
        logicmp compare -i smoking.mln -e smoking.db -q Smokes -m exact,bp,mean-field --max-seconds 60
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    for name in names:
        if name not in METHODS:
            raise LogicMPError(f"unknown method {name!r}", closest(name, list(METHODS), "method"))
    if len(names) < 2:
        raise LogicMPError(f"compare needs at least two methods, got {methods!r}", "for example -m exact,bp")
    taken = [word for word in context.args if word in ("--format", "-r", "--results", "--trace", "--method")]
    if taken:
        raise LogicMPError(f"compare has no option {taken[0]!r}", "it prints a table; use logicmp infer for answers")
    if "-" in context.args:
        raise LogicMPError("compare cannot read from standard input ('-'): each method reads the files itself")
    check_places({"the plot": plot, "the report": report}, [])
    if plot is not None:
        from ..show.plot import check_plot

        check_plot(plot)
    rows: list[Row] = []
    with shown_progress(quiet) as progress:
        for k, name in enumerate(names):
            progress(f"comparing ({name})", k, len(names))
            row = _run(name, context.args)
            if not rows and row.answers is None:
                raise LogicMPError(f"the reference, method {name!r}, has no answers: {row.error}",
                                   "name another method first, or raise the limits")
            rows.append(row)
    if fmt is Format.json:
        typer.echo(to_json(rows), nl=False)
    else:
        typer.echo(to_table(rows), nl=False)
        for row in rows:
            if row.error and not quiet:
                print_message(f"{row.method}: {row.error}")
    if report is not None:
        write_whole(report, to_html(rows), "the report")
        if not quiet:
            print_message(f"report in {report}")
    if plot is not None:
        from ..show.plot import draw_comparison

        draw_comparison(plot, rows)
        if not quiet:
            print_message(f"plot in {plot}")


def _run(method: str, words: list[str]) -> Row:
    """Run a method in a process of its own."""
    command = [sys.executable, "-m", "logicmp", "infer", *words, "--method", method, "--format", "json", "--quiet"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            code, peak = _wait(child)
        except BaseException:
            child.kill()
            child.wait()
            raise
        seconds = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        text, problem = out.read(), err.read().decode(errors="replace").strip()
    if code == 2:
        # wrong usage is the same for every method
        raise LogicMPError(f"logicmp infer rejects these options:\n{problem}")
    if code and not text:
        return Row(method, seconds, peak, None, "", None, None, _first(problem) or f"ended with status {code}")
    found: dict[str, Any] = json.loads(text)
    answers = {row["atom"]: row["probability"] for row in found["marginals"]}
    return Row(method, seconds, peak, answers, found["status"], found["log_partition"], found["elbo"])


def _wait(child: subprocess.Popen[bytes]) -> tuple[int, int | None]:
    """The exit status of a process, and the most memory it had in bytes where the system tells."""
    if not hasattr(os, "wait4"):
        return child.wait(), None
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    # kilobytes, on a Mac bytes
    return child.returncode, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _first(text: str) -> str:
    return text.removeprefix("error: ").splitlines()[0] if text else ""
