"""The paper's speed ablation: one mean-field iteration with and without each improvement.

    python -m benchmarks ablation --data DIR --split language

All atoms of a UW-CSE split are open. Seconds per iteration are the difference between a long run and a run of one
iteration, divided by the difference in iterations: planning, grounding and compiling are not included. All variants
must give the same answers.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from logicmp import LogicMPError, load_facts, load_theory
from logicmp.execute.worlds import world_tensors
from logicmp.facts.world import build_world
from logicmp.inference.answers import as_probability
from logicmp.inference.mean_field import MeanField
from logicmp.inference.method import Problem
from logicmp.limits import Limits

from .baselines import EinsumPerImplication
from .case import Disagreement
from .sequential import MeanFieldSequential

MAX_GROUNDINGS = 10_000_000
FIXED = {"damping": 0.0, "tolerance": 0.0}
# method name of the variants with one einsum per implication
EINSUM = "einsum"


@dataclass(frozen=True)
class Variant:
    """One way to compute an iteration: which improvements it has, and how many iterations (`updates`) are timed."""

    name: str
    method: str
    updates: int
    is_optimized: bool
    is_parallel: bool
    has_rule_out: bool

    @property
    def improvements(self) -> tuple[bool, bool, bool]:
        return self.is_optimized, self.is_parallel, self.has_rule_out

    @property
    def semantics(self) -> str:
        # Eq. 4-5 treat two literals of one atom as two separate atoms
        return "paper" if self.method == EINSUM else "exact"


VARIANTS = (
    Variant("mean-field: one plan for all rules", "mean-field", 100, True, True, True),
    Variant("one einsum per implication, best order", EINSUM, 20, True, True, True),
    Variant("one einsum per implication, as written", EINSUM, 5, False, True, True),
    Variant("all groundings at once", "mean-field-sequential", 20, False, True, True),
    Variant("one grounding at a time (compiled)", "mean-field-sequential", 20, False, False, True),
    Variant("all at once, no RuleOut", "mean-field-sequential", 3, False, True, False),
    Variant("one at a time, no RuleOut (compiled)", "mean-field-sequential", 3, False, False, False),
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablation", description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("LOGICMP_DATA"),
                        help="folder of the data sets (default: $LOGICMP_DATA)")
    parser.add_argument("--split", default="language", help="split of UW-CSE (default: language)")
    chosen = parser.parse_args(arguments)
    if not chosen.data:
        raise LogicMPError("ablation needs data sets", "pass --data DIR or set LOGICMP_DATA")
    folder = Path(chosen.data) / "relational/uw_cse" / chosen.split
    theory = load_theory(folder)
    problem = Problem(build_world(load_facts(folder, theory), world="open"))
    print(f"| UW-CSE/{chosen.split} | seconds per iteration | relative to mean-field |\n|---|--:|--:|")
    first = None
    for variant in VARIANTS:
        seconds = measure(problem, variant)
        first = first or seconds
        print(f"| {variant.name} | {seconds:.4f} | {seconds / first:.1f}x |", flush=True)
    return 0


def measure(problem: Problem, variant: Variant) -> float:
    """Seconds per iteration; raise `Disagreement` if the answers differ from those of `mean-field`."""
    problem = replace(problem, semantics=variant.semantics, limits=Limits(groundings=MAX_GROUNDINGS))
    run = _einsum(problem, variant) if variant.method == EINSUM else _method(problem, variant)
    taken = []
    # the first run compiles, plans and warms up, so it does not count
    for n in (1, 1 + variant.updates, 1):
        start = time.perf_counter()
        log_odds = run(n)
        taken.append(time.perf_counter() - start)
    check(variant.name, log_odds, MeanField.make({"iterations": 1, **FIXED}).solve(problem).log_odds)
    return (taken[1] - taken[2]) / variant.updates


def _method(problem: Problem, variant: Variant) -> Callable[[int], Mapping[str, np.ndarray]]:
    options = dict(FIXED)
    if variant.method != "mean-field":
        options |= {"parallel": variant.is_parallel, "rule_out": variant.has_rule_out}
    method = MeanField if variant.method == "mean-field" else MeanFieldSequential
    return lambda n: method.make({"iterations": n, **options}).solve(problem).log_odds


def _einsum(problem: Problem, variant: Variant) -> Callable[[int], Mapping[str, np.ndarray]]:
    world = problem.world
    unary, _ = world_tensors(world)
    einsum = EinsumPerImplication(world.theory, world.sizes, unary, is_optimized=variant.is_optimized)
    values = {name: torch.from_numpy(x) for name, x in world.values.items()}

    def run(n: int) -> Mapping[str, np.ndarray]:
        logits = unary
        for _ in range(n):
            q = {name: torch.where(x == -1, torch.sigmoid(logits[name]) if name in logits else 0.0, x.double())
                 for name, x in values.items()}
            messages = einsum.messages(q)
            logits = {name: x + messages[name] for name, x in unary.items()}
        known = {name: torch.where(x == 1, torch.inf, -torch.inf) for name, x in values.items()}
        return {name: torch.where(x == -1, logits.get(name, 0.0), known[name]).numpy()
                for name, x in values.items()}

    return run


def check(name: str, got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> None:
    worst = max(float(np.abs(as_probability(got[p]) - as_probability(odds)).max()) for p, odds in want.items())
    if worst > 1e-6:
        raise Disagreement(f"the answers of {name!r} differ from those of mean-field by {worst:.2g}")
