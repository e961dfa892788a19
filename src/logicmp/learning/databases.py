"""Read training data: databases in which every atom is true or false.

Room: parse, facts -> **databases** -> train.  Paper: the observations O.

    train.db   Smokes(Anna)     Smokes(Anna) is true, every other atom is false
    more.db    Smokes(Bob)      a separate world, with its own constants

A rule with `+x` has one weight for each constant, the same in every database, so all databases share the constants of
the types of such variables. Other types stay separate: more constants would add false atoms to the counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import LogicMPError
from ..facts.columns import Evidence, FactTable
from ..facts.db import load_facts
from ..facts.world import UNKNOWN, World, build_world
from ..parse.syntax import Atom, Constant
from ..parse.theory import Predicate, Theory

# a file, an ExpressGNN folder, or facts that were read already
Source = str | Path | Evidence


@dataclass(frozen=True)
class Database:
    """One world of the training data, with its name for messages."""

    name: str
    world: World


def read_databases(theory: Theory, sources: Sequence[Source]) -> tuple[Theory, list[Database]]:
    """Read databases as separate worlds; also return the theory with the constants that `+x` ranges over.

    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("Word(text, word)\\nWord(t, +w) => Word(t, w)")
    >>> facts = [parse_facts(f"Word(T{k}, W{k})", theory) for k in (1, 2)]
    >>> shared, databases = read_databases(theory, facts)
    >>> shared.sizes, [database.world.sizes for database in databases]
    ({'text': 0, 'word': 2}, [{'text': 1, 'word': 2}, {'text': 1, 'word': 2}])
    """
    named = [(f"database {k}", source) if isinstance(source, Evidence) else (str(source), load_facts(source, theory))
             for k, source in enumerate(sources, 1)]
    common = {rule.variables[name] for rule in theory.rules for name in rule.per_constant}
    for _, evidence in named:
        theory = theory.with_constants({name: evidence.theory.type[name].constants for name in common})
    return theory, [Database(name, _closed_world(name, evidence, theory)) for name, evidence in named]


def _closed_world(name: str, evidence: Evidence, shared: Theory) -> World:
    for table in evidence.tables.values():
        _check_certain(name, table)
    theory = shared.with_constants({t.name: t.constants for t in evidence.theory.types})
    try:
        world = build_world(replace(evidence, theory=theory), world="closed")
    except LogicMPError as error:
        raise LogicMPError(f"{name}: {error.message}", error.hint) from None
    for predicate in theory.predicates:
        open_at = np.argwhere(world.values[predicate.name] == UNKNOWN)
        if len(open_at):
            raise LogicMPError(
                f"{name}: no fact gives a value to {_variable(predicate, theory, open_at[0])}",
                f"add the fact; or, if there may be no value, mark the argument '?' in {predicate}")
    return world


def _check_certain(name: str, table: FactTable) -> None:
    for args, value, line in zip(table.args, table.values, table.lines, strict=True):
        if value not in (0, 1):
            kind = "unobserved" if math.isnan(value) else f"soft ({value:g})"
            n = len(table.predicate.arguments)
            atom = Atom(table.predicate.name, tuple(map(Constant, args[:n])), args[n:] or None)
            raise LogicMPError(f"{name}:{line}: {atom} is {kind}; `learn` needs facts that are true or false",
                               "make it true or false, or remove the line: atoms without a fact are false")


def _variable(predicate: Predicate, theory: Theory, place: np.ndarray) -> str:
    """A ground variable as text, with `_` for the arguments that are its value."""
    args = ["_" if k in predicate.functional else str(Constant(theory.type[t].constants[place[k]]))
            for k, t in enumerate(predicate.types)]
    return f"{predicate.name}({', '.join(args)})" if args else predicate.name
