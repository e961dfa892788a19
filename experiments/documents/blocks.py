"""Read blocks from pairs, the same way for all pair methods, and score blocks.

    read_blocks(log_odds)      the blocks of a page: words connected by likely pairs
    score(found, true)         F1 of blocks that match exactly, of all blocks or of the long ones
    agreement(pages)           F1 of pairs and the adjusted Rand index

A pair is likely if the mean log-odds of its two orders is positive. If this relation satisfies the rule, its connected
components are its classes, and all ways to read blocks agree. If not, components add missing pairs inside a block:
a pair classifier misses mostly pairs of distant words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from logicmp import LogicMP
from logicmp.constrain.cluster import best_clusters

RULE = "C(a,b) ^ C(b,c) => C(a,c)"
# least number of words of a long block
LONG = 20
# largest component for the integer program
MAX_EXACT = 24


def components(is_near: np.ndarray) -> np.ndarray:
    """The connected component of each element, numbered by first elements.

    >>> components(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
    array([0, 1, 0])
    """
    n = len(is_near)
    is_near = is_near | np.eye(n, dtype=bool)
    labels, before = np.arange(n), None
    while before is None or (labels != before).any():
        before, labels = labels, np.where(is_near, labels, n).min(1)
        labels = labels[labels]
    return np.unique(labels, return_inverse=True)[1]


def both_orders(log_odds: Tensor) -> np.ndarray:
    """[n, n]: the log-odds of a pair, the mean of its two orders."""
    odds = log_odds.detach().double()
    return ((odds + odds.mT) / 2).numpy()


def read_blocks(log_odds: Tensor, threshold: float = 0.0) -> np.ndarray:
    """The block of each word, from [n, n] log-odds of pairs; those above the threshold are likely."""
    return components(both_orders(log_odds) > threshold)


def cluster_blocks(log_odds: Tensor) -> np.ndarray:
    """The best clustering that the search of `decode` finds, without its integer program."""
    return best_clusters(both_orders(log_odds), max_exact=0)[0]


def exact_blocks(log_odds: Tensor, max_seconds: float = 10.0) -> tuple[np.ndarray, bool]:
    """The most probable clustering by integer programming, and whether it is proven optimal for the whole page.

    Each component of likely pairs is a program of its own: splitting a cluster where no pair is likely never lowers its
    probability, so some optimal clustering joins no two components.
    """
    odds = both_orders(log_odds)
    found = components(odds > 0)
    labels, is_proven = np.zeros_like(found), True
    for component in range(found.max() + 1):
        members = np.flatnonzero(found == component)
        part, is_best = best_clusters(odds[np.ix_(members, members)], max_seconds, MAX_EXACT)
        labels[members] = part + labels.max() + 1
        is_proven &= is_best
    return labels, is_proven


@dataclass(frozen=True)
class Score:
    """The numbers of blocks: matched exactly, predicted, true."""

    matched: int
    predicted: int
    true: int

    @property
    def f1(self) -> float:
        """In percent; 100 if there are no blocks."""
        return 200 * self.matched / (self.predicted + self.true) if self.predicted + self.true else 100.0


def _as_sets(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


def score(pages: Iterable[tuple[np.ndarray, np.ndarray]], at_least: int = 1) -> Score:
    """Compare (predicted, true) blocks of all pages; ignore blocks of fewer than `at_least` words.

    >>> score([(np.array([0, 0, 1]), np.array([0, 0, 0])), (np.array([5, 7]), np.array([0, 1]))])
    Score(matched=2, predicted=4, true=3)
    """
    matched = predicted = true = 0
    for found, wanted in pages:
        one, other = ({block for block in _as_sets(labels) if len(block) >= at_least} for labels in (found, wanted))
        matched, predicted, true = matched + len(one & other), predicted + len(one), true + len(other)
    return Score(matched, predicted, true)


def agreement(pages: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Of (predicted, true) blocks: the F1 of pairs of words, and the adjusted Rand index, mean of pages; in percent.

    >>> agreement([(np.array([0, 0, 1]), np.array([0, 0, 0]))])
    {'pairs': 50.0, 'rand': 0.0}
    """
    counts, rand = np.zeros(3), []
    for found, wanted in pages:
        both = np.zeros((found.max() + 1, wanted.max() + 1))
        np.add.at(both, (found, wanted), 1)
        # pairs in one block: of both, predicted, true
        same, one, other = (float((sizes * (sizes - 1) / 2).sum()) for sizes in (both, both.sum(1), both.sum(0)))
        counts += same, one, other
        by_chance, most = one * other / max(1, len(found) * (len(found) - 1) / 2), (one + other) / 2
        rand.append((same - by_chance) / (most - by_chance) if most > by_chance else 1.0)
    return {"pairs": round(200 * float(counts[0]) / max(1.0, float(counts[1] + counts[2])), 3),
            "rand": round(100 * float(np.mean(rand)), 3)}


def count_violated(log_odds: Tensor) -> int:
    """The number of triples of a page that violate the rule, if each pair is decided independently."""
    decided = torch.where(log_odds > 0, 50.0, -50.0).double()
    return round(float(LogicMP(RULE).violations(decided)[0]))
