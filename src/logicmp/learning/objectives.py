r"""The loss that learning minimizes: minus the log-likelihood of one database, or an approximation of it.

Room: execute, inference -> **learning**.  Paper: Eq. 1 (the likelihood), Eq. 2 (conditionals, the mean-field bound).

    pseudo-likelihood    sum over atoms of log P(atom | all others): exact counts, convex, no inference
    discriminative       log P(query | evidence), with the mean-field bound in place of log Z
    maximum-likelihood   the same with log Z by exact inference, for small ground networks

A method is one subclass and one entry in `METHODS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..execute.fused import flat
from ..execute.inputs import Inputs, read_inputs
from ..execute.lists import read_rows
from ..execute.marginals import CERTAIN
from ..execute.mean_field import Run, largest_change
from ..execute.plans import build_executor
from ..execute.schedule import Schedule
from ..execute.sparse import SparseExecutor
from ..execute.state import Executor
from ..facts.world import UNKNOWN, World
from ..ground.build import build_network
from ..ground.engine import Grounding
from ..inference.exact.method import MAX_CELLS, ExactModel
from ..normalize.cubes import Literal, Product
from ..parse.theory import Predicate
from .linear import LinearOdds

Tensors = dict[str, Tensor]
# mean field stops when no marginal changes by more than this, or after this many iterations
CONVERGED, MAX_UPDATES = 1e-7, 500


class Objective(ABC):
    """One database under one method; `loss` may be differentiated by the weights.

    Args:
        world: the database, with every atom true or false.
        query: the predicates to be predicted, the others are given; none means all of them.
        semantics: what a rule that is not a clause means, "exact" or "alchemy".
        grounding: how the rows of rules over lists are made, and which of them this process has.
    """

    # what reports call minus the loss
    measure: ClassVar[str]
    # standard deviation of the Gaussian prior, unless given
    prior_std: ClassVar[float]
    needs_query: ClassVar[bool] = False
    # whether the atoms of a predicate may be a list
    takes_lists: ClassVar[bool] = False

    def __init__(self, world: World, query: Collection[str], semantics: str, grounding: Grounding | None = None):
        self.world = world
        self.grounding = grounding
        known = {name: torch.from_numpy(values) == 1 for name, values in world.values.items()}
        self.truth = {name: x.double() for name, x in known.items() if not query or name in query}
        self.evidence = {name: x for name, x in known.items() if name not in self.truth}
        self.inputs, self.executor = self._plan(semantics)
        # with one batch dimension for a moment
        self.truth = {name: self.inputs.parts[name].take(x.unsqueeze(0))[0] if name in self.inputs.parts else x
                      for name, x in self.truth.items()}
        # log-odds at which the marginals are the data, with one batch dimension
        self.data = {name: (2 * x.unsqueeze(0) - 1) * CERTAIN for name, x in self.truth.items()}

    def _plan(self, semantics: str) -> tuple[Inputs, Executor]:
        """The tensors of a call without potentials, and the rules ready to run, by lists where atoms are listed."""
        world, zeros = self.world, {name: torch.zeros_like(x) for name, x in self.truth.items()}
        if world.supports:
            return read_rows(world.theory, world.sizes, world.supports, zeros, self.evidence, semantics,
                             self.grounding)
        inputs = self._without_potentials(zeros)
        return inputs, build_executor(world.theory, inputs.sizes, tuple(inputs.observed), semantics)

    def _without_potentials(self, like: Tensors) -> Inputs:
        return read_inputs(self.world.theory, {name: torch.zeros_like(x) for name, x in like.items()}, self.evidence,
                           None)

    @abstractmethod
    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        """Minus the log-likelihood at these weights, one tensor for each rule; a number, without the prior."""

    def score(self, weights: Sequence[Tensor]) -> Tensor:
        """The exponent of Eq. 1 at the data: the sum over rules of weight times true groundings."""
        run = Run(self.executor, self.inputs, weights)
        # a certain q has no entropy, so the bound is the score
        return run.elbo(run.marginals(self.data))[0]

    def counts(self, weights: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """For each rule, how many groundings the data makes false and true, in the shape of its weights."""
        weights = [w.detach().requires_grad_() for w in weights]
        # both are linear in the weights, and the counts are their slopes
        is_true = torch.autograd.grad(self.score(weights), weights, materialize_grads=True)
        run = Run(self.executor, self.inputs, weights)
        violations = run.counts(run.marginals(self.data), weighted=True).sum()
        is_false = torch.autograd.grad(violations, weights, materialize_grads=True)
        return list(zip(is_false, is_true, strict=True))


class PseudoLikelihood(Objective):
    r"""Minus the log pseudo-likelihood: every atom is predicted from all the others.

    .. math:: -\sum_r \log P(x_r \mid x_{-r})

    The violation counts are multilinear, so at marginals equal to the data the message of Eq. 2 is the log-odds of an
    atom given all others, exactly. One iteration gives all of them.
    """

    measure = "log pseudo-likelihood"
    prior_std = 100.0
    takes_lists = True

    @cached_property
    def linear(self) -> LinearOdds | None:
        """The counts of all atoms, where all rules run over lists; None elsewhere."""
        fused = self.executor.columns if isinstance(self.executor, SparseExecutor) else None
        if fused is None or any(isinstance(f, Product) or (isinstance(f, Literal) and f.predicate in self.truth)
                                for rule in fused.rows.dense.rules for _, cube in rule.terms for f in cube.factors):
            return None
        known = {**self.inputs.observed, **{name: x.unsqueeze(0) for name, x in self.truth.items()}}
        return LinearOdds(self.world.theory, fused, flat(known), flat(self.truth), self.inputs.parts)

    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        if self.linear is not None:
            return self.linear.loss(weights)
        return sum((self._surprise(name, logits) for name, logits in self.log_odds(weights).items()),
                   torch.zeros((), dtype=torch.float64))

    def _surprise(self, name: str, logits: Tensor) -> Tensor:
        """Minus the log-probability of what is true, summed over the variables of a predicate."""
        predicate, part, truth = self.executor.theory.predicate[name], self.inputs.parts.get(name), self.truth[name]
        if part is None:
            return _surprise(predicate, logits, truth)
        own = part.owned(logits.unsqueeze(0))[0]
        return self.inputs.total(name, _surprise(predicate, own, truth[part.is_own]))

    def counts(self, weights: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        if self.linear is None:
            return super().counts(weights)
        # without gradients, which would need more memory than the lists themselves
        with torch.no_grad():
            run = Run(self.executor, self.inputs, [torch.ones_like(w) for w in weights])
            is_false = run.counts(run.marginals(self.data))[0]
            n_clauses = torch.tensor([rule.n_clauses for rule in self.executor.plan.rules])
            is_true = self.executor.weighted_groundings(run.call)[0] / n_clauses - is_false
        return list(zip(is_false.unbind(), is_true.unbind(), strict=True))

    def log_odds(self, weights: Sequence[Tensor]) -> Tensors:
        """Log-odds (logits of a categorical variable) of each variable given all the others."""
        logits = Run(self.executor, self.inputs, weights).iterate(Schedule(1), start=self.data)
        return {name: x[0] for name, x in logits.items()}


class Discriminative(Objective):
    r"""Minus the conditional log-likelihood of the query predicates, with the mean-field bound for log Z.

    .. math:: -\log P(y \mid x) \approx \max_q \mathrm{ELBO}(q) - \mathrm{score}(y, x)

    One approximation: q is a product of marginals, so the bound is below log Z and expected counts are those
    of independent atoms. q is the better of two fixed points, one found from undecided marginals (or from where a
    schedule leads from them) and one from the data:
    without the second, the weight of a rule whose atoms agree could grow without bound while mean field stays at the
    saddle point between the modes. At a fixed point the slope of the bound in q is zero, so the gradient treats q
    as constant: expected minus observed counts.
    """

    measure = "conditional log-likelihood (mean field)"
    prior_std = 2.0
    needs_query = True

    def __init__(self, world: World, query: Collection[str], semantics: str, schedule: Schedule | None = None):
        super().__init__(world, query, semantics)
        self.schedule = schedule
        # [2, ...]: one start from undecided marginals, one from the data
        self.starts = {name: torch.cat([torch.zeros_like(x), x]) for name, x in self.data.items()}
        self.twice = self._without_potentials(self.starts)

    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        score = self.score(weights)
        run = Run(self.executor, self.twice, weights)
        with torch.no_grad():
            q = run.marginals(self._fixed_points(Run(self.executor, self.twice, weights)))
        return run.elbo(q).max() - score

    def _fixed_points(self, run: Run) -> Tensors:
        """Logits at two mean-field fixed points; damping rises whenever a step reverses the one before it."""
        logits, damping = self.starts, 0.5
        if self.schedule is not None:
            found = run.iterate(self.schedule, start=logits)
            logits = {name: torch.cat([found[name][:1], x[1:]]) for name, x in logits.items()}
        q = run.marginals(logits)
        step = {name: torch.zeros_like(x) for name, x in q.items()}
        for _ in range(MAX_UPDATES):
            logits = run.iterate(Schedule(1, damping), start=logits)
            before, last, q = q, step, run.marginals(logits)
            step = {name: q[name] - before[name] for name in q}
            if largest_change(before, q) <= CONVERGED * (1 - damping):
                break
            if sum(float((x * last[name]).sum()) for name, x in step.items()) < 0:
                damping = min(0.98, (1 + damping) / 2)
        return logits


class MaximumLikelihood(Objective):
    r"""Minus the log-likelihood of the query predicates given the others, or of all, with log Z summed exactly.

    .. math:: -\log P(y \mid x) = \log Z(x) - \mathrm{score}(y, x)

    For ground networks that are narrow enough; the data must satisfy every hard rule.
    """

    measure = "log-likelihood"
    prior_std = 100.0

    def __init__(self, world: World, query: Collection[str], semantics: str):
        super().__init__(world, query, semantics)
        hidden = {name: np.full_like(values, UNKNOWN) if name in self.truth else values
                  for name, values in world.values.items()}
        self.model = ExactModel(build_network(replace(world, values=hidden), semantics=semantics), MAX_CELLS)
        self.model.refuse_wide()
        self.potentials = torch.from_numpy(self.model.network.potentials)
        # where every atom is observed, only the counts are left
        self.observed = torch.from_numpy(build_network(world, semantics=semantics).base)

    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        flat = torch.cat([w.reshape(-1) for w in weights])
        return self.model.log_partition(flat, self.potentials) - flat @ self.observed


METHODS: Mapping[str, type[Objective]] = {
    "pseudo-likelihood": PseudoLikelihood,
    "discriminative": Discriminative,
    "maximum-likelihood": MaximumLikelihood,
}


def _surprise(predicate: Predicate, logits: Tensor, truth: Tensor) -> Tensor:
    """Minus the log-probability of what is true, summed over the variables of a predicate."""
    if not predicate.is_categorical:
        each = torch.nn.functional.softplus(logits) - truth * logits
        # a pair of a symmetric predicate is one variable
        return (each.triu() if predicate.symmetric else each).sum()
    dims = (-1,) if predicate.labels is not None else predicate.functional
    total = torch.logsumexp(logits, dims)
    if predicate.may_be_none:
        total = torch.logaddexp(total, torch.zeros_like(total))
    return total.sum() - (truth * logits).sum()
