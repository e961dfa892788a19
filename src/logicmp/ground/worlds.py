"""The world that a run works on, described: the atoms of each predicate, and the heads outside their candidates.

Room: facts, normalize -> **ground** -> show.

    Friends   sparse: 10,000 true atoms of 1,000,000; all others are false
    Knows     sparse: 98,412 candidates of 1,000,000 atoms, 3 of them observed; all others are false
    line 4    98,409 bindings of the premises; 120 of them have a head outside the candidates
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import CostError
from ..facts.supports import Support, make_support
from ..facts.world import UNKNOWN, World
from ..normalize.build import normalize_theory
from ..normalize.cubes import Cube, Differ, Literal, Same, Var, names_in
from .patterns import Pattern, box, join_patterns, select

# bindings of the premises of one rule that are counted
MAX_COUNTED = 2**24


@dataclass(frozen=True)
class SupportReport:
    """What is known of one predicate, and which of its atoms a run looks at."""

    predicate: str
    # "dense" or "sparse"
    kind: str
    # of the predicate, of these in the list, and of these observed
    atoms: int
    listed: int
    observed: int
    is_closed: bool

    def __str__(self) -> str:
        if self.kind == "dense":
            observed = "all observed" if self.observed == self.listed else f"{self.observed:,} of them observed"
            return f"dense: all {self.atoms:,} atoms, {observed}"
        if self.observed == self.listed:
            return f"sparse: {self.listed:,} true atoms of {self.atoms:,}; all others are false"
        return (f"sparse: {self.listed:,} candidates of {self.atoms:,} atoms, {self.observed:,} of them observed; all "
                "others are false")

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "meaning": str(self)}


def describe_supports(world: World) -> list[SupportReport]:
    """One report for each predicate."""
    found = []
    for p in world.theory.predicates:
        values = world.values[p.name]
        atoms = math.prod(p.shape(world.sizes))
        if p.name not in world.supports:
            found.append(SupportReport(p.name, "dense", atoms, atoms, int((values != UNKNOWN).sum()),
                                       bool(world.closed[p.name])))
            continue
        support = world.supports[p.name]
        # an empty list has no length that -1 could stand for
        observed = values.reshape(support.n_values, len(p.labels or "1")) != UNKNOWN
        read = observed if support.places is None else observed[support.places]
        found.append(SupportReport(p.name, "sparse", atoms, int(read.size), int(read.sum()),
                                   bool(world.closed[p.name])))
    return found


@dataclass(frozen=True)
class OutsideReport:
    """How many bindings of the premises of a rule have a head outside the candidates."""

    line: int | None
    rule: str
    predicate: str
    # None if there are more than MAX_COUNTED
    bindings: int | None
    outside: int | None

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        if self.bindings is None:
            return (f"{place}more than {MAX_COUNTED:,} bindings of the premises; those whose {self.predicate} is "
                    "outside its candidates were not counted")
        return (f"{place}{self.outside:,} of {self.bindings:,} bindings of the premises have a {self.predicate} "
                "outside its candidates")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def count_outside(world: World) -> list[OutsideReport]:
    """For every rule with a head that has candidates, how many bindings of its premises have a head outside them.

    A binding counts if every premise without labels can be true. Rules without premises are left out.
    """
    listed = {name for name in world.supports if not world.closed[name]}
    if not listed:
        return []
    found = []
    for rule in normalize_theory(world.theory, "paper").rules:
        for _, cube in rule.terms:
            if not any(isinstance(f, Literal) and not f.negated for f in cube.factors):
                continue
            for head in (f for f in cube.factors if isinstance(f, Literal) and f.negated and f.predicate in listed):
                try:
                    bindings, outside = _count(cube, head, world)
                except _TooManyError:
                    bindings, outside = None, None
                found.append(OutsideReport(rule.rule.span.line if rule.rule.span else None, str(rule.rule),
                                           head.predicate, bindings, outside))
    return found


class _TooManyError(CostError):
    """More bindings than are counted."""


def _can_be_true(world: World, name: str) -> Support | None:
    """The atoms of a predicate that can be true; None if it has labels, values or no arguments."""
    predicate = world.theory.predicate[name]
    if name in world.supports:
        return world.supports[name]
    if predicate.is_categorical or not predicate.arguments:
        return None
    return make_support(predicate, np.nonzero(world.values[name]), world.sizes)


def _count(cube: Cube, head: Literal, world: World) -> tuple[int | None, int | None]:
    windows = {v.name: (-v.low, world.sizes[v.type] - v.high) for v in cube.variables}
    conditions = [f for f in cube.factors if isinstance(f, (Same, Differ))]
    patterns: list[Pattern] = []
    for f in cube.factors:
        support = _can_be_true(world, f.predicate) if isinstance(f, Literal) and not f.negated else None
        if support is not None and isinstance(f, Literal):
            names = {t.name for t in f.args if isinstance(t, Var)}
            own = [c for c in conditions if set(names_in(c)) <= names]
            conditions = [c for c in conditions if c not in own]
            patterns.append(select(support, f.args, windows, own))
    if any(p.n == 0 for p in patterns):
        return 0, 0

    def guard(rows: int) -> None:
        if rows > MAX_COUNTED:
            raise _TooManyError("too many bindings", None)

    wanted = list(dict.fromkeys([*(t.name for t in head.args if isinstance(t, Var)),
                                 *(name for c in conditions for name in names_in(c))]))
    for name in wanted:
        if not any(name in p.names for p in patterns):
            guard(windows[name][1])
            patterns.append(box((name,), [windows[name]], (windows[name][1],)))
    if patterns:
        rows = join_patterns(patterns, (), wanted, guard, [c for c in conditions if isinstance(c, Differ)])
        n, columns = rows.n, rows.columns
    else:
        n, columns = 1, {}
    args = [columns[t.name].astype(np.int64) + t.offset if isinstance(t, Var) else np.full(n, t.index)
            for t in head.args]
    return n, int((world.supports[head.predicate].find(args) < 0).sum()) if args else 0
