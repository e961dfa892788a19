"""Errors and times of every inference method, compared with published probabilities.

    python -m benchmarks methods --methods mean-field,exact
    python -m benchmarks methods --data DIR --cases smoke alarm --json methods.json

A case is a folder of `mln/` with model.mln, evidence.db, query.txt, and an expected.json whose status is "exact": the
marginals of some atoms, the grammar of the model and the closed predicates. All methods in
`logicmp.inference.run.METHODS` are measured.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logicmp import Evidence, LogicMPError, Theory, infer, load_facts, load_theory
from logicmp.inference.run import METHODS, method_class


@dataclass(frozen=True)
class PublishedCase:
    """A model with published probabilities."""

    name: str
    theory: Theory
    evidence: Evidence
    query: str
    # closed predicates: their atoms are false without a fact; all other predicates are open
    closed: tuple[str, ...]
    marginals: Mapping[str, float]


@dataclass(frozen=True)
class Outcome:
    """Errors and seconds of one method on one case."""

    seconds: float
    # absolute error by atom; empty without an answer
    errors: Mapping[str, float] = field(default_factory=dict)
    # why there is no answer: "rejected" or "stopped", and the message
    failure: str = ""
    message: str = ""

    @property
    def mean(self) -> float:
        return sum(self.errors.values()) / len(self.errors)

    @property
    def worst(self) -> float:
        return max(self.errors.values())


def find_published(data: Path | None, names: Sequence[str] = ()) -> list[PublishedCase]:
    """The cases of `data`/mln with exact answers; if `names` are given, those whose name contains one of them."""
    chosen = data or os.environ.get("LOGICMP_DATA")
    if not chosen:
        raise LogicMPError("methods needs data sets, which are not part of the package",
                           "pass --data or set LOGICMP_DATA, a folder with mln/CASE/model.mln, evidence.db, "
                           "query.txt and expected.json")
    root = Path(chosen) / "mln"
    folders = sorted(path.parent for path in root.glob("*/expected.json"))
    about = {folder: _expected(folder / "expected.json") for folder in folders}
    exact = [folder for folder in folders if about[folder].get("status") == "exact"]
    if not exact:
        raise LogicMPError(f"no case with exact answers in {str(root)!r}",
                           'expected a folder with an expected.json whose "status" is "exact"')
    for name in names:
        if not any(name in folder.name for folder in exact):
            raise LogicMPError(f"unknown case {name!r}",
                               f"available cases: {', '.join(folder.name for folder in exact)}")
    return [_load(folder, about[folder]) for folder in exact
            if not names or any(name in folder.name for name in names)]


def _expected(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as cause:
        raise LogicMPError(f"cannot read {str(path)!r}: {cause}") from None


def _load(folder: Path, expected: Mapping[str, Any]) -> PublishedCase:
    theory = load_theory(folder / "model.mln", expected.get("grammar", "auto"))
    return PublishedCase(folder.name, theory, load_facts(folder / "evidence.db", theory),
                         (folder / "query.txt").read_text(encoding="utf-8"), tuple(expected.get("closed_world", ())),
                         expected["marginals"])


class _Stopped(Exception):
    """The time limit is reached."""


def run_method(case: PublishedCase, method: str, seed: int = 0, seconds_limit: float = math.inf) -> Outcome:
    """Run one method with default options on one case; loading files and modules is not timed."""
    start = time.perf_counter()

    # methods report their progress, so the callback can stop them
    def watch(what: str, done: int, total: int) -> None:
        if time.perf_counter() - start > seconds_limit:
            raise _Stopped(f"after {seconds_limit:g} s, {what} {done:,} of {total:,}")

    try:
        found = infer(case.theory, case.evidence, case.query, method, world="open", closed=case.closed, seed=seed,
                      progress=watch)
        seconds = time.perf_counter() - start
    except LogicMPError as error:
        return Outcome(time.perf_counter() - start, failure="rejected", message=error.message)
    except _Stopped as cause:
        return Outcome(time.perf_counter() - start, failure="stopped", message=str(cause))
    return Outcome(seconds, {atom: abs(found[atom] - p) for atom, p in case.marginals.items()})


def run_methods(cases: Sequence[PublishedCase], methods: Sequence[str], seed: int = 0, seconds_limit: float = math.inf,
                say: Callable[[str], None] = lambda text: None) -> dict[str, dict[str, Outcome]]:
    """Run every method on every case; return the outcomes by case and method."""
    # a first call imports modules and sets up torch, which must not count; its errors appear again in the table
    for method in methods:
        with contextlib.suppress(LogicMPError):
            infer("person = {Anna}\nSmokes(person)\n1 Smokes(x)", query="Smokes", method=method, seed=seed)
    outcomes: dict[str, dict[str, Outcome]] = {case.name: {} for case in cases}
    for case in cases:
        for method in methods:
            say(f"{case.name}, {method} ...")
            outcomes[case.name][method] = run_method(case, method, seed, seconds_limit)
    return outcomes


def as_markdown(outcomes: Mapping[str, Mapping[str, Outcome]], methods: Sequence[str]) -> str:
    """One row per case, three columns per method, a row of totals; below the table, why answers are missing.

    >>> outcomes = {"one": Outcome(0.5, {"A": 0.25, "B": 0.75}), "two": Outcome(0.1, {}, "rejected", "too wide")}
    >>> print(as_markdown({case: {"exact": outcome} for case, outcome in outcomes.items()}, ["exact"]))
    | case | exact: mean | max | seconds |
    |---|--:|--:|--:|
    | one | 0.5000 | 0.7500 | 0.500 |
    | two | rejected | | 0.100 |
    | all | 0.5000 | 0.7500 | 0.600 |
    <BLANKLINE>
    exact rejected two: too wide
    """
    lines = ["| case | " + " | ".join(f"{method}: mean | max | seconds" for method in methods) + " |",
             "|---" + "|--:|--:|--:" * len(methods) + "|"]
    below = []
    for name, row in outcomes.items():
        lines.append(f"| {name} | {' | '.join(_cells(row[method]) for method in methods)} |")
        below += [f"{method} {row[method].failure} {name}: {row[method].message}" for method in methods
                  if row[method].failure]
    totals = (_total([row[method] for row in outcomes.values()]) for method in methods)
    lines.append(f"| all | {' | '.join(totals)} |")
    return "\n".join([*lines, *([""] if below else []), *below])


def _cells(outcome: Outcome) -> str:
    if outcome.failure:
        return f"{outcome.failure} | | {outcome.seconds:.3f}"
    return f"{outcome.mean:.4f} | {outcome.worst:.4f} | {outcome.seconds:.3f}"


def _total(outcomes: Sequence[Outcome]) -> str:
    """The mean of the means, the maximum of the maxima, and the sum of the seconds."""
    answered = [outcome for outcome in outcomes if outcome.errors]
    seconds = f"{sum(outcome.seconds for outcome in outcomes):.3f}"
    if not answered:
        return f"- | | {seconds}"
    mean = sum(outcome.mean for outcome in answered) / len(answered)
    return f"{mean:.4f} | {max(outcome.worst for outcome in answered):.4f} | {seconds}"


def as_json(outcomes: Mapping[str, Mapping[str, Outcome]]) -> dict[str, Any]:
    """By case and method: mean and maximum error, error by atom, and seconds; or why there is no answer."""
    return {case: {method: _entry(outcome) for method, outcome in row.items()} for case, row in outcomes.items()}


def _entry(outcome: Outcome) -> dict[str, Any]:
    if outcome.failure:
        return {"seconds": outcome.seconds, outcome.failure: outcome.message}
    return {"seconds": outcome.seconds, "mean": outcome.mean, "max": outcome.worst, "errors": dict(outcome.errors)}


def chosen_methods(text: str) -> list[str]:
    """The methods in a list separated by commas; all methods if it is empty.

    >>> chosen_methods("exact, mean-field")
    ['exact', 'mean-field']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        method_class(name)
    return names or list(METHODS)
