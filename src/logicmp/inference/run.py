"""`infer`: probabilities from a theory and evidence, by any of the methods.

Room: facts, ground, layer -> **inference** -> learning, cli.

    infer("2 Smokes(x) => Cancer(x)", "Smokes(Anna)", "Cancer")["Cancer(Anna)"]

A method is one class and one entry in `METHODS`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from ..arguments import AtLeastOne, Count, NotNegative, checked
from ..errors import CostError, LimitError, LogicMPError, RuleError, closest
from ..facts.columns import Evidence
from ..facts.db import load_facts, parse_facts
from ..facts.roles import premises_from_facts, skip_outside
from ..facts.supports import DENSE_ATOMS
from ..facts.world import World, build_world, closed_predicates
from ..ground.engine import Grounding, Share, Shares, make_engine
from ..ground.exclusive import merge_exclusive
from ..ground.reach import reach as find_candidates
from ..limits import MAX_GROUNDINGS, Limits, Progress, silent
from ..normalize.build import SEMANTICS, normalize_theory
from ..normalize.cubes import Cube, Literal, Product
from ..parse.load import parse_theory
from ..parse.numerals import Numerals
from ..parse.query import Query, parse_queries
from ..parse.theory import Rule, Theory
from .answers import Marginals, answer, check_bindings
from .method import Method, Problem, Status

# dotted paths, so that only the method that runs is imported
METHODS: Mapping[str, str] = {
    "auto": "auto.Auto", "exact": "exact.method.Exact", "mean-field": "mean_field.MeanField",
    "bp": "bp.method.BeliefPropagation", "lifted-bp": "bp.lifted.LiftedBeliefPropagation",
    "hl-mrf": "hlmrf.HingeLossMRF", "gibbs": "sampling.gibbs.Gibbs", "mc-sat": "sampling.mcsat.MCSat",
    "map": "search.map.Map",
}
PREMISES = ("all", "facts")
OUTSIDE = ("false", "skip")


def method_class(name: str) -> type[Method]:
    """The class of a method, by the name that `-m` takes."""
    if name not in METHODS:
        raise LogicMPError(f"unknown method {name!r}", closest(name, list(METHODS), "method"))
    module, _, found = METHODS[name].rpartition(".")
    method: type[Method] = getattr(import_module(f".{module}", __package__), found)
    return method


@checked
def infer(theory: Theory | str, evidence: Evidence | str | Mapping[str, Any] | None = None,
          query: str | Sequence[str] | None = None, method: str | Method = "auto", *, semantics: str = "exact",
          world: str = "alchemy", closed: Collection[str] = (), opened: Collection[str] = (),
          prior: Mapping[str, float] | None = None, candidates: Evidence | str | Mapping[str, Any] | None = None,
          reach: Count = 0, premises: str = "all", outside: str = "false", unscored: float | str | None = None,
          seed: Count = 0, progress: Progress = silent, max_seconds: NotNegative | None = None,
          max_groundings: Count = MAX_GROUNDINGS, max_memory: AtLeastOne | None = None, limits: Limits | None = None,
          engine: str = "torch", master: str = "local[*]", shares: Any = None, **options: Any) -> Marginals:
    """Answer queries: the probability of every atom and formula they match.

    >>> found = infer("2 Smokes(x) => Cancer(x)", "Smokes(Anna)", "Cancer")
    >>> round(found["Cancer(Anna)"], 4)
    0.8808

    Args:
        theory: rules, as a `Theory` or as text.
        evidence: facts, as `Evidence` read for this theory, as text, or as a mapping from predicates to data frames
            (pandas, polars, pyarrow, or any object with the Arrow interface), dicts of columns or 2-d arrays.
        query: predicates, atoms or formulas; by default every predicate that is not closed.
        method: "auto" (exact inference where possible, bp or mean field for the rest), another name in `METHODS`, or a
            `Method` object with its options set.
        semantics: "exact" (a weight counts the true groundings of its formula) or "alchemy" (it is divided over the
            clauses of its formula); mean field also has "paper".
        world: which atoms without a fact are false, "alchemy", "open" or "closed"; see `build_world`.
        closed: predicates that are closed whatever `world` is.
        opened: predicates that are open whatever `world` is.
        prior: by open predicate, the probability of an atom without a fact if no rule mentions it, instead of 0.5.
        candidates: atoms that can be true, in any form of evidence; every other atom of their predicates is false.
        reach: find candidates of open predicates with many atoms: what the rules conclude from the facts when they are
            applied this many times; 0 to take all atoms.
        premises: "all", or "facts" to let the premises of rules read the true facts of open predicates, and not what
            other rules conclude; a rule without a head, such as `!P(x)`, reads all atoms.
        outside: what a head outside the candidates of its predicate means: "false" (it violates the rule, which makes
            the premises less probable), or "skip" to drop such groundings.
        unscored: what an atom without a fact counts as, for predicates with soft evidence, such as a table with a
            column "score": "false", "skip" (false, and rules ignore it as a conclusion), or a probability; by default
            as the arguments above say, with probability 0.5.
        seed: for methods that draw random numbers.
        progress: called with a task, how much of it is done, and how much there is to do.
        max_seconds: time limit for the whole call; methods return their best answers so far, with status "time", or
            raise an error if they have not made a step.
        max_groundings: how many groundings the evidence may leave open, for methods that need a ground network; mean
            field needs it for its correction only.
        max_memory: bytes that the call may use, by default most of what the machine has; what would need more is
            rejected before it is made.
        limits: all limits as one value whose clock already runs, instead of the three above.
        engine: what joins the facts for rules over lists in mean field: "torch" (the built-in join), "duckdb" (within
            half of `max_memory`, then on disk) or "spark".
        master: where Spark runs.
        shares: processes that have a share of the rows each, as a `ProcessShares` from `logicmp.execute.shares`; all
            of them call `infer` with the same arguments, and get the same answers. Methods "mean-field" and "bp" only.
        options: of the method, which are the fields of its class.
    """
    if limits is None:
        limits = Limits(max_seconds, max_groundings, max_memory)
    elif (max_seconds, max_groundings, max_memory) != (None, MAX_GROUNDINGS, None):
        raise LogicMPError("max_seconds, max_groundings and max_memory are part of limits",
                           "pass either these or limits")
    if options and not isinstance(method, str):
        raise LogicMPError(f"option {next(iter(options))!r} is given, but `method` is an object with its options set",
                           f"set it there: {type(method).__name__}({next(iter(options))}=...)")
    solver = method_class(method).make(options) if isinstance(method, str) else method
    if engine != "torch" and not solver.takes_lists:
        raise LogicMPError(f"method {solver.name!r} makes a ground network, so it has no engine {engine!r}",
                           "use -m mean-field, or --engine torch")
    if shares is not None and not isinstance(getattr(shares, "share", None), Share):
        raise LogicMPError(f"shares must be a ProcessShares, got {type(shares).__name__}",
                           "from logicmp.execute.processes import joined_processes")
    if shares is not None and not solver.takes_shares:
        raise LogicMPError(f"method {solver.name!r} runs in one process", "use -m mean-field or -m bp")
    if semantics not in SEMANTICS:
        raise LogicMPError(f"unknown semantics {semantics!r}", f"available semantics: {', '.join(SEMANTICS)}")
    theory = parse_theory(theory) if isinstance(theory, str) else theory
    if evidence is None or isinstance(evidence, str):
        evidence = parse_facts(evidence or "", theory)
    elif isinstance(evidence, Mapping):
        evidence = load_facts(evidence, theory)
    elif evidence.theory.rules != theory.rules:
        raise LogicMPError("the evidence was read for another theory", "read it with load_facts(path, theory)")
    if isinstance(candidates, str):
        candidates = parse_facts(candidates, evidence.theory, "<candidates>")
    elif isinstance(candidates, Mapping):
        candidates = load_facts(candidates, evidence.theory)
    if unscored is not None:
        candidates, prior, outside = count_unscored(unscored, evidence, candidates, prior, outside)
    # candidates can name more constants
    named = evidence.theory if candidates is None else candidates.theory
    queries = _queries(query, named)
    queried = {name for q in queries for name in q.predicates}
    known = find_world(evidence, queried, world, closed, opened, prior, solver.dense_atoms, candidates, reach, premises,
                       outside)
    formulas = {str(rule.formula): rule for rule in (q.as_rule() for q in queries if not q.is_atom)}
    if any(support.is_share for support in known.supports.values()):
        known = _divided(known, tuple(formulas.values()), semantics, solver, shares)
    if semantics != "paper" and any(rule.is_hard for rule in known.theory.rules):
        known = merge_exclusive(known)
    if query is None:
        queries = _queries([name for name, why in known.closed.items() if not why], named)
    if not queries:
        raise _nothing_to_answer(known, is_empty=query is not None)
    if shares is not None:
        _check_same(shares, known)
    grounding = Grounding() if shares is None else Grounding(shares=shares)
    if engine != "torch":
        memory = None if limits.memory is None else limits.memory // 2
        grounding = replace(grounding, engine=make_engine(engine, memory, master))
    problem = Problem(known, tuple(formulas.values()), semantics, int(seed), progress, limits,
                      frozenset(name for q in queries for name in q.predicates), grounding)
    if problem.formulas:
        check_bindings(problem)
    try:
        solution = solver.solve(problem)
    finally:
        if engine != "torch":
            grounding.engine.close()
    if solution.status is Status.NONE:
        message = f"method {solver.name!r} stopped before its first step, so the rules had no effect"
        if limits.seconds is not None and limits.is_over():
            raise LimitError(message, f"raise the time limit of {limits.seconds:g} s (max_seconds), or use a faster "
                             "method")
        raise CostError(message, None, "set iterations to at least 1")
    return Marginals([answer(q, solution, problem) for q in queries], solution, known, solver.name, semantics,
                     evidence)


def _divided(world: World, formulas: Sequence[Rule], semantics: str, solver: Method, shares: Shares | None) -> World:
    """The world with the number of all divided facts, if each process can do with its own share of them."""
    names = [name for name, support in world.supports.items() if support.is_share]
    if shares is None:
        raise LogicMPError(f"facts of {names[0]} are divided over processes, and this is one process",
                           "start it with torchrun, and pass the shares of all processes (--distributed)")
    if not solver.takes_lists:
        raise LogicMPError(f"method {solver.name!r} needs all facts of {names[0]} in every process",
                           f"use -m mean-field, or leave {names[0]} out of --divide")
    theory = replace(world.theory, rules=(*world.theory.rules, *formulas))
    for rule in normalize_theory(theory, semantics, world.sizes).rules:
        if max((n_literals(cube, names) for _, cube in rule.terms), default=0) > 1:
            read = [name for name in names if any(n_literals(cube, [name]) for _, cube in rule.terms)]
            what = f"{read[0]} more than once" if len(read) == 1 else " and ".join(read)
            raise RuleError(f"this rule reads {what}, so a process needs facts of others", rule.rule.span,
                            f"leave {' or '.join(read)} out of --divide")
    totals = shares.total(np.array([len(world.supports[name]) for name in names]))
    return replace(world, divided=dict(zip(names, totals.tolist(), strict=True)))


def n_literals(cube: Cube, names: Collection[str]) -> int:
    """How many literals of a cube read one of some predicates; of a quantified part, those of its longest case."""
    return sum(f.predicate in names if isinstance(f, Literal) else
               max((n_literals(inner, names) for _, inner in f.terms), default=0) if isinstance(f, Product) else 0
               for f in cube.factors)


def _check_same(shares: Shares, world: World) -> None:
    """Raise in all processes if one of them has other rules or facts than the first."""
    numerals = [t.constants.numbers for t in world.theory.types if isinstance(t.constants, Numerals)]
    texts = [str(world.theory.rules), *("\0".join(t.constants) for t in world.theory.types
                                        if not isinstance(t.constants, Numerals))]
    arrays = [*numerals, *(x for name, x in world.values.items() if name not in world.divided), *world.unary.values(),
              *(c for name, s in world.supports.items() if name not in world.divided for c in s.columns)]
    code = 0
    for text in texts:
        code = zlib.crc32(text.encode(), code)
    for x in arrays:
        code = zlib.crc32(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data, code)
    codes = np.zeros(shares.share.size, dtype=np.int64)
    codes[shares.share.rank] = code
    codes = shares.total(codes)
    other = np.flatnonzero(codes != codes[0])
    if len(other):
        raise LogicMPError(f"rank {other[0]} has other rules, facts or queries than rank 0",
                           "give all processes the same files and options")


def find_world(evidence: Evidence, queried: Collection[str] = (), world: str = "alchemy", closed: Collection[str] = (),
               opened: Collection[str] = (), prior: Mapping[str, float] | None = None,
               dense_atoms: int | None = DENSE_ATOMS, candidates: Evidence | None = None, reach: int = 0,
               premises: str = "all", outside: str = "false") -> World:
    """The value of every atom, with candidates that are given or found, and rules changed by what these mean.

    Args:
        evidence: the facts.
        queried, world, closed, opened, prior, dense_atoms, candidates: as for `build_world`.
        reach: how often the rules are applied to find candidates; 0 to take all atoms.
        premises: "all", or "facts" to let the premises of open predicates read their true facts only.
        outside: heads outside the candidates, "false" or "skip" to drop their groundings.
    """
    for name, value, known in (("premises", premises, PREMISES), ("outside", outside, OUTSIDE)):
        if value not in known:
            raise LogicMPError(f"{name} must be {known[0]!r} or {known[1]!r}, got {value!r}")
    if premises == "facts":
        reasons = closed_predicates(evidence, set(queried), world, set(closed), set(opened))
        theory = evidence.theory if candidates is None else candidates.theory
        evidence, added = premises_from_facts(theory, evidence, [name for name, why in reasons.items() if not why])
        closed = (*closed, *added)
        candidates = None if candidates is None else Evidence(evidence.theory, candidates.tables, candidates.warnings)
    if reach:
        shared = [name for name, table in evidence.tables.items() if table.is_share]
        if shared:
            raise LogicMPError(f"reach needs all facts of {shared[0]} in every process",
                               f"leave {shared[0]} out of --divide")
        candidates = find_candidates(evidence, reach, set(queried), world, set(closed), set(opened), candidates,
                                     DENSE_ATOMS if dense_atoms is None else min(dense_atoms, DENSE_ATOMS))
    found = build_world(evidence, queried, world, closed, opened, prior, dense_atoms, candidates)
    return skip_outside(found) if outside == "skip" else found


def count_unscored(unscored: float | str, evidence: Evidence, candidates: Evidence | None,
                   prior: Mapping[str, float] | None, outside: str
                   ) -> tuple[Evidence | None, Mapping[str, float] | None, str]:
    """Candidates, prior and `outside` for `unscored`, which applies to the predicates with soft evidence."""
    scored = {name: table for name, table in evidence.tables.items()
              if not table.predicate.is_categorical and bool(((table.values > 0) & (table.values < 1)).any())}
    if not scored:
        raise LogicMPError("unscored is given, but no fact has a score",
                           "give a table with a column 'score', 'probability' or 'logit'")
    if isinstance(unscored, str):
        if unscored not in OUTSIDE:
            raise LogicMPError(f"unscored must be 'false', 'skip' or a probability, got {unscored!r}")
        theory = evidence.theory if candidates is None else candidates.theory
        given = {} if candidates is None else candidates.tables
        return Evidence(theory, {**scored, **given}), prior, "skip" if unscored == "skip" else outside
    if not 0 < unscored < 1:
        raise LogicMPError(f"unscored must be a probability above 0 and below 1, got {unscored:g}",
                           'for false atoms write unscored="false"')
    return candidates, {**dict.fromkeys(scored, float(unscored)), **(prior or {})}, outside


def _queries(query: str | Sequence[str] | None, theory: Theory) -> list[Query]:
    texts = [] if query is None else [query] if isinstance(query, str) else query
    return [found for text in texts for found in parse_queries(text, theory)]


def _nothing_to_answer(world: World, is_empty: bool) -> LogicMPError:
    predicates = world.theory.predicates
    if not predicates:
        return LogicMPError("there is nothing to answer: the theory has no predicates")
    why = "the query is empty" if is_empty else f"every predicate is closed: {world.describe_closed()}"
    name = next((p.name for p in predicates if not p.closed_world), predicates[0].name)
    return LogicMPError(f"there is nothing to answer: {why}",
                        f'name a query: query="{name}", or -q {name} on the command line')
