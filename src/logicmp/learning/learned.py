"""Learned weights, a report of the training, and both as an .mln file.

Room: objectives, parameters -> **learned** -> train, cli.

    // pseudo-likelihood, exact semantics
    // log pseudo-likelihood: -4.159 before, -2.253 after 4 iterations (converged)

    // Smokes(x) => Cancer(x)
    1.09861 Smokes(x) => Cancer(x)

The same rules and data give the same file.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..facts.frames import make_frame
from ..files import write_whole
from ..page import Html, Page, code, curves, fragment, listed, plural, table
from ..parse.load import parse_theory
from ..parse.syntax import And, Constant, Equal, Formula, Implies, Variable, atoms, free_variables, put_constants, terms
from ..parse.theory import Rule, Theory
from .checkpoint import TrainingState
from .minimize import LearningProgress
from .objectives import Objective
from .parameters import Parameters

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def split_rule(rule: Rule, weights: Tensor, theory: Theory) -> list[Rule]:
    """Split a rule with `+x` into one rule for each combination of constants, each with its own weight.

    >>> import torch
    >>> from logicmp import parse_theory
    >>> theory = parse_theory("t = {A, B}\\nP(t)\\nQ(t)\\nP(+x) ^ Q(y) => P(y)")
    >>> for found in split_rule(theory.rules[0], torch.tensor([0.5, -2.0]), theory):
    ...     print(found)
    0.5 P(A) ^ Q(y) => P(y)
    -2 P(B) ^ Q(y) => P(y)
    """
    marked = {name: theory.type[rule.variables[name]].constants for name in rule.per_constant}
    found = []
    for places in itertools.product(*(range(len(constants)) for constants in marked.values())):
        formula = _put(rule.formula, dict(zip(marked, places, strict=True)), theory)
        if formula is not None:
            found.append(replace(rule, formula=formula, weight=round(float(weights[places]), 6) + 0.0))
    return found


def _put(formula: Formula, chosen: Mapping[str, int], theory: Theory) -> Formula | None:
    """The formula with constants for variables; None if an offset leaves the type."""
    plain = put_constants(formula, {}, {})
    try:
        found = put_constants(formula, chosen, {t.name: t.constants for t in theory.types})
    except IndexError:
        return None
    names = {term.name for leaf in atoms(formula) if isinstance(leaf, Equal)
             for term in terms(leaf) if isinstance(term, Variable)}
    if not names & set(chosen) and len(set(atoms(found))) == len(set(atoms(plain))):
        return found
    # An equality of two constants cannot be written, and two atoms that become one change the clauses among which
    # Alchemy divides the weight. A premise fixes the constants instead.
    types = free_variables(formula)
    fixed = tuple(Equal(Variable(name, types[name]), Constant(theory.type[types[name]].constants[place]))
                  for name, place in chosen.items())
    return Implies(fixed[0] if len(fixed) == 1 else And(fixed), plain)


# counts below this are rounding errors
NO_GROUNDING = 1e-6


@dataclass(frozen=True)
class Report:
    """A summary of the training; `print` it, or take `to_dict` for JSON."""

    method: str
    # name of the quantity in `before` and `after`, which leave the prior out
    measure: str
    semantics: str
    query: tuple[str, ...]
    databases: tuple[str, ...]
    held_out: tuple[str, ...]
    prior_std: float
    n_weights: int
    iterations: int
    # the iteration whose weights were kept
    kept: int
    ended: str
    before: float
    after: float
    # the same for the held-out databases
    held_out_before: float | None
    held_out_after: float | None
    # warnings about single rules
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        of = f" of {', '.join(self.query)}" if self.query else ""
        lines = [f"{self.method}{of}, {self.semantics} semantics; weights learned: {self.n_weights}",
                 f"databases: {_listed(self.databases)}",
                 f"{self.measure}: {self.before:.6g} before, {self.after:.6g} after {self.iterations} iterations "
                 f"({self.ended})"]
        if self.held_out:
            lines += [f"held out: {_listed(self.held_out)}",
                      f"on held-out data: {self.held_out_before:.6g} before, {self.held_out_after:.6g} after; "
                      f"kept the weights of iteration {self.kept}"]
        lines += [f"Gaussian prior: mean 0, standard deviation {self.prior_std:g}"]
        return "\n".join([*lines, *self.notes])


def _listed(names: Sequence[str]) -> str:
    """The first eight names, and how many there are."""
    more = f", ... ({len(names)} in all)" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


@dataclass(frozen=True)
class Learned:
    """The result of `learn`; `str` gives it as an .mln file.

    Attributes:
        theory: the theory as it was given.
        shared: the theory with the constants that rules with `+x` have weights for.
        weights: for each rule a number, or one axis for each `+x`; a hard rule has the finite weight that stood in
            for it.
        learned: indices of the learned rules.
        report: a summary of the training, with warnings in `report.notes`.
    """

    theory: Theory
    shared: Theory
    weights: tuple[Tensor, ...]
    learned: tuple[int, ...]
    report: Report

    def rules(self, f: int) -> list[Rule]:
        """Rule f with its learned weight: one rule for each constant if it has `+x`."""
        rule = self.theory.rules[f]
        if f not in self.learned:
            return [rule]
        if rule.per_constant:
            return split_rule(rule, self.weights[f], self.shared)
        return [replace(rule, weight=round(float(self.weights[f]), 6) + 0.0)]

    def to_theory(self) -> Theory:
        """The theory with weights, ready for inference."""
        return parse_theory(str(self), "<learned>")

    def to_pandas(self) -> pandas.DataFrame:
        """The learned weights as a table of pandas: line, rule, weight."""
        return make_frame(self.columns(), "pandas")

    def to_polars(self) -> polars.DataFrame:
        """The same of polars."""
        found: polars.DataFrame = make_frame(self.columns(), "polars")
        return found

    def to_arrow(self) -> pyarrow.Table:
        """The same of pyarrow."""
        return make_frame(self.columns(), "arrow")

    def columns(self) -> dict[str, Any]:
        """The learned weights as columns: the line and the formula of each rule of the .mln file, and its weight."""
        rules = [rule for f in self.learned for rule in self.rules(f)]
        return {"line": [rule.span.line if rule.span else None for rule in rules],
                "rule": [str(rule.formula) for rule in rules], "weight": [rule.weight for rule in rules]}

    def to_html(self, course: Sequence[LearningProgress] = ()) -> str:
        """One HTML page that needs no other file: the summary, the weights with their change, the course.

        Args:
            course: the losses of each iteration, as `on_iteration` of `learn` received them.
        """
        page = Page("LogicMP: learned weights")
        page.add("Summary", listed(str(self.report).splitlines()))
        page.add("Weights", self._weight_table())
        lines = {"loss, with the prior": [point.loss for point in course],
                 "largest gap between counts": [point.gradient for point in course],
                 "loss on held-out data": [point.held_out for point in course if point.held_out is not None]}
        page.add("Course", *([curves({name: values for name, values in lines.items() if values},
                                     f"over {plural(course[-1].number, 'iteration')}")] if course else []))
        page.add("Theory", code(str(self)))
        return page.to_html()

    def _weight_table(self) -> Html:
        rows: list[list[str | float | Html]] = []
        for f in self.learned:
            before = self.theory.rules[f].weight
            for rule in self.rules(f):
                weight = rule.weight or 0.0
                rows.append([str(rule.formula), "none" if before is None else before, weight,
                             "" if before is None else weight - before])
        head = ["rule", "weight before", "weight now", "change"]
        n_columns = 4 if any(row[3] != "" for row in rows) else 3
        return table(head[:n_columns], [row[:n_columns] for row in rows])

    def _repr_html_(self) -> str:
        return fragment(listed(str(self.report).splitlines()), self._weight_table())

    def save(self, path: str | Path) -> None:
        """Write the .mln file; no partial file is left if writing fails."""
        write_whole(Path(path), str(self))

    def __str__(self) -> str:
        blocks = ["".join(f"// {line}\n" for line in str(self.report).splitlines()),
                  str(replace(self.theory, rules=()))]
        for f, rule in enumerate(self.theory.rules):
            blocks.append("".join(f"{line}\n" for line in [f"// {rule}", *map(str, self.rules(f))]))
        return "\n".join(blocks)


def build_report(parameters: Parameters, state: TrainingState, training: Sequence[Objective], *,
                 databases: Sequence[str], held_out: Sequence[str], measured: Sequence[Sequence[float]],
                 **details: Any) -> Report:
    """Build the report of a finished run.

    Args:
        measured: before and after, for the training databases and for the held-out ones.
        details: all other fields of `Report`.
    """
    (before, after), (held_out_before, held_out_after) = measured
    return Report(
        databases=tuple(databases), held_out=tuple(held_out), n_weights=len(state.best),
        iterations=state.iteration, kept=state.best_iteration, before=before, after=after,
        held_out_before=held_out_before if held_out else None, held_out_after=held_out_after if held_out else None,
        notes=tuple(_notes(parameters, state, training)), **details)


def _notes(parameters: Parameters, state: TrainingState, training: Sequence[Objective]) -> list[str]:
    """Warnings: weights that only the prior bounds, and hard rules that the data violates."""
    weights = parameters.split(state.best)
    counts = [objective.counts(weights) for objective in training]
    notes = []
    for f, rule in enumerate(parameters.theory.rules):
        is_false, is_true = (torch.stack([found[f][k] for found in counts]).sum(0) for k in (0, 1))
        place = f"line {rule.span.line}" if rule.span is not None else str(rule)
        if rule.is_hard and is_false > NO_GROUNDING:
            notes.append(f"{place}: the data violates this hard rule (groundings: {float(is_false):g})")
        if f in parameters.learned:
            for what, where in (("violated", is_false), ("satisfied", is_true)):
                n = int((where < NO_GROUNDING).sum())
                if n:
                    count = f" for {n} of {where.numel()} constants" if where.dim() else ""
                    notes.append(f"{place}: never {what} in the data{count}; only the prior bounds the weight")
    return notes


def as_table(learned: Learned) -> list[Mapping[str, Any]]:
    """The learned weights as dicts, for JSON: one for each rule of the .mln file."""
    columns = learned.columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
