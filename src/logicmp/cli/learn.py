"""`logicmp learn`: weights from databases."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import LogicMPError
from ..parse.load import load_theory
from .options import Format, FormatOption, Grammar, GrammarOption

if TYPE_CHECKING:
    from ..learning.minimize import Iteration


class Method(str, Enum):
    pseudo_likelihood = "pseudo-likelihood"
    discriminative = "discriminative"
    maximum_likelihood = "maximum-likelihood"


class LearnSemantics(str, Enum):
    exact = "exact"
    alchemy = "alchemy"


def learn(
    theory: Annotated[list[str], typer.Option(
        "-i", "--input", metavar="FILE", help="The rules: an .mln file, an ExpressGNN folder, or - for stdin; "
        "may be given several times.")],
    train: Annotated[list[str], typer.Option(
        "-t", "--train", metavar="FILE", help="A database to learn from: what it does not name is false. Several: "
        "-t again, or a,b; each is a world of its own.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The .mln file to write.")],
    query: Annotated[str, typer.Option(
        "-ne", "--non-evidence", metavar="P,Q", help="The predicates to be predicted; all others are given.")] = "",
    method: Annotated[Method, typer.Option(
        "-m", "--method", help="pseudo-likelihood: each atom from all others; discriminative: the -ne predicates "
        "from the evidence, by mean field; maximum-likelihood: the same exactly, for small models.")
    ] = Method.pseudo_likelihood,
    relearn: Annotated[str, typer.Option(
        metavar="all|LINE,LINE", help="Learn the weights of these rules too, starting from them.")] = "",
    semantics: Annotated[LearnSemantics, typer.Option(
        help="exact: the formula itself; alchemy: its weight divided over its clauses.")] = LearnSemantics.exact,
    prior_std: Annotated[float | None, typer.Option(
        help="Standard deviation of the Gaussian prior; unless given, 2 for discriminative, else 100.")] = None,
    held_out: Annotated[list[str] | None, typer.Option(
        metavar="FILE", help="A database for early stopping; may be given several times.")] = None,
    patience: Annotated[int, typer.Option(help="Iterations that may be no better on held-out data.")] = 5,
    max_iterations: Annotated[int, typer.Option(help="Iterations of L-BFGS.")] = 500,
    tolerance: Annotated[float, typer.Option(
        help="Stop when expected and observed counts differ by no more.")] = 1e-4,
    checkpoint: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Where to keep the state; a run that was stopped goes on from there.")] = None,
    fmt: FormatOption = Format.text,
    grammar: GrammarOption = Grammar.auto,
) -> None:
    """Learn the weights that rules lack, and write an .mln.

    \b
        logicmp learn -i model.mln -t train.db -o learned.mln
        logicmp learn -i model.mln -t a.db -t b.db -ne advisedBy \\
                      -m discriminative --held-out c.db -o learned.mln
    """
    _check_output(output)
    rules = load_theory(theory, grammar.value)
    # torch comes with it, and an error in the rules need not wait for that
    from ..learning.learned import as_table
    from ..learning.train import learn as run

    with _interruptible(checkpoint), _progress() as show:
        learned = run(
            rules, _files(train), method.value, [name for name in query.split(",") if name],
            semantics=semantics.value, prior_std=prior_std, relearn=_lines(relearn), held_out=_files(held_out or []),
            patience=patience, max_iterations=max_iterations, tolerance=tolerance, checkpoint=checkpoint,
            on_iteration=show)
    learned.save(output)
    if fmt is Format.json:
        typer.echo(json.dumps({**learned.report.to_dict(), "weights": as_table(learned)}, indent=2))
    else:
        typer.echo(f"{learned.report}\nwritten: {output}")


def _check_output(output: Path) -> None:
    """Hours of learning must not end with a folder that is not there."""
    if not output.parent.is_dir() or output.is_dir():
        raise LogicMPError(f"cannot write {str(output)!r}: it is a folder, or is in one that is not there",
                           "choose another place with -o")


def _files(given: list[str]) -> list[str]:
    """Each database by itself: `a.db,b.db` is two files unless there is a file of that name."""
    return [name for text in given for name in ([text] if os.path.exists(text) else text.split(",")) if name]


def _lines(relearn: str) -> str | list[int]:
    if relearn == "all":
        return relearn
    parts = [part.strip() for part in relearn.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise LogicMPError(f"--relearn {relearn!r} is not 'all' and not a list of lines", "for example --relearn 12,15")
    return [int(part) for part in parts]


@contextlib.contextmanager
def _interruptible(checkpoint: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        way = ("nothing is kept without --checkpoint" if checkpoint is None
               else f"the same command goes on from {str(checkpoint)!r}")
        typer.echo(f"interrupted; {way}", err=True)
        raise


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Iteration], None]]:
    """A line that says how far it is, on standard error, while it runs and only on a terminal."""
    from rich.console import Console

    with Console(stderr=True).status("reading the databases") as status:
        def show(iteration: Iteration) -> None:
            held_out = "" if iteration.held_out is None else f"   held-out {iteration.held_out:.6g}"
            status.update(f"iteration {iteration.number}   loss {iteration.loss:.6g}   gradient "
                          f"{iteration.gradient:.3g}{held_out}")

        yield show
