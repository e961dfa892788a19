"""L-BFGS, one iteration at a time: watched, stopped early, taken up again.

Stage: **learn**.

    iteration 7   loss 41.203   gradient 0.0031   held-out 44.871

After every iteration the loss on the held-out databases decides which weights are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import LogicMPError
from .checkpoint import Standing

Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Iteration:
    """What is known after an iteration: told to whoever watches."""

    number: int
    # with the prior
    loss: float
    # the largest difference between expected and observed counts that is left
    gradient: float
    held_out: float | None


def minimize(loss: Loss, standing: Standing, held_out: Loss | None, max_iterations: int, tolerance: float,
             patience: int, watch: Callable[[Iteration, Standing], None]) -> str:
    """Bring `standing` to the minimum of a loss, and say why it ended.

    >>> standing = Standing(torch.zeros(1), torch.zeros(1))
    >>> minimize(lambda w: (w - 3).square().sum(), standing, None, 20, 1e-4, 5, lambda *_: None)
    'converged'
    >>> standing.best
    tensor([3.])
    """
    # what L-BFGS has learned of the curvature is not saved: a run that is taken up again gathers it anew
    vector = standing.vector.clone().requires_grad_()
    advance = _lbfgs(vector)
    evaluate = _Evaluation(loss, vector)
    while True:
        value = float(evaluate())
        assert vector.grad is not None
        gradient = float(vector.grad.abs().max())
        if not (math.isfinite(value) and math.isfinite(gradient)):
            raise LogicMPError(f"the loss is no longer finite in iteration {standing.iteration}",
                               "choose a smaller standard deviation for the prior")
        standing.vector = vector.detach().clone()
        kept = _keep_best(standing, held_out)
        watch(Iteration(standing.iteration, value, gradient, kept), standing)
        if gradient <= tolerance:
            return "converged"
        if held_out is not None and standing.iteration - standing.best_iteration >= patience:
            return "stopped early: no better on held-out data"
        if standing.iteration >= max_iterations:
            return "stopped at the largest number of iterations"
        advance(evaluate)
        if torch.equal(vector, standing.vector):
            # perhaps only the curvature gathered so far misleads
            advance = _lbfgs(vector)
            advance(evaluate)
        if torch.equal(vector, standing.vector):
            return "stopped: no step makes it better"
        standing.iteration += 1


def _lbfgs(vector: Tensor) -> Callable[[Callable[[], Tensor]], object]:
    """A function that does one iteration of L-BFGS on a loss, with up to 30 evaluations for its line search."""
    optimizer = torch.optim.LBFGS([vector], max_iter=1, max_eval=30, tolerance_grad=0, tolerance_change=1e-14,
                                  history_size=100, line_search_fn="strong_wolfe")
    return optimizer.step


def _keep_best(standing: Standing, held_out: Loss | None) -> float | None:
    if held_out is None:
        standing.best, standing.best_iteration = standing.vector, standing.iteration
        return None
    with torch.no_grad():
        value = float(held_out(standing.vector))
    if value < standing.best_loss:
        standing.best, standing.best_iteration, standing.best_loss = standing.vector, standing.iteration, value
    return value


class _Evaluation:
    """The loss and its gradient at the vector; asked again at the same place it answers from memory.

    The line search ends at a place that it has just looked at, and the next iteration begins there.
    """

    def __init__(self, loss: Loss, vector: Tensor):
        self.loss, self.vector = loss, vector
        self.at: Tensor | None = None

    def __call__(self) -> Tensor:
        if self.at is None or not torch.equal(self.at, self.vector):
            self.at = self.vector.detach().clone()
            value = self.loss(self.vector)
            (self.gradient,) = torch.autograd.grad(value, self.vector)
            self.value = value.detach()
        self.vector.grad = self.gradient.clone()
        return self.value
