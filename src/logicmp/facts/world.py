"""The value of every atom, true, false or unobserved: from facts, and for other atoms from a closed or open world.

Room: parse -> **facts** -> ground, execute, inference, learning.  Paper: the observations O and the latent variables.

    Friends(Anna, Bob)       Friends is closed: Friends(Bob, Anna) is false
    Cancer(person)           Cancer is open: every Cancer(x) without a fact is unobserved
    prior={"Cancer": 0.1}    and has the probability 0.1 if no rule mentions it, instead of 0.5

Results depend on this choice, so `World.describe` prints it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import LogicMPError, closest
from ..parse.theory import Predicate, Theory
from .columns import Evidence, FactTable
from .supports import SPARSE_SHARE, Support, flat_predicate, flat_theory, make_support

# conventions for atoms without a fact
WORLDS = ("alchemy", "open", "closed")
UNKNOWN = -1
# of a numpy array before version 2
MAX_AXES = 32
# atoms of a predicate whose atoms are all in memory
MAX_ATOMS = 2**31


@dataclass(frozen=True)
class World:
    """Theory and evidence as arrays: for each predicate, its true, false and unobserved atoms."""

    theory: Theory
    # by predicate, int8 of the shape of its tensor: 1 true, 0 false, -1 unobserved; of a sparse one, by row
    values: Mapping[str, np.ndarray]
    # by predicate, log-odds of the atoms with soft evidence or a prior, 0 elsewhere; only for predicates that have any
    unary: Mapping[str, np.ndarray]
    # why each predicate is closed ("" if it is open)
    closed: Mapping[str, str]
    warnings: Sequence[str] = field(default=())
    # the sparse predicates: every atom outside the support is false
    supports: Mapping[str, Support] = field(default_factory=dict)
    # the predicates whose facts are divided over processes, and how many true facts all of these have
    divided: Mapping[str, int] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        return self.theory.sizes

    @property
    def latent(self) -> list[str]:
        """The predicates with at least one unobserved atom."""
        return [name for name, values in self.values.items() if (values == UNKNOWN).any()]

    @property
    def observed(self) -> list[str]:
        """The predicates without an unobserved atom."""
        return [name for name, values in self.values.items() if not (values == UNKNOWN).any()]

    def stored(self, name: str) -> Predicate:
        """A predicate as its values are stored: a sparse one has one argument for its rows instead of its entities."""
        predicate = self.theory.predicate[name]
        return flat_predicate(predicate, self.supports[name]) if name in self.supports else predicate

    def describe(self) -> str:
        """Which predicates are closed and which are open, in two lines, and one line for each sparse predicate."""
        opened = ", ".join(name for name, why in self.closed.items() if not why)
        lines = [f"closed world: {self.describe_closed() or 'none'}", f"open world:   {opened or 'none'}"]
        for name, support in self.supports.items():
            what = "true atoms" if bool((self.values[name] == 1).all()) else "candidates"
            n = self.divided.get(name, len(support))
            lines.append(f"sparse:       {name} ({n:,} {what} of {math.prod(support.sizes):,} atoms; all others are "
                         "false)")
        return "\n".join(lines)

    def describe_closed(self) -> str:
        """The closed predicates, and why they are closed; empty if there are none."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.closed.items():
            by_reason.setdefault(why, []).append(name)
        by_reason.pop("", None)
        return "; ".join(f"{', '.join(names)} ({why if len(names) == 1 else why.replace('it has', 'they have')})"
                         for why, names in by_reason.items())


