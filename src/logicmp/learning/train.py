"""Learn rule weights from databases.

Room: objectives, minimize, learned -> **train** -> cli.  Paper: the weights w_f of Eq. 1.

    learned = learn("P(t)\\nP(x)", [facts])
    print(learned)                                   # an .mln with weights
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..arguments import AtLeastOne, Count, NotNegative, Positive, checked
from ..errors import LogicMPError, closest
from ..execute.schedule import Schedule, make_schedule
from ..ground.engine import Grounding, make_engine
from ..parse.load import parse_theory
from ..parse.theory import Theory
from .checkpoint import TrainingState, fingerprint, load_checkpoint, save_checkpoint
from .databases import Source, read_databases
from .learned import Learned, build_report
from .minimize import LearningProgress, minimize
from .objectives import METHODS, Objective
from .parameters import Parameters, choose_rules


@checked
def learn(theory: Theory | str, databases: Sequence[Source], method: str = "pseudo-likelihood",
          query: Collection[str] = (), *, semantics: str = "exact", prior_std: Positive | None = None,
          relearn: str | Collection[int] = (), held_out: Sequence[Source] = (), patience: AtLeastOne = 5,
          max_iterations: Count = 500, tolerance: NotNegative = 1e-4, reach: Count = 0,
          schedule: str | Schedule | None = None,
          checkpoint: str | Path | None = None, engine: str = "torch", shares: Any = None,
          on_iteration: Callable[[LearningProgress], None] | None = None) -> Learned:
    """Learn the missing weights of a theory from databases in which every atom without a fact is false.

    >>> from logicmp import parse_facts
    >>> theory = parse_theory("t = {A, B, C, D}\\nP(t)\\n(P(x))")
    >>> learned = learn(theory, [parse_facts("P(A)\\nP(B)\\nP(C)", theory)])
    >>> round(float(learned.weights[0]), 3)  # log 3, slightly reduced by the prior
    1.098

    Args:
        theory: rules as text, or a `Theory`; rules without a weight are learned, hard rules never are.
        databases: at least one file, ExpressGNN folder or `Evidence`; each is a separate world.
        method: "pseudo-likelihood" (each atom from all others; fast), "discriminative" (the query predicates from
            the others, by mean field) or "maximum-likelihood" (the same with an exact log Z; small models only).
        query: names of the predicates to predict, given all others; "discriminative" needs at least one, for the
            other methods an empty query means all predicates.
        semantics: what a rule that is not a clause means: "exact" (the formula itself) or "alchemy" (its weight
            divided among its clauses).
        prior_std: standard deviation of the Gaussian prior around zero, above 0; default: 2 for "discriminative",
            100 for the other methods.
        relearn: line numbers of rules with a weight that is learned too, starting from it; "all": every soft rule.
        held_out: databases for early stopping: the weights with the smallest loss on them are kept.
        patience: stop after this many iterations without a smaller held-out loss, at least 1.
        max_iterations: iterations of L-BFGS, at least 0.
        tolerance: stop when no expected count differs from the observed one by more, prior included; at least 0.
        reach: for "pseudo-likelihood", list the atoms of predicates with many atoms instead of all of them: the facts,
            and what the rules conclude from them when they are applied this many times. Atoms outside the list are
            false and not predicted. 0 to take all atoms.
        schedule: for "discriminative", a schedule of the layer that finds the start of one of its two fixed points;
            default: undecided marginals.
        checkpoint: file that is written after every iteration; if it exists, the run resumes from it.
        engine: what joins the facts of listed atoms for "pseudo-likelihood": "torch" (the built-in join), "duckdb" or
            "spark".
        shares: processes that have a share of the rows each, as a `ProcessShares` from `logicmp.execute.shares`, for
            "pseudo-likelihood"; all of them call `learn` with the same arguments, and get the same weights.
        on_iteration: called with a `LearningProgress` after every iteration.

    Returns:
        The weights and a report. `print(learned)` shows them as an .mln file, `learned.save(path)` writes it.

    Raises:
        LogicMPError: an argument is out of range, there is no weight to learn, a fact is uncertain, or the
            checkpoint belongs to another run.
    """
    theory = parse_theory(theory) if isinstance(theory, str) else theory
    chosen = _objective(method, semantics, query, theory, databases)
    if schedule is not None and method != "discriminative":
        raise LogicMPError(f"method {method!r} runs no mean field, so it has no schedule", "leave schedule out")
    if reach and not chosen.takes_lists:
        raise LogicMPError(f"method {method!r} needs all atoms, so it cannot use reach",
                           'use method="pseudo-likelihood", or leave reach out')
    if (engine != "torch" or shares is not None) and not chosen.takes_lists:
        raise LogicMPError(f"method {method!r} needs all atoms, so it has no engine, and runs in one process",
                           'use method="pseudo-likelihood"')
    options: dict[str, Any] = {} if schedule is None else {"schedule": make_schedule(schedule)}
    grounding = Grounding(make_engine(engine), *([] if shares is None else [shares]))
    if chosen.takes_lists:
        options["grounding"] = grounding
    prior_std = chosen.prior_std if prior_std is None else prior_std
    learned = choose_rules(theory, relearn)
    shared, read = read_databases(theory, [*databases, *held_out], query, int(reach))
    parameters = Parameters(shared, learned)
    objectives = [chosen(database.world, query, semantics, **options) for database in read]
    grounding.engine.close()
    training, testing = objectives[: len(databases)], objectives[len(databases) :]

    def training_loss(vector: Tensor) -> Tensor:
        return _total(training, parameters, vector) + vector.square().sum() / (2 * prior_std**2)

    belongs_to = {"rules": str(shared), "databases": fingerprint(read), "method": method, "query": sorted(query),
                  "semantics": semantics, "prior_std": prior_std, "relearn": list(learned),
                  "held_out": len(testing), **({"reach": int(reach)} if reach else {}),
                  **({} if schedule is None else {"schedule": str(make_schedule(schedule))})}
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        state = load_checkpoint(path, belongs_to)
    else:
        state = TrainingState(parameters.start(), parameters.start())

    def watch(progress: LearningProgress, state: TrainingState) -> None:
        if path is not None and grounding.shares.share.rank == 0:
            save_checkpoint(path, state, belongs_to)
        if on_iteration is not None:
            on_iteration(progress)

    ended = minimize(training_loss, state, (lambda v: _total(testing, parameters, v)) if testing else None,
                     max_iterations, tolerance, patience, watch)
    with torch.no_grad():
        measured = [[-float(_total(part, parameters, v)) for v in (parameters.start(), state.best)]
                    for part in (training, testing)]
    names = [database.name for database in read]
    report = build_report(
        parameters, state, training, method=method, measure=chosen.measure, semantics=semantics,
        query=tuple(query), prior_std=prior_std, databases=names[: len(databases)], held_out=names[len(databases) :],
        ended=ended, measured=measured)
    return Learned(theory, shared, tuple(w.detach() for w in parameters.split(state.best)), learned, report)


def _objective(method: str, semantics: str, query: Collection[str], theory: Theory,
               databases: Sequence[Source]) -> type[Objective]:
    """The objective of a method; raise if an argument does not fit it."""
    if method not in METHODS:
        raise LogicMPError(f"unknown method {method!r}", f"available methods: {', '.join(METHODS)}")
    if semantics not in ("exact", "alchemy"):
        raise LogicMPError(f"weights cannot be learned in {semantics!r} semantics",
                               "available semantics: exact, alchemy")
    if not databases:
        raise LogicMPError("databases is empty", "give at least one database")
    for name in query:
        if name not in theory.predicate:
            raise LogicMPError(f"the query predicate {name!r} is not declared",
                               closest(name, list(theory.predicate), "predicate"))
    if METHODS[method].needs_query and not query:
        raise LogicMPError(f"method {method!r} needs query predicates",
                           f"query=[{theory.predicates[-1].name!r}], on the command line -ne "
                           f"{theory.predicates[-1].name}; predicates: {', '.join(theory.predicate)}")
    return METHODS[method]


def _total(objectives: Sequence[Objective], parameters: Parameters, vector: Tensor) -> Tensor:
    weights = parameters.split(vector)
    return torch.stack([objective.loss(weights) for objective in objectives]).sum() if objectives else vector.sum() * 0
