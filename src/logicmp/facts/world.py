"""The value of every atom, true, false or unobserved: from facts, and for other atoms from a closed or open world.

Room: parse -> **facts** -> ground, execute, inference, learning.  Paper: the observations O and the latent variables.

    Friends(Anna, Bob)       Friends is closed: Friends(Bob, Anna) is false
    Cancer(person)           Cancer is open: every Cancer(x) without a fact is unobserved
    prior={"Cancer": 0.1}    and has the probability 0.1 if no rule mentions it, instead of 0.5

Results depend on this choice, so `World.describe` prints it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import LogicMPError, closest
from ..parse.theory import Predicate, Theory
from .columns import Evidence, FactTable

# conventions for atoms without a fact
WORLDS = ("alchemy", "open", "closed")
UNKNOWN = -1
# of a numpy array before version 2
MAX_AXES = 32


@dataclass(frozen=True)
class World:
    """Theory and evidence as arrays: for each predicate, its true, false and unobserved atoms."""

    theory: Theory
    # by predicate, int8 of the shape of its tensor: 1 true, 0 false, -1 unobserved
    values: Mapping[str, np.ndarray]
    # by predicate, log-odds of the atoms with soft evidence or a prior, 0 elsewhere; only for predicates that have any
    unary: Mapping[str, np.ndarray]
    # why each predicate is closed ("" if it is open)
    closed: Mapping[str, str]
    warnings: Sequence[str] = field(default=())

    @property
    def sizes(self) -> dict[str, int]:
        return self.theory.sizes

    @property
    def latent(self) -> list[str]:
        """The predicates with at least one unobserved atom."""
        return [name for name, values in self.values.items() if (values == UNKNOWN).any()]

    def describe(self) -> str:
        """Which predicates are closed and which are open, in two lines."""
        opened = ", ".join(name for name, why in self.closed.items() if not why)
        return f"closed world: {self.describe_closed() or 'none'}\nopen world:   {opened or 'none'}"

    def describe_closed(self) -> str:
        """The closed predicates, and why they are closed; empty if there are none."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.closed.items():
            by_reason.setdefault(why, []).append(name)
        by_reason.pop("", None)
        return "; ".join(f"{', '.join(names)} ({why if len(names) == 1 else why.replace('it has', 'they have')})"
                         for why, names in by_reason.items())


def build_world(evidence: Evidence, queried: Collection[str] = (), world: str = "alchemy",
                closed: Collection[str] = (), opened: Collection[str] = (),
                prior: Mapping[str, float] | None = None) -> World:
    """Return the value of every atom; `world` decides those without a fact.

    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("person = {Anna, Bob}\\nSmokes(person)\\nCancer(person)")
    >>> print(build_world(parse_facts("Smokes(Anna)", theory), ["Cancer"]).describe())
    closed world: Smokes (it has facts)
    open world:   Cancer

    Args:
        queried: predicates that are queried, and therefore open.
        world: "alchemy" (predicates with facts are closed unless queried), "open", or "closed" (all predicates are
            closed unless queried). A `*` in the declaration closes a predicate in all of them.
        closed, opened: predicates that are closed or open regardless of `world` and `*`.
        prior: by open predicate, the probability of an atom without a fact if no rule mentions it, instead of 0.5.
    """
    theory = evidence.theory
    for t in theory.types:
        if not t.constants:
            raise LogicMPError(f"type {t.name!r} has no constants", f"declare them ({t.name} = {{A, B}}), or give "
                               "evidence that names them")
    reasons = _closed(evidence, set(queried), world, set(closed), set(opened))
    prior = dict(prior or {})
    _check_prior(theory, reasons, prior)
    values, unary, warnings = {}, {}, []
    for predicate in theory.predicates:
        table = evidence.tables.get(predicate.name, FactTable(predicate))
        known, soft, n_open = _values(theory, table, bool(reasons[predicate.name]), prior.get(predicate.name))
        values[predicate.name] = known
        if soft is not None:
            unary[predicate.name] = soft
        if n_open:
            warnings.append(f"{predicate.name} is closed, but no fact gives a value to {n_open} of its variables: "
                            "they stay unobserved, because each must have one")
        if not reasons[predicate.name] and (note := describe_missing(theory, table, prior.get(predicate.name))):
            warnings.append(note)
    return World(theory, values, unary, reasons, warnings)


def _closed(evidence: Evidence, queried: set[str], world: str, closed: set[str], opened: set[str]) -> dict[str, str]:
    if world not in WORLDS:
        raise LogicMPError(f"unknown world {world!r}", f"available worlds: {', '.join(WORLDS)}")
    known = evidence.theory.predicate
    for name in (*closed, *opened):
        if name not in known:
            raise LogicMPError(f"predicate {name!r} is not declared", closest(name, list(known), "predicate"))
    if closed & opened:
        raise LogicMPError(f"predicate {sorted(closed & opened)[0]!r} cannot be both closed and open")
    reasons = {}
    for name, predicate in known.items():
        reason = ""
        if name in closed:
            reason = "as requested"
        elif name in opened:
            reason = ""
        elif predicate.closed_world:
            reason = "declared with *"
        elif name not in queried and world == "closed":
            reason = "not queried"
        elif name not in queried and world == "alchemy" and name in evidence.tables:
            reason = "it has facts"
        reasons[name] = reason
    return reasons


