"""Quantified parts: when they need a variable, and that exactly one feature decides each."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from networks import is_true, literals, network_of, random_network

from logicmp.ground.quantifiers import deciding_literals, part_order

NESTED = "p = {A, B}\nF(p, p)\nS(p)\n1 S(x) <=> EXIST y (F(x, y) ^ S(y))\n0.5 (FORALL x EXIST y F(x, y)) <=> S(A)"


def test_existence_over_literals_needs_no_variable_of_its_own() -> None:
    found = network_of("p = {A, B, C}\nF(p, p)\n1 EXIST y F(x, y)")
    assert str(found) == "ground network: 9 unobserved variables, 3 soft and 0 hard features, 9 literals"


def test_existence_that_evidence_decides_is_no_feature() -> None:
    found = network_of("p = {A, B, C}\nF(p, p)\nS(p)\n1 (EXIST y F(x, y)) => S(x)", "F(A, B)", ("S",))
    assert str(found) == "ground network: 3 unobserved variables, 1 soft and 0 hard features, 1 literals"
    assert found.name(int(found.var[0])) == "S(A)"


def test_existence_of_a_conjunction_gets_variables_of_its_own() -> None:
    found = network_of("p = {A, B}\nF(p, p)\nS(p)\n1 S(x) <=> EXIST y (F(x, y) ^ S(y))")
    # for each x one variable for the part, and one for each of its two products
    assert str(found) == ("ground network: 6 unobserved variables and 6 for quantifiers, 4 soft and 18 hard features, "
                          "54 literals")


def check_parts(network) -> int:
    """Compare the values that the deciding features give with the only values that violate no definition."""
    parts = range(network.n_own, len(network.cards))
    decided = deciding_literals(network)
    feature = dict(zip(network.var[decided].tolist(), network.owner[decided].tolist(), strict=True))
    at = dict(zip(network.var[decided].tolist(), network.set[decided].tolist(), strict=True))
    defining = np.flatnonzero(network.defines >= 0).tolist()
    order = part_order(network)
    assert sorted(a for a, _ in order) == list(parts)
    for own in itertools.product(*(range(card) for card in network.cards[: network.n_own])):
        values = np.array([*own, *([1] * len(parts))], dtype=np.int64)
        for a, _ in order:
            if a in feature:
                others = all(values[v] in members for v, members in literals(network, feature[a]) if v != a)
                # set 0 is {1}
                values[a] = (1 if others else 0) if at[a] == 1 else (0 if others else 1)
        assert not any(is_true(network, f, values) for f in defining)
        for a in parts:
            values[a] = 1 - values[a]
            assert any(is_true(network, f, values) for f in defining) or a not in feature
            values[a] = 1 - values[a]
    return len(parts)


def test_deciding_features_give_nested_parts_their_values() -> None:
    assert check_parts(network_of(NESTED)) > 4


@pytest.mark.parametrize("seed", range(12))
def test_deciding_features_give_the_parts_of_random_theories_their_values(seed: int) -> None:
    network = random_network(seed, max_ground=5, features={"formulas", "quantifiers", "multiclass", "hard"})
    if np.prod(network.cards[: network.n_own], dtype=float) <= 2**10:
        check_parts(network)


def test_a_part_comes_after_its_inputs_and_names_the_atoms_it_depends_on() -> None:
    network = network_of(NESTED)
    seen = set(range(network.n_own))
    decided = deciding_literals(network)
    feature = dict(zip(network.var[decided].tolist(), network.owner[decided].tolist(), strict=True))
    for a, sources in part_order(network):
        assert {v for v, _ in literals(network, feature[a])} - {a} <= seen
        assert sources and all(v < network.n_own for v in sources)
        seen.add(a)
