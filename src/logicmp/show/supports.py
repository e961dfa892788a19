"""Which atoms of each predicate a run looks at, what that means, and how many rows the rules need: text and JSON.

Room: ground, plan -> **show** -> cli.

    atoms
      Friends      sparse: 10,000 true atoms of 1,000,000; all others are false
      Smokes       dense: all 1,000 atoms, 100 of them observed
    rows of the rules over sparse predicates: 20,000 (160 kB)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import CostError, LogicMPError
from ..facts.world import World
from ..ground.engine import Engine, Grounding
from ..ground.parts import Written
from ..ground.sql import Recorded
from ..ground.worlds import OutsideReport, SupportReport, count_outside, describe_supports
from ..normalize.build import normalize_theory
from ..parse.theory import Rule
from ..plan.eliminate import build_rows
from ..plan.forms import RowPlan

# what a head outside the candidates does to its rule, by the option
MEANINGS = {"false": "such a head is false, and the rule makes its premises less probable; --outside skip drops these "
            "groundings", "skip": "these groundings are dropped; --outside false makes their premises less probable"}


@dataclass(frozen=True)
class WorldReport:
    """The atoms of each predicate, the rows of the rules, and the heads outside the candidates."""

    world: World
    supports: Sequence[SupportReport]
    # None without sparse predicates
    rows: RowPlan | None
    outside: Sequence[OutsideReport]
    # "false" or "skip"
    option: str

    def to_lines(self) -> list[str]:
        width = max(12, *(len(report.predicate) for report in self.supports), 0)
        lines = ["atoms", *(f"  {report.predicate:<{width}} {report}" for report in self.supports)]
        if self.rows is not None:
            lines.append(f"rows of the rules over sparse predicates: {self.rows.n_rows:,} "
                         f"({self.rows.n_bytes / 1000:,.0f} kB)")
        if any(report.outside != 0 for report in self.outside):
            found = [f"  {report}" for report in self.outside if report.outside != 0]
            lines += ["heads outside the candidates", *found, f"  {MEANINGS[self.option]}"]
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {"supports": {report.predicate: report.to_dict() for report in self.supports},
                "rows": None if self.rows is None else {"rows": self.rows.n_rows, "bytes": self.rows.n_bytes},
                "outside": [report.to_dict() for report in self.outside]}


def report_world(make: Callable[[str], World], option: str, semantics: str = "exact") -> tuple[WorldReport | None, str]:
    """Describe the world that a function makes; None and the reason if it cannot be made, or needs too many rows.

    Args:
        make: makes the world; called with "false" or "skip" for heads outside the candidates.
        option: the one of the two that is chosen.
        semantics: "exact", "paper" or "alchemy".
    """
    try:
        world = make(option)
        supports = describe_supports(world)
        rows = plan_rows(world, semantics) if world.supports else None
        # counted on the rules as they are written
        outside = count_outside(world if option == "false" else make("false"))
        return WorldReport(world, supports, rows, outside, option), ""
    except LogicMPError as error:
        place = f"line {error.span.line}: " if isinstance(error, CostError) and error.span is not None else ""
        return None, f"{place}{error.message}{f': {error.hint}' if error.hint else ''}"


def plan_rows(world: World, semantics: str = "exact") -> RowPlan:
    """The lists of rows that mean field needs for a world with sparse predicates."""
    form = normalize_theory(world.theory, semantics, world.sizes)
    return build_rows(form, world.sizes, world.supports, world.observed)


def write_rows(world: World, semantics: str, folder: Path, n_parts: int, engine: Engine) -> list[int]:
    """Write the rows of all joins as Parquet parts; the number of rows of each.

    Args:
        world: its sparse predicates are the tables.
        semantics: "exact", "paper" or "alchemy".
        folder: gets one folder for each join.
        n_parts: how many parts each join has.
        engine: makes the rows.
    """
    written = Written(engine, folder, n_parts)
    form = normalize_theory(world.theory, semantics, world.sizes)
    try:
        build_rows(form, world.sizes, world.supports, world.observed, grounding=Grounding(written))
    finally:
        written.close()
    return written.rows


def sql_of_rules(world: World, semantics: str = "exact") -> list[tuple[Rule, list[str]]]:
    """The joins of each rule over sparse predicates as SQL, without the rules that need none."""
    form = normalize_theory(world.theory, semantics, world.sizes)
    found = []
    for normal in form.rules:
        recorded = Recorded()
        build_rows(replace(form, rules=(normal,)), world.sizes, world.supports, world.observed,
                   grounding=Grounding(recorded))
        if recorded.statements:
            found.append((normal.rule, recorded.statements))
    return found
