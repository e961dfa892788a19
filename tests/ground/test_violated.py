"""Groundings on demand: a world scores the same with the groundings that it violates as with all of them."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from networks import score

from logicmp import Marginals, RuleError, infer, parse_facts, parse_theory
from logicmp.errors import LimitError
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import World, build_world
from logicmp.ground.build import build_network
from logicmp.ground.violated import Violated, decided_values
from logicmp.inference.search import map as search
from logicmp.limits import Limits
from logicmp.testing.random_models import random_model
from logicmp.testing.sparse_worlds import sparse_pair


def random_world(seed: int) -> World:
    """A world of a random theory; every other one has sparse predicates."""
    model = random_model(random.Random(seed), max_ground=6)
    world = world_from_tensors(model.theory, model.unary, model.evidence)
    return sparse_pair(world, np.random.default_rng(seed))[0] if seed % 2 else world


@pytest.mark.parametrize("seed", range(60))
def test_worlds_score_as_in_the_whole_network(seed: int) -> None:
    world, rng = random_world(seed), np.random.default_rng(seed)
    try:
        whole = build_network(world)
    except RuleError:
        return
    grounder = Violated(world, world.theory.rules, at_once=0)
    for _ in range(6):
        values = rng.integers(0, whole.cards)
        grounder.add_violated(values)
        assert score(grounder.network, values) == pytest.approx(score(whole, values)), str(world.theory)
        # nothing is added twice
        assert grounder.add_violated(values) == 0
    assert grounder.network.n_features <= 6 * whole.n_features


def test_every_kind_of_theory_has_rules_on_demand() -> None:
    n_rules = n_sparse = 0
    for seed in range(60):
        world = random_world(seed)
        try:
            n_rules += len(Violated(world, world.theory.rules, at_once=0).on_demand)
        except RuleError:
            continue
        n_sparse += bool(world.supports)
    assert n_rules > 40 and n_sparse > 10


@pytest.mark.parametrize("seed", range(20))
def test_the_best_world_is_the_same_on_demand(seed: int) -> None:
    world = random_world(seed)
    try:
        whole = build_network(world)
        best = search.best_world(whole, solver="ilp")
    except search.LogicMPError:
        return
    grounder = Violated(world, world.theory.rules, at_once=0)
    for _ in range(50):
        found = search.best_world(grounder.network, solver="ilp")
        if not grounder.add_violated(found.values):
            break
    assert found.score == pytest.approx(best.score, abs=1e-6), str(world.theory)


def test_values_of_atoms_are_those_of_the_world() -> None:
    theory = parse_theory("t = {A, B}\nS(t)\nF(t, t!)\nQ(t) in {L, M}\nG(t?)\n1 S(x) v F(x,y) v Q(x) = L v G(x)")
    network = build_network(build_world(parse_facts("S(A)\nF(A,B)", theory), ["S", "F", "Q", "G"]))
    variable = {name: numbers.reshape(-1) for name, numbers in network.variables.items()}
    values = np.zeros(len(network.cards), dtype=np.int64)
    values[variable["S"][1]] = 1
    values[variable["F"][1]] = 1
    values[variable["Q"][0]] = 1
    values[variable["G"][0]] = 2
    found = {name: x.tolist() for name, x in decided_values(network, values).items()}
    assert found == {"S": [1, 1], "F": [[0, 1], [0, 1]], "Q": [[0, 1], [1, 0]], "G": [0, 0]}


def test_millions_of_groundings_of_a_hard_rule_are_never_written_out() -> None:
    text = "t = {1, ..., 200}\nC(t, t)\nC(a,b) ^ C(b,c) => C(a,c).\n-1 C(a,b)"
    facts = "C(1,2)\nC(2,3)\nC(3,4)\n0.9 C(10,11)\n0.9 C(11,12)\n!C(10,12)"
    found = infer(text, facts, "C(1,x), C(10,x), C(11,x)", "map", solver="ilp")
    assert found.status == "optimal"
    true = {atom for atom, p in found.items() if p == 1}
    # one of C(10,11) and C(11,12) must go
    assert {"C(1,2)", "C(1,3)", "C(1,4)"} <= true and len(true) == 4
    assert any(note.startswith("1 rule with many groundings") for note in found.notes)


class Clock:
    """A clock that moves whenever MaxWalkSAT reports."""

    def __init__(self, step: float):
        self.seconds, self.step = 0.0, step

    def report(self, what: str, done: int, total: int) -> None:
        if what == "MaxWalkSAT":
            self.seconds += self.step

    def solve(self, rule: str) -> Marginals:
        text = f"t = {{1, ..., 110}}\nC(t, t)\n{rule}\n0.1 C(a,b)"
        return infer(text, "", "C(x,y)", "map", solver="walksat", progress=self.report,
                     limits=Limits(100, now=lambda: self.seconds))


def test_a_search_leaves_time_for_the_groundings_that_its_world_violates() -> None:
    found = Clock(15).solve("0.2 C(a,b) ^ C(b,c) => !C(a,c)")
    assert found.status == "time" and set(found.values()) == {0, 1}
    added = re.fullmatch(r"1 rule with many groundings: ([\d,]+) of them were added, those that (\d) worlds violate",
                         found.notes[0])
    assert added is not None and int(added[1].replace(",", "")) > 100_000 and int(added[2]) > 1


def test_a_late_search_returns_its_world_unless_hard_rules_are_unchecked() -> None:
    found = Clock(101).solve("0.2 C(a,b) ^ C(b,c) => !C(a,c)")
    assert found.status == "time" and not found.is_complete
    assert found.notes[1] == ("not all groundings that the last world violates were found: the time limit of 100 s was "
                              "reached while adding groundings that the world violates")
    with pytest.raises(LimitError, match="the time limit of 100 s was reached after 1 worlds that violate hard rules"):
        Clock(101).solve("C(a,b) ^ C(b,c) => !C(a,c).")
