"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

import typer

from ..errors import LogicMPError
from ..facts.columns import Evidence
from ..facts.db import load_facts
from ..facts.world import World
from ..parse.query import parse_queries, split_names


class Format(StrEnum):
    text = "text"
    json = "json"


class Grammar(StrEnum):
    auto = "auto"
    standard = "standard"
    prac = "prac"


class WorldName(StrEnum):
    alchemy = "alchemy"
    open = "open"
    closed = "closed"


class EngineName(StrEnum):
    torch = "torch"
    duckdb = "duckdb"
    spark = "spark"


class Premises(StrEnum):
    all = "all"
    facts = "facts"


class Outside(StrEnum):
    false = "false"
    skip = "skip"


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
EvidenceOption = Annotated[list[str] | None, typer.Option(
    "-e", "--evidence", metavar="FILE", help="Facts: a .db file, - for stdin, or Friends=friends.csv for the table of "
    "a predicate (.csv, .parquet, a folder of Parquet parts with / at its end, FILE.duckdb#TABLE or "
    "postgresql://HOST/DB#TABLE); repeatable.")]
WorldOption = Annotated[WorldName, typer.Option(
    help="Which atoms without a fact are false. alchemy: those of predicates that have facts and are not queried; "
    "open: those of predicates declared with *; closed: those of predicates that are not queried.")]
ClosedOption = Annotated[str, typer.Option(
    "-cw", "--closed", metavar="P,Q", help="Close these predicates: their atoms without a fact are false.")]
OpenOption = Annotated[str, typer.Option(
    "-ow", "--open", metavar="P,Q", help="Open these predicates: their atoms without a fact are unobserved.")]
CandidatesOption = Annotated[list[str] | None, typer.Option(
    "--candidates", metavar="FILE", help="Atoms that can be true, written as facts; all other atoms of their "
    "predicates are false; repeatable.")]
EngineOption = Annotated[EngineName, typer.Option(
    "--engine", help="Mean field: what joins the facts for rules over sparse predicates. torch: the built-in join; "
    "duckdb: within half of --max-memory, then on disk; spark: on --master.")]
MasterOption = Annotated[str, typer.Option("--master", metavar="URL", help="With --engine spark: where Spark runs.")]
MemoryOption = Annotated[str | None, typer.Option(
    "--max-memory", metavar="SIZE",
    help="Memory limit, such as 500MB or 2GB; by default most of what the machine has.")]
ReachOption = Annotated[int, typer.Option(
    metavar="K", help="Find the candidates of open predicates with over a million atoms: what the rules conclude from "
    "the facts in K applications; 0 takes all atoms.")]
PremisesOption = Annotated[Premises, typer.Option(
    help="Which atoms the premises of rules read. facts: the true facts of open predicates, not what other rules "
    "conclude.")]
OutsideOption = Annotated[Outside, typer.Option(
    help="A head outside the candidates. false: it violates the rule, which makes the premises less probable; skip: "
    "such groundings are dropped.")]
QueriedOption = Annotated[list[str] | None, typer.Option(
    "-q", "--query", metavar="P,Q(x,A),...", help="With -e: queries, as for infer; their predicates are open.")]
SemanticsOption = Annotated[Semantics, typer.Option(
    help="exact: a weight counts the true groundings of its formula; alchemy: it is divided among the formula's "
         "clauses; paper: atoms that meet are treated as independent (mean field only).")]


def make_world(facts: Evidence, query: list[str] | None, candidates: list[str] | None, reach: int, premises: Premises,
               outside: str, world: WorldName, closed: str, opened: str) -> World:
    """The world that `infer` would use with the same options."""
    # check and explain of rules alone do without
    from ..inference.run import find_world

    allowed = load_facts(candidates, facts.theory) if candidates else None
    theory = facts.theory if allowed is None else allowed.theory
    queried = {name for text in query or () for found in parse_queries(text, theory) for name in found.predicates}
    return find_world(facts, queried, world.value, split_names(closed), split_names(opened), candidates=allowed,
                      reach=reach, premises=premises.value, outside=outside)


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
