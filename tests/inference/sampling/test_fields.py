"""The arrays of chains: what is left of a ground network, and scores that moves keep, against the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of, random_network, score

from logicmp import LogicMPError
from logicmp.ground.network import Network
from logicmp.inference.sampling import field_loops
from logicmp.inference.sampling.fields import HARD_WEIGHT, Prepared, World, prepare
from logicmp.limits import Limits


def started(network: Network, tables: bool, rng: np.random.Generator) -> tuple[Prepared, World] | None:
    """A world to move in, None if no world satisfies the hard rules."""
    try:
        prepared = prepare(network, tables)
        return prepared, prepared.start([rng], 1000, Limits())[0]
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return None


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_after_any_moves_the_scores_are_those_of_a_fresh_start_and_of_the_definition(seed: int, tables: bool) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(seed, max_ground=8)
    found = started(network, tables, rng)
    if found is None:
        return
    prepared, world = found
    g = prepared.fields
    for _ in range(40 * (len(g.free) > 0)):
        v = int(rng.choice(g.free))
        new = int(rng.choice(np.flatnonzero(g.domain[g.starts[v] : g.starts[v + 1]])))
        before = score(network, world.values)
        gain = world.score[g.starts[v] + new] - world.score[g.starts[v] + world.values[v]]
        counts = world.false.copy()
        old = int(world.values[v])
        tried = field_loops.attempt(g, world, v, new)
        field_loops.attempt(g, world, v, old)
        assert world.false.tolist() == counts.tolist()
        field_loops.move(g, world, v, new)
        after = score(network, world.values)
        if np.isfinite(before) and np.isfinite(after):
            assert tried == pytest.approx(after - before, abs=1e-6)
        elif np.isfinite(before):
            assert tried <= HARD_WEIGHT / 2
        if g.follow_first[v] == g.follow_first[v + 1]:
            assert gain == pytest.approx(tried, abs=1e-6)
    fresh = World(world.values.copy(), np.zeros_like(world.false), np.zeros_like(world.score), world.found)
    field_loops.refresh(g, fresh)
    assert fresh.false.tolist() == world.false.tolist()
    assert fresh.score == pytest.approx(world.score, abs=1e-6)
    # to the last digit, if few hard rules are violated: scores are multiples of a power of two
    few = np.abs(fresh.score) < -4 * HARD_WEIGHT
    assert fresh.score[few].tolist() == world.score[few].tolist()


def test_what_hard_rules_decide_is_left_out() -> None:
    network = network_of("p = {A, B}\nS(p)\nT(p)\nS(A).\nS(x) => T(x).\n1 S(x) ^ T(y) => S(y)\n2 T(x) => S(x)")
    g = prepare(network).fields
    names = [network.name(v) for v in g.free.tolist()]
    assert names == ["S(B)", "T(B)"]
    # S(B) => T(B) is hard; 1 T(B) => S(B) twice, from S(A) and from S(B), of which the second cannot be violated
    assert sorted(g.weight.tolist()) == [HARD_WEIGHT, -2.0, -1.0]
    assert set(g.var.tolist()) == set(g.free.tolist())


def test_rules_over_one_atom_and_soft_evidence_are_one_score() -> None:
    network = network_of("p = {A}\nS(p)\n1 S(x)\n-3 S(x)", "0.8 S(A)", ("S",))
    found = prepare(network)
    assert found.n_features == 0
    assert found.fields.base[1] - found.fields.base[0] == pytest.approx(np.log(4) + 1 - 3)


def test_queried_values_are_those_of_the_predicates_that_are_open() -> None:
    network = network_of("p = {A, B}\nS(p)\nT(p)\nS(A).\n1 S(x) => T(x)")
    found = prepare(network)
    assert len(found.queried_values({"S"})) == 2
    assert len(found.queried_values({"S", "T"})) == len(found.queried_values(())) == 6
