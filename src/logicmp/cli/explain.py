"""`logicmp explain`: the normal form and the tensor plan of each rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import LogicMPError, closest
from ..facts.db import load_facts, parse_facts
from ..facts.world import World
from ..files import check_places, write_whole
from ..ground.engine import make_engine
from ..ground.sql import table_names
from ..normalize.build import normalize_theory
from ..normalize.cubes import NormalForm
from ..page import Page, listed, plural
from ..parse.load import load_theory
from ..parse.query import split_names
from ..plan.build import build_plan
from ..plan.steps import Plan
from ..show.progress import print_message, shown_progress
from ..show.supports import WorldReport, report_world, sql_of_rules, write_rows
from .options import (
    CandidatesOption,
    ClosedOption,
    EngineName,
    EngineOption,
    EvidenceOption,
    Format,
    FormatOption,
    Grammar,
    GrammarOption,
    MasterOption,
    MemoryOption,
    OpenOption,
    Outside,
    OutsideOption,
    Premises,
    PremisesOption,
    QueriedOption,
    ReachOption,
    Semantics,
    SemanticsOption,
    TheoryFile,
    WorldName,
    WorldOption,
    make_world,
    read_bytes,
)

PlanOption = Annotated[bool, typer.Option("--plan", help="Also show the tensor plan: its steps and their cost.")]
SizeOption = Annotated[list[str] | None, typer.Option(
    "--size", metavar="TYPE=N", help="With --plan: number of constants of a type; repeatable.")]
SqlOption = Annotated[bool, typer.Option(
    "--sql", help="With -e: only show the joins of the rules over sparse predicates, as SQL.")]
RowsOption = Annotated[Path | None, typer.Option(
    "--rows", metavar="FOLDER", help="With --sql: write the rows of each join to this folder, as Parquet files.")]
PartsOption = Annotated[int, typer.Option(
    "--parts", min=1, help="With --rows: number of files for each join, by the remainder of one of its variables.")]
ObservedOption = Annotated[str, typer.Option(metavar="P,Q", help="With --plan: predicates that are fully observed.")]


def explain(
    file: TheoryFile,
    semantics: SemanticsOption = Semantics.exact,
    with_plan: PlanOption = False,
    size: SizeOption = None,
    observed: ObservedOption = "",
    sql: SqlOption = False,
    rows: RowsOption = None,
    parts: PartsOption = 1,
    engine: EngineOption = EngineName.torch,
    master: MasterOption = "local[*]",
    max_memory: MemoryOption = None,
    evidence: EvidenceOption = None,
    query: QueriedOption = None,
    world: WorldOption = WorldName.alchemy,
    closed: ClosedOption = "",
    opened: OpenOption = "",
    candidates: CandidatesOption = None,
    reach: ReachOption = 0,
    premises: PremisesOption = Premises.all,
    outside: OutsideOption = Outside.false,
    graph: Annotated[Path | None, typer.Option(
        metavar="FILE.html", help="Draw the tensor plan to this page: steps, arrows to where they are used, messages."
    )] = None,
    fmt: FormatOption = Format.text,
    grammar: GrammarOption = Grammar.auto,
) -> None:
    """Show how each rule in FILE can be violated, and its tensor plan.

    With facts, also show which atoms of each predicate infer would use, and the plan for these facts.

    \b
        logicmp explain smoking.mln
        logicmp explain smoking.mln --plan --size person=1000
        logicmp explain smoking.mln --plan -e smoking.db -q Smokes
        logicmp explain smoking.mln --sql -e smoking.db -q Smokes
        cat smoking.mln | logicmp explain -
    """
    check_places({"the drawing": graph}, [file, *(evidence or []), *(candidates or [])])
    theory = load_theory(file, grammar.value)
    if evidence or candidates:
        if size or observed:
            raise LogicMPError(f"--{'size' if size else 'observed'} cannot be used with facts, which decide it")
        with shown_progress() as progress:
            facts = load_facts(evidence, theory, progress) if evidence else parse_facts("", theory)
            progress("counting atoms and rows", 0, 0)
            report, problem = report_world(lambda option: make_world(
                facts, query, candidates, reach, premises, option, world, closed, opened), outside.value,
                semantics.value)
        if report is None:
            raise LogicMPError(problem)
        if sql:
            _echo_sql(report.world, semantics.value, fmt)
            if rows is not None:
                memory = None if max_memory is None else read_bytes(max_memory) // 2
                with shown_progress() as progress:
                    progress("writing rows", 0, 0)
                    found = write_rows(report.world, semantics.value, rows, parts,
                                       make_engine(engine.value, memory, master))
                print_message(f"{plural(sum(found), 'row')} of {plural(len(found), 'join')} in {rows}")
            return
        if rows is not None:
            raise LogicMPError("--rows needs --sql", "add --sql")
        _echo_world(report, semantics.value, with_plan, fmt, graph)
        return
    if sql or rows is not None:
        raise LogicMPError("--sql needs facts: without them no predicate is sparse", "give facts with -e FILE")
    sizes = _sizes(size or [])
    form = normalize_theory(theory, semantics.value, sizes)
    plan = _plan(form, sizes, split_names(observed)) if with_plan or graph else None
    _draw(plan, graph)
    plan = plan if with_plan else None
    if fmt is Format.json:
        typer.echo(json.dumps(_as_dict(form) | ({} if plan is None else {"plan": plan.to_dict()}), indent=2))
    else:
        typer.echo(str(form) if plan is None else f"{form}\n{plan}", nl=False)


def _echo_world(report: WorldReport, semantics: str, with_plan: bool, fmt: Format,
                graph: Path | None) -> None:
    """The rules as the world changes them, the atoms of each predicate, and the plans: lists of rows and tensors."""
    known = report.world
    form = normalize_theory(known.theory, semantics, known.sizes)
    plan = None
    if with_plan or graph:
        plan = build_plan(form if report.rows is None else report.rows.dense, known.sizes, known.observed)
        _draw(plan, graph)
        plan = plan if with_plan else None
    if fmt is Format.json:
        plans = {} if plan is None else {"plan": plan.to_dict(), "lists": report.rows and report.rows.to_dict()}
        typer.echo(json.dumps(_as_dict(form) | report.to_dict() | plans, indent=2))
        return
    parts = [str(form), "\n".join(report.to_lines()) + "\n"]
    if with_plan and report.rows is not None:
        parts.append(f"rules over sparse predicates, as lists of rows\n{report.rows}")
    if plan is not None and plan.steps:
        parts.append(str(plan))
    typer.echo("\n".join(parts), nl=False)


def _echo_sql(world: World, semantics: str, fmt: Format) -> None:
    """The joins of each rule; the tables are those of the sparse predicates."""
    found = sql_of_rules(world, semantics)
    if fmt is Format.json:
        typer.echo(json.dumps({"sql": [{"rule": str(rule), "line": rule.span.line if rule.span else None,
                                        "statements": texts} for rule, texts in found]}, indent=2))
        return
    names = table_names([p.name for p in world.theory.predicates])
    lines = [f"-- {names[name]}: {name}, {len(support):,} rows; {', '.join(f'a{k}' for k in range(len(support.sizes)))}"
             f" {'are numbers' if len(support.sizes) > 1 else 'is the number'} of constants, place that of the value"
             for name, support in world.supports.items()]
    for rule, texts in found:
        place = "" if rule.span is None else f"line {rule.span.line}: "
        lines += ["", f"-- {place}{rule}", *(f"{text};" for text in texts)]
    typer.echo("\n".join(lines or ["-- no predicate is sparse: no rule needs a join"]))


def _draw(plan: Plan | None, path: Path | None) -> None:
    if plan is not None and path is not None:
        page = Page("LogicMP: plan of one iteration")
        page.add("Steps", plan.to_graph())
        page.add("Cost", listed(str(plan.cost).split("; ")))
        write_whole(path, page.to_html(), "the drawing")


def _sizes(given: list[str]) -> dict[str, int]:
    sizes = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not equals or not number.isdecimal():
            raise LogicMPError(f"--size must be TYPE=N, got {text!r}", "for example --size person=1000")
        sizes[name] = int(number)
    return sizes


def _plan(form: NormalForm, sizes: dict[str, int], observed: list[str]) -> Plan:
    for name in observed:
        if name not in form.theory.predicate:
            raise LogicMPError(f"--observed: there is no predicate {name!r}",
                               closest(name, list(form.theory.predicate), "predicate"))
    for name, n in form.theory.with_sizes(sizes).items():
        if n == 0:
            raise LogicMPError(f"the plan needs the number of constants of type {name!r}",
                               f"for example --size {name}=100")
    return build_plan(form, sizes, observed)


def _as_dict(form: NormalForm) -> dict[str, object]:
    return {
        "semantics": form.semantics,
        "rules": [{
            "rule": str(normal.rule),
            "line": normal.rule.span.line if normal.rule.span else None,
            "clauses": normal.n_clauses,
            "terms": [{"sign": coefficient, "product": str(cube), "variables": {v.name: v.type for v in cube.variables}}
                      for coefficient, cube in normal.terms],
        } for normal in form.rules],
    }
