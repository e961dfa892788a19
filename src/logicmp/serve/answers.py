"""What a question computes: probabilities, the trace of mean field, explanations, a report.

Room: inference, layer, show -> **serve** (reading -> answers -> nursery -> app).

    answer({"rules": ..., ...})       probabilities before and after, the trace of mean field, the plan
    explain({..., "atom": "P(A)"})    which rules pushed an atom, and through which groundings

Plain values in, plain values out, because this runs in a process of its own.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LogicMPError
from ..execute.explain import find_atom
from ..execute.schedule import Schedule
from ..facts.world import World
from ..ground.exclusive import merge_exclusive
from ..inference.answers import Answer, Marginals
from ..inference.report import Explainer, most_certain, report_answers
from ..inference.run import find_world, infer
from ..limits import Limits
from ..normalize.build import normalize_theory
from ..parse.syntax import Atom, Variable
from ..parse.theory import Predicate, Theory
from ..plan.build import build_plan
from .examples import EXAMPLES
from .programs import method_options
from .reading import Ask, Read, read

if TYPE_CHECKING:
    from ..execute.report import Trace

# of the trace of mean field: probabilities, over all frames
MAX_FRAME_VALUES = 60_000
# table cells for the comparison with exact inference
MAX_EXACT_CELLS = 2**18
# answers that are drawn as a table or a graph
MAX_DRAWN = 2_500
# edges of a relation
MAX_PAIRS = 2_000


def answer(ask: Ask, limits: Limits) -> dict[str, Any]:
    """The probability of every answer before and after the rules, and how they were computed."""
    model = read(ask)
    start = time.perf_counter()
    found = _infer(model, ask, limits)
    seconds = time.perf_counter() - start
    groups = [_group(given, model.theory) for given in found.answers]
    n_answers = sum(len(group["answers"]) for group in groups)
    trace, note = _trace(found.world, ask, limits)
    frames = [] if trace is None else [_frame(found.answers, q, found.world) for q in trace.marginals]
    difference, why = _difference(found, model, ask, limits)
    _fill(groups, found, frames)
    return {
        "method": found.method, "used": found.solution.used or found.method,
        "status": str(found.status), "is_exact": found.status == "exact", "seconds": seconds,
        "log_partition": _finite(found.log_partition), "bound": _finite(found.solution.elbo),
        "notes": [*found.notes, *note], "difference": difference, "why_no_difference": why,
        "groups": groups, "relations": list(_relations(found.world)),
        "trace": None if trace is None else _trace_values(trace, frames, found.world.theory, n_answers),
        "plan": _plan(found.world, ask["semantics"]),
    }


def _infer(model: Read, ask: Ask, limits: Limits, method: str | None = None, **options: Any) -> Marginals:
    if method is None:
        method, options = method_options(ask)
    return infer(model.theory, model.facts, model.query, method, semantics=ask["semantics"], seed=ask["seed"],
                 limits=limits, **options)


def _group(given: Answer, theory: Theory) -> dict[str, Any]:
    """The answers to one query without their numbers."""
    formula = given.query.formula
    texts = list(given.texts())
    if not isinstance(formula, Atom):
        return {"query": given.query.text, "predicate": None, "views": ["bars"], "types": [],
                "answers": [{"atom": text, "args": [], "value": None} for text in texts]}
    predicate = theory.predicate[formula.predicate]
    labels = list(formula.labels or predicate.labels or [])
    columns = []
    for arg in formula.args:
        if isinstance(arg, Variable):
            names = theory.type[arg.type].constants
            columns.append([names[k] for k in given.bindings[arg.name].tolist()])
        else:
            columns.append([arg.name] * (len(texts) // max(1, len(labels))))
    rows: Sequence[tuple[str, ...]] = list(zip(*columns, strict=True)) if columns else [()]
    values: Sequence[str | None] = labels or [None]
    one = predicate.functional[0] if len(predicate.functional) == 1 else None
    answers = []
    for text, (row, label) in zip(texts, itertools.product(rows, values), strict=True):
        args = [name for k, name in enumerate(row) if k != one]
        answers.append({"atom": text, "args": args, "value": label if one is None else row[one]})
    types = [t for k, t in enumerate(predicate.types) if k != one]
    return {"query": given.query.text, "predicate": predicate.name, "types": types,
            "views": _views(predicate, types) if len(texts) <= MAX_DRAWN else ["bars"],
            "answers": answers}


def _views(predicate: Predicate, types: Sequence[str]) -> list[str]:
    """The ways to draw a predicate, the best first."""
    has_value = predicate.labels is not None or len(predicate.functional) == 1
    if has_value and len(types) == 2:
        return ["grid", "bars"]
    if has_value and len(types) == 1:
        return ["sequence", "bars"]
    if len(types) == 2 and not predicate.functional:
        return ["matrix", "graph", "bars"] if types[0] == types[1] else ["matrix", "bars"]
    return ["bars", "graph"] if len(types) == 1 else ["bars"]


def _places(given: Answer, theory: Theory) -> tuple[np.ndarray, ...] | None:
    """Where the atoms of a query are in the tensor of their predicate, without labels; None for a formula."""
    formula = given.query.formula
    if not isinstance(formula, Atom):
        return None
    n = len(next(iter(given.bindings.values()))) if given.bindings else 1
    return tuple(given.bindings[arg.name] if isinstance(arg, Variable)
                 else np.full(n, theory.index(arg.type, arg.name)) for arg in formula.args)


def _pick(given: Answer, array: np.ndarray, theory: Theory) -> np.ndarray:
    """The entries of a predicate's array for the answers to a query."""
    places, formula = _places(given, theory), given.query.formula
    assert places is not None and isinstance(formula, Atom)
    chosen = array[places] if places else array.reshape(1, *array.shape)
    labels = theory.predicate[formula.predicate].labels
    if labels is not None:
        chosen = chosen[:, [labels.index(label) for label in formula.labels or labels]]
    return np.asarray(chosen).reshape(-1)


