"""Worlds to learn from, and their scores by enumeration."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from logicmp import Evidence, Theory, oracle, parse_facts
from logicmp.facts.world import World
from logicmp.oracle.grounding import entries_of, ground_variables, shape_of

# a value for each ground variable, by predicate and arguments; the last value of `?` is "none"
Assignment = dict[tuple[str, tuple[int, ...]], int]


def to_tensors(theory: Theory, assignment: Assignment) -> dict[str, Tensor]:
    """The assignment as zeros and ones, by predicate."""
    return {predicate.name: torch.tensor(
        [float(assignment[variable] == value) for variable, value in entries_of(predicate, theory.sizes)],
        dtype=torch.float64).reshape(shape_of(predicate, theory.sizes)) for predicate in theory.predicates}


def to_world(theory: Theory, assignment: Assignment) -> World:
    values = {name: tensor.numpy().astype(np.int8) for name, tensor in to_tensors(theory, assignment).items()}
    return World(theory, values, {}, {})


def random_assignment(theory: Theory, rng: random.Random) -> Assignment:
    return {variable: rng.randrange(n) for variable, n in ground_variables(theory, theory.sizes).items()}


def score(theory: Theory, assignment: Assignment, weights: list[Tensor], semantics: str = "exact") -> float:
    """The exponent of Eq. 1: with every variable observed, nothing is left to sum over."""
    return oracle.log_partition(theory, evidence=to_tensors(theory, assignment), semantics=semantics,
                                   weights=weights)


def conditional_scores(theory: Theory, assignment: Assignment, weights: list[Tensor], semantics: str = "exact"
                       ) -> dict[tuple[str, tuple[int, ...]], Tensor]:
    """For each variable the score of every value it could have, all others as they are."""
    return {variable: torch.tensor([score(theory, {**assignment, variable: value}, weights, semantics)
                                    for value in range(n)], dtype=torch.float64)
            for variable, n in ground_variables(theory, theory.sizes).items()}


def all_assignments(theory: Theory) -> list[Assignment]:
    variables = ground_variables(theory, theory.sizes)
    return [dict(zip(variables, values, strict=True)) for values in itertools.product(*map(range, variables.values()))]


def features(theory: Theory, assignment: Assignment) -> Tensor:
    """How many groundings of each rule are true: the score is linear in the weights."""
    return torch.tensor([score(theory, assignment, [torch.tensor(float(f == k)) for k in range(len(theory.rules))])
                         for f in range(len(theory.rules))], dtype=torch.float64)


def newton(loss: Callable[[Tensor], Tensor], n: int) -> Tensor:
    """The minimum of a smooth convex function, by an optimizer that shares nothing with the one under test."""
    w = torch.zeros(n, dtype=torch.float64)
    for _ in range(50):
        gradient = torch.autograd.functional.jacobian(loss, w)
        step = torch.linalg.solve(torch.autograd.functional.hessian(loss, w), gradient)
        w = w - step / max(1.0, float(step.norm()))
    assert float(gradient.abs().max()) < 1e-8
    return w


def to_facts(theory: Theory, assignment: Assignment) -> Evidence:
    """The assignment as a database: the true atoms of plain predicates."""
    lines = []
    for predicate in theory.predicates:
        for (variable, _), value in zip(entries_of(predicate, theory.sizes),
                                        to_tensors(theory, assignment)[predicate.name].flatten(), strict=True):
            args = [theory.type[t].constants[k] for t, k in zip(predicate.types, variable.args, strict=True)]
            lines += [f"{predicate.name}({', '.join(args)})"] if value else []
    return parse_facts("\n".join(lines), theory)
