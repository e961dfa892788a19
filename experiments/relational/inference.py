"""Methods without training: LogicMP, and the classical methods of `infer` under a time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from logicmp import LogicMP
from logicmp.execute.worlds import world_tensors
from logicmp.facts.world import World
from logicmp.inference.method import Problem, Status
from logicmp.inference.run import method_class
from logicmp.limits import Limits

from .data import Split
from .training import Context, GivenUp

# the layer, its input and the evidence: its output for them is distilled
Teacher = Callable[[Split, Context], tuple[LogicMP, dict[str, Tensor], dict[str, Tensor]]]


def layer_for(world: World, context: Context, iterations: int) -> LogicMP:
    """A layer that gives all soft rules the same weight, or none (`scale` None)."""
    scale = context.get("scale", 1.0)
    rules = tuple(rule if rule.is_hard else replace(rule, weight=scale) for rule in world.theory.rules)
    return LogicMP(replace(world.theory, rules=rules), sizes=world.sizes, reduce=context.get("reduce", "sum"),
                   learn_weights=False, **schedule_options(context, iterations))


def schedule_options(context: Context, iterations: int) -> dict[str, Any]:
    """The schedule of a layer; one in the settings has its own iterations and damping."""
    schedule = context.get("schedule", None)
    return {"schedule": schedule} if schedule else {
        "schedule": "paper", "iterations": iterations, "damping": context.get("damping", 0.5)}


def last_round(split: Split, context: Context) -> tuple[LogicMP, dict[str, Tensor], dict[str, Tensor]]:
    """The layer, its input in the last round, and the evidence.

    The first round starts from the same log-odds for every atom. With several rounds (setting `lessons`) the output
    of one is the input of the next.
    """
    # float64: atoms that the rules do not distinguish must stay equal
    unary, evidence = world_tensors(split.world, torch.float64)
    layer = layer_for(split.world, context, context.get("iterations", 15)).double()
    odds = {name: x + context.get("bias", -1.5) for name, x in unary.items()}
    with torch.no_grad():
        for _ in range(context.get("lessons", 1) - 1):
            odds = layer.run(odds, evidence)
    return layer, odds, evidence


def run_logicmp(split: Split, context: Context) -> Tensor:
    """Inference without training, over all groundings."""
    layer, odds, evidence = last_round(split, context)
    with torch.no_grad():
        return split.pick(layer.run(odds, evidence))


class Pace:
    """Report progress; raise `GivenUp` if all iterations would take more than twice the time limit."""

    def __init__(self, context: Context):
        self.context = context
        self._first: tuple[float, int] | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        context = self.context
        context.progress(what, done, total)
        if what == "grounding" or not total or context.give_up is None:
            return
        now = context.seconds
        if self._first is None:
            self._first = now, done
        started, before = self._first
        if now > context.give_up and done > before:
            expected = now + (now - started) / (done - before) * (total - done)
            if expected > 2 * context.max_seconds:
                raise GivenUp(expected)


def classical(name: str) -> Callable[[Split, Context], Tensor]:
    """A method of `infer`. At the time limit its answers so far count, and the run is marked as cut short."""
    def run(split: Split, context: Context) -> Tensor:
        limits = Limits(context.max_seconds, context.get("max_groundings", 25_000_000))
        options = {key: context.settings[key] for key in ("chains", "samples") if key in context.settings}
        solution = method_class(name)(**options).solve(
            Problem(split.world, seed=context.seed, progress=Pace(context), limits=limits,
                    queried=frozenset(split.queries)))
        context.notes = list(solution.notes)
        context.is_cut_short = solution.status is Status.TIME
        odds = {predicate: torch.from_numpy(solution.log_odds[predicate]) for predicate in split.queries}
        return split.pick(odds).nan_to_num(nan=0.0, posinf=1e3, neginf=-1e3)

    return run
