"""`logicmp check`: summarize a theory, and warn of rules that may not mean what the user intended."""

from __future__ import annotations

import json

import typer

from ..errors import CostError
from ..facts.columns import Evidence
from ..facts.db import load_facts, parse_facts
from ..facts.world import describe_missing
from ..normalize.build import normalize_theory
from ..normalize.review import find_warnings
from ..page import plural
from ..parse.load import load_theory
from ..parse.theory import Theory
from ..show.progress import shown_progress
from ..show.supports import WorldReport, report_world
from .options import (
    CandidatesOption,
    ClosedOption,
    EvidenceOption,
    Format,
    FormatOption,
    Grammar,
    GrammarOption,
    OpenOption,
    Outside,
    OutsideOption,
    Premises,
    PremisesOption,
    QueriedOption,
    ReachOption,
    TheoryFile,
    WorldName,
    WorldOption,
    make_world,
)


def check(
    file: TheoryFile,
    evidence: EvidenceOption = None,
    query: QueriedOption = None,
    world: WorldOption = WorldName.alchemy,
    closed: ClosedOption = "",
    opened: OpenOption = "",
    candidates: CandidatesOption = None,
    reach: ReachOption = 0,
    premises: PremisesOption = Premises.all,
    outside: OutsideOption = Outside.false,
    fmt: FormatOption = Format.text,
    grammar: GrammarOption = Grammar.auto,
) -> None:
    """Summarize FILE: types, predicates, rules and warnings.

    With facts, also show which atoms of each predicate infer would use, and how many rows the rules need.

    \b
        logicmp check smoking.mln
        logicmp check smoking.mln -e smoking.db -q Smokes
        cat smoking.mln | logicmp check -
    """
    with shown_progress(quiet=file == "-") as progress:
        progress("reading", 0, 0)
        theory = load_theory(file, grammar.value)
        facts = load_facts(evidence, theory, progress) if evidence else parse_facts("", theory) if candidates else None
        if facts is not None:
            theory = facts.theory
        try:
            warnings = [str(warning) for warning in find_warnings(normalize_theory(theory))]
        except CostError as error:
            # on one line, like the other warnings
            place = f"line {error.span.line}: " if error.span is not None else ""
            warnings = [f"{place}{error.message}{f': {error.hint}' if error.hint else ''}"]
        if facts is not None:
            missing = (describe_missing(theory, table) for table in facts.tables.values())
            warnings += [*facts.warnings, *(f"if queried, {note}" for note in missing if note)]
        report = None
        if facts is not None:
            progress("counting atoms and rows", 0, 0)
            report, problem = report_world(lambda option: make_world(
                facts, query, candidates, reach, premises, option, world, closed, opened), outside.value)
            warnings += [f"infer with these options: {problem}"] if problem else []
    typer.echo(_as_json(theory, facts, warnings, report) if fmt is Format.json else
               _as_text(file, theory, facts, warnings, report))


def _as_text(file: str, theory: Theory, facts: Evidence | None, warnings: list[str], report: WorldReport | None) -> str:
    counts = ", ".join(plural(len(items), name) for items, name in (
        (theory.types, "type"), (theory.predicates, "predicate"), (theory.rules, "rule"), (warnings, "warning")))
    lines = [f"{file}: {counts}", "", "types"]
    for t in theory.types:
        names = ", ".join(t.constants[:6]) + (", ..." if len(t.constants) > 6 else "")
        state = "" if t.closed else "   (open: facts may add constants)"
        lines.append(f"  {t.name:<12} {plural(len(t.constants), 'constant')}{': ' + names if names else ''}{state}")
    lines += ["", "predicates", *(f"  {predicate}" for predicate in theory.predicates)]
    lines += ["", "rules"]
    lines += [f"  {'' if rule.span is None else f'{rule.span.line:>4}: '}{rule}" for rule in theory.rules]
    if facts is not None:
        lines += ["", f"facts: {len(facts)}"]
        lines += [f"  {name:<12} {len(table)}" for name, table in facts.tables.items()]
        lines += ["  atoms without a fact: false if their predicate has facts and is not queried (see infer --world), "
                  "else", "  unobserved, with prior probability 0.5 (see infer --prior)"]
    if report is not None:
        lines += ["", *report.to_lines()]
    if warnings:
        lines += ["", "warnings", *(f"  {warning}" for warning in warnings)]
    return "\n".join(lines)


def _as_json(theory: Theory, facts: Evidence | None, warnings: list[str], report: WorldReport | None) -> str:
    return json.dumps({
        "types": {t.name: {"constants": list(t.constants), "closed": t.closed} for t in theory.types},
        "predicates": {p.name: str(p) for p in theory.predicates},
        "rules": [{"line": rule.span.line if rule.span else None, "rule": str(rule), "weight": rule.weight,
                   "hard": rule.is_hard, "variables": rule.variables} for rule in theory.rules],
        "facts": None if facts is None else {name: len(table) for name, table in facts.tables.items()},
        **({} if report is None else report.to_dict()),
        "warnings": warnings,
    }, indent=2)
