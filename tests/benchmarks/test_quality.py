"""The benchmark of the schedules: its generators, metrics, references, stored cells and tables, at tiny sizes."""

from __future__ import annotations

import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import quality
from benchmarks.__main__ import main
from benchmarks.quality import Problem, Task
from logicmp import LogicMP

SEED = 3
TOTAL = "a != b => (Less(a,b) <=> !Less(b,a))"
SATISFIED = {
    "clusters": partial(quality.clusters, 9, 3, 1.2, 1.0),
    "correlated clusters": partial(quality.correlated_clusters, 9, 3, 0.6),
    "order": partial(quality.order, 7, 2.8, "Less(a,b) => !Less(b,a)"),
    "total order": partial(quality.order, 7, 2.8, TOTAL),
    "tree": partial(quality.tree, 3),
    "tagger": partial(quality.tagger, 6),
    "matching": partial(quality.matching, 5),
}
VIOLATED = {"graph": partial(quality.graph, 40, 0.6), "smokers": partial(quality.smokers, 40, 0.5)}


def violations(problem: Problem, values: np.ndarray) -> float:
    certain = 50 * (2 * values - 1.0) if values.dtype == bool else 50 * np.eye(problem.logits.shape[-1])[values]
    evidence = {name: torch.from_numpy(array) for name, array in problem.evidence.items()}
    counts = LogicMP(problem.rules).violations({problem.predicate: torch.from_numpy(certain).float()}, evidence)
    return float(counts.sum())


@pytest.mark.parametrize("name", SATISFIED)
def test_the_truth_satisfies_the_rules_and_the_input_does_not(name: str) -> None:
    problem = SATISFIED[name](np.random.default_rng(SEED))
    assert violations(problem, problem.truth) == pytest.approx(0, abs=1e-6)
    assert violations(problem, problem.decide(problem.logits)) > 0.9


def test_graphs_have_the_homophily_they_were_asked_for() -> None:
    for homophily in (0.8, 0.25):
        problem = quality.graph(400, homophily, np.random.default_rng(SEED))
        a, b = np.nonzero(problem.evidence["Link"])
        assert 2 * len(a) / 400 == pytest.approx(6, abs=1)
        assert (problem.truth[a] == problem.truth[b]).mean() == pytest.approx(homophily, abs=0.05)


@pytest.mark.parametrize("name", [*SATISFIED, *VIOLATED])
def test_a_seed_gives_the_same_problem_and_another_seed_another_one(name: str) -> None:
    make = {**SATISFIED, **VIOLATED}[name]
    first, again, other = (make(np.random.default_rng(seed)) for seed in (SEED, SEED, SEED + 1))
    assert (first.logits == again.logits).all() and (first.truth == again.truth).all()
    assert (first.logits != other.logits).any()


@pytest.mark.parametrize("name", ["tree", "tagger"])
def test_auto_reaches_the_reference_on_narrow_tasks(name: str) -> None:
    make = {"tree": partial(quality.tree, 20), "tagger": partial(quality.tagger, 30)}[name]
    problems = [make(np.random.default_rng(seed)) for seed in range(3)]
    scores = []
    for column in ("adaptive", quality.AUTO):
        layer = quality.make_layer(problems[0].rules, column)
        scores.append(np.mean([p.score(p.decide(quality.run_layer(layer, p)[0])) for p in problems]))
    reference = np.mean([p.score(p.reference()) for p in problems])
    assert scores[1] > scores[0] and scores[1] > reference - 0.005


def test_every_task_has_a_name_of_its_own() -> None:
    assert len({task.name for task in quality.TASKS}) == len(quality.TASKS)


def test_scores_by_hand() -> None:
    truth = np.array([[True, True, False], [True, True, False], [False, False, True]])
    predicted = np.array([[False, True, True], [False, False, False], [False, False, False]])
    off_diagonal = ~np.eye(3, dtype=bool)
    problem = Problem("", "C", truth, truth, quality.f1, lambda: None, counted=off_diagonal)
    # one of two predicted pairs is right, one of two true pairs is found
    assert problem.score(predicted) == 0.5
    assert problem.score(truth) == 1
    assert quality.f1(np.zeros(2, dtype=bool), np.array([True, False])) == 0
    assert quality.f1(np.zeros(2, dtype=bool), np.zeros(2, dtype=bool)) == 1
    assert quality.accuracy(np.array([0, 1, 2, 2]), np.array([0, 1, 1, 2])) == 0.75
    labels = Problem("", "label", np.array([[0.1, 0.2], [3, 0]]), np.array([1, 0]), quality.accuracy, lambda: None)
    assert labels.decide(labels.logits).tolist() == [1, 0]


def test_references_return_the_truth_without_noise() -> None:
    for problem in (quality.clusters(9, 3, 0.0, 1.0, np.random.default_rng(SEED)),
                    quality.order(7, 0.0, TOTAL, np.random.default_rng(SEED))):
        found = problem.reference()
        assert found is not None and problem.score(found) == 1