def _fill(groups: Sequence[dict[str, Any]], found: Marginals, frames: Sequence[Sequence[float | None]]) -> None:
    """Add the numbers to the answers."""
    p, odds = found.probabilities.tolist(), found.log_odds.tolist()
    k = 0
    for group, given in zip(groups, found.answers, strict=True):
        formula = given.query.formula
        observed = (_pick(given, found.world.values[formula.predicate] >= 0, found.world.theory).tolist()
                    if isinstance(formula, Atom) else [False] * len(group["answers"]))
        for entry, is_observed in zip(group["answers"], observed, strict=True):
            before = frames[0][k] if frames else p[k] if is_observed else None
            entry |= {"probability": p[k], "log_odds": _finite(odds[k]), "before": before, "observed": is_observed}
            k += 1


def _relations(world: World) -> Iterator[dict[str, Any]]:
    """The observed predicates over pairs of one type."""
    for name in world.observed:
        predicate = world.theory.predicate[name]
        if len(predicate.types) == 2 and predicate.types[0] == predicate.types[1] and not predicate.is_categorical:
            names = world.theory.type[predicate.types[0]].constants
            pairs = np.argwhere(world.values[name] == 1)[:MAX_PAIRS].tolist()
            yield {"predicate": name, "type": predicate.types[0], "pairs": [(names[a], names[b]) for a, b in pairs]}


# the trace of mean field


def _explainer(world: World, ask: Ask) -> Explainer:
    return Explainer(world, Schedule(ask["iterations"], ask["damping"], ask["temperature"]), ask["semantics"])


def _trace(world: World, ask: Ask, limits: Limits) -> tuple[Trace | None, list[str]]:
    """Mean field iteration by iteration, None and a note where there is none."""
    if not world.latent:
        return None, []
    try:
        limits.check("answering")
        return _explainer(world, ask).trace(), []
    except LogicMPError as error:
        return None, [f"no trace of mean field: {error.message}"]


def _frame(answers: Sequence[Answer], marginals: Mapping[str, Any], world: World) -> list[float | None]:
    """The probability of every answer at some marginals; None for a formula."""
    found: list[float | None] = []
    for given in answers:
        formula = given.query.formula
        if not isinstance(formula, Atom):
            found += [None] * len(given.log_odds)
            continue
        known = world.values[formula.predicate]
        q = marginals.get(formula.predicate)
        array = known.astype(float) if q is None else np.where(known >= 0, known, q.numpy())
        found += _pick(given, array, world.theory).tolist()
    return found


