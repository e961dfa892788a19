"""What is known of every ground atom: the facts, and for the atoms that no fact names, the world they live in.

Stage: parse -> **ground** -> infer, learn.  Paper: the observations O and the latent variables.

    Friends(Anna, Bob)       Friends is closed: Friends(Bob, Anna) is false
    Cancer(person)           Cancer is open: every Cancer(x) is asked for

Results mean nothing without the choice, so it can be printed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import LogicMPError, closest
from ..parse.theory import Predicate, Theory
from .columns import Evidence, FactTable

# what an engine assumes of atoms that no fact names
WORLDS = ("alchemy", "open", "closed")
UNKNOWN = -1


@dataclass(frozen=True)
class World:
    """Theory and evidence as arrays: for each predicate what is true, false and unknown."""

    theory: Theory
    # by predicate, int8 of the shape of its tensor: 1 true, 0 false, -1 unknown
    values: Mapping[str, np.ndarray]
    # by predicate, log-odds of the atoms with soft evidence, 0 elsewhere; only for predicates that have some
    unary: Mapping[str, np.ndarray]
    # why each predicate is closed ("" if it is open)
    closed: Mapping[str, str]
    warnings: Sequence[str] = field(default=())

    @property
    def sizes(self) -> dict[str, int]:
        return self.theory.sizes

    @property
    def latent(self) -> list[str]:
        """The predicates with at least one unknown atom."""
        return [name for name, values in self.values.items() if (values == UNKNOWN).any()]

    def describe(self) -> str:
        """The choice of worlds, in two lines."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.closed.items():
            by_reason.setdefault(why, []).append(name)
        opened = ", ".join(by_reason.pop("", ["none"]))
        closed = "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items()) or "none"
        return f"closed world: {closed}\nopen world:   {opened}"


def build_world(evidence: Evidence, queried: Collection[str] = (), world: str = "alchemy",
                closed: Collection[str] = (), opened: Collection[str] = ()) -> World:
    """Decide what holds for the atoms that the evidence does not name.

    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("person = {Anna, Bob}\\nSmokes(person)\\nCancer(person)")
    >>> print(build_world(parse_facts("Smokes(Anna)", theory), ["Cancer"]).describe())
    closed world: Smokes (it has facts)
    open world:   Cancer

    Args:
        queried: predicates asked for, which the conventions leave open.
        world: "alchemy" (a predicate with facts is closed unless it is asked for), "open", or "closed" (every
            predicate is, unless it is asked for). A `*` in the declaration closes a predicate in each of them.
        closed, opened: predicates for which none of this counts.
    """
    theory = evidence.theory
    for t in theory.types:
        if not t.constants:
            raise LogicMPError(f"type {t.name!r} has no constants", f"declare them ({t.name} = {{A, B}}), or give "
                               "evidence that names them")
    reasons = _closed(evidence, set(queried), world, set(closed), set(opened))
    values, unary, warnings = {}, {}, []
    for predicate in theory.predicates:
        table = evidence.tables.get(predicate.name, FactTable(predicate))
        known, soft, n_open = _values(theory, table, bool(reasons[predicate.name]))
        values[predicate.name] = known
        if soft is not None:
            unary[predicate.name] = soft
        if n_open:
            warnings.append(f"{predicate.name} is closed, but no fact gives a value to {n_open} of its variables: "
                            "they stay unknown, because each must have one")
    return World(theory, values, unary, reasons, warnings)


def _closed(evidence: Evidence, queried: set[str], world: str, closed: set[str], opened: set[str]) -> dict[str, str]:
    if world not in WORLDS:
        raise LogicMPError(f"unknown world {world!r}", f"known: {', '.join(WORLDS)}")
    known = evidence.theory.predicate
    for name in (*closed, *opened):
        if name not in known:
            raise LogicMPError(f"predicate {name!r} is not declared", closest(name, list(known), "predicate"))
    if closed & opened:
        raise LogicMPError(f"{sorted(closed & opened)[0]!r} is named both closed and open")
    reasons = {}
    for name, predicate in known.items():
        reason = ""
        if name in closed:
            reason = "as asked"
        elif name in opened:
            reason = ""
        elif predicate.closed_world:
            reason = "declared with *"
        elif name not in queried and world == "closed":
            reason = "not asked for"
        elif name not in queried and world == "alchemy" and name in evidence.tables:
            reason = "it has facts"
        reasons[name] = reason
    return reasons


