"""`logicmp learn`: weights from databases."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import LogicMPError
from ..facts.frames import table_bytes
from ..facts.tables import TABLES
from ..files import check_places, write_whole
from ..limits import need
from ..parse.load import load_theory
from ..parse.query import split_names
from ..show.progress import print_message, shown_status
from .options import Format, FormatOption, Grammar, GrammarOption, InputOption

if TYPE_CHECKING:
    from ..learning.minimize import LearningProgress


class LearnMethod(StrEnum):
    pseudo_likelihood = "pseudo-likelihood"
    discriminative = "discriminative"
    maximum_likelihood = "maximum-likelihood"


class LearnSemantics(StrEnum):
    exact = "exact"
    alchemy = "alchemy"


def learn(
    theory: InputOption,
    train: Annotated[list[str], typer.Option(
        "-t", "--train", metavar="FILE", help="Learn from this database; atoms without a fact are false. For several, "
        "repeat -t or write a.db,b.db; each is a separate world.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Write this .mln file; or the "
                                                  "weights as a table, with the ending .csv or .parquet.")],
    query: Annotated[str, typer.Option(
        "-ne", "--non-evidence", metavar="P,Q", help="Predict these predicates; all others are evidence.")] = "",
    method: Annotated[LearnMethod, typer.Option(
        "-m", "--method", help="pseudo-likelihood: each atom from all others; discriminative: the -ne predicates "
        "from the evidence, by mean field; maximum-likelihood: the same by exact inference, for small models.")
    ] = LearnMethod.pseudo_likelihood,
    relearn: Annotated[str, typer.Option(
        metavar="all|LINE,LINE", help="Also learn the weights of the rules on these lines, starting from their "
        "present values.")] = "",
    semantics: Annotated[LearnSemantics, typer.Option(
        help="exact: a weight counts the true groundings of its formula; alchemy: it is divided among the formula's "
        "clauses.")] = LearnSemantics.exact,
    prior_std: Annotated[float | None, typer.Option(
        help="Standard deviation of the Gaussian prior, above 0; default: 2 for discriminative, else 100.")] = None,
    held_out: Annotated[list[str] | None, typer.Option(
        metavar="FILE", help="Keep the weights that are best on this database; repeatable.")] = None,
    patience: Annotated[int, typer.Option(
        help="Stop after this many iterations without improvement on held-out data; at least 1.")] = 5,
    max_iterations: Annotated[int, typer.Option(help="Maximum number of L-BFGS iterations; at least 0.")] = 500,
    tolerance: Annotated[float, typer.Option(
        help="Stop when expected and observed counts differ by no more than this; at least 0.")] = 1e-4,
    schedule: Annotated[str | None, typer.Option(
        help="Discriminative: find the start of mean field by a schedule of the layer (adaptive, paper or cold).")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Save the state here after every iteration, and continue from it if it exists.")] = None,
    report: Annotated[Path | None, typer.Option(
        metavar="FILE.html", help="Also write a page with the weights and the course of learning to this file.")
    ] = None,
    fmt: FormatOption = Format.text,
    grammar: GrammarOption = Grammar.auto,
) -> None:
    """Learn missing rule weights from data; write a new .mln file.

    \b
        logicmp learn -i model.mln -t train.db -o learned.mln
        logicmp learn -i model.mln -t a.db -t b.db -ne advisedBy \\
                      -m discriminative --held-out c.db -o learned.mln
    """
    # before hours of training
    databases, kept = _files(train), _files(held_out or [])
    check_places({"the learned theory": output, "the checkpoint": checkpoint, "the report": report},
                 [*theory, *databases, *kept])
    if output.suffix.lower() == ".parquet":
        need("pyarrow", "tables", "writing a .parquet file", "write the table as .csv")
    rules = load_theory(theory, grammar.value)
    # importing torch is slow, so errors in the rules are reported first
    from ..learning.learned import as_table
    from ..learning.train import learn as run

    course: list[LearningProgress] = []

    def watch(iteration: LearningProgress) -> None:
        course.append(iteration)
        show(_describe(iteration), iteration.done)

    with _interruptible(checkpoint), shown_status("reading the databases") as show:
        learned = run(
            rules, databases, method.value, split_names(query),
            semantics=semantics.value, prior_std=prior_std, relearn=_lines(relearn), held_out=kept,
            patience=patience, max_iterations=max_iterations, tolerance=tolerance, schedule=schedule,
            checkpoint=checkpoint,
            on_iteration=watch)
    if output.suffix.lower() in TABLES:
        write_whole(output, table_bytes(learned.columns(), output.suffix.lower()), "the weights")
    else:
        learned.save(output)
    if report is not None:
        write_whole(report, learned.to_html(course), "the report")
    if fmt is Format.json:
        typer.echo(json.dumps({**learned.report.to_dict(), "weights": as_table(learned)}, indent=2))
    else:
        typer.echo(f"{learned.report}\nwritten: {output}")


def _files(given: list[str]) -> list[str]:
    """The databases one by one: `a.db,b.db` is two files unless a file has that name."""
    return [name for text in given for name in ([text] if os.path.exists(text) else text.split(",")) if name]


def _lines(relearn: str) -> str | list[int]:
    if relearn == "all":
        return relearn
    parts = split_names(relearn)
    if not all(part.isdecimal() for part in parts):
        raise LogicMPError(f"--relearn must be 'all' or a list of line numbers, got {relearn!r}",
                           "for example --relearn 12,15")
    return [int(part) for part in parts]


@contextlib.contextmanager
def _interruptible(checkpoint: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        way = ("nothing was saved; to continue after an interrupt, use --checkpoint FILE" if checkpoint is None
               else f"run the same command again to continue from {str(checkpoint)!r}")
        print_message(f"interrupted; {way}")
        sys.exit(130)


def _describe(iteration: LearningProgress) -> str:
    held_out = "" if iteration.held_out is None else f"   held-out {iteration.held_out:.6g}"
    return f"iteration {iteration.number}   loss {iteration.loss:.6g}   gradient {iteration.gradient:.3g}{held_out}"
