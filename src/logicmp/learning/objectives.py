r"""What is minimized: minus the log-likelihood of one database, or what stands in for it, as a function of weights.

Stage: layer -> **learn**.  Paper: Eq. 1 (the likelihood), Eq. 2 (its conditionals, and the mean-field bound).

    pseudo-likelihood    sum over atoms of log P(atom | all others): exact, convex, no inference
    discriminative       log P(query | evidence), with the bound that mean field climbs in place of log Z
    maximum-likelihood   the same with log Z itself, for small models

A method is one subclass and one entry in `METHODS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..execute.inputs import Inputs, read_inputs
from ..execute.marginals import CERTAIN
from ..facts.world import UNKNOWN, World
from ..ground.build import build_network
from ..inference.exact.method import MAX_CELLS, ExactModel
from ..layer import LogicMP
from ..parse.theory import Predicate, Theory

Tensors = dict[str, Tensor]


class Objective(ABC):
    """One database under one method; `loss` may be differentiated by the weights.

    Args:
        world: the database, with every atom true or false.
        query: the predicates to be predicted, the others are given; none means all of them.
        semantics: what a rule that is not a clause means, "exact" or "alchemy".
    """

    # what reports call minus the loss
    measure: ClassVar[str]
    # standard deviation of the Gaussian prior, unless given
    prior_std: ClassVar[float]
    needs_query: ClassVar[bool] = False

    def __init__(self, world: World, query: Collection[str], semantics: str):
        self.world = world
        self.layer = _Rules(world.theory, semantics)
        known = {name: torch.from_numpy(values) == 1 for name, values in world.values.items()}
        self.truth = {name: x.double() for name, x in known.items() if not query or name in query}
        self.evidence = {name: x for name, x in known.items() if name not in self.truth}
        # log-odds at which the marginals are the data
        self.data = {name: (2 * x - 1) * CERTAIN for name, x in self.truth.items()}
        self.zeros = {name: torch.zeros_like(x) for name, x in self.truth.items()}

    @abstractmethod
    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        """Minus the log-likelihood at these weights, one tensor for each rule; a number, without the prior."""

    def score(self, weights: Sequence[Tensor]) -> Tensor:
        """The exponent of Eq. 1 at the data: the sum over rules of weight times true groundings."""
        self.layer.given = weights
        # a certain q has no entropy, so the bound is the score
        return self.layer.elbo(self.zeros, self.data, self.evidence)

    def counts(self, weights: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """For each rule how many of its groundings the data makes false and true, of the shape of its weights."""
        weights = [w.detach().requires_grad_() for w in weights]
        # both are linear in the weights, and the counts are their slopes
        is_true = torch.autograd.grad(self.score(weights), weights, materialize_grads=True)
        is_false = torch.autograd.grad(self.layer.theory_loss(self.data, self.evidence), weights,
                                       materialize_grads=True)
        return list(zip(is_false, is_true, strict=True))


class PseudoLikelihood(Objective):
    r"""Minus the log pseudo-likelihood: every atom is predicted from all the others.

    .. math:: -\sum_r \log P(x_r \mid x_{-r})

    The violation counts are multilinear, so at marginals equal to the data the message of Eq. 2 is the log-odds of an
    atom given all others, exactly. One step of the layer gives all of them.
    """

    measure = "log pseudo-likelihood"
    prior_std = 100.0

    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        predicates = self.world.theory.predicate
        return sum((_surprise(predicates[name], logits, self.truth[name])
                    for name, logits in self.log_odds(weights).items()), torch.zeros((), dtype=torch.float64))

    def log_odds(self, weights: Sequence[Tensor]) -> Tensors:
        """Log-odds (logits of a categorical variable) of each variable given all the others."""
        self.layer.given = weights
        logits = self.layer(self.data, self.evidence)
        return {name: x - self.data[name] for name, x in logits.items()}


class Discriminative(Objective):
    r"""Minus the conditional log-likelihood of the query predicates, with the mean-field bound for log Z.

    .. math:: -\log P(y \mid x) \approx \max_q \mathrm{ELBO}(q) - \mathrm{score}(y, x)

    Approximate in one place: q is a product of marginals, so the bound lies below log Z and expected counts are those
    of independent atoms. q is the better of two fixed points, one found from undecided marginals and one from the data;
    without the second, a rule whose atoms agree could push its weight up without end while mean field sits on the
    saddle between the modes. At a fixed point the slope of the bound in q is zero, so the gradient is that with q held:
    expected minus observed counts.
    """

    measure = "conditional log-likelihood (mean field)"
    prior_std = 2.0
    needs_query = True

    def __init__(self, world: World, query: Collection[str], semantics: str):
        super().__init__(world, query, semantics)
        self.starts = {name: torch.stack([torch.zeros_like(x), x]) for name, x in self.data.items()}

    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        score = self.score(weights)
        with torch.no_grad():
            fixed = self.layer.settle(self.starts, self.evidence)
        unary = {name: torch.zeros_like(x) for name, x in fixed.items()}
        return self.layer.elbo(unary, fixed, self.evidence).max() - score


class MaximumLikelihood(Objective):
    r"""Minus the log-likelihood of the query predicates given the others, or of all, with log Z summed exactly.

    .. math:: -\log P(y \mid x) = \log Z(x) - \mathrm{score}(y, x)

    For models that are narrow enough; hard rules are true constraints, which the data must obey.
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
        # where every atom is known, nothing is left but the counts
        self.observed = torch.from_numpy(build_network(world, semantics=semantics).base)

    def loss(self, weights: Sequence[Tensor]) -> Tensor:
        flat = torch.cat([w.reshape(-1) for w in weights])
        return self.model.log_partition(flat, self.potentials) - flat @ self.observed


