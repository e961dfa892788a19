"""`logicmp check`: say what was read, and what looks odd."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Format(str, Enum):
    text = "text"
    json = "json"


class Grammar(str, Enum):
    auto = "auto"
    standard = "standard"
    prac = "prac"


TheoryFile = Annotated[str, typer.Argument(metavar="FILE", help="An .mln file, an ExpressGNN folder, or - for stdin.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Text for people, JSON for programs.")]
GrammarOption = Annotated[
    Grammar, typer.Option("--grammar", help="standard: lower-case variables; prac: ?x variables; auto: look and see.")]


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


class Semantics(str, Enum):
    exact = "exact"
    paper = "paper"
    alchemy = "alchemy"


SemanticsOption = Annotated[Semantics, typer.Option(
    help="exact: the formula itself; alchemy: its weight divided over its clauses; "
         "paper: its clauses, meeting atoms taken as independent.")]