def build_world(evidence: Evidence, queried: Collection[str] = (), world: str = "alchemy",
                closed: Collection[str] = (), opened: Collection[str] = (), prior: Mapping[str, float] | None = None,
                dense_atoms: int | None = None, candidates: Evidence | None = None) -> World:
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
        dense_atoms: a closed predicate with more atoms than this is sparse if few are true; None if all predicates
            must be dense.
        candidates: atoms that can be true, read for the theory of the evidence; all other atoms of their predicates are
            false.
    """
    theory = evidence.theory if candidates is None else candidates.theory
    for t in theory.types:
        if not t.constants:
            raise LogicMPError(f"type {t.name!r} has no constants", f"declare them ({t.name} = {{A, B}}), or give "
                               "evidence that names them")
    reasons = closed_predicates(evidence, set(queried), world, set(closed), set(opened))
    prior = dict(prior or {})
    _check_prior(theory, reasons, prior)
    values, unary, warnings = {}, {}, []
    supports: dict[str, Support] = {}
    given = {} if candidates is None else candidates.tables
    for predicate in theory.predicates:
        table = evidence.tables.get(predicate.name, FactTable(predicate))
        is_closed, own = bool(reasons[predicate.name]), prior.get(predicate.name)
        if len(predicate.types) > MAX_AXES:
            raise LogicMPError(f"{predicate.name} has {len(predicate.types)} arguments (limit {MAX_AXES})",
                               "split it into predicates with fewer arguments")
        places = _places(theory, table)
        support = _support(theory, table, places, is_closed, given.get(predicate.name), dense_atoms)
        if support is None:
            known, soft, n_open = _values(theory, table, places, is_closed, own)
        elif predicate.name not in given and bool(((table.values == 0) | (table.values == 1)).all()):
            # every fact of the list is true
            supports[predicate.name], known, soft, n_open = support, np.ones(support.n_values, np.int8), None, 0
        else:
            supports[predicate.name], known, soft, n_open = _sparse_values(theory, table, places, support, own)
        values[predicate.name] = known
        if soft is not None:
            unary[predicate.name] = soft
        if n_open:
            warnings.append(f"{predicate.name} is closed, but no fact gives a value to {n_open} of its variables: "
                            "they stay unobserved, because each must have one")
        missing = "" if reasons[predicate.name] or support is not None else describe_missing(theory, table, own)
        if missing:
            warnings.append(missing)
    return World(theory, values, unary, reasons, warnings, supports)


def _support(theory: Theory, table: FactTable, places: tuple[np.ndarray, ...], is_closed: bool,
             candidates: FactTable | None, dense_atoms: int | None) -> Support | None:
    """The atoms of a predicate that can be true: candidates and facts; None for all of them."""
    predicate = table.predicate
    n_atoms = math.prod(predicate.shape(theory.sizes))
    if candidates is not None and is_closed:
        raise LogicMPError(f"{predicate.name} has candidates, but it is closed: its atoms without a fact are false",
                           f"query {predicate.name}, open it with --open {predicate.name}, or remove its candidates")
    if table.is_share and (candidates is not None or not is_closed):
        raise LogicMPError(f"facts of {predicate.name} are divided over processes, but it is not closed",
                           f"close it with -cw {predicate.name}, or leave it out of --divide")
    can_be_true = table.values != 0
    if candidates is None and not table.is_share:
        n_true = int(can_be_true.sum())
        is_large = dense_atoms is not None and n_atoms > dense_atoms and n_true < SPARSE_SHARE * n_atoms
        if not (is_closed and is_large) or predicate.is_categorical:
            if n_atoms > MAX_ATOMS:
                raise _too_many(predicate, n_atoms, is_closed, dense_atoms)
            return None
    # facts are always among the candidates
    listed = [tuple(x[can_be_true] for x in places)] if not bool(can_be_true.all()) else [places]
    listed += [] if candidates is None else [_places(theory, candidates)]
    listed = [part[: len(predicate.arguments)] for part in listed]
    columns = [np.concatenate(parts) for parts in zip(*listed, strict=True)] if len(listed) > 1 else list(listed[0])
    found = make_support(predicate, [c for k, c in enumerate(columns) if k not in predicate.functional], theory.sizes)
    return replace(found, is_share=table.is_share)


def _too_many(predicate: Predicate, n_atoms: int, is_closed: bool, dense_atoms: int | None) -> LogicMPError:
    what = f"{predicate} has {n_atoms:,} atoms (limit {MAX_ATOMS:,})"
    if is_closed or dense_atoms is None:
        return LogicMPError(what, "remove constants that are not needed")
    return LogicMPError(what, f"give the atoms of {predicate.name} that can be true with --candidates FILE, or let the "
                        "rules find them with --reach 1")


def _sparse_values(theory: Theory, table: FactTable, places: tuple[np.ndarray, ...], support: Support,
                   prior: float | None) -> tuple[Support, np.ndarray, np.ndarray | None, int]:
    """Like `_values`, by row; a predicate without unobserved rows keeps its true rows only."""
    name = table.predicate.name
    predicate = flat_theory(theory, {name: support}).predicate[name]
    shape = predicate.shape({**theory.sizes, predicate.types[0]: support.n_values // support.width})
    given = table.values
    rows = support.find(places[: len(table.predicate.arguments)])
    inside = rows >= 0
    at: tuple[np.ndarray, ...] = np.unravel_index(rows[inside], (shape[0], *shape[1:]) if predicate.functional
                                                  else (shape[0],))
    if predicate.labels is not None:
        at = (*at, places[-1][inside])
    values = np.full(shape, UNKNOWN, dtype=np.int8)
    soft = _fill(values, [at], given[inside], prior)
    n_open = one_value_each(predicate, values) if predicate.is_categorical else 0
    if not predicate.is_categorical and not bool((values == UNKNOWN).any()) and bool((values == 0).any()):
        read = values if support.places is None else values[support.places]
        kept = np.flatnonzero(read == 1)
        support = make_support(table.predicate, [c[kept] for c in support.columns], theory.sizes)
        values, soft = np.ones(support.n_values, dtype=np.int8), None
    return support, values, soft, n_open


def closed_predicates(evidence: Evidence, queried: set[str], world: str, closed: set[str],
                      opened: set[str]) -> dict[str, str]:
    """Why each predicate is closed, empty for an open one; arguments as for `build_world`."""
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
    if predicate.is_categorical or (prior is None and not ((table.values > 0) & (table.values < 1)).any()):
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


def _values(theory: Theory, table: FactTable, places: tuple[np.ndarray, ...], closed: bool,
            prior: float | None = None) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Return the values of one predicate, its soft evidence, and the number of variables that could not be closed."""
    predicate = table.predicate
    shape = predicate.shape(theory.sizes)
    given = table.values
    # a variable that must have a value is not closed: its values cannot all be false
    must_have_value = predicate.is_categorical and not predicate.may_be_none
    values = np.full(shape or 1, 0 if closed and not must_have_value else UNKNOWN, dtype=np.int8)
    soft = _fill(values, (places, places[::-1]) if predicate.symmetric else (places,), given, prior)
    n_open = one_value_each(predicate, values) if predicate.is_categorical else 0
    return (values.reshape(shape), None if soft is None else soft.reshape(shape),
            n_open if closed and must_have_value else 0)