METHODS: Mapping[str, type[Objective]] = {
    "pseudo-likelihood": PseudoLikelihood,
    "discriminative": Discriminative,
    "maximum-likelihood": MaximumLikelihood,
}


class _Rules(LogicMP):
    """A layer for which weights are given, one tensor for each rule, and which can be run to a fixed point."""

    # mean field stops when no marginal moves by more than this, or after so many updates
    SETTLED, MAX_UPDATES = 1e-7, 500

    def __init__(self, theory: Theory, semantics: str):
        super().__init__(theory, iterations=1, learn_weights=False, semantics=semantics)
        self.given: Sequence[Tensor] = ()

    @property
    def weights(self) -> list[Tensor]:
        return list(self.given)

    def settle(self, start: Tensors, evidence: Tensors) -> Tensors:
        """Logits at a mean-field fixed point without unary potentials, from `start`; [batch, ...] in and out.

        Updates in parallel can swing to and fro: whenever a step turns back on the last one, steps become shorter.
        """
        inputs = read_inputs(self.theory, start, evidence, None)
        executor = self.executor(inputs.sizes, tuple(inputs.observed))
        logits, zeros = inputs.unary, {name: torch.zeros_like(x) for name, x in inputs.unary.items()}
        q, step = self._all_marginals(inputs, logits), zeros
        constants, kept = None, 0.5
        for _ in range(self.MAX_UPDATES):
            state = self._state(inputs, executor, q)
            constants = executor.constants(state) if constants is None else constants
            update = executor.subtract_messages(zeros, state, constants)
            logits = {name: torch.lerp(x, logits[name], kept) for name, x in update.items()}
            before, last, q = q, step, self._all_marginals(inputs, logits)
            step = {name: q[name] - before[name] for name in q}
            if max(float(x.abs().max()) for x in step.values()) <= self.SETTLED * (1 - kept):
                break
            if sum(float((x * last[name]).sum()) for name, x in step.items()) < 0:
                kept = min(0.98, (1 + kept) / 2)
        return _unbatched(logits, inputs)


def _unbatched(logits: Tensors, inputs: Inputs) -> Tensors:
    return {name: x.reshape(*inputs.batch, *x.shape[1:]) for name, x in logits.items()}


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
