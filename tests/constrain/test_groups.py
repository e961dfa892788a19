"""Groups of scored pairs: near the proven best, as good for any order, and confidences by their definition."""

from __future__ import annotations

import numpy as np
import pytest

from logicmp.constrain.cluster import best_clusters, objective
from logicmp.constrain.groups import PairGraph, best_groups, confidences, find_components


def dense(graph: PairGraph) -> np.ndarray:
    weights = np.full((graph.n, graph.n), graph.unscored)
    weights[graph.one, graph.other] = weights[graph.other, graph.one] = graph.weights
    np.fill_diagonal(weights, 0)
    return weights


def random_graph(seed: int, n: int = 8, max_size: int | None = None) -> PairGraph:
    rng = np.random.default_rng(seed)
    one, other = np.triu_indices(n, 1)
    kept = rng.random(len(one)) < 0.7
    return PairGraph(n, one[kept], other[kept], 2 * rng.normal(size=int(kept.sum())), -float(rng.choice([0, 0.5, 2])),
                     max_size)


def test_groups_are_near_the_proven_best() -> None:
    n_best, shares = 0, []
    for seed in range(40):
        graph = random_graph(seed)
        weights = dense(graph)
        got = objective(weights, best_groups(graph))
        proven, is_proven = best_clusters(weights)
        assert is_proven
        want = objective(weights, proven)
        assert got <= want + 1e-9
        n_best += got >= want - 1e-9
        shares.append(got / want if want else 1.0)
    assert n_best >= 36
    assert min(shares) > 0.9


@pytest.mark.parametrize("seed", range(10))
def test_confidence_is_the_probability_given_all_others(seed: int) -> None:
    graph = random_graph(seed, 7)
    weights, labels = dense(graph), best_groups(graph)
    got = confidences(graph, labels)
    for element in range(graph.n):
        near = {int(labels[k]) for k in np.append(graph.other[graph.one == element], graph.one[graph.other == element])}
        options = {}
        for group in {*near, int(labels[element]), graph.n}:
            moved = labels.copy()
            moved[element] = group
            options[tuple(map(tuple, moved[:, None] == moved))] = objective(weights, moved)
        own = options[tuple(map(tuple, labels[:, None] == labels))]
        assert got[element] == pytest.approx(1 / sum(np.exp(value - own) for value in options.values()), rel=1e-9)


def test_no_move_and_no_merge_helps() -> None:
    for seed in range(10):
        graph = random_graph(seed, 12)
        weights, labels = dense(graph), best_groups(graph)
        best = objective(weights, labels)
        for one in range(labels.max() + 1):
            for other in range(one):
                assert objective(weights, np.where(labels == one, other, labels)) <= best + 1e-9


@pytest.mark.parametrize("max_size", [1, 2, 3])
def test_a_group_has_at_most_max_size_elements(max_size: int) -> None:
    for seed in range(5):
        labels = best_groups(random_graph(seed, 10, max_size))
        assert np.bincount(labels).max() <= max_size
    assert np.bincount(best_groups(random_graph(1, 10))).max() > 3


def test_a_long_chain_ends_and_is_one_group() -> None:
    n = 3000
    graph = PairGraph(n, np.arange(n - 1), np.arange(1, n), np.linspace(0.1, 5, n - 1))
    assert best_groups(graph).max() == 0


def test_groups_are_the_same_in_every_run_and_numbered_by_first_element() -> None:
    graph = random_graph(3, 12)
    labels = best_groups(graph)
    assert (labels == best_groups(graph)).all()
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()


def test_components_take_the_smallest_element() -> None:
    assert find_components(6, np.array([5, 2, 4]), np.array([2, 4, 0])).tolist() == [0, 1, 0, 3, 0, 0]
    assert find_components(2, np.zeros(0, dtype=int), np.zeros(0, dtype=int)).tolist() == [0, 1]
