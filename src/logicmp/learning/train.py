"""Rules and databases in, weights out.

Stage: infer -> **learn** -> cli.  Paper: the weights w_f of Eq. 1.

    learned = learn("P(t)\\nP(x)", [facts])
    print(learned)                                   # an .mln with weights
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import LogicMPError, closest
from ..parse.load import parse_theory
from ..parse.theory import Theory
from .checkpoint import Standing, fingerprint, load_checkpoint, save_checkpoint
from .databases import Source, read_databases
from .learned import Learned, build_report
from .minimize import Iteration, minimize
from .objectives import METHODS, Objective
from .parameters import Parameters, choose_rules


def learn(theory: Theory | str, databases: Sequence[Source], method: str = "pseudo-likelihood",
          query: Collection[str] = (), *, semantics: str = "exact", prior_std: float | None = None,
          relearn: str | Collection[int] = (), held_out: Sequence[Source] = (), patience: int = 5,
          max_iterations: int = 500, tolerance: float = 1e-4, checkpoint: str | Path | None = None,
          on_iteration: Callable[[Iteration], None] | None = None) -> Learned:
    """Learn the weights that a theory lacks from databases in which every atom that no fact names is false.

    >>> from logicmp import parse_facts
    >>> theory = parse_theory("t = {A, B, C, D}\\nP(t)\\n(P(x))")
    >>> learned = learn(theory, [parse_facts("P(A)\\nP(B)\\nP(C)", theory)])
    >>> round(float(learned.weights[0]), 3)  # log 3, held back a little by the prior
    1.098

    Args:
        databases: files, folders of ExpressGNN, or facts that were read; each is a world of its own.
        method: "pseudo-likelihood", "discriminative" or "maximum-likelihood".
        query: the predicates to be predicted from the others; needed by "discriminative", else all by default.
        semantics: what a rule that is not a clause means, "exact" or "alchemy".
        prior_std: standard deviation of a Gaussian prior around zero; 2 for "discriminative", else 100.
        relearn: lines of rules whose weight is learned too, starting from it, or "all".
        held_out: databases that choose the iteration whose weights are kept.
        patience: how many iterations may be no better on held-out databases.
        max_iterations: of L-BFGS.
        tolerance: stop when no expected count differs by more than this from the observed one, prior included.
        checkpoint: a file to take a run up from, written after every iteration.
        on_iteration: told of every iteration.
    """
    theory = parse_theory(theory) if isinstance(theory, str) else theory
    chosen = _method(method, semantics, query, theory, databases)
    prior_std = chosen.prior_std if prior_std is None else prior_std
    if not (prior_std > 0 and tolerance >= 0 and max_iterations >= 0 and patience >= 1):
        raise LogicMPError(f"prior_std={prior_std}, tolerance={tolerance}, max_iterations={max_iterations}, "
                           f"patience={patience} cannot be",
                           "prior_std is above 0, patience at least 1, the others at least 0")
    learned = choose_rules(theory, relearn)
    shared, read = read_databases(theory, [*databases, *held_out])
    parameters = Parameters(shared, learned)
    objectives = [chosen(database.world, query, semantics) for database in read]
    training, testing = objectives[: len(databases)], objectives[len(databases) :]

    def training_loss(vector: Tensor) -> Tensor:
        return _total(training, parameters, vector) + vector.square().sum() / (2 * prior_std**2)

    belongs_to = {"rules": str(shared), "databases": fingerprint(read), "method": method, "query": sorted(query),
                  "semantics": semantics, "prior_std": prior_std, "relearn": list(learned),
                  "held_out": len(testing)}
    path = None if checkpoint is None else Path(checkpoint)
    standing = _begin(parameters, path, belongs_to)

    def watch(iteration: Iteration, standing: Standing) -> None:
        if path is not None:
            save_checkpoint(path, standing, belongs_to)
        if on_iteration is not None:
            on_iteration(iteration)

    ended = minimize(training_loss, standing, (lambda v: _total(testing, parameters, v)) if testing else None,
                     max_iterations, tolerance, patience, watch)
    with torch.no_grad():
        measured = [[-float(_total(part, parameters, v)) for v in (parameters.start(), standing.best)]
                    for part in (training, testing)]
    names = [database.name for database in read]
    report = build_report(
        parameters, standing, training, method=method, measure=chosen.measure, semantics=semantics,
        query=tuple(query), prior_std=prior_std, databases=names[: len(databases)], held_out=names[len(databases) :],
        ended=ended, measured=measured)
    return Learned(theory, shared, tuple(w.detach() for w in parameters.split(standing.best)), learned, report)


def _method(method: str, semantics: str, query: Collection[str], theory: Theory,
            databases: Sequence[Source]) -> type[Objective]:
    if method not in METHODS:
        raise LogicMPError(f"unknown method {method!r}", f"known: {', '.join(METHODS)}")
    if semantics not in ("exact", "alchemy"):
        raise LogicMPError(f"weights cannot be learned in {semantics!r} semantics", "known: exact, alchemy")
    if not databases:
        raise LogicMPError("there is no database to learn from", "give at least one")
    for name in query:
        if name not in theory.predicate:
            raise LogicMPError(f"the query predicate {name!r} is not declared",
                               closest(name, list(theory.predicate), "predicate"))
    if METHODS[method].needs_query and not query:
        raise LogicMPError(f"the method {method!r} needs to know which predicates are asked for",
                           f"name them, as in -ne {theory.predicates[-1].name}; predicates: "
                           f"{', '.join(theory.predicate)}")
    return METHODS[method]


def _total(objectives: Sequence[Objective], parameters: Parameters, vector: Tensor) -> Tensor:
    weights = parameters.split(vector)
    return torch.stack([objective.loss(weights) for objective in objectives]).sum() if objectives else vector.sum() * 0


def _begin(parameters: Parameters, path: Path | None, belongs_to: dict[str, Any]) -> Standing:
    if path is not None and path.exists():
        return load_checkpoint(path, belongs_to)
    start = parameters.start()
    return Standing(start, start)
