"""What methods compute from features, against loops over features and worlds."""

from __future__ import annotations

import numpy as np
import pytest
from networks import is_true, literals, network_of, random_network, score, worlds

from logicmp.ground.features import (
    expected_counts,
    independent_probabilities,
    literal_probabilities,
    log_weights,
    queried_features,
    soft_evidence,
    true_features,
)
from logicmp.ground.network import HARD
from logicmp.inference.method import Problem
from logicmp.parse.query import parse_queries

SEEDS = pytest.mark.parametrize("seed", range(20))


def some_values(network, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, network.cards)


@SEEDS
def test_the_log_weights_and_counts_of_a_world_give_its_score(seed: int) -> None:
    network = random_network(seed, max_ground=10)
    values = some_values(network, seed)
    found = true_features(network, values)
    assert found.tolist() == [is_true(network, f, values) for f in range(network.n_features)]
    want = score(network, values)
    if found[network.param == HARD].any():
        assert want == -np.inf
        assert log_weights(network)[found].sum() == -np.inf
        return
    unary = network.potentials[network.starts[:-1] + values].sum()
    assert network.weights @ expected_counts(network, found) + unary == pytest.approx(want)
    assert network.weights @ network.base + log_weights(network)[found].sum() + unary == pytest.approx(want)


def test_other_weights_replace_those_of_the_network() -> None:
    network = network_of("p = {A}\nS(p)\nT(p)\n1.5 S(x) => T(x)\nS(x) v T(x).")
    assert log_weights(network).tolist() == [-1.5, -np.inf]
    assert log_weights(network, np.array([4.0, 0.0])).tolist() == [-4.0, -np.inf]


@SEEDS
def test_soft_evidence_as_features_adds_what_the_potentials_do(seed: int) -> None:
    network = random_network(seed, max_ground=10)
    var, chosen, weight = soft_evidence(network)
    assert (weight < 0).all()
    best = np.array([network.potentials[a:b].max() for a, b in zip(network.starts, network.starts[1:], strict=False)])
    values = some_values(network, seed)
    potentials = network.potentials[network.starts[:-1] + values]
    for v in np.flatnonzero(potentials > -np.inf).tolist():
        added = sum(w for u, k, w in zip(var.tolist(), chosen.tolist(), weight.tolist(), strict=True)
                    if u == v and values[v] in network.sets.members[k])
        assert added == pytest.approx(potentials[v] - best[v])


@SEEDS
def test_literals_that_are_independent_multiply(seed: int) -> None:
    network = random_network(seed, max_ground=10)
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.dirichlet(np.ones(card)) for card in network.cards] or [np.zeros(0)])
    want = [[sum(p[network.starts[v] + x] for x in members) for v, members in literals(network, f)]
            for f in range(network.n_features)]
    each = literal_probabilities(network, p, np.arange(len(network.var)))
    assert each.tolist() == pytest.approx([x for row in want for x in row])
    chosen = rng.permutation(network.n_features)[: network.n_features // 2]
    found = independent_probabilities(network, p, chosen)
    assert found.tolist() == pytest.approx([float(np.prod(want[f])) for f in chosen])


def test_the_expected_count_of_a_queried_formula_is_its_probability() -> None:
    own = network_of("p = {A, B}\nS(p)\nT(p)\n0.7 S(x) => T(x)\nS(A) v S(B).").world
    formulas = tuple(query.as_rule() for query in parse_queries("S(x) ^ T(x), EXIST x T(x)", own.theory))
    network = Problem(own, formulas).network()
    features = queried_features(network)
    assert set(network.rule[features].tolist()) == {2, 3}
    assert (network.param[features] != HARD).all()
    weight = np.array([np.exp(score(network, values)) for values in worlds(network)])
    truth = np.array([[is_true(network, f, values) for f in range(network.n_features)] for values in worlds(network)])
    expected = expected_counts(network, weight @ truth / weight.sum())
    first = network.offsets[2]
    # S(A) ^ T(A), S(B) ^ T(B), EXIST x T(x)
    cases = [lambda s, t: s[0] and t[0], lambda s, t: s[1] and t[1], lambda s, t: t.any()]
    want = [sum(w for w, values in zip(weight, worlds(network), strict=True) if case(values[:2], values[2:4]))
            / weight.sum() for case in cases]
    assert expected[first:].tolist() == pytest.approx(want)


def test_a_network_without_features_has_its_base_counts() -> None:
    network = network_of("p = {A}\nS(p)\n1 S(x)", "S(A)")
    none = np.zeros(0)
    assert expected_counts(network, none).tolist() == [1.0]
    assert len(true_features(network, np.zeros(0, dtype=int))) == len(queried_features(network)) == 0
    assert [len(column) for column in soft_evidence(network)] == [0, 0, 0]
    assert len(independent_probabilities(network, none, np.zeros(0, dtype=int))) == 0