def test_belief_propagation_equals_enumeration_on_a_path() -> None:
    logits = np.array([[0.3, -0.2], [0.0, 0.4], [1.0, 0.1]])
    is_linked = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    weights = np.zeros((3, 2))
    # chances this small leave nothing to missing links, and their ratio is 3
    for labels in itertools.product(range(2), repeat=3):
        weight = np.exp(logits[range(3), labels].sum()) * 3 ** ((labels[0] == labels[1]) + (labels[1] == labels[2]))
        weights[range(3), labels] += weight
    beliefs = quality.loopy_bp(logits, is_linked, 3e-9, 1e-9)
    np.testing.assert_allclose(quality._softmax(beliefs), weights / weights.sum(1, keepdims=True), atol=1e-6)


def test_viterbi_and_the_best_tags_equal_enumeration() -> None:
    rng = np.random.default_rng(SEED)
    logits, allowed = rng.normal(size=(1, 4, 3)), np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
    valid = [x for x in itertools.product(range(3), repeat=4) if all(allowed[a, b] for a, b in itertools.pairwise(x))]
    best = max(valid, key=lambda labels: logits[0, range(4), labels].sum())
    assert quality.viterbi(logits, allowed)[0].tolist() == list(best)
    parents = np.array([0, 0, 0, 1, 1])
    for logits in rng.normal(size=(10, 1, 5)):
        closed = [x for x in itertools.product((0, 1), repeat=5) if all(x[p] >= x[t] for t, p in enumerate(parents))]
        best = max(closed, key=lambda tags: (logits[0] * tags).sum())
        assert quality.best_tags(logits, parents)[0].astype(int).tolist() == list(best)


def test_the_best_assignment_is_empty_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality.importlib.util, "find_spec", lambda name: None)
    assert quality.matching(4, np.random.default_rng(SEED)).reference() is None


STORED = {"seeds": [0, 1], "tasks": {"small": {
    "input": [0.5, 0.7], "reference": [0.8, 0.8],
    "cells": {"paper": {"settings": "", "scores": [0.2, 0.4], "seconds": [0.001, 0.003]},
              "cold": {"settings": "", "scores": [0.8, 0.8], "seconds": [0.25, 0.25]}}}}}
TABLES = """\
| task | input | paper | cold | reference |
|---|--:|--:|--:|--:|
| small | 0.600 | 0.300 | 0.800 | 0.800 |

| task | schedule | score | deviation | share of reference (%) | time (ms) |
|---|---|--:|--:|--:|--:|
| small | paper | 0.300 | 0.141 | 37.5 | 2.0 |
| small | cold | 0.800 | 0.000 | 100.0 | 250.0 |"""


def test_the_tables_of_stored_cells() -> None:
    assert quality.as_markdown(STORED, ["small"], ["paper", "cold"]) == TABLES


def test_a_reference_that_is_missing_leaves_empty_cells() -> None:
    stored = json.loads(json.dumps(STORED))
    stored["tasks"]["small"]["reference"] = [None, None]
    text = quality.as_markdown(stored, ["small"], ["paper"])
    assert "| small | 0.600 | 0.300 |  |" in text and "| small | paper | 0.300 | 0.141 |  | 2.0 |" in text


def test_a_run_resumes_and_repeats_cells_of_other_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(quality, "TASKS", (Task("small", 9, SATISFIED["clusters"]),
                                           Task("huge", 900, SATISFIED["clusters"])))
    path = tmp_path / "cells.json"
    command = ["quality", "--seeds", "2", "--json", str(path), "--schedules"]
    assert main([*command, "paper"]) == 0
    first = capsys.readouterr()
    assert first.err.startswith("small, paper: ") and "huge" not in first.out
    # a score that no run gives shows whether a cell was computed again
    stored = json.loads(path.read_text())
    stored["tasks"]["small"]["cells"]["paper"]["scores"] = [7, 7]
    path.write_text(json.dumps(stored))
    assert main([*command, "paper,cold"]) == 0
    second = capsys.readouterr()
    assert second.err.startswith("small, cold: ") and "| small | paper | 7.000 |" in second.out
    stored = json.loads(path.read_text())
    stored["tasks"]["small"]["cells"]["paper"]["settings"] = "Schedule(iterations=1)"
    path.write_text(json.dumps(stored))
    assert main([*command, "paper,cold"]) == 0
    third = capsys.readouterr()
    assert third.err.startswith("small, paper: ") and "cold: " not in third.err
    cells = json.loads(path.read_text())["tasks"]["small"]["cells"]
    assert 7 not in cells["paper"]["scores"] and len(cells["paper"]["scores"]) == 2


@pytest.mark.parametrize("arguments, message", [
    (["--schedules", "warm"], "unknown schedule 'warm'"),
    (["--tasks", "nothing"], "no task is chosen"),
    (["--seeds", "0"], "--seeds must be at least 1"),
    (["--tasks", "tagger", "--max-n", "9"], "no task is chosen"),
])
def test_a_wrong_argument_is_an_error(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quality", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"seeds": [1], "tasks": {}}'])
def test_a_file_of_other_seeds_is_not_overwritten(text: str, tmp_path: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cells.json"
    path.write_text(text)
    assert main(["quality", "--tasks", "matching-30", "--json", str(path)]) == 1
    assert "has no cells for seeds 100 to 104" in capsys.readouterr().err
    assert path.read_text() == text