def _trace_values(trace: Trace, frames: list[list[float | None]], theory: Theory, n_answers: int) -> dict[str, Any]:
    """The trace as plain values, with only as many frames as fit."""
    n = len(frames)
    most = max(2, MAX_FRAME_VALUES // max(1, n_answers))
    shown = sorted({round(k * (n - 1) / (most - 1)) for k in range(most)}) if n > most else list(range(n))
    return {"iterations": shown, "bound": trace.elbo[shown].tolist(), "rules": [str(rule) for rule in theory.rules],
            "violations": trace.violations[shown].tolist(), "frames": [frames[k] for k in shown]}


def _difference(found: Marginals, model: Read, ask: Ask, limits: Limits) -> tuple[dict[str, Any] | None, str | None]:
    """How far the answers are from exact inference, or why that is not known."""
    if found.status == "exact":
        return None, None
    if found.method in ("map", "hl-mrf"):
        return None, f"{found.method} computes no probabilities"
    if ask["semantics"] == "paper":
        return None, "the paper's semantics has none"
    try:
        exact = _infer(model, ask, limits.part(0.5), "exact", max_cells=MAX_EXACT_CELLS)
    except LogicMPError:
        return None, "the model is too large"
    off = np.abs(exact.probabilities - found.probabilities)
    worst = int(off.argmax())
    return {"largest": float(off[worst]), "atom": list(exact)[worst], "mean": float(off.mean())}, None


def _plan(world: World, semantics: str) -> str:
    try:
        form = normalize_theory(world.theory, semantics, world.sizes)
        return f"{form}\n{build_plan(form, world.sizes, world.observed)}"
    except LogicMPError as error:
        return f"no plan: {error}"


# explanations


def explain(ask: Ask, limits: Limits) -> dict[str, Any]:
    """Which rules pushed an atom at the end of mean field, and through which groundings."""
    model = read(ask)
    world = find_world(model.facts, model.queried)
    if ask["semantics"] != "paper" and any(rule.is_hard for rule in world.theory.rules):
        # as `infer` does
        world = merge_exclusive(world)
    atom = find_atom(ask["atom"], world.theory, world.sizes)
    limits.check("explaining")
    if world.values[atom.predicate][atom.place] >= 0:
        return {"atom": ask["atom"], "observed": True, "before": None, "pushes": []}
    return _explain(world, ask, ask["atom"])


def _explain(world: World, ask: Ask, name: str) -> dict[str, Any]:
    atom = find_atom(name, world.theory, world.sizes)
    shown = [{"rule": str(rule), "line": None if rule.span is None else rule.span.line, "amount": amount,
              "groundings": [{"amount": part, "text": text} for part, text in groundings]}
             for amount, rule, groundings in _explainer(world, ask)(name)]
    before = world.unary.get(atom.predicate)
    return {"atom": name, "observed": False, "before": 0.0 if before is None else float(before[atom.place]),
            "pushes": shown}


def report(ask: Ask, limits: Limits) -> dict[str, Any]:
    """The report of a run, as one HTML page."""
    model = read(ask)
    start = time.perf_counter()
    found = _infer(model, ask, limits)
    seconds = time.perf_counter() - start
    trace, _ = _trace(found.world, ask, limits)
    difference, _ = _difference(found, model, ask, limits)
    explained = []
    if trace is not None:
        explain_atom = _explainer(found.world, ask)
        explained = [(atom, explain_atom(atom)) for atom in most_certain(found)]
    html = report_answers(found, seconds, difference,
                          None if trace is None else (trace.elbo.tolist(), trace.violations.tolist()), explained,
                          {"Rules": ask["rules"], "Facts": ask.get("facts", ""), "Query": ask.get("query", "")})
    return {"html": html}


def _finite(x: float | None) -> float | None:
    # JSON has no infinity
    return x if x is not None and math.isfinite(x) else None


def prepare() -> None:
    """Run each part once, so that children find everything imported and planned."""
    ask = {"rules": EXAMPLES[0].rules, "facts": EXAMPLES[0].facts, "query": EXAMPLES[0].query, "method": "auto",
           "semantics": "exact", "iterations": 2, "damping": 0.5, "temperature": 1.0, "seed": 0}
    answer(ask, Limits())
    answer(ask | {"method": "mean-field"}, Limits())
    explain(ask | {"atom": "Smokes(Bob)"}, Limits())


TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {"answer": answer, "explain": explain, "report": report}
