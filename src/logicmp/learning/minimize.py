"""Minimize a loss with L-BFGS, one iteration at a time, with early stopping.

Room: checkpoint -> **minimize** -> train.

    iteration 7   loss 41.203   gradient 0.0031   held-out 44.871

The loss on the held-out databases is computed after every iteration; the weights with the smallest one are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import LogicMPError
from .checkpoint import TrainingState

Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LearningProgress:
    """The losses after one iteration of L-BFGS, for callbacks."""

    number: int
    # including the prior
    loss: float
    # largest difference between expected and observed counts
    gradient: float
    held_out: float | None
    # estimated share of the run that is done, 0 to 1: the gradient falls by about the same factor in every iteration
    done: float


def minimize(loss: Loss, state: TrainingState, held_out: Loss | None, max_iterations: int, tolerance: float,
             patience: int, watch: Callable[[LearningProgress, TrainingState], None]) -> str:
    """Move `state` to the minimum of a loss; return the reason why the run ended.

    >>> state = TrainingState(torch.zeros(1), torch.zeros(1))
    >>> minimize(lambda w: (w - 3).square().sum(), state, None, 20, 1e-4, 5, lambda *_: None)
    'converged'
    >>> state.best
    tensor([3.])

    Args:
        loss: a differentiable function of the vector.
        state: the start, changed in place after every iteration.
        held_out: the loss that chooses which vector is kept; None keeps the last one.
        max_iterations: how many iterations to run at most, counted from the first run if this one resumes it.
        tolerance: stop when no entry of the gradient is larger.
        patience: stop after this many iterations without a smaller held-out loss.
        watch: called after every iteration.
    """
    # the curvature that L-BFGS has estimated is not saved: a resumed run estimates it again
    vector = state.vector.clone().requires_grad_()
    advance = _lbfgs(vector)
    evaluate = _Evaluation(loss, vector)
    first, done = None, 0.0
    while True:
        value = float(evaluate())
        assert vector.grad is not None
        gradient = float(vector.grad.abs().max())
        if not (math.isfinite(value) and math.isfinite(gradient)):
            raise LogicMPError(f"the loss is no longer finite in iteration {state.iteration}",
                               "choose a smaller prior_std")
        state.vector = vector.detach().clone()
        kept = _keep_best(state, held_out)
        first = gradient if first is None else first
        done = max(done, _done(first, gradient, tolerance), state.iteration / max(1, max_iterations))
        watch(LearningProgress(state.iteration, value, gradient, kept, min(1.0, done)), state)
        if gradient <= tolerance:
            return "converged"
        if held_out is not None and state.iteration - state.best_iteration >= patience:
            return "stopped early: the held-out loss no longer decreases"
        if state.iteration >= max_iterations:
            return "stopped after max_iterations"
        advance(evaluate)
        if torch.equal(vector, state.vector):
            # the estimated curvature may be misleading: try once without it
            advance = _lbfgs(vector)
            advance(evaluate)
        if torch.equal(vector, state.vector):
            return "stopped: no step decreases the loss"
        state.iteration += 1


def _done(first: float, gradient: float, tolerance: float) -> float:
    """How much of the way from the first gradient to the tolerance is done, on a logarithmic scale.

    >>> _done(1.0, 0.1, 1e-4), _done(1.0, 2.0, 1e-4), _done(1.0, 0.1, 0.0), _done(1e-5, 1e-5, 1e-4)
    (0.25, 0.0, 0.0, 1.0)
    """
    if gradient <= tolerance:
        return 1.0
    return max(0.0, math.log(first / gradient) / math.log(first / tolerance)) if first > gradient and tolerance else 0.0


def _lbfgs(vector: Tensor) -> Callable[[Callable[[], Tensor]], object]:
    """A function that runs one iteration of L-BFGS, with up to 30 evaluations in its line search."""
    optimizer = torch.optim.LBFGS([vector], max_iter=1, max_eval=30, tolerance_grad=0, tolerance_change=1e-14,
                                  history_size=100, line_search_fn="strong_wolfe")
    return optimizer.step


def _keep_best(state: TrainingState, held_out: Loss | None) -> float | None:
    if held_out is None:
        state.best, state.best_iteration = state.vector, state.iteration
        return None
    with torch.no_grad():
        value = float(held_out(state.vector))
    if value < state.best_loss:
        state.best, state.best_iteration, state.best_loss = state.vector, state.iteration, value
    return value


class _Evaluation:
    """The loss and its gradient at the vector, computed once per point.

    The line search ends at a point that it has just evaluated, and the next iteration begins there.
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
