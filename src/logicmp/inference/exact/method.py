"""Exact marginals: sum the variables out of each component of the ground network.

Room: inference/exact.  Paper: Eq. 1, its partition function Z.

    log Z  is a function of the log-potentials and the weights; its gradient is every marginal and every expected count

One pass of variable elimination in log space and one of autograd give all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ...errors import CostError
from ...ground.network import HARD, Network, shorten
from ...ground.propagate import contradiction
from ...limits import Limits
from ...parse.theory import Predicate, Rule
from ..answers import odds_of_counts, odds_of_values
from ..method import Method, Problem, Solution, Status
from .structures import Structure, find_structures

# a component whose tables have more cells together is too wide
MAX_CELLS = 2**22
# cells of one batch of equal components
MAX_BATCH = 2**24


class ExactModel:
    """The components of a network, and how to sum over them.

    Args:
        max_cells: leave out the components whose tables have more cells together, see `wide`.
    """

    def __init__(self, network: Network, max_cells: int = MAX_CELLS):
        self.network = shorten(network)
        structures, self.alone = find_structures(self.network, max_cells)
        self.structures = [s for s in structures if s.order is not None]
        self.wide = [s for s in structures if s.order is None]
        self.max_cells = max_cells

    def refuse_wide(self) -> None:
        """Raise a CostError with the numbers if a component is too wide."""
        if not self.wide:
            return
        worst = max(self.wide, key=lambda s: s.cells)
        own = [v for v in worst.variables[0].tolist() if v < self.network.n_own]
        names = ", ".join(self.network.name(v) for v in own[:3])
        n, n_narrow = (sum(len(s.variables) for s in group) for group in (self.wide, self.structures))
        n_narrow += len(self.alone)
        raise CostError(
            f"{n:,} of {n + n_narrow:,} components are too wide to be summed: that of "
            f"{names}{', ...' if len(own) > 3 else ''} has {len(own):,} unobserved variables and needs more than "
            f"{worst.cells:,} table cells (limit {self.max_cells:,})", None,
            "use auto, which uses mean field for these, or mean-field; or close predicates; or raise max_cells")

    def is_exact(self) -> np.ndarray:
        """For each variable whether its component is summed."""
        found = np.ones(len(self.network.cards), dtype=bool)
        for structure in self.wide:
            found[structure.variables] = False
        return found

    def is_exact_weight(self) -> np.ndarray:
        """For each weight whether all its features are summed."""
        found = np.ones(len(self.network.weights), dtype=bool)
        for structure in self.wide:
            params = self.network.param[structure.numbers]
            found[params[params != HARD]] = False
        return found

    def log_partition(self, weights: Tensor, potentials: Tensor,
                      progress: Callable[[int, int], None] = lambda done, total: None,
                      limits: Limits | None = None) -> Tensor:
        """log Z of the components that are narrow enough, differentiable in both arguments.

        Args:
            weights: float64, one for each weight of the network.
            potentials: float64, the log-potential of every value of every variable.
            limits: raise a CostError when their time is over.
        """
        network = self.network
        starts = torch.from_numpy(network.starts)
        # the empty sum makes it differentiable in the potentials even if there are none
        total = (weights * torch.from_numpy(network.base)).sum() + potentials[:0].sum()
        for card in np.unique(network.cards[self.alone]).tolist():
            chosen = torch.from_numpy(self.alone[network.cards[self.alone] == card])
            total = total + _sum_out(potentials[starts[chosen, None] + torch.arange(card)], 1).sum()
        for done, structure in enumerate(self.structures):
            size = max(1, MAX_BATCH // structure.cells)
            for first in range(0, len(structure.variables), size):
                if limits is not None and limits.is_over():
                    raise CostError(f"{done:,} of {len(self.structures):,} kinds of components were summed in "
                                    f"{limits.seconds:g} s", None, "raise max_seconds, or use mean-field")
                part = slice(first, first + size)
                values = self._eliminate(structure, part, weights, potentials, starts)
                if not bool(torch.isfinite(values).all()):
                    row = part.start + int((~torch.isfinite(values)).nonzero()[0])
                    raise contradiction(network, int(structure.variables[row, 0]))
                total = total + values.sum()
            progress(done + 1, len(self.structures))
        return total

    def _eliminate(self, structure: Structure, part: slice, weights: Tensor, potentials: Tensor,
                   starts: Tensor) -> Tensor:
        """log Z of a batch of equal components, [batch]."""
        variables = torch.from_numpy(structure.variables[part])
        factors: list[tuple[tuple[int, ...], Tensor]] = [
            ((v,), potentials[starts[variables[:, v], None] + torch.arange(card)])
            for v, card in enumerate(structure.cards)]
        factors += self._feature_tables(structure, part, weights)
        holding: dict[int, set[int]] = {v: set() for v in range(len(structure.cards))}
        for k, (scope, _) in enumerate(factors):
            for v in scope:
                holding[v].add(k)
        assert structure.order is not None
        result = potentials.new_zeros(len(variables))
        for v in structure.order:
            used = sorted(holding[v])
            scope = (*sorted({u for k in used for u in factors[k][0]} - {v}), v)
            product: Tensor | None = None
            for k in used:
                aligned = _align(factors[k], scope)
                product = aligned if product is None else product + aligned
                for u in factors[k][0]:
                    holding[u].discard(k)
                factors[k] = ((), result)
            assert product is not None
            left = _sum_out(product, product.dim() - 1)
            if len(scope) == 1:
                result = result + left
                continue
            for u in scope[:-1]:
                holding[u].add(len(factors))
            factors.append((scope[:-1], left))
        return result

    def _feature_tables(self, structure: Structure, part: slice,
                        weights: Tensor) -> list[tuple[tuple[int, ...], Tensor]]:
        """Features over the same variables as one table of log-weights, [batch, values...]."""
        by_scope: dict[tuple[int, ...], list[int]] = {}
        for k, (scope, _) in enumerate(structure.features):
            by_scope.setdefault(scope, []).append(k)
        numbers = structure.numbers[part]
        share = torch.from_numpy(self.network.share[numbers])
        param = torch.from_numpy(self.network.param[numbers])
        found = []
        for scope, members in by_scope.items():
            shape = [structure.cards[v] for v in scope]
            table = weights.new_zeros(len(numbers), *shape)
            hard = [k for k in members if structure.is_hard[k]]
            soft = [k for k in members if not structure.is_hard[k]]
            if soft:
                holds = torch.stack([self._holds(structure.features[k][1]).reshape(-1) for k in soft])
                table = -((share[:, soft] * weights[param[:, soft]]) @ holds).reshape(table.shape)
            for k in hard:
                table = table.masked_fill(self._holds(structure.features[k][1]) > 0, -torch.inf)
            found.append((scope, table))
        return found

    def _holds(self, sets: Sequence[int]) -> Tensor:
        """A table over all assignments of a product's variables: 1 if the product is true, else 0."""
        table = torch.ones((), dtype=torch.float64)
        for k in sets:
            table = table.unsqueeze(-1) * torch.from_numpy(self.network.sets.indicator(k))
        return table


