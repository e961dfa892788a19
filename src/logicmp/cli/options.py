"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import LogicMPError


class Format(StrEnum):
    text = "text"
    json = "json"


class Grammar(StrEnum):
    auto = "auto"
    standard = "standard"
    prac = "prac"


class Semantics(StrEnum):
    exact = "exact"
    paper = "paper"
    alchemy = "alchemy"


TheoryFile = Annotated[str, typer.Argument(metavar="FILE", help="An .mln file, an ExpressGNN folder, or - for stdin.")]
InputOption = Annotated[list[str], typer.Option(
    "-i", "--input", metavar="FILE", help="Rules: an .mln file, an ExpressGNN folder, or - for stdin; repeatable.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Print text for people or JSON for programs.")]
GrammarOption = Annotated[
    Grammar, typer.Option("--grammar", help="standard: lower-case variables; prac: ?x variables; auto: detect.")]
SemanticsOption = Annotated[Semantics, typer.Option(
    help="exact: a weight counts the true groundings of its formula; alchemy: it is divided among the formula's "
         "clauses; paper: atoms that meet are treated as independent (mean field only).")]


def split_names(text: str) -> list[str]:
    """The names in a comma-separated list.

    >>> split_names("Smokes, Cancer,")
    ['Smokes', 'Cancer']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def check_place(path: Path | None) -> None:
    """Raise before a long run if its result cannot be written."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        why = "it is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        raise LogicMPError(f"cannot write {str(path)!r}: {why}")
