"""Minimizing a loss: why a run ends, and which vector is kept."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from logicmp import LogicMPError
from logicmp.learning.checkpoint import TrainingState
from logicmp.learning.minimize import LearningProgress, minimize


def rosenbrock(x: Tensor) -> Tensor:
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def run(loss, start: list[float], held_out=None, max_iterations: int = 100, patience: int = 5
        ) -> tuple[str, TrainingState, list[LearningProgress]]:
    vector = torch.tensor(start, dtype=torch.float64)
    state, seen = TrainingState(vector, vector), []
    ended = minimize(loss, state, held_out, max_iterations, 1e-6, patience, lambda progress, _: seen.append(progress))
    return ended, state, seen


def test_a_run_converges_and_reports_every_iteration() -> None:
    ended, state, seen = run(rosenbrock, [-1.0, 1.0])
    assert ended == "converged" and state.best.tolist() == pytest.approx([1, 1], abs=1e-5)
    assert [progress.number for progress in seen] == list(range(state.iteration + 1))
    assert seen[-1].gradient <= 1e-6 < seen[-2].gradient and seen[-1].held_out is None
    done = [progress.done for progress in seen]
    assert done == sorted(done) and done[0] == 0 and 0 < done[-2] < 1 == done[-1]


def test_a_run_stops_after_max_iterations() -> None:
    ended, state, _ = run(rosenbrock, [-1.0, 1.0], max_iterations=3)
    assert (ended, state.iteration) == ("stopped after max_iterations", 3)


def test_the_vector_with_the_smallest_held_out_loss_is_kept() -> None:
    # the held-out loss is smallest on the way to the minimum
    ended, state, seen = run(rosenbrock, [-1.0, 1.0], lambda x: (x[0] - 0.2) ** 2, patience=2)
    losses = [progress.held_out for progress in seen]
    assert ended == "stopped early: the held-out loss no longer decreases"
    assert state.best_iteration == losses.index(min(losses)) == state.iteration - 2
    assert float((state.best[0] - 0.2) ** 2) == min(losses) == state.best_loss


def test_a_loss_that_no_step_decreases_ends_the_run() -> None:
    # the slope is wrong: every step along it makes the loss larger
    ended, state, _ = run(lambda x: x.detach().square().sum() - (x - x.detach()).sum(), [1.0])
    assert (ended, state.best.tolist()) == ("stopped: no step decreases the loss", [1.0])


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(LogicMPError, match="the loss is no longer finite in iteration 0"):
        run(lambda x: x.log().sum(), [-1.0])


def test_no_point_is_evaluated_twice() -> None:
    points: list[tuple[float, ...]] = []

    def loss(x: Tensor) -> Tensor:
        points.append(tuple(x.tolist()))
        return rosenbrock(x)

    run(loss, [-1.0, 1.0])
    assert all(one != other for one, other in itertools.pairwise(points))
