"""Correlation clustering compared with all partitions and with simple clusterings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logicmp.constrain.cluster import best_clusters, objective


def partitions(n: int) -> Iterator[np.ndarray]:
    """Every clustering of n elements once."""
    def grow(labels: list[int]) -> Iterator[np.ndarray]:
        if len(labels) == n:
            yield np.array(labels)
            return
        for k in range(max(labels) + 2):
            yield from grow([*labels, k])
    yield from grow([0])


@given(st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_small_clusterings_are_the_best_of_all_partitions(n: int, seed: int) -> None:
    weights = np.random.default_rng(seed).standard_normal((n, n))
    weights = weights + weights.T
    labels, is_best = best_clusters(weights)
    assert is_best
    assert objective(weights, labels) == pytest.approx(max(objective(weights, p) for p in partitions(n)))


@given(st.integers(2, 30), st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_a_clustering_is_never_worse_than_the_simple_ones(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    weights = np.where(truth[:, None] == truth, 1.0, -1.0) + 2 * rng.standard_normal((n, n))
    weights = weights + weights.T
    reach = (weights > 0) | np.eye(n, dtype=bool)
    for _ in range(n):
        reach = reach @ reach
    found = objective(weights, best_clusters(weights, max_exact=0)[0])
    for labels in (np.arange(n), np.zeros(n), truth, reach.argmax(1)):
        assert found >= objective(weights, labels) - 1e-9 or labels is truth
