"""The paper's speed ablation: one mean-field update with and without each of its improvements.

    python -m benchmarks ablation --data DIR --split language

Every atom of a UW-CSE split is open. The seconds of an update are those of a long run minus those of one update, over
the rest, so that planning, grounding and compiling do not count. All variants must give the same answers.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from logicmp import LogicMPError, load_facts, load_theory
from logicmp.ground import build_world
from logicmp.infer import METHODS
from logicmp.infer.base import Problem, Solution, as_probability

from .case import Disagreement

# name: method, options, and how many updates are timed
VARIANTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "mean-field, no groundings": ("mean-field", {}, 100),
    "RuleOut, one by one (compiled)": ("mean-field-sequential", {}, 20),
    "RuleOut, all groundings at once": ("mean-field-sequential", {"parallel": True}, 20),
    "no RuleOut, one by one (compiled)": ("mean-field-sequential", {"rule_out": False}, 3),
    "no RuleOut, all groundings at once": ("mean-field-sequential", {"rule_out": False, "parallel": True}, 3),
}
MAX_GROUNDINGS = 10_000_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablation", description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("LOGICMP_DATA"),
                        help="the data sets (default: $LOGICMP_DATA)")
    parser.add_argument("--split", default="language", help="of UW-CSE (default: language)")
    chosen = parser.parse_args(arguments)
    if not chosen.data:
        raise LogicMPError("the ablation needs the data sets", "give --data, or set LOGICMP_DATA")
    folder = Path(chosen.data) / "relational/uw_cse" / chosen.split
    theory = load_theory(folder)
    problem = Problem(build_world(load_facts(folder, theory), world="open"))
    print(f"| UW-CSE/{chosen.split} | seconds an update | of mean-field |\n|---|--:|--:|")
    first: tuple[float, Solution] | None = None
    for name, (method, options, updates) in VARIANTS.items():
        seconds, solution = seconds_per_update(problem, method, options, updates)
        first = first or (seconds, solution)
        check(name, solution, first[1])
        print(f"| {name} | {seconds:.4f} | {seconds / first[0]:.1f}x |", flush=True)
    return 0


def seconds_per_update(problem: Problem, method: str, options: dict[str, Any], updates: int) -> tuple[float, Solution]:
    """The time of one more update, and what one update gives."""
    fixed = {"damping": 0.0, "tolerance": 0.0, **options}
    if method != "mean-field":
        fixed["max_groundings"] = MAX_GROUNDINGS
    taken = []
    # the first run compiles, plans and warms up
    for n in (1, 1 + updates, 1):
        start = time.perf_counter()
        solution = METHODS[method].make({"iterations": n, **fixed}).solve(problem)
        taken.append(time.perf_counter() - start)
    return (taken[1] - taken[2]) / updates, solution


def check(name: str, got: Solution, want: Solution) -> None:
    worst = max(float(np.abs(as_probability(got.log_odds[p]) - as_probability(odds)).max())
                for p, odds in want.log_odds.items())
    if worst > 1e-6:
        raise Disagreement(f"{name} gives other answers than mean-field: they differ by {worst:.2g}")
