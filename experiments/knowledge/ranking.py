"""Filtered ranks of triples among all entities, for a missing tail and for a missing head.

    (h, r, ?)     every entity is scored; true answers of any part, other than the one in question, are left out
    rank          1 + entities with a higher score + half of the other entities with an equal one

A score that is equal for all entities has the mean rank of a random order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from logicmp.limits import Progress, silent

from .data import Graph
from .embedding import with_reciprocals
from .rules import Listed

# heads and relations (reciprocals follow the relations), to scores of all entities, [n, entities]
Scorer = Callable[[np.ndarray, np.ndarray], Tensor]
CHUNK = 512


def filtered_ranks(graph: Graph, triples: np.ndarray, scorer: Scorer, progress: Progress = silent) -> np.ndarray:
    """The ranks of all tails, then of all heads, of some triples."""
    n_relations = len(graph.relations)
    queries = with_reciprocals(triples, n_relations)
    known = with_reciprocals(graph.known, n_relations)
    keys = known[:, 1] * graph.n_entities + known[:, 0]
    order = np.argsort(keys, kind="stable")
    keys, answers = keys[order], known[order, 2]
    own = queries[:, 1] * graph.n_entities + queries[:, 0]
    first, last = np.searchsorted(keys, own, "left"), np.searchsorted(keys, own, "right")
    # queries of one relation are scored together
    sequence = np.argsort(own, kind="stable")
    ranks = np.empty(len(queries))
    for start in range(0, len(queries), CHUNK):
        chosen = sequence[start : start + CHUNK]
        scores = scorer(queries[chosen, 0], queries[chosen, 1])
        counts = last[chosen] - first[chosen]
        rows = np.repeat(np.arange(len(chosen)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + first[chosen][rows]
        at = torch.arange(len(chosen)), torch.from_numpy(queries[chosen, 2])
        target = scores[at].unsqueeze(1).clone()
        scores[torch.from_numpy(rows), torch.from_numpy(answers[place])] = -torch.inf
        higher = (scores > target).sum(1)
        equal = (scores == target).sum(1)
        # the one in question was left out with the others
        ranks[chosen] = (1 + higher + equal / 2).numpy()
        progress("ranking", start + len(chosen), len(queries))
    return ranks


class AtomScores:
    """Scores of listed atoms as a scorer; all other atoms have one score.

    Args:
        graph: the entities and relations.
        listed: by relation, heads in order, tails, and a score for each atom.
        base: the score of atoms that are not listed.
    """

    def __init__(self, graph: Graph, listed: Mapping[int, Listed], base: float):
        self.n_entities, self.n_relations = graph.n_entities, len(graph.relations)
        self.listed, self.base = listed, base
        # of the last relation: entities to look up, in order, the others, and scores
        self._sorted: tuple[int, np.ndarray, np.ndarray, np.ndarray] | None = None

    def _by_entity(self, relation: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        if self._sorted is None or self._sorted[0] != relation:
            found = self.listed[relation % self.n_relations]
            if relation < self.n_relations:
                self._sorted = relation, found.heads, found.tails, found.log_odds
            else:
                order = np.argsort(found.tails, kind="stable")
                self._sorted = relation, found.tails[order], found.heads[order], found.log_odds[order]
        return self._sorted

    def __call__(self, heads: np.ndarray, relations: np.ndarray) -> Tensor:
        scores = torch.full((len(heads), self.n_entities), self.base)
        for k, (head, relation) in enumerate(zip(heads.tolist(), relations.tolist(), strict=True)):
            if relation % self.n_relations in self.listed:
                _, keys, others, values = self._by_entity(relation)
                first, last = np.searchsorted(keys, [head, head + 1])
                scores[k, torch.from_numpy(others[first:last].astype(np.int64))] = torch.from_numpy(values[first:last])
        return scores


def summarize(ranks: np.ndarray) -> dict[str, float]:
    """MRR and the shares of ranks up to 1, 3 and 10."""
    return {"mrr": round(float((1 / ranks).mean()), 4),
            **{f"hits_{k}": round(float((ranks <= k).mean()), 4) for k in (1, 3, 10)}}
