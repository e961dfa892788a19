"""The TAP correction, compared with the second-order term summed over all states of each factor."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logicmp import LogicMPError, infer, oracle
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import UNKNOWN
from logicmp.ground.network import Network
from logicmp.inference.answers import as_probability
from logicmp.inference.bp.graph import build_graph
from logicmp.inference.mean_field import MeanField
from logicmp.inference.method import Problem
from logicmp.inference.tap import MAX_FIELD, Onsager
from logicmp.testing.random_models import Model, models, random_model

HARD_WEIGHT = 3.0
# a factor: its variables, and its log-weight in each state of them
Factor = tuple[list[int], dict[tuple[int, ...], float]]


def factors_of(network: Network) -> list[Factor]:
    """The factors of a ground network that have no variable of a quantified part, each as a table of all states."""
    graph, _ = build_graph(network, network.potentials > -np.inf, hard=-HARD_WEIGHT)
    found: list[Factor] = []
    products = graph.products
    for f, gain in enumerate(products.gain.tolist()):
        literals = range(products.begins[f], products.begins[f + 1])
        variables = [int(products.var[k]) for k in literals]
        members = [network.sets.members[products.set[k]] for k in literals]
        if products.head_var[f] < 0:
            found.append((variables, {state: gain * all(v in m for v, m in zip(state, members, strict=True))
                                      for state in states(network, variables)}))
    for table in graph.tables:
        for values, variables in zip(table.values[table.kind], table.var.tolist(), strict=True):
            found.append((variables, {state: float(values[state]) for state in states(network, variables)}))
    return [factor for factor in found if max(factor[0]) < network.n_own]


def states(network: Network, variables: list[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(network.cards[v]) for v in variables)))


def second_order(network: Network, factors: list[Factor], p: np.ndarray) -> float:
    """1/2 the variance of each factor, without the variance of its averages given one variable."""
    total = 0.0
    for variables, table in factors:
        chance = {state: math.prod(p[network.starts[v] + x] for v, x in zip(variables, state, strict=True))
                  for state in table}
        mean = sum(chance[state] * table[state] for state in table)
        total += sum(chance[state] * (table[state] - mean) ** 2 for state in table) / 2
        for k, v in enumerate(variables):
            for x in range(network.cards[v]):
                share = p[network.starts[v] + x]
                given_x = sum(chance[state] * table[state] for state in table if state[k] == x) / share
                total -= share * (given_x - mean) ** 2 / 2
    return total


def network_of(model: Model) -> Network:
    world = world_from_tensors(model.theory, model.unary, model.evidence)
    try:
        return Problem(world).network(world.theory.rules)
    except LogicMPError:
        assume(False)
        raise


def random_probabilities(network: Network, seed: int) -> np.ndarray:
    p = np.random.default_rng(seed).uniform(0.1, 1, len(network.potentials))
    return p / np.repeat(np.add.reduceat(p, network.starts[:-1]), network.cards)


@settings(max_examples=60, deadline=None)
@given(model=models(max_ground=8), seed=st.integers(0, 1000))
def test_the_correction_is_the_slope_of_the_second_order_term(model: Model, seed: int) -> None:
    network = network_of(model)
    factors = factors_of(network) if len(network.cards) else []
    assume(any(len(variables) > 1 for variables, _ in factors))
    assume(sum(len(table) for _, table in factors) < 500)
    p = random_probabilities(network, seed)
    got = Onsager(network, HARD_WEIGHT).unlimited(p)
    step = 1e-5
    for v in range(network.n_own):
        first = network.starts[v]
        for value in range(1, network.cards[v]):
            # probability moves from the first value to this one
            move = np.zeros(len(p))
            move[first + value], move[first] = step, -step
            slope = second_order(network, factors, p + move) - second_order(network, factors, p - move)
            assert got[first + value] - got[first] == pytest.approx(slope / (2 * step), abs=1e-6, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(model=models(max_ground=8), seed=st.integers(0, 1000))
def test_no_correction_is_larger_than_its_limit(model: Model, seed: int) -> None:
    network = network_of(model)
    assume(len(network.cards))
    onsager, p = Onsager(network, 1000.0), random_probabilities(network, seed)
    found, free = onsager(p), onsager.unlimited(p)
    assert (found[~onsager.possible] == 0).all()
    for v in range(network.n_own):
        values = [k for k in range(network.starts[v], network.starts[v + 1]) if onsager.possible[k]]
        width, free_width = np.ptp(found[values]), np.ptp(free[values])
        assert width == pytest.approx(MAX_FIELD * np.tanh(free_width / MAX_FIELD), abs=1e-9)
        # all values of a variable by the same factor
        want = (free[values] - free[values].max()) * (width / free_width if free_width else 1.0)
        assert found[values] - found[values].max() == pytest.approx(want, abs=1e-9)


def test_two_tied_atoms_have_the_term_of_thouless_anderson_and_palmer() -> None:
    # as spins, the rule is a coupling J = w / 2, and the term of the log-odds is -2 J^2 m_i (1 - m_j^2)
    weight, one, other = 1.2, 0.7, 0.4
    network = network_of_text(f"p = {{A, B}}\nS(p)\n{weight} S(A) <=> S(B)")
    p = np.array([1 - one, one, 1 - other, other])
    got = Onsager(network, HARD_WEIGHT).unlimited(p)
    m, n = 2 * one - 1, 2 * other - 1
    assert got[1] - got[0] == pytest.approx(-2 * (weight / 2) ** 2 * m * (1 - n**2))


def network_of_text(theory: str) -> Network:
    world = infer(theory, query="S", method="mean-field", correction="none").world
    return Problem(world).network(world.theory.rules)


def test_rules_over_the_same_atoms_are_one_factor() -> None:
    # the second rule undoes the first, so nothing is left to correct; two factors would have two positive variances
    network = network_of_text("p = {A, B}\nS(p)\n2 S(A) ^ S(B)\n-2 S(B) ^ S(A)")
    p = np.array([0.3, 0.7, 0.6, 0.4])
    assert Onsager(network, HARD_WEIGHT).unlimited(p) == pytest.approx(np.zeros(4), abs=1e-12)


def test_a_quantified_part_with_its_own_variable_is_not_corrected() -> None:
    network = network_of_text("p = {A, B}\nS(p)\nT(p)\n2 S(x) => (EXIST y (S(y) ^ T(y)))")
    assert len(network.cards) > network.n_own
    assert not Onsager(network, HARD_WEIGHT).unlimited(random_probabilities(network, 0))[: 2 * network.n_own].any()


def test_the_correction_lowers_the_error_on_random_theories() -> None:
    errors: dict[str, list[float]] = {"tap": [], "none": []}
    for seed in range(300, 340):
        model = random_model(random.Random(seed), max_ground=8)
        problem = Problem(world_from_tensors(model.theory, model.unary, model.evidence))
        try:
            want = oracle.exact_marginals(model.theory, model.unary, model.evidence, model.sizes)
            found = {name: MeanField(correction=name).solve(problem).log_odds for name in errors}
        except LogicMPError:
            continue
        for name, odds in found.items():
            differences = [abs(as_probability(odds[k]) - want[k].numpy())[problem.world.values[k] == UNKNOWN]
                           for k in want]
            errors[name].append(float(np.concatenate(differences).mean()) if sum(map(len, differences)) else 0.0)
    assert len(errors["tap"]) > 30
    assert np.mean(errors["tap"]) < 0.9 * np.mean(errors["none"])
