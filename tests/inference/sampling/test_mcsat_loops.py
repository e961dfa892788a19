"""The steps of MC-SAT: components of the kept rules, the worlds that are listed, and what a step leaves unchanged."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from networks import network_of, random_network, score, worlds

from logicmp import LogicMPError
from logicmp.ground.network import Network
from logicmp.inference.sampling import field_loops, mcsat_loops
from logicmp.inference.sampling.chains import new_tally
from logicmp.inference.sampling.fields import prepare
from logicmp.limits import Limits

PEOPLE = ", ".join(f"P{i}" for i in range(12))


def listed(network: Network, n: int, max_states: int = 1024) -> tuple[Counter[tuple[int, ...]], np.ndarray]:
    """The worlds after n steps, and the marks of the variables after the last."""
    prepared, rng = prepare(network, tables=True), np.random.default_rng(0)
    world, work = prepared.start([rng], 1000, Limits())[0], mcsat_loops.new_slice(prepared)
    tally, found = new_tally(prepared), Counter[tuple[int, ...]]()
    for _ in range(n):
        mcsat_loops.sample(prepared.fields, world, work, tally, max_states, 1, rng)
        found[tuple(world.values[: network.n_own].tolist())] += 1
    return found, work.variables[prepared.fields.free] - work.step[0]


def test_hard_ties_of_many_atoms_with_two_worlds_are_listed() -> None:
    found, marks = listed(network_of(f"p = {{{PEOPLE}}}\nS(p)\nS(x) <=> S(y)."), 400)
    assert set(marks.tolist()) == {mcsat_loops.MEMBER}
    assert set(found) == {(0,) * 12, (1,) * 12}
    assert min(found.values()) > 150


def test_one_of_many_written_as_rules_is_listed() -> None:
    found, _ = listed(network_of(f"p = {{{PEOPLE}}}\nS(p)\nEXIST x S(x).\nx != y => !S(x) v !S(y)."), 1200)
    assert len(found) == 12
    assert max(found.values()) < 2 * min(found.values())


def test_a_component_that_is_too_large_keeps_its_world_until_atoms_are_drawn() -> None:
    found, marks = listed(network_of(f"p = {{{PEOPLE}}}\nS(p)\nS(x) <=> S(y)."), 50, max_states=5)
    assert set(marks.tolist()) == {mcsat_loops.LARGE}
    # no single atom can change
    assert len(found) == 1


@pytest.mark.parametrize("seed", range(12))
def test_long_runs_visit_each_world_as_often_as_it_is_probable(seed: int) -> None:
    network = random_network(200 + seed, max_ground=5)
    try:
        found, _ = listed(network, 20_000)
    except LogicMPError as error:
        assert "no world satisfies" in error.message
        return
    weight: Counter[tuple[int, ...]] = Counter()
    for values in worlds(network):
        weight[tuple(values[: network.n_own].tolist())] += np.exp(score(network, values))
    total = sum(weight.values())
    for world, p in weight.items():
        assert found[world] / 20_000 == pytest.approx(p / total, abs=0.025), world


def test_samplesat_finds_worlds_of_the_kept_rules() -> None:
    # one clause per triple: a jump from all false reaches other worlds that satisfy the hard rule
    network = network_of(f"p = {{{PEOPLE}}}\nS(p)\n0.5 S(x)\nx != y ^ S(x) => !S(y).")
    from logicmp.inference.sampling.mcsat import _Jumps

    prepared, rng = prepare(network), np.random.default_rng(0)
    world, work = prepared.start([rng], 1000, Limits())[0], mcsat_loops.new_slice(prepared)
    jumps, seen = _Jumps(prepared, 1000), set()
    for _ in range(100):
        jumps.make(world, work, rng)
        assert world.values.sum() <= 1
        fresh = prepared.new_world()
        fresh.values[:] = world.values
        field_loops.refresh(prepared.fields, fresh)
        assert fresh.score.tolist() == world.score.tolist()
        seen.add(tuple(world.values.tolist()))
    assert len(seen) == 13
    assert work.failures.tolist() == [0, 100]
    assert not any(a & b for world in seen for a, b in itertools.combinations(world, 2))