def _check_prior(theory: Theory, closed: Mapping[str, str], prior: Mapping[str, float]) -> None:
    for name, p in prior.items():
        if name not in theory.predicate:
            raise LogicMPError(f"predicate {name!r} is not declared",
                               closest(name, list(theory.predicate), "predicate"))
        if theory.predicate[name].is_categorical:
            raise LogicMPError(f"{theory.predicate[name]} cannot have a prior: one of its values must be true",
                               "write a rule with a weight for each value")
        if closed[name]:
            raise LogicMPError(f"the prior of {name} has no effect, because {name} is closed ({closed[name]})",
                               f"open it: opened=[{name!r}], or -ow {name} on the command line")
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 < p < 1:
            raise LogicMPError(f"the prior of {name} must be a probability above 0 and below 1, got {p!r}",
                               f"for false atoms close the predicate: closed=[{name!r}], or -cw {name}")


def describe_missing(theory: Theory, table: FactTable, prior: float | None = None) -> str:
    """What the atoms without a fact count as if the predicate is open; empty unless it has a prior or soft facts.

    Next to atoms with a probability of their own, 0.5 is easily taken for "unlikely", which it is not.
    """
    predicate = table.predicate
    if predicate.is_categorical or (prior is None and not any(0 < value < 1 for value in table.values)):
        return ""
    n_atoms = math.prod(predicate.shape(theory.sizes))
    facts = set(table.args)
    if predicate.symmetric:
        n_atoms = (n_atoms + theory.sizes[predicate.types[0]]) // 2
        facts = {(min(row), max(row)) for row in facts}
    n_missing = n_atoms - len(facts)
    if not n_missing:
        return ""
    name = predicate.name
    remedy = f"; set another prior (--prior {name}=0.1), or make them false (-cw {name})" if prior is None else ""
    return f"{name}: {n_missing:,} of {n_atoms:,} atoms have no fact, prior probability {prior or 0.5:g}{remedy}"


def _values(theory: Theory, table: FactTable, closed: bool,
            prior: float | None = None) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Return the values of one predicate, its soft evidence, and the number of variables that could not be closed."""
    predicate = table.predicate
    shape = predicate.shape(theory.sizes)
    if len(shape) > MAX_AXES:
        raise LogicMPError(f"{predicate.name} has {len(predicate.types)} arguments (limit {MAX_AXES})",
                           "split it into predicates with fewer arguments")
    if math.prod(shape) > 2**31:
        raise LogicMPError(f"{predicate} has {math.prod(shape):,} atoms (limit {2**31:,})",
                           "remove constants that are not needed")
    given = np.asarray(table.values, dtype=np.float64)
    places = _places(theory, table)
    # a variable that must have a value is not closed: its values cannot all be false
    must_have_value = predicate.is_categorical and not predicate.may_be_none
    values = np.full(shape or 1, 0 if closed and not must_have_value else UNKNOWN, dtype=np.int8)
    is_soft = (given > 0) & (given < 1)
    soft = None if prior is None else np.full(shape or 1, math.log(prior) - math.log1p(-prior))
    for at in (places, places[::-1]) if predicate.symmetric else (places,):
        values[at] = np.where(np.isnan(given) | is_soft, UNKNOWN, np.nan_to_num(given)).astype(np.int8)
        if soft is not None:
            soft[tuple(place[~is_soft] for place in at)] = 0.0
        if is_soft.any():
            soft = np.zeros(shape or 1) if soft is None else soft
            p = given[is_soft]
            soft[tuple(place[is_soft] for place in at)] = np.log(p) - np.log1p(-p)
    n_open = one_value_each(predicate, values) if predicate.is_categorical else 0
    return (values.reshape(shape), None if soft is None else soft.reshape(shape),
            n_open if closed and must_have_value else 0)


def _places(theory: Theory, table: FactTable) -> tuple[np.ndarray, ...]:
    """Return the indices of the facts in the predicate's tensor, one array for each axis."""
    predicate = table.predicate
    indexes = [{c: i for i, c in enumerate(theory.type[t].constants)} for t in predicate.types]
    if predicate.labels is not None:
        indexes.append({label: i for i, label in enumerate(predicate.labels)})
    if not indexes:
        # an atom without arguments is in an array of length 1
        return (np.zeros(len(table.args), dtype=np.int64),)
    return tuple(np.fromiter((index[row[k]] for row in table.args), dtype=np.int64, count=len(table.args))
                 for k, index in enumerate(indexes))


def one_value_each(predicate: Predicate, values: np.ndarray) -> int:
    """Make the other values of a categorical variable false if one is true, and the last possible one true; in place.

    Returns the number of variables with more than one possible value.
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
            raise LogicMPError(f"the evidence excludes every value of a variable of {predicate}",
                               "one of them must be true: remove the '!' before it, or write '?' instead")
        table = np.where(~has_true & (n_unknown == 1) & (table == UNKNOWN), 1, table)
    view[...] = table.reshape(view.shape)
    return int((~has_true & (n_unknown > 1)).sum())
