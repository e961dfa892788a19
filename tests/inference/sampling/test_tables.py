"""Tables of rules over the same variables, against the features that they replace."""

from __future__ import annotations

import pytest
from networks import network_of, random_network

from logicmp import LogicMPError
from logicmp.inference.moves.arrays import GroundArrays, build_arrays


def test_rules_over_the_same_variables_become_one_table() -> None:
    theory = "p = {A}\nS(p)\nT(p)\n-1.2 S(x) ^ T(x)\n-0.1 S(x) ^ !T(x)\n-2.3 !S(x) ^ T(x)\n-0.5 !S(x) ^ !T(x)"
    network = network_of(theory)
    arrays = build_arrays(network, unary_features=True, tables=True)
    cells = arrays.cells.log_weight - arrays.cells.log_weight.max()
    # in the order 00, 01, 10, 11 of S(A), T(A)
    assert arrays.cells.first.tolist() == [arrays.n_features - 4, arrays.n_features]
    assert cells.tolist() == pytest.approx([-0.4, -2.2, 0.0, -1.1])
    assert not arrays.ground.log_weight.any()


def total(arrays: GroundArrays, values: list[int]) -> float:
    """What all features and cells that are true in a world add to its log-probability."""
    g, cells = arrays.ground, arrays.cells
    weight = g.log_weight.copy()
    weight[cells.first[0] :] = cells.log_weight
    return sum(float(weight[f]) for f in range(arrays.n_features) if all(
        g.member[k, values[v]] for v, k in zip(g.var[g.begins[f] : g.begins[f + 1]].tolist(),
                                               g.set[g.begins[f] : g.begins[f + 1]].tolist(), strict=True)))


@pytest.mark.parametrize("seed", range(25))
def test_tables_and_the_features_left_give_every_world_the_same_weight(seed: int) -> None:
    network = random_network(seed, max_ground=8)
    try:
        plain = build_arrays(network, unary_features=True)
        merged = build_arrays(network, unary_features=True, tables=True)
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return
    for seed in range(5):
        values = [(seed * 7 + 3 * v) % card for v, card in enumerate(network.cards.tolist())]
        assert total(merged, values) == pytest.approx(total(plain, values), abs=1e-9)
