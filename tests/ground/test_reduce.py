"""Exclusive atoms as one variable: found in written-out rules, with the same worlds."""

from __future__ import annotations

import itertools

import numpy as np
from networks import network_of, score

from logicmp.ground.features import log_weights, true_features
from logicmp.ground.reduce import Reduced, reduce_network

AT_MOST_ONE = "t = {A, B, C, D}\nL(t)\nM(t)\nL(x) ^ L(y) => x = y.\n1.5 M(x) => L(x)"


def weights_of_worlds(reduced: Reduced) -> np.ndarray:
    """The sorted log-weights of all worlds of the reduced network, without variables for split products."""
    network = reduced.network
    found = [float(log_weights(network)[true_features(network, np.array(world))].sum())
             for world in itertools.product(*map(range, network.cards.tolist()))]
    return np.sort([w for w in found if w > -np.inf])


def test_pairs_that_exclude_each_other_become_one_variable() -> None:
    network = network_of(AT_MOST_ONE)
    reduced = reduce_network(network)
    # four atoms L and "none"; four atoms M
    assert sorted(reduced.network.cards.tolist()) == [2, 2, 2, 2, 5]
    assert reduced.network.n_features == 4
    assert reduced.name(int(np.argmax(reduced.network.cards))) == "L(A)"


def test_exactly_one_has_no_none() -> None:
    reduced = reduce_network(network_of("t = {A, B, C}\nL(t)\nL(x) ^ L(y) => x = y.\nEXIST x L(x)."))
    assert reduced.network.cards.tolist() == [4]
    (number,) = reduced.network.set.tolist()
    assert reduced.network.sets.members[number] == {3}


def test_two_exclusive_atoms_stay_as_they_are() -> None:
    assert reduce_network(network_of("A\nB\n!A v !B.")).network.cards.tolist() == [2, 2]


def test_variables_that_may_be_missing_are_not_merged() -> None:
    network = network_of(AT_MOST_ONE)
    reduced = reduce_network(network, np.arange(8) < 4)
    assert sorted(reduced.network.cards.tolist()) == [2, 2, 2, 2, 3, 3, 3, 3]


def test_the_worlds_are_the_same() -> None:
    network = network_of(AT_MOST_ONE)
    before = [score(network, np.array(world)) for world in itertools.product(range(2), repeat=8)]
    before = np.sort([w for w in before if w > -np.inf])
    after = weights_of_worlds(reduce_network(network))
    np.testing.assert_allclose(before - before.max(), after - after.max(), atol=1e-12)
