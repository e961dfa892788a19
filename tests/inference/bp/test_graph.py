"""Factor graphs: their log-weights are those of the features in every world."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of, random_network, score, worlds

from logicmp import LogicMPError
from logicmp.ground.network import Network
from logicmp.ground.propagate import propagate
from logicmp.inference.bp.graph import IMPOSSIBLE, Graph, build_graph


def log_weight(graph: Graph, values: np.ndarray) -> float:
    """The sum of all factors in one world, by a loop."""
    products, members = graph.products, graph.sets.members
    starts = np.concatenate([[0], np.cumsum(graph.cards)])[:-1]
    total = float(graph.potentials[starts + values].sum())
    for f in range(len(products.gain)):
        body = all(values[products.var[j]] in members[products.set[j]]
                   for j in range(products.begins[f], products.begins[f + 1]))
        if products.head_var[f] < 0:
            total += products.gain[f] * body
        elif (values[products.head_var[f]] in members[products.head_set[f]]) != body:
            total += IMPOSSIBLE
    for table in graph.tables:
        for kind, scope in zip(table.kind, table.var, strict=True):
            total += table.values[(kind, *values[scope])]
    return total


def check(network: Network) -> None:
    graph, _ = build_graph(network, propagate(network))
    for values in worlds(network):
        want = score(network, values) - float(network.weights @ network.base)
        got = log_weight(graph, values)
        if want == -np.inf:
            assert got < IMPOSSIBLE / 2
        else:
            assert got == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_factors_of_a_random_network_have_its_log_weights(seed: int) -> None:
    network = random_network(seed, max_ground=5)
    if np.prod(network.cards, dtype=float) > 2**10:
        return
    try:
        check(network)
    except LogicMPError as error:
        assert "no world satisfies" in error.message


def test_quantified_parts_and_tables_have_the_log_weights_of_their_features() -> None:
    check(network_of("p = {A, B}\nF(p, p)\nS(p)\n1 S(x) <=> EXIST y F(x, y)\n-0.4 S(x) ^ F(x, x)"))


def test_two_features_over_the_same_variables_are_one_table() -> None:
    network = network_of("p = {A}\nS(p)\nT(p)\n1 S(x) <=> T(x)")
    graph, _ = build_graph(network, propagate(network))
    assert (graph.n_factors, graph.n_edges) == (1, 2)
    assert graph.tables[0].values.tolist() == [[[0.0, -1.0], [-1.0, 0.0]]]
