"""Components and names of variables, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of, random_network

from logicmp import parse_facts, parse_theory
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import label_components


def test_components_are_those_of_the_features() -> None:
    theory = parse_theory("p = {A, B, C, D}\nS(p)\nF(p, p)\n1 F(x, y) => (S(x) <=> S(y))")
    network = build_network(build_world(parse_facts("F(A, B)\nF(C, D)", theory), ["S"]))
    label = label_components(network)
    assert label[0] == label[1] != label[2] == label[3]


@pytest.mark.parametrize("seed", range(20))
def test_components_are_those_of_a_walk_along_the_features(seed: int) -> None:
    network = random_network(seed, max_ground=12)
    near: dict[int, set[int]] = {v: {v} for v in range(len(network.cards))}
    for f in range(network.n_features):
        scope = set(network.var[network.begins[f] : network.begins[f + 1]].tolist())
        for v in scope:
            near[v] |= scope
    label = label_components(network)
    for v in near:
        reached, todo = {v}, [v]
        while todo:
            more = near[todo.pop()] - reached
            reached |= more
            todo += more
        assert set(np.flatnonzero(label == label[v]).tolist()) == reached


def test_a_variable_is_named_as_the_user_wrote_it() -> None:
    network = network_of("p = {A, B}\nlives(p, p!)\nS(p)\n1 S(x) <=> EXIST y (S(y) ^ lives(x, y))")
    assert [network.name(v) for v in range(network.n_own)] == ["lives(A)", "lives(B)", "S(A)", "S(B)"]
    assert network.name(network.n_own) == "a quantified part"
