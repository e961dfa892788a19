"""Candidates of open predicates: the atoms that the rules reach from the facts.

Room: facts, normalize -> **ground** -> inference.

    Friend(x,y) ^ Friend(y,z) => Knows(x,z)      Knows has one candidate for each pair of friends of friends

One application of a rule takes the facts and candidates so far as its premises, and adds its conclusions. Open
predicates with few atoms do not restrict a rule: all their atoms can be true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..errors import CostError, LogicMPError
from ..facts.columns import Column, Evidence, FactTable
from ..facts.supports import DENSE_ATOMS, Support, distinct, make_keys, make_support, split_keys
from ..facts.world import closed_predicates
from ..normalize.build import normalize_theory
from ..normalize.cubes import Cube, Differ, Literal, NormalRule, Same, Var, names_in
from ..parse.theory import Theory
from .patterns import Pattern, box, estimate_rows, join_patterns, select

# candidates of one predicate, and rows of one join
MAX_REACHED = 2**27


def reach(evidence: Evidence, times: int, queried: set[str], world: str = "alchemy", closed: set[str] | None = None,
          opened: set[str] | None = None, candidates: Evidence | None = None, dense_atoms: int = DENSE_ATOMS
          ) -> Evidence:
    """Candidates for every open predicate with many atoms: what the rules conclude from the facts.

    Args:
        evidence: the facts.
        times: how often all rules are applied, at least 1.
        queried, world, closed, opened: as for `build_world`.
        candidates: candidates that are given; their predicates get no others.
        dense_atoms: predicates with at most this many atoms have all of them.
    """
    theory = evidence.theory if candidates is None else candidates.theory
    if times < 1:
        raise LogicMPError(f"reach must be at least 1, got {times}")
    reasons = closed_predicates(evidence, queried, world, closed or set(), opened or set())
    given = {} if candidates is None else dict(candidates.tables)
    supports: dict[str, Support] = {}
    targets: set[str] = set()
    for predicate in theory.predicates:
        name = predicate.name
        is_large = math.prod(predicate.shape(theory.sizes)) > dense_atoms
        if not reasons[name] and not is_large and name not in given:
            continue
        if predicate.is_categorical:
            if is_large and not reasons[name] and name not in given:
                raise LogicMPError(f"{predicate} has values of variables: rules cannot reach them",
                                   "give its atoms that can be true with --candidates FILE")
            continue
        if not predicate.arguments:
            continue
        supports[name] = _known(theory, [table for table in (evidence.tables.get(name), given.get(name))
                                         if table is not None], name)
        if not reasons[name] and is_large and name not in given:
            targets.add(name)
    rules = normalize_theory(theory, "paper").rules
    for _ in range(times):
        found: dict[str, list[np.ndarray]] = {}
        for rule in rules:
            for _, cube in rule.terms:
                for head in _heads(cube, targets):
                    keys = _conclusions(rule, cube, head, supports, theory)
                    found.setdefault(head.predicate, []).append(keys)
        for name, parts in found.items():
            old, predicate = supports[name], theory.predicate[name]
            keys = distinct(np.concatenate([make_keys(old.columns, old.sizes), *parts]))
            supports[name] = make_support(predicate, split_keys(keys, old.sizes), theory.sizes)
    tables = {**given, **{name: _table(theory, name, supports[name]) for name in targets}}
    return Evidence(theory, tables)


def count_premises(evidence: Evidence) -> list[float]:
    """How many rows the premises of each rule have over the facts, before any of them is made.

    Exact for up to two premises that share one variable, else an estimate. For candidates, pass them as facts.
    """
    theory = evidence.theory
    supports = {p.name: _known(theory, [evidence.tables[p.name]] if p.name in evidence.tables else [], p.name)
                for p in theory.predicates if p.arguments and not p.is_categorical}
    found = []
    for rule in normalize_theory(theory, "paper").rules:
        rows = [0.0]
        for _, cube in rule.terms:
            patterns = [select(supports[f.predicate], f.args, _windows(cube, theory)) for f in cube.factors
                        if isinstance(f, Literal) and not f.negated and f.predicate in supports]
            rows.append(estimate_rows(patterns) if patterns and all(p.n for p in patterns) else 0.0)
        found.append(max(rows))
    return found


def _windows(cube: Cube, theory: Theory) -> dict[str, tuple[int, int]]:
    return {v.name: (-v.low, theory.sizes[v.type] - v.high) for v in cube.variables}


def _known(theory: Theory, tables: list[FactTable], name: str) -> Support:
    """The atoms of a predicate that facts or given candidates allow."""
    predicate = theory.predicate[name]
    indexes = [theory.indices(t) for t in predicate.types]
    columns = [np.concatenate([np.zeros(0, dtype=np.int32),
                               *(table.columns[k].indices(index)[table.values != 0] for table in tables)])
               for k, index in enumerate(indexes)]
    return make_support(predicate, columns, theory.sizes)


def _table(theory: Theory, name: str, support: Support) -> FactTable:
    predicate = theory.predicate[name]
    columns = [Column(theory.type[t].constants, c) for t, c in zip(predicate.types, support.columns, strict=True)]
    return FactTable(predicate, columns, np.ones(len(support)), np.zeros(len(support), dtype=np.int64))


def _heads(cube: Cube, targets: set[str]) -> list[Literal]:
    """The literals that must be true where all premises are; a cube is violated where they are false.

    A rule without premises has none: it is a prior of all atoms, and would list them all.
    """
    if all(f.negated for f in cube.factors if isinstance(f, Literal)) and cube.variables:
        return []
    return [f for f in cube.factors if isinstance(f, Literal) and f.negated and f.predicate in targets]


def _conclusions(rule: NormalRule, cube: Cube, head: Literal, supports: Mapping[str, Support],
                 theory: Theory) -> np.ndarray:
    """The keys of the head's atoms for all bindings of the premises."""
    windows = _windows(cube, theory)
    wanted = [t.name for t in head.args if isinstance(t, Var)]
    patterns: list[Pattern] = []
    for f in cube.factors:
        if isinstance(f, Literal) and not f.negated and f.predicate in supports:
            names = {t.name for t in f.args if isinstance(t, Var)}
            own = [c for c in cube.factors if isinstance(c, (Same, Differ)) and set(names_in(c)) <= names]
            patterns.append(select(supports[f.predicate], f.args, windows, own))
    sizes = theory.predicate[head.predicate].shape(theory.sizes)
    if any(p.n == 0 for p in patterns):
        return np.zeros(0, dtype=np.int64)
    patterns = _near(patterns, set(wanted))
    bound = {n for p in patterns for n in p.names}
    for name in dict.fromkeys(wanted):
        if name not in bound:
            low, high = windows[name]
            patterns.append(box((name,), [(low, high)], (high,)))

    def guard(rows: int) -> None:
        if rows > MAX_REACHED:
            raise CostError(f"this rule reaches more than {MAX_REACHED:,} atoms of {head.predicate}", rule.rule.span,
                            "give the atoms that can be true with --candidates FILE, or add premises to the rule")

    if not patterns:
        # a head without variables
        return make_keys([np.array([t.index]) for t in head.args if not isinstance(t, Var)], sizes)
    rows = join_patterns(patterns, (), wanted, guard)
    columns = [rows.columns[t.name].astype(np.int64) + t.offset if isinstance(t, Var) else
               np.full(rows.n, t.index) for t in head.args]
    return distinct(make_keys(columns, sizes))


def _near(patterns: list[Pattern], names: set[str]) -> list[Pattern]:
    """The patterns that are connected to some variables; the others have rows, which is all that matters."""
    found: list[Pattern] = []
    left = list(patterns)
    while True:
        more = [p for p in left if not names.isdisjoint(p.names)]
        if not more:
            return found
        found += more
        left = [p for p in left if p not in more]
        names = names.union(*(p.names for p in more))
