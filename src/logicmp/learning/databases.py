"""Training data: every ground atom of every database true or false.

Stage: parse -> **learn**.  Paper: the observations O.

    train.db   Smokes(Anna)     Smokes(Anna) is true, every other atom is false
    more.db    Smokes(Bob)      a world of its own, with its own constants

A rule with `+x` has one weight for each constant, the same in every database: the constants of the types that such
variables range over are united. Other types stay as they are, since a larger domain would count more false atoms.
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

# a file, a folder of ExpressGNN, or facts that were read already
Source = str | Path | Evidence


@dataclass(frozen=True)
class Database:
    """One world of the training data, and the name that the user knows it by."""

    name: str
    world: World


def read_databases(theory: Theory, sources: Sequence[Source]) -> tuple[Theory, list[Database]]:
    """Read databases, each a world of its own; the theory comes back with the constants that `+x` ranges over.

    >>> from logicmp import parse_facts, parse_theory
    >>> theory = parse_theory("Word(text, word)\\nWord(t, +w) => Word(t, w)")
    >>> facts = [parse_facts(f"Word(T{k}, W{k})", theory) for k in (1, 2)]
    >>> shared, databases = read_databases(theory, facts)
    >>> shared.sizes, [database.world.sizes for database in databases]
    ({'text': 0, 'word': 2}, [{'text': 1, 'word': 2}, {'text': 1, 'word': 2}])
    """
    named = [(f"database {k}", source) if isinstance(source, Evidence) else (str(source), load_facts(source, theory))
             for k, source in enumerate(sources, 1)]
    together = {rule.variables[name] for rule in theory.rules for name in rule.per_constant}
    for _, evidence in named:
        theory = theory.with_constants({name: evidence.theory.type[name].constants for name in together})
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
                f"{predicate} must have one for all its arguments; mark the argument '?' if there may be none")
    return world


def _check_certain(name: str, table: FactTable) -> None:
    for args, value, line in zip(table.args, table.values, table.lines, strict=True):
        if value not in (0, 1):
            kind = "unknown" if math.isnan(value) else f"soft ({value:g})"
            n = len(table.predicate.arguments)
            atom = Atom(table.predicate.name, tuple(map(Constant, args[:n])), args[n:] or None)
            raise LogicMPError(f"{name}:{line}: {atom} is {kind}, and weights are learned from what is known",
                               "make it true or false, or leave the line out: what no fact names is false")


def _variable(predicate: Predicate, theory: Theory, place: np.ndarray) -> str:
    """A ground variable as text; the arguments that are its value are left open."""
    args = ["_" if k in predicate.functional else str(Constant(theory.type[t].constants[place[k]]))
            for k, t in enumerate(predicate.types)]
    return f"{predicate.name}({', '.join(args)})" if args else predicate.name
