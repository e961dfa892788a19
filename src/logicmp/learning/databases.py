"""Read training data: databases in which every atom is true or false.

Room: parse, facts -> **databases** -> train.  Paper: the observations O.

    train.db   Smokes(Anna)     Smokes(Anna) is true, every other atom is false
    more.db    Smokes(Bob)      a separate world, with its own constants

A rule with `+x` has one weight for each constant, the same in every database, so all databases share the constants of
the types of such variables. Other types stay separate: more constants would add false atoms to the counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import LogicMPError
from ..facts.columns import Evidence, FactTable
from ..facts.db import load_facts
from ..facts.supports import DENSE_ATOMS
from ..facts.world import UNKNOWN, World, build_world
from ..ground.reach import reach
from ..parse.syntax import Atom, Constant
from ..parse.theory import Predicate, Theory

# a file, an ExpressGNN folder, or facts that were read already
Source = str | Path | Evidence


@dataclass(frozen=True)
class Database:
    """One world of the training data, with its name for messages."""

    name: str
    world: World


def read_databases(theory: Theory, sources: Sequence[Source], query: Collection[str] = (),
                   times: int = 0) -> tuple[Theory, list[Database]]:
    """Read databases as separate worlds; also return the theory with the constants that `+x` ranges over.

    Args:
        theory: the rules.
        sources: files, folders or facts.
        query: the predicates to predict; none means all of them.
        times: list the atoms of predicates with many atoms: those that the rules reach from the facts when they are
            applied this many times; 0 to take all atoms.

    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("Word(text, word)\\nWord(t, +w) => Word(t, w)")
    >>> facts = [parse_facts(f"Word(T{k}, W{k})", theory) for k in (1, 2)]
    >>> shared, databases = read_databases(theory, facts)
    >>> shared.sizes, [database.world.sizes for database in databases]
    ({'text': 0, 'word': 2}, [{'text': 1, 'word': 2}, {'text': 1, 'word': 2}])
    """
    query = set(query) or set(theory.predicate)
    named = [(f"database {k}", source) if isinstance(source, Evidence) else (str(source), load_facts(source, theory))
             for k, source in enumerate(sources, 1)]
    common = {rule.variables[name] for rule in theory.rules for name in rule.per_constant}
    for _, evidence in named:
        theory = theory.with_constants({name: evidence.theory.type[name].constants for name in common})
    return theory, [Database(name, _closed_world(name, evidence, theory, query, times)) for name, evidence in named]


def _closed_world(name: str, evidence: Evidence, shared: Theory, query: set[str], times: int) -> World:
    for table in evidence.tables.values():
        _check_certain(name, table)
        if table.is_share:
            raise LogicMPError(f"{name} has divided facts of {table.predicate.name}, and learning needs all of them",
                               "read the facts without a division")
    theory = shared.with_constants({t.name: t.constants for t in evidence.theory.types})
    evidence = replace(evidence, theory=theory)
    try:
        if times:
            found = reach(evidence, times, query, "closed")
            world = build_world(evidence, query, "closed", dense_atoms=DENSE_ATOMS, candidates=found)
            # every atom without a fact is false, also those that are predicted
            world = replace(world, values={predicate.name: _closed(predicate, world.values[predicate.name])
                                           for predicate in theory.predicates})
        else:
            world = build_world(evidence, world="closed")
    except LogicMPError as error:
        raise LogicMPError(f"{name}: {error.message}", error.hint) from None
    for predicate in theory.predicates:
        open_at = np.argwhere(world.values[predicate.name] == UNKNOWN)
        if len(open_at):
            raise LogicMPError(
                f"{name}: no fact gives a value to {_variable(predicate, theory, open_at[0])}",
                f"add the fact; or, if there may be no value, mark the argument '?' in {predicate}")
    return world


def _closed(predicate: Predicate, values: np.ndarray) -> np.ndarray:
    return values if predicate.is_categorical and not predicate.may_be_none else np.where(values == 1, values, 0)


def _check_certain(name: str, table: FactTable) -> None:
    uncertain = np.flatnonzero((table.values != 0) & (table.values != 1))
    if len(uncertain):
        first = table.take(uncertain[:1])
        value, n = float(first.values[0]), len(table.predicate.arguments)
        kind = "unobserved" if math.isnan(value) else f"soft ({value:g})"
        atom = Atom(table.predicate.name, tuple(map(Constant, first.args[0][:n])), first.args[0][n:] or None)
        raise LogicMPError(f"{name}:{first.lines[0]}: {atom} is {kind}; `learn` needs facts that are true or false",
                           "make it true or false, or remove the line: atoms without a fact are false")


def _variable(predicate: Predicate, theory: Theory, place: np.ndarray) -> str:
    """A ground variable as text, with `_` for the arguments that are its value."""
    args = ["_" if k in predicate.functional else str(Constant(theory.type[t].constants[place[k]]))
            for k, t in enumerate(predicate.types)]
    return f"{predicate.name}({', '.join(args)})" if args else predicate.name
