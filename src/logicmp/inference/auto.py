"""Exact inference where the ground network is narrow enough, an approximation for the rest; the notes report which.

Room: ground, execute -> **inference**.

    Smokes(A) - Friends(A,B) - Smokes(B)        narrow: exact inference
    ten people, all friendships open            too wide: belief propagation
    a thousand people                           more messages than fit, or no convergence: mean field
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..errors import CostError, LimitError
from ..ground.network import Network
from ..parse.theory import Rule
from .answers import formula_shape
from .bp.method import BeliefPropagation
from .exact.method import MAX_CELLS, Exact, ExactModel, exact_atoms, formula_odds, solve_exact
from .mean_field import MeanField
from .method import Problem, Solution, Status

# messages of all rounds of belief propagation together
MAX_UPDATES = 500_000_000
# seconds to make the factors and send 20 rounds of messages, for each literal
SECONDS = 1.3e-6
# of the time, for the groundings of all rules, with seconds for each byte; joining them into one network takes up to
# half as long again, or longer where a process gets new memory slowly
GROUNDING, SECONDS_PER_BYTE = 0.4, 2.2e-9


@dataclass
class Auto(MeanField):
    """Exact inference on narrow components, belief propagation on the rest if it fits and converges, else mean field.

    Args:
        max_cells: table cells that exact inference may use for one component.
        max_messages: literals of all groundings up to which belief propagation is tried; 0 for mean field only.
    """

    name: ClassVar[str] = "auto"
    # which part is solved how depends on the time that is left, which differs between processes
    takes_shares: ClassVar[bool] = False
    max_cells: int = MAX_CELLS
    max_messages: int = 10_000_000

    def solve(self, problem: Problem, network: Network | None = None) -> Solution:
        if problem.semantics == "paper":
            return self._mean_field(problem, "the paper's semantics has no ground network", None)
        try:
            # the rest of the time, and half of what is left then, is for mean field
            limits = problem.limits.part(GROUNDING, SECONDS_PER_BYTE)
            network = network or Exact().network(replace(problem, limits=limits))
            model = ExactModel(network, self.max_cells)
            exact = solve_exact(model, replace(problem, limits=problem.limits.part(0.5)))
        except LimitError as error:
            if problem.limits.is_over():
                raise
            return self._mean_field(problem, error.message, None)
        except CostError as error:
            place = f", in line {error.span.line}" if error.span is not None else ""
            return self._mean_field(problem, error.message + place, network)
        formulas = [self._formula(problem, rule) for rule in problem.formulas]
        if not model.wide and not any(np.isnan(odds).any() for odds in formulas):
            exact.formulas, exact.used = formulas, "exact inference"
            return exact
        rest, how, why = self._solve_rest(problem, network)
        is_exact = model.is_exact()
        for name, odds in rest.log_odds.items():
            chosen = exact_atoms(problem.world.stored(name), model.network.variables[name], is_exact,
                                 odds.shape)
            rest.log_odds[name] = np.where(chosen, exact.log_odds[name], odds)
        rest.formulas = [np.where(np.isnan(own), odds, own)
                         for own, odds in zip(formulas, rest.formulas, strict=True)]
        rest.notes = [*self._notes(model, formulas, how), *why, *rest.notes]
        rest.log_partition = exact.log_partition
        rest.used = f"exact inference and {how}" if model.structures or len(model.alone) else how
        return rest

    def _solve_rest(self, problem: Problem, network: Network) -> tuple[Solution, str, list[str]]:
        """An approximation of all components, its name, and a note if it is not belief propagation."""
        n_messages = len(network.var)
        # the other half of the time is for mean field
        half = problem.limits.part(0.5)
        if self.trace:
            why = "a trace is one of mean field"
        elif half.is_over(SECONDS * n_messages):
            why = f"it would need more than {half.seconds:.3g} s, half of the time that is left"
        elif n_messages > self.max_messages:
            why = f"it would need {n_messages:,} messages (limit {self.max_messages:,})"
        else:
            # a large network gets fewer rounds, about 20 seconds
            rounds = max(50, MAX_UPDATES // max(1, n_messages))
            method = BeliefPropagation(iterations=min(BeliefPropagation.iterations, rounds))
            try:
                found = method.solve(replace(problem, limits=half), None if problem.formulas else network)
            except LimitError as error:
                if problem.limits.is_over():
                    raise
                why = error.message
            else:
                if found.status is Status.CONVERGED:
                    return found, "belief propagation", []
                why = next(note for note in found.notes if note.startswith("bp "))
        return super().solve(problem, network), "mean field", [f"mean field instead of belief propagation: {why}"]

    def _formula(self, problem: Problem, rule: Rule) -> np.ndarray:
        """The log-odds of a formula, NaN where it connects components that are too wide together."""
        unknown = np.full(formula_shape(rule, problem.world), np.nan)
        try:
            model = ExactModel(Exact().network(problem, rule), self.max_cells)
        except CostError:
            return unknown
        is_exact = model.is_exact_weight()[model.network.offsets[-2] :].reshape(unknown.shape)
        return np.where(is_exact, formula_odds(model), unknown)

    def _notes(self, model: ExactModel, formulas: list[np.ndarray], rest: str) -> list[str]:
        notes = []
        if model.wide:
            n_exact, n_wide = (sum(len(s.variables) for s in group) for group in (model.structures, model.wide))
            n_left = int((~model.is_exact()[: model.network.n_own]).sum())
            n_exact += len(model.alone)
            notes.append(f"exact on {n_exact:,} of {n_exact + n_wide:,} components; "
                         f"{rest} on the others, with {n_left:,} unobserved variables, because one of them needs "
                         f"more than {max(s.cells for s in model.wide):,} table cells (limit {self.max_cells:,})")
        n_formulas = sum(bool(np.isnan(odds).any()) for odds in formulas)
        if n_formulas:
            notes.append(f"{rest} for {n_formulas} of {len(formulas)} queried formulas, which connect too many "
                         "atoms")
        return notes

    def _mean_field(self, problem: Problem, why: str, network: Network | None) -> Solution:
        solution = super().solve(problem, network)
        solution.notes.insert(0, f"mean field on all components: {why}")
        solution.used = "mean field"
        return solution
