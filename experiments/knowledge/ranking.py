"""Filtered ranks of triples among all entities, for a missing tail and for a missing head.

    (h, r, ?)     every entity is scored; true answers of any part, other than the one in question, are left out
    rank          1 + entities with a higher score + half of the other entities with an equal one

A score that is equal for all entities has the mean rank of a random order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from logicmp.limits import Progress, silent

from .data import Graph
from .embedding import with_reciprocals

# heads and relations (reciprocals follow the relations), to scores of all entities, [n, entities]
Scorer = Callable[[np.ndarray, np.ndarray], Tensor]
CHUNK = 512


def filtered_ranks(graph: Graph, part: str, scorer: Scorer, progress: Progress = silent) -> np.ndarray:
    """The ranks of all tails, then of all heads, of a part."""
    n_relations = len(graph.relations)
    queries = with_reciprocals(graph.triples[part], n_relations)
    known = with_reciprocals(graph.known, n_relations)
    keys = known[:, 0] * (2 * n_relations) + known[:, 1]
    order = np.argsort(keys, kind="stable")
    keys, answers = keys[order], known[order, 2]
    own = queries[:, 0] * (2 * n_relations) + queries[:, 1]
    first, last = np.searchsorted(keys, own, "left"), np.searchsorted(keys, own, "right")
    # equal queries are scored together
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


def summarize(ranks: np.ndarray) -> dict[str, float]:
    """MRR and the shares of ranks up to 1, 3 and 10."""
    return {"mrr": round(float((1 / ranks).mean()), 4),
            **{f"hits_{k}": round(float((ranks <= k).mean()), 4) for k in (1, 3, 10)}}
