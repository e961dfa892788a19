"""Answers from a theory and evidence, by any of the methods.

Stage: ground, layer -> **infer** -> learn, cli.

    infer("2 Smokes(x) => Cancer(x)", "Smokes(Anna)", "Cancer")["Cancer(Anna)"]

A method is one file with one class, and one entry in `METHODS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..errors import LogicMPError, closest
from ..ground import build_world
from ..modules import make_callable
from ..normalize import SEMANTICS
from ..parse import Evidence, Theory, parse_facts, parse_theory
from ..parse.query import Query, parse_queries
from .auto import Auto
from .base import Marginals, Method, Problem, Progress, answer, silent
from .bp import BeliefPropagation
from .exact import Exact
from .gibbs import Gibbs
from .hlmrf import HingeLossMRF
from .lifted_bp import LiftedBeliefPropagation
from .map import Map
from .mcsat import MCSat
from .mean_field import MeanField
from .mean_field_sequential import MeanFieldSequential

__all__ = ["METHODS", "Marginals", "infer", "method_class"]

METHODS: Mapping[str, type[Method]] = {method.name: method for method in (
    Auto, Exact, MeanField, MeanFieldSequential, BeliefPropagation, LiftedBeliefPropagation, HingeLossMRF, Gibbs,
    MCSat, Map)}


def method_class(name: str) -> type[Method]:
    if name not in METHODS:
        raise LogicMPError(f"unknown method {name!r}", closest(name, list(METHODS), "method"))
    return METHODS[name]


def infer(theory: Theory | str, evidence: Evidence | str | None = None, query: str | Sequence[str] | None = None,
          method: str = "auto", *, semantics: str = "exact", world: str = "alchemy", closed: Collection[str] = (),
          opened: Collection[str] = (), seed: int = 0, progress: Progress = silent, **options: Any) -> Marginals:
    """The probability of everything a query asks for.

    >>> found = infer("2 Smokes(x) => Cancer(x)", "Smokes(Anna)", "Cancer")
    >>> round(found["Cancer(Anna)"], 4)
    0.8808

    Args:
        theory: rules, as a `Theory` or as text.
        evidence: facts, as `Evidence` read for this theory or as text.
        query: predicates, atoms or formulas; without one, every predicate that is not closed.
        method: "auto" (exact where that is possible, mean field elsewhere), or another of `METHODS`; see
            docs/methods.md.
        semantics: "exact" (a formula's weight counts its true groundings), or "alchemy" (it is divided over its
            clauses); with mean field also "paper".
        world: what holds for atoms that no fact names, "alchemy", "open" or "closed"; see `build_world`.
        closed, opened: predicates for which `world` does not count.
        seed: where a method draws random numbers.
        options: those of the method, its fields: `infer.METHODS[method]`.
    """
    solver = method_class(method).make(options)
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
    return Marginals([answer(q, solution, problem) for q in queries], solution, known, method, semantics)


def _queries(query: str | Sequence[str] | None, theory: Theory) -> list[Query]:
    texts = [] if query is None else [query] if isinstance(query, str) else query
    return [found for text in texts for found in parse_queries(text, theory)]


make_callable(__name__, infer)
