"""The rows of the table: rules alone, the embedding model alone, and the rules on top of it.

    rules            log-odds of mean field where rules reach an atom; all other atoms share one lower score
    complex          scores of the embedding model
    complex+rules    score + strength * (log(p + floor) - log(floor)), where p is the probability that the rules give

Atoms that no rule reaches have p = 0, so their scores do not change. Strength and floor are chosen on a sample of the
validation triples.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from logicmp.limits import Progress, silent

from ..checkpoint import Checkpoint
from ..files import make_folder
from ..runs import Result, unfinished
from .data import Graph, load_graph
from .embedding import ComplEx, EmbeddingSettings, train_embedding
from .ranking import AtomScores, Scorer, filtered_ranks, summarize
from .rules import Listed, RuleSettings, build_rules, infer_atoms, learn_rules

METHODS = ("rules", "complex", "complex+rules")
# methods that ignore the seed
DETERMINISTIC = ("rules",)
STRENGTHS = (0.1, 0.2, 0.3, 0.5, 0.8)
# logarithms of the floor
FLOORS = (0.0, -1.0, -2.0, -3.0, -5.0)
# below every log-odds that rules give
UNREACHED = -1e4


@dataclass
class Experiment:
    """Options and data of a command; work that several rows share is done once."""

    data: str | None
    results: Path
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    rules: RuleSettings = field(default_factory=RuleSettings)
    # validation triples that strength and floor are chosen on
    n_chosen_on: int = 3000
    progress: Progress = silent
    # a generated graph instead of FB15k-237
    given: Graph | None = None

    @cached_property
    def graph(self) -> Graph:
        return self.given or load_graph(self.data)

    def plan(self, method: str, seed: int = 0) -> Result:
        settings = {} if method == "rules" else asdict(self.embedding)
        settings |= {} if method == "complex" else asdict(self.rules)
        return Result(self.graph.name, "test", method, seed, settings=settings)

    def __call__(self, plan: Result) -> list[Result]:
        """The work of `run_all`."""
        start = time.monotonic()
        if plan.method == "rules":
            ranks = self._ranks("test", self.rule_scorer)
            return [replace(plan, values={**summarize(ranks), "valid_mrr": self._mrr("valid", self.rule_scorer),
                                          **self.rule_values}, seconds=round(time.monotonic() - start, 1))]
        model, seconds = self._embedding(self.plan("complex", plan.seed))
        if plan.method == "complex":
            scorer = _scorer(model)
            return [replace(plan, values={**summarize(self._ranks("test", scorer)),
                                          "valid_mrr": self._mrr("valid", scorer)}, seconds=seconds)]
        strength, floor, chosen_mrr = self._choose(model)
        before = self._ranks("test", _scorer(model))
        after = self._ranks("test", self._combined(_scorer(model), strength, floor))
        gains = 1 / after - 1 / before
        return [replace(plan, values={
            **summarize(after), "gain": round(float(gains.mean()), 5),
            # of the mean over queries
            "gain_error": round(float(gains.std() / len(gains) ** 0.5), 5),
            "valid_mrr": self._mrr("valid", self._combined(_scorer(model), strength, floor)), "chosen_mrr": chosen_mrr,
            "strength": strength, "floor": floor}, seconds=round(time.monotonic() - start, 1))]

    def _ranks(self, part: str, scorer: Scorer) -> np.ndarray:
        return filtered_ranks(self.graph, self.graph.triples[part], scorer, self.progress)

    def _mrr(self, part: str, scorer: Scorer) -> float:
        return summarize(self._ranks(part, scorer))["mrr"]

    # rules

    @cached_property
    def _learned(self) -> tuple[dict[int, Listed], dict[str, float]]:
        """The log-odds of all atoms that rules reach, from a file of an interrupted run if there is one."""
        rules = build_rules(self.graph, self.rules.max_rows)
        for line in rules.skipped:
            print(line, file=sys.stderr)
        path = unfinished(self.plan("rules"), self.results).with_suffix(".npz")
        start = time.monotonic()
        if path.exists():
            with np.load(path) as file:
                values = dict(zip(file["names"].tolist(), file["values"].tolist(), strict=True))
                listed = {int(r): Listed(*(file[f"{what}{r}"] for what in "htx")) for r in file["relations"]}
                return listed, values
        weights = learn_rules(self.graph, rules, self.rules, self.progress)
        learned = time.monotonic()
        listed = infer_atoms(self.graph, rules, weights, self.progress)
        values = {"n_rules": len(self.graph.theory.rules) - len(rules.skipped), "n_skipped": len(rules.skipped),
                  "n_rows": rules.n_rows, "n_atoms": sum(len(x.heads) for x in listed.values()),
                  "learning_seconds": round(learned - start, 1),
                  "inference_seconds": round(time.monotonic() - learned, 1)}
        make_folder(path.parent)
        arrays = {f"{what}{r}": x for r, found in listed.items()
                  for what, x in zip("htx", (found.heads, found.tails, found.log_odds), strict=True)}
        np.savez(path, names=list(values), values=np.array(list(values.values()), dtype=float),
                 relations=np.array(list(listed)), **arrays)  # type: ignore[arg-type]
        return listed, values

    @property
    def rule_values(self) -> Mapping[str, float]:
        return self._learned[1]

    @cached_property
    def rule_scorer(self) -> Scorer:
        return AtomScores(self.graph, self._learned[0], UNREACHED)

    # the embedding model

    def _embedding(self, plan: Result) -> tuple[ComplEx, float]:
        """The trained model of a seed, and the seconds of its training; it is kept for the rows that need it."""
        checkpoint = Checkpoint(unfinished(plan, self.results).with_suffix(".model"))
        model = train_embedding(self.graph, self.embedding, plan.seed, self.progress, checkpoint)
        return model, round(checkpoint.seconds, 1)

    # both

    def _combined(self, scores: Scorer, strength: float, floor: float) -> Scorer:
        more = {}
        for r, x in self._learned[0].items():
            log_p = -np.logaddexp(0, -x.log_odds)
            more[r] = replace(x, log_odds=(strength * (np.logaddexp(log_p, floor) - floor)).astype(np.float32))
        rules = AtomScores(self.graph, more, 0.0)
        return lambda heads, relations: scores(heads, relations) + rules(heads, relations)

    def _choose(self, model: ComplEx) -> tuple[float, float, float]:
        """Strength, floor and MRR of the best combination on a sample of the validation triples."""
        triples = self.graph.triples["valid"]
        sample = np.random.default_rng(0).permutation(len(triples))[: self.n_chosen_on]
        found = []
        scores = _Kept(_scorer(model))
        for strength, floor in itertools.product(STRENGTHS, FLOORS):
            ranks = filtered_ranks(self.graph, triples[sample], self._combined(scores, strength, floor))
            found.append((float((1 / ranks).mean()), strength, floor))
            self.progress("choosing strength and floor", len(found), len(STRENGTHS) * len(FLOORS))
        mrr, strength, floor = max(found)
        return strength, floor, round(mrr, 4)


class _Kept:
    """A scorer that keeps its scores, for calls with the same queries."""

    def __init__(self, scorer: Scorer):
        self.scorer = scorer
        self._kept: dict[bytes, torch.Tensor] = {}

    def __call__(self, heads: np.ndarray, relations: np.ndarray) -> torch.Tensor:
        key = heads.tobytes() + relations.tobytes()
        if key not in self._kept:
            self._kept[key] = self.scorer(heads, relations)
        return self._kept[key]


def _scorer(model: ComplEx) -> Scorer:
    return lambda heads, relations: model.scores(torch.from_numpy(heads), torch.from_numpy(relations))
