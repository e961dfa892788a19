"""Ground networks for tests, and slow readings of them, straight from the definitions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from logicmp import RuleError, parse_facts, parse_theory
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import HARD, Network
from logicmp.testing.random_models import random_model


def network_of(theory: str, facts: str = "", queried: tuple[str, ...] = (), **options: Any) -> Network:
    return build_network(build_world(parse_facts(facts, parse_theory(theory)), queried), **options)


def random_network(seed: int, **options: Any) -> Network:
    """The network of a random theory whose evidence violates no hard rule."""
    for number in itertools.count(seed, 1000):
        model = random_model(random.Random(number), **options)
        try:
            return build_network(world_from_tensors(model.theory, model.unary, model.evidence))
        except RuleError:
            continue
    raise AssertionError("unreachable")


def worlds(network: Network) -> Iterator[np.ndarray]:
    """All assignments of all variables."""
    for values in itertools.product(*(range(card) for card in network.cards)):
        yield np.array(values, dtype=np.int64)


def literals(network: Network, f: int) -> list[tuple[int, frozenset[int]]]:
    """The variable and the values of each literal of a feature."""
    span = slice(network.begins[f], network.begins[f + 1])
    return [(v, network.sets.members[k])
            for v, k in zip(network.var[span].tolist(), network.set[span].tolist(), strict=True)]


def is_true(network: Network, f: int, values: np.ndarray) -> bool:
    return all(values[v] in members for v, members in literals(network, f))


def score(network: Network, values: np.ndarray) -> float:
    """The exponent of Eq. 1 in one world, from the features alone; -inf if a hard one is true."""
    counts = network.base.copy()
    for f in range(network.n_features):
        if is_true(network, f, values):
            if network.param[f] == HARD:
                return -np.inf
            counts[network.param[f]] -= network.share[f]
    potentials = network.potentials[network.starts[:-1] + values]
    return float((network.weights * counts).sum() + potentials.sum())