def _align(factor: tuple[tuple[int, ...], Tensor], scope: tuple[int, ...]) -> Tensor:
    """A table with an axis for each variable of a wider scope, of length one if it does not depend on it."""
    own, table = factor
    order = sorted(range(len(own)), key=lambda k: scope.index(own[k]))
    table = table.permute(0, *(k + 1 for k in order))
    shape = [table.shape[0], *(1 for _ in scope)]
    for place, k in enumerate(order):
        shape[1 + scope.index(own[k])] = table.shape[1 + place]
    return table.reshape(shape)


def _sum_out(table: Tensor, axis: int) -> Tensor:
    """The log sum exp along an axis; -inf if all entries are, without NaN in the gradient."""
    top = table.detach().amax(axis, keepdim=True)
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
    total = torch.exp(table - top).sum(axis)
    is_possible = total > 0
    logs = torch.log(torch.where(is_possible, total, torch.ones_like(total)))
    return torch.where(is_possible, logs, torch.full_like(logs, -torch.inf)) + top.squeeze(axis)


@dataclass
class Exact(Method):
    """The sum over all worlds, component by component; raises a CostError if a component is too wide.

    Args:
        max_cells: limit of the table cells of one component.
    """

    name: ClassVar[str] = "exact"
    max_cells: int = 2**25

    def solve(self, problem: Problem) -> Solution:
        model = ExactModel(self.network(problem), self.max_cells)
        model.refuse_wide()
        solution = solve_exact(model, problem)
        for rule in problem.formulas:
            model = ExactModel(self.network(problem, rule), self.max_cells)
            model.refuse_wide()
            solution.formulas.append(formula_odds(model, problem.limits))
        return solution

    def network(self, problem: Problem, *more: Rule) -> Network:
        """The ground network, with a queried formula."""
        return problem.network((*problem.world.theory.rules, *more))


def solve_exact(model: ExactModel, problem: Problem) -> Solution:
    """Marginals as the gradient of log Z; those of components that are too wide are NaN."""
    network = model.network
    weights, potentials = torch.tensor(network.weights), torch.tensor(network.potentials, requires_grad=True)
    log_z = model.log_partition(weights, potentials, lambda done, n: problem.progress("summing", done, n),
                                problem.limits)
    (slope,) = torch.autograd.grad(log_z, potentials, materialize_grads=True)
    p = _without_underflow(model, slope.numpy())
    n = sum(len(s.variables) for s in model.structures) + len(model.alone)
    return Solution(odds_of_values(network, p), Status.EXACT, [], None if model.wide else float(log_z.detach()),
                    notes=[f"exact on {n:,} of {n:,} components"] if not model.wide else [])


def _without_underflow(model: ExactModel, p: np.ndarray) -> np.ndarray:
    """Keep zero only for values that hard rules and evidence exclude, not for those that underflow."""
    if p.all() or not len(p):
        return p
    # without the soft rules all possible worlds count the same
    potentials = torch.tensor(np.where(np.isinf(model.network.potentials), -np.inf, 0.0), requires_grad=True)
    log_z = model.log_partition(torch.zeros(len(model.network.weights), dtype=torch.float64), potentials)
    (possible,) = torch.autograd.grad(log_z, potentials, materialize_grads=True)
    return np.where((p == 0) & (possible.numpy() > 0), np.finfo(np.float64).tiny, p)


def formula_odds(model: ExactModel, limits: Limits | None = None) -> np.ndarray:
    """The log-odds of the last rule of the network, by binding: its probability is the slope of log Z by its weight."""
    network = model.network
    weights = torch.tensor(network.weights, requires_grad=True)
    log_z = model.log_partition(weights, torch.tensor(network.potentials), limits=limits)
    (expected,) = torch.autograd.grad(log_z, weights, materialize_grads=True)
    return odds_of_counts(network, expected.numpy())[0]


def exact_atoms(predicate: Predicate, variables: np.ndarray, is_exact: np.ndarray,
                shape: tuple[int, ...]) -> np.ndarray:
    """For each atom, in the predicate's shape, whether its variable is decided or in a component that was summed."""
    found = np.append(is_exact, True)[variables]
    for axis in (len(shape) - 1,) if predicate.labels is not None else predicate.functional:
        found = np.expand_dims(found, axis)
    return np.broadcast_to(found, shape)
