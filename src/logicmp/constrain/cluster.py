"""The best equivalence relation: correlation clustering of pair weights.

Room: inference, cnf -> **cluster** -> decoding.

    maximize  sum of weights[i, j] over the pairs in one cluster

Clusters are merged while that increases the sum (the best pair first), then single elements are moved, and so on. The
starts are: all apart, all together, and the components of the positive pairs; the result is never worse than these. Few
elements are also solved as an integer program, which proves its answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..errors import LogicMPError
from ..inference.moves.arrays import build_arrays
from ..inference.search.ilp import solve_ilp
from .cnf import as_constraints, ground_constraints

EQUIVALENCE = "symmetric C(t, t)\nC(a,b) ^ C(b,c) => C(a,c)."
# largest number of elements for the integer program
MAX_EXACT = 16
# smaller gains, relative to the largest weight, are rounding errors
ROUNDING = 1e-12


def best_clusters(weights: np.ndarray, max_seconds: float = 10.0, max_exact: int = MAX_EXACT,
                  near: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
    """The cluster of each element, and whether the clustering is proven to be best.

    >>> best_clusters(np.array([[0, 2, -1], [2, 0, 3], [-1, 3, 0]], dtype=float))
    (array([0, 0, 0]), True)

    Args:
        weights: [n, n], symmetric; the diagonal does not count.
        max_seconds: time limit of the integer program.
        max_exact: largest number of elements for which the integer program is tried.
        near: [n, n], bool: pairs whose connected components are one more start.
    """
    weights = weights - np.diag(np.diag(weights))
    n = len(weights)
    best = max((_improve(weights, start) for start in _starts(weights, near)),
               key=lambda labels: objective(weights, labels))
    # no sum is larger than that of all positive weights
    bound = np.triu(weights).clip(0).sum()
    if objective(weights, best) >= bound - ROUNDING * n * np.abs(weights).max(initial=0.0):
        return best, True
    if n > max_exact:
        return best, False
    exact, is_proven = _solve(weights, max_seconds)
    if exact is not None and objective(weights, exact) > objective(weights, best):
        best = exact
    return best, is_proven


def objective(weights: np.ndarray, labels: np.ndarray) -> float:
    """The summed weight of the pairs in one cluster."""
    return float(np.triu(weights, 1)[labels[:, None] == labels].sum())


def _starts(weights: np.ndarray, near: np.ndarray | None) -> Iterator[np.ndarray]:
    n = len(weights)
    yield np.arange(n)
    yield np.zeros(n, dtype=np.int64)
    for pairs in (weights > 0, near):
        if pairs is not None:
            yield _components(pairs)


def _components(pairs: np.ndarray) -> np.ndarray:
    """The connected component of each element: it takes the smallest label of its neighbours until none changes."""
    n = len(pairs)
    is_near = pairs | pairs.T | np.eye(n, dtype=bool)
    labels, before = np.arange(n), None
    while before is None or (labels != before).any():
        before, labels = labels, np.where(is_near, labels, n).min(1)
        labels = labels[labels]
    return labels


def _improve(weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Merge and move until neither increases the sum."""
    least = ROUNDING * max(1.0, len(weights) * float(np.abs(weights).max(initial=0.0)))
    while True:
        before = labels
        labels = _move(weights, _merge(weights, labels, least), least)
        if (labels == before).all():
            return labels


def _merge(weights: np.ndarray, labels: np.ndarray, least: float) -> np.ndarray:
    """Merge the two clusters with the largest gain, until there is no gain."""
    labels = np.unique(labels, return_inverse=True)[1]
    member = np.eye(labels.max() + 1)[labels]
    between = member.T @ weights @ member
    np.fill_diagonal(between, -np.inf)
    while True:
        one, other = divmod(int(between.argmax()), len(between))
        if between[one, other] <= least:
            return labels
        labels = np.where(labels == other, one, labels)
        between[one] += between[other]
        between[:, one] = between[one]
        between[one, one] = between[other] = between[:, other] = -np.inf


def _move(weights: np.ndarray, labels: np.ndarray, least: float) -> np.ndarray:
    """Move the element with the largest gain to another or a new cluster, until there is no gain."""
    labels = np.unique(labels, return_inverse=True)[1]
    n, n_clusters = len(labels), int(labels.max()) + 1
    # the sum of weights from an element to each cluster; the last column is a new cluster
    toward = np.append(weights @ np.eye(n_clusters)[labels], np.zeros((n, 1)), 1)
    rows = np.arange(n)
    for _ in range(20 * n):
        gain = toward - toward[rows, labels][:, None]
        element, target = divmod(int(gain.argmax()), gain.shape[1])
        if gain[element, target] <= least:
            break
        if target == gain.shape[1] - 1:
            toward = np.append(toward, np.zeros((n, 1)), 1)
        toward[:, labels[element]] -= weights[:, element]
        toward[:, target] += weights[:, element]
        labels[element] = target
    return labels


def _solve(weights: np.ndarray, max_seconds: float) -> tuple[np.ndarray | None, bool]:
    """The best clusters by an integer program over the pairs, None without an answer; and whether they are proven."""
    n = len(weights)
    network = ground_constraints(as_constraints(EQUIVALENCE), {"t": n}, unary={"C": torch.from_numpy(weights)})
    try:
        values, is_proven = solve_ilp(build_arrays(network, None, unary_features=True), max_seconds)
    except LogicMPError:
        # without SciPy nothing is proven
        return None, False
    if values is None:
        return None, False
    together = (values[network.variables["C"]] == 1) | np.eye(n, dtype=bool)
    return together.argmax(1), is_proven
