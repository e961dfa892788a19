"""`logicmp explain`: show what each rule becomes."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from ..normalize import NormalForm, normalize
from ..parse import load_theory
from .check import Format, FormatOption, Grammar, GrammarOption, TheoryFile


class Semantics(str, Enum):
    exact = "exact"
    paper = "paper"
    alchemy = "alchemy"


SemanticsOption = Annotated[Semantics, typer.Option(
    help="exact: the formula itself; alchemy: its weight divided over its clauses; "
         "paper: its clauses, meeting atoms taken as independent.")]


def explain(
    file: TheoryFile,
    semantics: SemanticsOption = Semantics.exact,
    fmt: FormatOption = Format.text,
    grammar: GrammarOption = Grammar.auto,
) -> None:
    """Show the products that violate each rule in FILE.

    \b
        logicmp explain smoking.mln
        cat smoking.mln | logicmp explain -
    """
    form = normalize(load_theory(file, grammar.value), semantics.value)
    typer.echo(_as_json(form) if fmt is Format.json else str(form), nl=fmt is Format.json)


def _as_json(form: NormalForm) -> str:
    return json.dumps({
        "semantics": form.semantics,
        "rules": [{
            "rule": str(normal.rule),
            "line": normal.rule.span.line if normal.rule.span else None,
            "clauses": normal.n_clauses,
            "terms": [{"sign": coefficient, "product": str(cube), "variables": {v.name: v.type for v in cube.variables}}
                      for coefficient, cube in normal.terms],
        } for normal in form.rules],
    }, indent=2)
