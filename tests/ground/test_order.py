"""Elimination orders: waves of chains and trees, and what is too wide."""

from __future__ import annotations

import random

import numpy as np
import pytest

from logicmp.ground.order import Order, eliminate


def order_of(cards: list[int], scopes: list[list[int]], limit: int = 0, max_cells: int = 2**20) -> Order:
    return eliminate(cards, scopes, np.zeros(len(cards), dtype=int), limit, max_cells)


def test_a_chain_is_summed_out_from_both_ends() -> None:
    order = order_of([2] * 50, [[k, k + 1] for k in range(49)])
    assert order.n_waves == 26
    assert all(len(scope) <= 1 for scope in order.scope.values())


def test_a_chain_with_small_tables_takes_a_shortcut() -> None:
    order = order_of([2] * 500, [[k, k + 1] for k in range(499)], limit=64)
    assert order.n_waves <= 12
    assert max(len(scope) for scope in order.scope.values()) == 2


def test_the_waves_of_a_tree_are_its_depths() -> None:
    rng = random.Random(0)
    parent, depth = [0], [0]
    for v in range(1, 500):
        parent.append(rng.choice([u for u in range(v) if depth[u] < 5]))
        depth.append(depth[parent[v]] + 1)
    order = order_of([2] * 500, [[v, parent[v]] for v in range(1, 500)])
    assert order.n_waves <= 6
    assert all(len(scope) <= 1 for scope in order.scope.values())


@pytest.mark.parametrize("limit", [0, 64])
def test_every_variable_is_summed_out_before_those_of_its_scope(limit: int) -> None:
    rng = random.Random(1)
    scopes = [sorted(rng.sample(range(30), 2)) for _ in range(35)]
    order = order_of([rng.choice([2, 3]) for _ in range(30)], scopes, limit)
    place = {v: k for k, v in enumerate(order.scope)}
    assert len(place) == 30
    assert all(place[u] > place[v] for v, scope in order.scope.items() for u in scope)
    # two variables of a feature meet in the table of the one that comes first
    assert all(b in order.scope[a] or a in order.scope[b] for a, b in scopes)


def test_a_wide_component_is_left_out_and_the_others_stay() -> None:
    clique = [[a, b] for a in range(12) for b in range(a)]
    label = np.array([0] * 12 + [12] * 3)
    order = eliminate([2] * 15, [*clique, [12, 13], [13, 14]], label, 0, 1000)
    assert list(order.wide) == [0] and order.wide[0] > 1000
    assert sorted(order.scope) == [12, 13, 14]
