"""Joins as SQL: each list of rows is one SELECT in plain SQL, the same text for every engine.

Room: facts, normalize -> **ground** -> plan, execute.

    Friends(x,y) Friends(y,z) x != z
    SELECT r0, r1
    FROM (SELECT a0 AS x, a1 AS y, place AS r0 FROM p_friends) AS t0
    JOIN (SELECT a0 AS y, a1 AS z, place AS r1 FROM p_friends) AS t1 USING (y)
    WHERE x <> z

A predicate is a table of its rows: its arguments a0, a1, ... as numbers of constants, and the place of its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..facts.supports import Support
from ..normalize.cubes import Const, Differ, Same, Term, Var
from .engine import BuiltIn, Share, choose_variable
from .join import Guard
from .patterns import Joined, Pattern, Selection, join_order

# columns of a result: places by pattern number, and the rows that a group has
PLACE, COUNT = "r", "n"


def table_names(predicates: Sequence[str]) -> dict[str, str]:
    """The table of each predicate; SQL does not distinguish lower and upper case.

    >>> table_names(["Friends", "Größe", "friends"])
    {'Friends': 'p_friends', 'Größe': 'p_1', 'friends': 'p_2'}
    """
    found: dict[str, str] = {}
    for k, name in enumerate(predicates):
        table = f"p_{name.lower()}"
        is_plain = re.fullmatch(r"[a-z_]\w*", name.lower(), re.ASCII) is not None and table not in found.values()
        found[name] = table if is_plain else f"p_{k}"
    return found


def selection(table: str, support: Support, args: Sequence[Term], windows: Mapping[str, tuple[int, int]],
              conditions: Iterable[Same | Differ] = ()) -> Selection:
    """The rows that one literal can read, as `select` in patterns.py finds them.

    Args:
        table: of the predicate.
        support: its rows.
        args: the arguments of the literal.
        windows: the smallest and the last but one value of each variable.
        conditions: of variables that all are arguments of this literal.
    """
    found: dict[str, str] = {}
    where: list[str] = []
    for k, (arg, size) in enumerate(zip(args, support.sizes, strict=True)):
        if isinstance(arg, Const):
            where.append(f"a{k} = {arg.index}")
            continue
        value = _plus(f"a{k}", -arg.offset)
        if arg.name in found:
            where.append(f"{found[arg.name]} = {value}")
            continue
        found[arg.name] = value
        low, high = windows[arg.name]
        if arg.offset or low > 0:
            where.append(f"{value} >= {low}")
        if arg.offset or high < size:
            where.append(f"{value} < {high}")
    where += [_condition(c, found) for c in conditions]
    return Selection(table, support.columns, support.places, tuple(found.values()), tuple(where))


def _plus(value: str, offset: int) -> str:
    return value if not offset else f"{value} {'+' if offset > 0 else '-'} {abs(offset)}"


def _condition(condition: Same | Differ, names: Mapping[str, str]) -> str:
    sides = [_plus(names[t.name], t.offset) if isinstance(t, Var) else str(t.index)
             for t in (condition.left, condition.right)]
    return f" {'=' if isinstance(condition, Same) else '<>'} ".join(sides)


def join_sql(patterns: Sequence[Pattern], sources: Sequence[Selection], wanted: Iterable[int], keep: Iterable[str],
             conditions: Sequence[Differ] = (), is_grouped: bool = False, share: Share | None = None) -> str:
    """The rows of `join_patterns` as one SELECT.

    Args:
        patterns: the bindings to join.
        sources: the table of each.
        wanted: patterns whose places are needed: the columns r0, r1, ...
        keep: variables whose columns are needed.
        conditions: pairs of terms that differ in every row.
        is_grouped: return each binding of `keep` once, with the number n of its rows.
        share: which of the rows; None for all.
    """
    name = column_names(patterns)
    wanted_set = set(wanted)
    kept = [name[n] for n in name if n in set(keep)]
    output = [*kept, *(f"{PLACE}{k}" for k in sorted(wanted_set))]
    if is_grouped or not output:
        output = [*kept, f"count(*) AS {COUNT}"]
    lines: list[str] = []
    bound: set[str] = set()
    for k in join_order(patterns):
        p, source = patterns[k], sources[k]
        columns = [f"{value} AS {name[n]}" for n, value in zip(p.names, source.expressions, strict=True)]
        columns += [f"place AS {PLACE}{k}"] if k in wanted_set else []
        inner = f"(SELECT {', '.join(columns)} FROM {source.table}"
        inner += f" WHERE {' AND '.join(source.where)}" if source.where else ""
        shared = [name[n] for n in p.names if n in bound]
        word = "FROM" if not lines else "JOIN" if shared else "CROSS JOIN"
        lines.append(f"{word} {inner}) AS t{k}" + (f" USING ({', '.join(shared)})" if shared else ""))
        bound |= set(p.names)
    where = [_condition(c, name) for c in conditions]
    if share is not None and share.size > 1:
        chosen, low, high = choose_variable(patterns, share)
        where.append(f"{name[chosen]} >= {low} AND {name[chosen]} < {high}" if share.by_range else
                     f"{name[chosen]} % {high} = {low}")
    lines += [f"WHERE {' AND '.join(where)}"] if where else []
    lines += [f"GROUP BY {', '.join(kept)}"] if is_grouped and kept else []
    return "\n".join([f"SELECT {', '.join(output)}", *lines])


def column_names(patterns: Sequence[Pattern]) -> dict[str, str]:
    """A column for each variable: its name if that is one letter, which is no word of SQL, else with v_ before it."""
    names = list(dict.fromkeys(n for p in patterns for n in p.names))
    found = {n: n if re.fullmatch("[a-z]", n) and n != COUNT else f"v_{n}" if re.fullmatch("[a-z0-9_]+", n) else
             f"w_{k}" for k, n in enumerate(names)}
    return found


def read_joined(columns: Mapping[str, np.ndarray], patterns: Sequence[Pattern], wanted: Iterable[int],
                keep: Iterable[str], is_grouped: bool) -> Joined:
    """The result of `join_sql`, by column, as rows of a join."""
    counts = columns.get(COUNT)
    if counts is not None and not is_grouped:
        return Joined(int(counts.sum()), {}, {})
    names = column_names(patterns)
    kept = {n: columns[names[n]].astype(np.int32, copy=False) for n in dict.fromkeys(keep)}
    places = {k: columns[f"{PLACE}{k}"].astype(np.int32, copy=False) for k in wanted} if not is_grouped else {}
    n = len(next(iter(columns.values())))
    return Joined(n, kept, places, None if counts is None else counts.astype(np.float64))


class Tables:
    """Names for the tables of patterns: those of predicates, and t0, t1, ... for rows that were computed."""

    def __init__(self) -> None:
        self.known: dict[str, Selection] = {}

    def sources(self, patterns: Sequence[Pattern]) -> list[Selection]:
        """The table of each pattern; new ones are added to `known`."""
        found = []
        for p in patterns:
            source = p.source
            if source is None:
                table = next((name for name, known in self.known.items() if known.columns is p.columns
                              and known.places is p.places), f"t{len(self.known)}")
                source = Selection(table, p.columns, p.places, tuple(f"a{k}" for k in range(len(p.names))))
            self.known.setdefault(source.table, source)
            found.append(source)
        return found


def table_columns(source: Selection) -> dict[str, np.ndarray]:
    """The columns of a table by name."""
    n = len(source.columns[0])
    places = np.arange(n, dtype=np.int32) if source.places is None else source.places
    return {**{f"a{k}": np.ascontiguousarray(c) for k, c in enumerate(source.columns)},
            "place": np.ascontiguousarray(places)}


class Recorded:
    """The built-in join, with the text of every join that it makes.

    Attributes:
        statements: the joins so far, each once.
    """

    def __init__(self) -> None:
        self.tables = Tables()
        self.statements: list[str] = []

    def join(self, patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
             conditions: Sequence[Differ], is_grouped: bool, share: Share) -> Joined:
        text = join_sql(patterns, self.tables.sources(patterns), wanted, keep, conditions, is_grouped, share)
        if text not in self.statements:
            self.statements.append(text)
        return BuiltIn().join(patterns, wanted, keep, guard, conditions, is_grouped, share)

    def close(self) -> None:
        return None