def _fill(values: np.ndarray, places: Sequence[tuple[np.ndarray, ...]], given: np.ndarray,
          prior: float | None) -> np.ndarray | None:
    """Write facts into an array; return the log-odds of soft evidence and of a prior, None if there is neither."""
    is_soft = (given > 0) & (given < 1)
    soft = None if prior is None else np.full(values.shape, math.log(prior) - math.log1p(-prior))
    for at in places:
        values[at] = np.where(np.isnan(given) | is_soft, UNKNOWN, np.nan_to_num(given)).astype(np.int8)
        if soft is not None:
            soft[tuple(place[~is_soft] for place in at)] = 0.0
        if is_soft.any():
            soft = np.zeros(values.shape) if soft is None else soft
            p = given[is_soft]
            soft[tuple(place[is_soft] for place in at)] = np.log(p) - np.log1p(-p)
    return soft


def _places(theory: Theory, table: FactTable) -> tuple[np.ndarray, ...]:
    """Return the indices of the facts in the predicate's tensor, one array for each axis."""
    predicate = table.predicate
    indexes = [theory.indices(t) for t in predicate.types]
    if predicate.labels is not None:
        indexes.append({label: i for i, label in enumerate(predicate.labels)})
    if not indexes:
        # an atom without arguments is in an array of length 1
        return (np.zeros(len(table), dtype=np.int64),)
    if not len(table):
        return tuple(np.zeros(0, dtype=np.int32) for _ in indexes)
    return tuple(column.indices(index) for column, index in zip(table.columns, indexes, strict=True))


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


def with_sizes(theory: Theory, sizes: Mapping[str, int]) -> Theory:
    """The theory with as many constants as its tensors have entries."""
    more = {}
    for name, size in theory.with_sizes(sizes).items():
        if not size:
            raise LogicMPError(f"type {name!r} has no constants", f"give sizes={{{name!r}: ...}}")
        named = theory.type[name].constants
        fresh = (new for k in itertools.count(1) if (new := str(k)) not in named)
        more[name] = tuple(itertools.islice(fresh, size - len(named)))
    return theory.with_constants(more)