def _values(theory: Theory, table: FactTable, closed: bool) -> tuple[np.ndarray, np.ndarray | None, int]:
    """What is known of the atoms of one predicate, its soft evidence, and how many variables closing left open."""
    predicate = table.predicate
    shape = shape_of(predicate, theory.sizes)
    if math.prod(shape) > 2**31:
        raise LogicMPError(f"{predicate} has {math.prod(shape):,} ground atoms (limit {2**31:,})",
                           "leave out constants that are not needed")
    given = np.asarray(table.values, dtype=np.float64)
    places = _places(theory, table)
    # a variable that must have a value is not closed: of its values not all can be false
    must_have_value = predicate.is_categorical and not predicate.may_be_none
    values = np.full(shape or 1, 0 if closed and not must_have_value else UNKNOWN, dtype=np.int8)
    is_soft = (given > 0) & (given < 1)
    soft = None
    for at in (places, places[::-1]) if predicate.symmetric else (places,):
        values[at] = np.where(np.isnan(given) | is_soft, UNKNOWN, np.nan_to_num(given)).astype(np.int8)
        if is_soft.any():
            soft = np.zeros(shape or 1) if soft is None else soft
            p = given[is_soft]
            soft[tuple(place[is_soft] for place in at)] = np.log(p) - np.log1p(-p)
    n_open = one_value_each(predicate, values) if predicate.is_categorical else 0
    return (values.reshape(shape), None if soft is None else soft.reshape(shape),
            n_open if closed and must_have_value else 0)


def shape_of(predicate: Predicate, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a predicate's tensor, without batch dimensions; labels are last."""
    labels = () if predicate.labels is None else (len(predicate.labels),)
    return (*(sizes[t] for t in predicate.types), *labels)


def _places(theory: Theory, table: FactTable) -> tuple[np.ndarray, ...]:
    """Where the facts stand in the predicate's tensor, an index array for each of its axes."""
    predicate = table.predicate
    indexes = [{c: i for i, c in enumerate(theory.type[t].constants)} for t in predicate.types]
    if predicate.labels is not None:
        indexes.append({label: i for i, label in enumerate(predicate.labels)})
    if not indexes:
        # an atom without arguments stands in a row of one
        return (np.zeros(len(table.args), dtype=np.int64),)
    return tuple(np.fromiter((index[row[k]] for row in table.args), dtype=np.int64, count=len(table.args))
                 for k, index in enumerate(indexes))


def one_value_each(predicate: Predicate, values: np.ndarray) -> int:
    """A true value of a categorical variable makes the others false, and the last possible one is true; in place.

    Returns how many variables are left with more than one possible value.
    """
    axes = (values.ndim - 1,) if predicate.labels is not None else predicate.functional
    view = np.moveaxis(values, axes, range(values.ndim - len(axes), values.ndim))
    # [variables, values]; a copy, written back below
    table = view.reshape(-1, math.prod(values.shape[k] for k in axes))
    has_true = (table == 1).any(1, keepdims=True)
    table = np.where(has_true & (table != 1), 0, table)
    n_unknown = (table == UNKNOWN).sum(1, keepdims=True)
    if not predicate.may_be_none:
        if not (has_true | (n_unknown > 0)).all():
            raise LogicMPError(f"the evidence says of every value of a variable of {predicate} that it is false",
                               "one of them must be true; write '?' instead of '!' for at most one")
        table = np.where(~has_true & (n_unknown == 1) & (table == UNKNOWN), 1, table)
    view[...] = table.reshape(view.shape)
    return int((~has_true & (n_unknown > 1)).sum())
