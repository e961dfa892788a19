"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from enum import StrEnum
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


def _check_rules(context: typer.Context, paths: list[str]) -> list[str]:
    """Reject a database, whose facts would be read as rules."""
    for path in paths:
        if path.endswith(".db"):
            raise LogicMPError(f"-i is for rules, got the database {path!r}",
                               f"give facts with {'-t' if context.info_name == 'learn' else '-e'} {path}")
    return paths


TheoryFile = Annotated[str, typer.Argument(metavar="FILE", help="An .mln file, an ExpressGNN folder, or - for stdin.")]
InputOption = Annotated[list[str], typer.Option(
    "-i", "--input", metavar="FILE", callback=_check_rules,
    help="Rules: an .mln file, an ExpressGNN folder, or - for stdin; repeatable.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Print text for people or JSON for programs.")]
GrammarOption = Annotated[
    Grammar, typer.Option("--grammar", help="standard: lower-case variables; prac: ?x variables; auto: detect.")]
SemanticsOption = Annotated[Semantics, typer.Option(
    help="exact: a weight counts the true groundings of its formula; alchemy: it is divided among the formula's "
         "clauses; paper: atoms that meet are treated as independent (mean field only).")]


def read_bytes(text: str) -> int:
    """The bytes of a size.

    >>> read_bytes("2GB"), read_bytes("500 MB"), read_bytes("1e6")
    (2000000000, 500000000, 1000000)
    """
    found = re.fullmatch(r"\s*([0-9.eE+]+)\s*([kMGT]?)i?[bB]?\s*", text)
    try:
        number = float(found[1]) if found else 0.0
    except ValueError:
        number = 0.0
    if found is None or not 0 < number < 1e15:
        raise LogicMPError(f"--max-memory must be a size above 0, got {text!r}", "for example --max-memory 2GB")
    return int(number * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[found[2]])
