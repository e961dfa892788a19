"""Answers from a theory and evidence, by any of the methods.

Stage: ground, layer -> **infer** -> learn, cli.

    infer("2 Smokes(x) => Cancer(x)", "Smokes(Anna)", "Cancer")["Cancer(Anna)"]

A method is one file with one class, and one entry in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

from ..errors import LogicMPError, closest
from ..facts.columns import Evidence
from ..facts.db import parse_facts
from ..facts.world import build_world
from ..limits import Progress, silent
from ..normalize.build import SEMANTICS
from ..parse.load import parse_theory
from ..parse.query import Query, parse_queries
from ..parse.theory import Theory
from .answers import Marginals, answer
from .method import Method, Problem

# where each method is: only the one that runs is imported
METHODS: Mapping[str, str] = {
    "auto": "auto.Auto", "exact": "exact.method.Exact", "mean-field": "mean_field.MeanField",
    "bp": "bp.method.BeliefPropagation", "lifted-bp": "bp.lifted.LiftedBeliefPropagation",
    "hl-mrf": "hlmrf.HingeLossMRF", "gibbs": "sampling.gibbs.Gibbs", "mc-sat": "sampling.mcsat.MCSat",
    "map": "search.map.Map",
}


def method_class(name: str) -> type[Method]:
    """The class of a method, by the name that `-m` takes."""
    if name not in METHODS:
        raise LogicMPError(f"unknown method {name!r}", closest(name, list(METHODS), "method"))
    module, _, found = METHODS[name].rpartition(".")
    method: type[Method] = getattr(import_module(f".{module}", __package__), found)
    return method


def infer(theory: Theory | str, evidence: Evidence | str | None = None, query: str | Sequence[str] | None = None,
          method: str | Method = "auto", *, semantics: str = "exact", world: str = "alchemy",
          closed: Collection[str] = (), opened: Collection[str] = (), seed: int = 0, progress: Progress = silent,
          **options: Any) -> Marginals:
    """The probability of everything a query asks for.

    >>> found = infer("2 Smokes(x) => Cancer(x)", "Smokes(Anna)", "Cancer")
    >>> round(found["Cancer(Anna)"], 4)
    0.8808

    Args:
        theory: rules, as a `Theory` or as text.
        evidence: facts, as `Evidence` read for this theory or as text.
        query: predicates, atoms or formulas; without one, every predicate that is not closed.
        method: "auto" (exact where that is possible, mean field elsewhere), or another of `METHODS`, or a
            `Method` of your own with its options set.
        semantics: "exact" (a formula's weight counts its true groundings), or "alchemy" (it is divided over its
            clauses); with mean field also "paper".
        world: what holds for atoms that no fact names, "alchemy", "open" or "closed"; see `build_world`.
        closed, opened: predicates for which `world` does not count.
        seed: where a method draws random numbers.
        options: those of the method, its fields: `infer.METHODS[method]`.
    """
    solver = method_class(method).make(options) if isinstance(method, str) else method
    if semantics not in SEMANTICS:
        raise LogicMPError(f"unknown semantics {semantics!r}", f"known: {', '.join(SEMANTICS)}")
    theory = parse_theory(theory) if isinstance(theory, str) else theory
    if evidence is None or isinstance(evidence, str):
        evidence = parse_facts(evidence or "", theory)
    elif evidence.theory.rules != theory.rules:
        raise LogicMPError("the evidence was read for another theory", "read it with load_facts(path, theory)")
    queries = _queries(query, evidence.theory)
    known = build_world(evidence, {name for q in queries for name in q.predicates}, world, closed, opened)
    if query is None:
        queries = _queries([name for name, why in known.closed.items() if not why], evidence.theory)
    formulas = {str(rule.formula): rule for rule in (q.as_rule() for q in queries if not q.is_atom)}
    problem = Problem(known, tuple(formulas.values()), semantics, seed, progress)
    solution = solver.solve(problem)
    return Marginals([answer(q, solution, problem) for q in queries], solution, known, solver.name, semantics)


def _queries(query: str | Sequence[str] | None, theory: Theory) -> list[Query]:
    texts = [] if query is None else [query] if isinstance(query, str) else query
    return [found for text in texts for found in parse_queries(text, theory)]
