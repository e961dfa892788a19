"""Scores of the schedules and of method "auto" on tasks with known truth, compared with references without a layer.

    python -m benchmarks quality                                    # every task but the largest, four columns
    python -m benchmarks quality --tasks clusters orders --schedules paper,adaptive --max-n 64
    python -m benchmarks quality --tasks tree tagger --weight 2     # the same rules with weights
    python -m benchmarks quality --tasks small --seeds 100          # inputs that are narrow because they are small
    python -m benchmarks quality --json quality.json                # skips the cells that the file already has

A task generates logits from a truth and noise by seed; its rules are written as a new user writes them, without
weights. A cell is one task under one schedule, or under method "auto" with the default schedule: the scores over all
seeds. "Chosen here" in the docstring of a generator marks settings for which we had no source. They were chosen on
seeds 0 to 9, so that the input, the reference and, for links, the schedule "paper" score about as in an earlier study;
and no schedule was tuned on these seeds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import string
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from logicmp import LogicMP, LogicMPError
from logicmp.constrain.cluster import best_clusters
from logicmp.execute.schedule import SCHEDULES, make_schedule
from logicmp.files import check_place, read_source, write_whole

from .measure import machine

Array = np.ndarray
# larger tasks run with --large only
LARGE = 200
# the column of method "auto": exact inference where that is cheap, and the default schedule elsewhere
AUTO = "auto"


@dataclass(frozen=True)
class Problem:
    """Logits of one predicate for a seed, with the truth that they are noisy observations of."""

    rules: str
    predicate: str
    # [atoms...], or [atoms..., labels] for a multi-class predicate
    logits: Array
    # [atoms...], bool or numbers of labels
    truth: Array
    metric: Callable[[Array, Array], float]
    # returns the predictions of the reference, None if its package is not installed
    reference: Callable[[], Array | None]
    evidence: dict[str, Array] = field(default_factory=dict)
    # [atoms...]: the atoms that are scored, by default all
    counted: Array | None = None

    def score(self, predicted: Array) -> float:
        counted = np.ones(self.truth.shape, dtype=bool) if self.counted is None else self.counted
        return self.metric(predicted[counted], self.truth[counted])

    def decide(self, logits: Array) -> Array:
        return logits > 0 if self.truth.dtype == bool else logits.argmax(-1)


@dataclass(frozen=True)
class Task:
    """A generator of problems by seed."""

    name: str
    # the largest number of entities of a type
    n: int
    make: Callable[[np.random.Generator], Problem]


def f1(predicted: Array, truth: Array) -> float:
    """F1 of the true atoms.

    >>> f1(np.array([True, True, False]), np.array([True, False, True]))
    0.5
    """
    n = int(predicted.sum() + truth.sum())
    return 2 * int((predicted & truth).sum()) / n if n else 1.0


def accuracy(predicted: Array, truth: Array) -> float:
    return float((predicted == truth).mean())


def _softmax(logits: Array) -> Array:
    return np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))


def loopy_bp(logits: Array, is_linked: Array, p_equal: float, p_other: float, rounds: int = 50) -> Array:
    """Log beliefs [n, labels] of belief propagation, given the chances of a link between equal and other labels."""
    links = np.argwhere(np.triu(is_linked))
    sender, receiver = np.concatenate([links, links[:, ::-1]]).T
    messages, missing = np.zeros((len(sender), logits.shape[1])), np.zeros(logits.shape[1])
    for _ in range(rounds):
        # a missing link is weak evidence, but there are many: without them one label takes all nodes
        beliefs = logits + missing
        np.add.at(beliefs, receiver, messages)
        missing = -(p_equal - p_other) * _softmax(beliefs).sum(0)
        # a message does not return to its sender
        cavity = _softmax(beliefs[sender] - np.roll(messages, len(links), 0))
        new = np.log1p((p_equal / p_other - 1) * cavity)
        messages = 0.5 * messages + 0.5 * (new - new.mean(1, keepdims=True))
    return beliefs


def viterbi(logits: Array, allowed: Array) -> Array:
    """The best labels [sequences, tokens] of logits [sequences, tokens, labels] under allowed [labels, labels]."""
    penalty = np.where(allowed, 0.0, -np.inf)
    scores, pointers = logits[:, 0], []
    for t in range(1, logits.shape[1]):
        # [sequences, label before, label]
        steps = scores[:, :, None] + penalty
        pointers.append(steps.argmax(1))
        scores = steps.max(1) + logits[:, t]
    labels = [scores.argmax(1)]
    for pointer in reversed(pointers):
        labels.append(pointer[np.arange(len(pointer)), labels[-1]])
    return np.stack(labels[::-1], 1)


def best_tags(logits: Array, parents: Array) -> Array:
    """The best tags [items, tags] if a tag needs its parent; a parent has a smaller number than its children."""
    gain = logits.copy()
    for tag in range(len(parents) - 1, 0, -1):
        gain[:, parents[tag]] += gain[:, tag].clip(0)
    tags = gain > 0
    for tag in range(1, len(parents)):
        tags[:, tag] &= tags[:, parents[tag]]
    return tags


def _cluster_reference(logits: Array) -> Array:
    labels, _ = best_clusters((logits + logits.T) / 2, max_seconds=5)
    return labels[:, None] == labels


def _borda(logits: Array) -> Array:
    """Less(a, b) where b stands higher than a: the sums of the logits decide."""
    standing = logits.sum(0)
    return standing[:, None] < standing


def _assignment(logits: Array) -> Array | None:
    if importlib.util.find_spec("scipy") is None:
        return None
    from scipy.optimize import linear_sum_assignment

    matched = np.zeros(logits.shape, dtype=bool)
    matched[linear_sum_assignment(logits, maximize=True)] = True
    return matched


# generators


def _observe(truth: Array, noise: float, rng: np.random.Generator) -> Array:
    """1 for true, -1 for false, and Gaussian noise."""
    return 2.0 * truth - 1 + noise * rng.normal(size=truth.shape)


def clusters(n: int, k: int, noise: float, scale: float, rng: np.random.Generator) -> Problem:
    """n elements, each in one of k clusters at random; pairs are observed with the mean noise of their two orders."""
    labels = rng.integers(k, size=n)
    truth = labels[:, None] == labels
    logits = _observe(truth, noise, rng)
    return _clusters(truth, scale * (logits + logits.T) / 2)


def draw_points(n: int, k: int, spread: float, rng: np.random.Generator, d: int = 8) -> tuple[Array, Array]:
    """Labels [n] of k clusters, and points [n, d] around the Gaussian centres of their clusters."""
    labels = rng.integers(k, size=n)
    return labels, rng.normal(size=(k, d))[labels] + spread * rng.normal(size=(n, d))


def correlated_clusters(n: int, k: int, spread: float, rng: np.random.Generator) -> Problem:
    """Elements are points around the centre of their cluster; logits are the log-odds of a pair given its distance.

    Calibrated for each pair, but a point far from its centre is wrong in all its pairs. Chosen here: Gaussian centres
    of variance 1 in 8 dimensions, and the spreads.
    """
    labels, points = draw_points(n, k, spread, rng)
    distance = ((points[:, None] - points) ** 2).sum(-1)
    near, far = spread**2, 1 + spread**2
    logits = points.shape[1] / 2 * np.log(far / near) - distance / 4 * (1 / near - 1 / far) - np.log(k - 1)
    return _clusters(labels[:, None] == labels, logits)


def _clusters(truth: Array, logits: Array) -> Problem:
    return Problem("C(a,b) ^ C(b,c) => C(a,c)", "C", logits, truth, f1, partial(_cluster_reference, logits),
                   counted=~np.eye(len(truth), dtype=bool))


def order(n: int, noise: float, rule: str, rng: np.random.Generator) -> Problem:
    """A total order, with transitivity and `rule`; both directions of a pair are observed, each with its own noise."""
    place = rng.permutation(n)
    truth = place[:, None] < place
    logits = _observe(truth, noise, rng)
    return Problem(f"Less(a,b) ^ Less(b,c) => Less(a,c)\n{rule}", "Less", logits, truth, accuracy,
                   partial(_borda, logits), counted=~np.eye(n, dtype=bool))


def _draw_links(labels: Array, p_equal: float, p_other: float, rng: np.random.Generator) -> Array:
    """[n, n], symmetric: each pair is linked with the probability of its labels."""
    p = np.where(labels[:, None] == labels, p_equal, p_other)
    is_linked = np.triu(rng.random(p.shape) < p, 1)
    return is_linked | is_linked.T


def graph(n: int, homophily: float, rng: np.random.Generator, k: int = 4, degree: float = 6) -> Problem:
    """Labels on a graph where a share `homophily` of the links joins equal labels; 1/k is the share of random links.

    Chosen here: 200 nodes, 4 labels, mean degree 6, noise 1.2; a link is a fact in one direction, like a citation.
    """
    labels = rng.integers(k, size=n)
    logits = np.eye(k)[labels] + 1.2 * rng.normal(size=(n, k))
    chances = degree * homophily * k / n, degree * (1 - homophily) * k / (n * (k - 1))
    is_linked = _draw_links(labels, *chances, rng)
    names = string.ascii_uppercase[:k]
    rules = [f"label(node) in {{{', '.join(names)}}}", "*Link(node, node)",
             *(f"Link(a,b) ^ label(a) = {x} => label(b) = {x}" for x in names)]
    return Problem("\n".join(rules), "label", logits, labels, accuracy,
                   lambda: loopy_bp(logits, is_linked, *chances).argmax(1), {"Link": np.triu(is_linked)})


def smokers(n: int, share: float, rng: np.random.Generator) -> Problem:
    """People of whom a share smokes, with links mostly between equals; the rule is one-sided, as it is usually written.

    Chosen here: 200 people, chances of a link 0.048 (equals) and 0.012, noise 0.95; friends are mutual.
    """
    truth = rng.random(n) < share
    logits = _observe(truth, 0.95, rng)
    is_linked = _draw_links(truth, 0.048, 0.012, rng)
    both = np.stack([0 * logits, logits], 1)
    return Problem("Smokes(person)\n*Friends(person, person)\nFriends(a,b) ^ Smokes(a) => Smokes(b)", "Smokes", logits,
                   truth, f1, lambda: loopy_bp(both, is_linked, 0.048, 0.012).argmax(1) == 1, {"Friends": is_linked})


def tree(n: int, rng: np.random.Generator) -> Problem:
    """Tags of items. Chosen here: 1 + 3 + 9 + 27 tags, a tag with half of its parents, the root always; noise 1."""
    parents = np.array([0, *((tag - 1) // 3 for tag in range(1, 40))])
    truth = rng.random((n, 40)) < 0.5
    truth[:, 0] = True
    for tag in range(1, 40):
        truth[:, tag] &= truth[:, parents[tag]]
    logits = _observe(truth, 1.0, rng)
    is_parent = np.zeros((40, 40), dtype=bool)
    is_parent[np.arange(1, 40), parents[1:]] = True
    return Problem("Has(item, tag)\n*Parent(tag, tag)\nHas(i,c) ^ Parent(c,p) => Has(i,p)", "Has", logits, truth, f1,
                   partial(best_tags, logits, parents), {"Parent": is_parent})


def tagger(n: int, rng: np.random.Generator, k: int = 6) -> Problem:
    """Labels that repeat or change to the next one, in a circle. Chosen here: 20 sequences, 6 labels, noise 0.85."""
    truth = (rng.integers(k, size=(20, 1)) + np.cumsum(rng.random((20, n)) < 0.5, 1)) % k
    logits = np.eye(k)[truth] + 0.85 * rng.normal(size=(20, n, k))
    names = string.ascii_uppercase[:k]
    rules = [f"label(token) in {{{', '.join(names)}}}",
             *(f"label(i) = {x} => label(i+1) in {{{x}, {names[(j + 1) % k]}}}" for j, x in enumerate(names))]
    allowed = np.eye(k, dtype=bool) | np.roll(np.eye(k, dtype=bool), 1, 1)
    return Problem("\n".join(rules), "label", logits, truth, accuracy, lambda: viterbi(logits, allowed))


def matching(n: int, rng: np.random.Generator) -> Problem:
    """A one-to-one matching of two sets. Chosen here: noise 0.83."""
    truth = np.eye(n, dtype=bool)[rng.permutation(n)]
    logits = _observe(truth, 0.83, rng)
    return Problem("Match(left, right)\nMatch(a,b) ^ Match(a,c) => b = c\nMatch(a,b) ^ Match(c,b) => a = c", "Match",
                   logits, truth, f1, partial(_assignment, logits))


TASKS = (
    *(Task(f"clusters-{n}-in-{k}", n, partial(clusters, n, k, 1.2, 1.0))
      for n, k in ((32, 6), (64, 8), (64, 20), (128, 12), (200, 60), (512, 40))),
    Task("clusters-64-in-8-weak", 64, partial(clusters, 64, 8, 1.2, 0.3)),
    *(Task(f"clusters-correlated-{name}", 64, partial(correlated_clusters, 64, 8, spread))
      for name, spread in (("mild", 0.4), ("mid", 0.6), ("bad", 0.85))),
    *(Task(f"order-{n}", n, partial(order, n, 2.8, "Less(a,b) => !Less(b,a)")) for n in (60, 200)),
    *(Task(f"order-total-{n}", n, partial(order, n, 2.8, "a != b => (Less(a,b) <=> !Less(b,a))")) for n in (60, 200)),
    *(Task(f"graph-{h}", 200, partial(graph, 200, h)) for h in (0.8, 0.6, 0.4)),
    Task("graph-wrong-rule", 200, partial(graph, 200, 0.25)),
    Task("tree", 100, partial(tree, 100)),
    Task("tagger", 50, partial(tagger, 50)),
    *(Task(f"smokers-{share}", 200, partial(smokers, 200, share)) for share in (0.5, 0.3)),
    *(Task(f"matching-{n}", n, partial(matching, n)) for n in (30, 100)),
    # narrow because they are small: 5 seeds say little about them
    Task("small-clusters", 3, partial(clusters, 3, 2, 1.2, 1.0)),
    Task("small-tagger", 10, partial(tagger, 10)),
    Task("small-graph", 20, partial(graph, 20, 0.4, degree=2)),
    Task("small-smokers", 40, partial(smokers, 40, 0.5)),
)


def with_weight(rules: str, weight: float | None) -> str:
    """Rules with one weight for all, or as they are.

    >>> with_weight("Smokes(person)\\nSmokes(a) => Smokes(b)", 2)
    'Smokes(person)\\n2 Smokes(a) => Smokes(b)'
    """
    return "\n".join(f"{weight:g} {line}" if weight is not None and "=>" in line else line
                     for line in rules.splitlines())


def make_layer(rules: str, column: str) -> LogicMP:
    return LogicMP(rules, method=AUTO) if column == AUTO else LogicMP(rules, schedule=column)


def describe(column: str, weight: float | None) -> str:
    """The settings of a column, as they are stored."""
    found = f"method={AUTO!r}, {SCHEDULES['adaptive']}" if column == AUTO else str(make_schedule(column))
    return found if weight is None else f"weight {weight:g}, {found}"


def run_layer(layer: LogicMP, problem: Problem) -> tuple[Array, float]:
    """The logits that the layer returns, and its seconds."""
    unary = {problem.predicate: torch.from_numpy(problem.logits).float()}
    evidence = {name: torch.from_numpy(array) for name, array in problem.evidence.items()}
    with torch.no_grad():
        start = time.perf_counter()
        logits = layer(unary, evidence)[problem.predicate]
    return logits.numpy(), time.perf_counter() - start


def run_tasks(tasks: Sequence[Task], settings: Mapping[str, str], seeds: Sequence[int], stored: dict[str, Any],
              keep: Callable[[], None], say: Callable[[str], None], weight: float | None = None) -> None:
    """Add the missing cells to `stored`, and call `keep` after each.

    Args:
        settings: of each schedule, by its name; a stored cell with other settings is computed again.
        weight: of all rules; None for rules without weights.
    """
    for task in tasks:
        row = stored["tasks"].setdefault(task.name, {"cells": {}})
        missing = [name for name in settings if row["cells"].get(name, {}).get("settings") != settings[name]]
        if not missing and "reference" in row:
            continue
        problems = [task.make(np.random.default_rng(seed)) for seed in seeds]
        if "reference" not in row:
            found = [problem.reference() for problem in problems]
            row["input"] = [p.score(p.decide(p.logits)) for p in problems]
            row["reference"] = [None if x is None else p.score(x) for p, x in zip(problems, found, strict=True)]
            keep()
        for name in missing:
            layer = make_layer(with_weight(problems[0].rules, weight), name)
            # the first call plans
            run_layer(layer, problems[0])
            runs = [run_layer(layer, problem) for problem in problems]
            scores = [p.score(p.decide(logits)) for p, (logits, _) in zip(problems, runs, strict=True)]
            row["cells"][name] = {"settings": settings[name], "scores": scores,
                                  "seconds": [seconds for _, seconds in runs]}
            keep()
            say(f"{task.name}, {name}: {statistics.fmean(scores):.3f}")


def as_markdown(stored: dict[str, Any], tasks: Sequence[str], schedules: Sequence[str]) -> str:
    """Two tables: mean scores by task, and for each cell deviation, share of the reference and milliseconds."""
    scores = [f"| task | input | {' | '.join(schedules)} | reference |", "|---|" + "--:|" * (len(schedules) + 2)]
    details = ["| task | schedule | score | deviation | share of reference (%) | time (ms) |",
               "|---|---|--:|--:|--:|--:|"]
    for task in tasks:
        row = stored["tasks"][task]
        cells = {name: row["cells"][name] for name in schedules}
        means = {name: statistics.fmean(cell["scores"]) for name, cell in cells.items()}
        reference = None if None in row["reference"] else statistics.fmean(row["reference"])
        numbers = [statistics.fmean(row["input"]), *means.values(), reference]
        scores.append(f"| {task} | {' | '.join('' if x is None else f'{x:.3f}' for x in numbers)} |")
        for name, cell in cells.items():
            deviation = f"{statistics.stdev(cell['scores']):.3f}" if len(cell["scores"]) > 1 else ""
            share = f"{100 * means[name] / reference:.1f}" if reference else ""
            details.append(f"| {task} | {name} | {means[name]:.3f} | {deviation} | {share} | "
                           f"{1000 * statistics.median(cell['seconds']):.1f} |")
    return "\n".join([*scores, "", *details])


def _read(path: Path | None, seeds: list[int]) -> dict[str, Any]:
    """The stored cells, or a place for new ones."""
    if path is None or not path.exists():
        return {"seeds": seeds, "tasks": {}}
    try:
        stored = json.loads(read_source(path).text)
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or stored.get("seeds") != seeds or "tasks" not in stored:
        raise LogicMPError(f"{str(path)!r} has no cells for seeds {seeds[0]} to {seeds[-1]}",
                           "give a new file, or the seeds that it was made with")
    return stored


def main(arguments: list[str] | None = None, show: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks quality", description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=[""], metavar="TASK",
                        help="tasks whose name contains one of these (default: all)")
    parser.add_argument("--schedules", default=f"paper,adaptive,cold,{AUTO}", metavar="S,S",
                        help=f"names of schedules, and {AUTO} (default: paper,adaptive,cold,{AUTO})")
    parser.add_argument("--weight", type=float, metavar="W", help="give all rules this weight (default: none)")
    parser.add_argument("--seeds", type=int, default=5, metavar="K", help="number of seeds (default: 5)")
    parser.add_argument("--first-seed", type=int, default=100, metavar="N", help="the first of them (default: 100)")
    parser.add_argument("--max-n", type=int, metavar="N", help="skip tasks with more entities")
    parser.add_argument("--large", action="store_true", help="also run clusters of 512 elements")
    parser.add_argument("--threads", type=int, metavar="T", help="threads of torch (default: torch's own)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store cells there; skip those that it has")
    chosen = parser.parse_args(arguments)
    settings = {name: describe(name, chosen.weight) for name in chosen.schedules.split(",")}
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    if chosen.seeds < 1 or chosen.first_seed < 0:
        raise LogicMPError("--seeds must be at least 1 and --first-seed at least 0")
    tasks = [task for task in TASKS if any(part in task.name for part in chosen.tasks)
             and (chosen.large or task.n <= LARGE) and (chosen.max_n is None or task.n <= chosen.max_n)]
    if not tasks:
        raise LogicMPError("no task is chosen", f"available tasks: {', '.join(task.name for task in TASKS)}")
    seeds = list(range(chosen.first_seed, chosen.first_seed + chosen.seeds))
    check_place(chosen.json)
    stored = _read(chosen.json, seeds)
    # of the last run that added to the file
    stored["machine"] = machine()

    def keep() -> None:
        if chosen.json:
            write_whole(chosen.json, json.dumps(stored, indent=1) + "\n", "scores")

    run_tasks(tasks, settings, seeds, stored, keep, lambda text: print(text, file=sys.stderr), chosen.weight)
    show(as_markdown(stored, [task.name for task in tasks], list(settings)))
    return 0
