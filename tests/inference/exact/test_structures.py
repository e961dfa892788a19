"""Components by structure, elimination orders, and long products split into chains."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of, random_network, score, worlds

from logicmp import parse_facts, parse_theory
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import shorten
from logicmp.inference.exact.method import ExactModel
from logicmp.inference.exact.structures import elimination_order, find_structures


def test_equal_components_are_solved_together() -> None:
    people = ", ".join(f"P{i}" for i in range(500))
    network = build_network(build_world(parse_facts("0.9 S(P3)", parse_theory(
        f"p = {{{people}}}\nS(p)\nT(p)\n1 S(x) => T(x)")), ["S", "T"]))
    (structure,) = ExactModel(network).structures
    assert structure.variables.shape == (500, 2)


def test_the_elimination_order_of_a_chain_is_narrow_and_of_a_clique_is_rejected() -> None:
    chain = [(k, k + 1) for k in range(50)]
    order, cells = elimination_order([2] * 51, chain, 1000)
    assert order is not None
    assert cells == 50 * 4 + 2
    clique = [(i, j) for i in range(40) for j in range(i)]
    assert elimination_order([2] * 40, clique, 2**22)[0] is None


@pytest.mark.parametrize("seed", range(15))
def test_every_variable_and_every_feature_is_in_one_structure(seed: int) -> None:
    network = random_network(seed, max_ground=12)
    structures, alone = find_structures(network, 2**20)
    variables = np.concatenate([alone, *(s.variables.reshape(-1) for s in structures)])
    features = np.concatenate([np.zeros(0, dtype=int), *(s.numbers.reshape(-1) for s in structures)])
    assert sorted(variables.tolist()) == list(range(len(network.cards)))
    assert sorted(features.tolist()) == list(range(network.n_features))
    for structure in structures:
        for variables, numbers in zip(structure.variables, structure.numbers, strict=True):
            for f, (scope, sets) in zip(numbers.tolist(), structure.features, strict=True):
                span = slice(network.begins[f], network.begins[f + 1])
                assert variables[list(scope)].tolist() == network.var[span].tolist()
                assert list(sets) == network.set[span].tolist()


def test_a_shortened_network_has_the_same_partition_function() -> None:
    network = network_of("p = {A, B, C}\nS(p)\nT(p)\n0.7 EXIST x (S(x))\n-0.4 S(A) v S(B) v S(C) v T(A)")
    short = shorten(network, 2)
    assert max(np.diff(short.begins)) <= 3
    one, two = (np.logaddexp.reduce([score(n, values) for values in worlds(n)]) for n in (network, short))
    assert one == pytest.approx(two)


@pytest.mark.parametrize("seed", range(40))
def test_the_least_number_of_cells_is_a_bound(seed: int) -> None:
    network = shorten(random_network(seed, max_constants=4))
    for structure in find_structures(network, 2**60)[0]:
        least = find_structures(network, 0)[0]
        assert structure.order is not None
        same = next(s for s in least if (s.variables[0] == structure.variables[0]).all())
        assert same.order is None
        assert 0 < same.cells <= structure.cells
