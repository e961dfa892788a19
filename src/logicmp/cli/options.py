"""Options that several commands share, and how their values are read."""

from __future__ import annotations

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
