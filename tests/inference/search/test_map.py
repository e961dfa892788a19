"""The most probable world: three solvers against all worlds, and what happens where there is none."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from logicmp import LogicMPError, infer, parse_facts, parse_theory
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.features import true_features
from logicmp.ground.network import HARD, Network
from logicmp.inference.method import Status
from logicmp.inference.search import map as map_module
from logicmp.inference.search.map import best_world
from logicmp.testing.method_battery import FACTS, SMOKERS, MethodBattery
from logicmp.testing.random_models import random_model

SOLVERS = ["ilp", "maxsat", "walksat"]


class MapBattery(MethodBattery):
    method, tolerance, is_world, status = "map", 0.0, True, Status.OPTIMAL


class TestAuto(MapBattery):
    """The solver that is taken by default."""


class TestMaxSat(MapBattery):
    options: Mapping[str, Any] = {"solver": "maxsat"}


class TestWalkSat(MapBattery):
    options: Mapping[str, Any] = {"solver": "walksat", "max_flips": 100_000}
    status = Status.ITERATIONS


def highest(network: Network) -> float:
    """The log-weight of the best of all worlds."""
    best = -np.inf
    soft = network.param != HARD
    for world in itertools.product(*(range(card) for card in network.cards)):
        values = np.array(world, dtype=np.int64)
        holds = true_features(network, values)
        if holds[~soft].any():
            continue
        counts = network.base.copy()
        np.subtract.at(counts, network.param[soft], network.share[soft] * holds[soft])
        best = max(best, network.weights @ counts + network.potentials[network.starts[:-1] + values].sum())
    return best


@pytest.mark.parametrize("seed", range(60))
def test_every_solver_finds_a_best_world(seed: int) -> None:
    model = random_model(random.Random(seed), max_ground=5)
    try:
        network = build_network(world_from_tensors(model.theory, model.unary, model.evidence))
    except LogicMPError as error:
        assert "violates this hard rule" in error.message
        return
    if np.prod(network.cards, dtype=float) > 2**16:
        pytest.skip("too many worlds to try them all")
    want = highest(network)
    for solver in SOLVERS:
        if want == -np.inf:
            with pytest.raises(LogicMPError, match="no world"):
                best_world(network, solver=solver, max_flips=1000)
            continue
        found = best_world(network, solver=solver, max_flips=100_000)
        assert found.score == pytest.approx(want, abs=1e-6), solver
        assert found.status is Status.OPTIMAL or solver == "walksat"


def test_other_weights_give_another_world() -> None:
    network = build_network(build_world(parse_facts("", parse_theory("p = {A}\nS(p)\n1 S(x)"))))
    assert best_world(network).values.tolist() == [1]
    assert best_world(network, np.array([-1.0])).values.tolist() == [0]


def test_maxsat_and_ilp_agree_where_worlds_cannot_be_listed() -> None:
    people = ", ".join(f"P{i}" for i in range(12))
    facts = "\n".join(f"0.{1 + k % 9} S(P{k})\nF(P{k}, P{(5 * k + 1) % 12})" for k in range(12))
    theory = f"p = {{{people}}}\nS(p)\nC(p)\nF(p, p)\n1.3 F(x, y) ^ S(x) => S(y)\n-0.4 C(x)\n0.7 S(x) => C(x)\n!C(P0)."
    network = build_network(build_world(parse_facts(facts, parse_theory(theory)), ["S", "C"]))
    ilp, maxsat = (best_world(network, solver=solver) for solver in ("ilp", "maxsat"))
    assert ilp.score == pytest.approx(maxsat.score, abs=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_hard_rules_that_no_world_satisfies_are_an_error(solver: str) -> None:
    theory = "p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\nS(x) v !T(x).\n!S(x) v !T(x)."
    with pytest.raises(LogicMPError) as caught:
        infer(theory, query="S", method="map", solver=solver, max_flips=1000)
    assert caught.value.message.startswith("no world satisfies the hard rules and the evidence")
    assert caught.value.hint == "give one of them a weight, or correct the evidence"


def test_without_a_sat_solver_the_search_reports_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pysat" else find(name))
    theory = "p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\nS(x) v !T(x).\n!S(x) v !T(x)."
    with pytest.raises(LogicMPError) as caught:
        infer(theory, query="S", method="map", solver="walksat", max_flips=1000)
    assert caught.value.message.startswith("MaxWalkSAT found no world that satisfies the hard rules in 1,000 "
                                           "flips: the best violates 1 of their groundings")


def test_the_notes_report_the_proof_and_the_violated_groundings() -> None:
    theory = "p = {A}\nS(p)\n2 S(x)\n1 !S(x)"
    assert infer(theory, query="S", method="map", solver="ilp").notes == [
        "ilp: proven to be the best, log-weight 2; it violates 1 grounding of rules with positive weights, and no "
        "hard one"]
    notes = infer(theory, query="S", method="map", solver="walksat", max_flips=100).notes
    # 10 in each restart, and three restarts in a row find nothing better
    assert notes[0].startswith("MaxWalkSAT: 40 flips in ")
    assert notes[1].startswith("walksat: not proven to be the best, log-weight 2;")


def test_a_formula_is_true_or_false_in_the_best_world() -> None:
    got = infer(SMOKERS, FACTS, ["Smokes(x) => Cancer(x)", "EXIST x (Smokes(x) ^ !Cancer(x))"], method="map")
    assert set(got.values()) <= {0.0, 1.0}
    assert got["Smokes(Anna) => Cancer(Anna)"] == 1


@pytest.mark.parametrize("module, solver, extra", [
    ("pysat", "maxsat", "map"), ("scipy", "ilp", "map"), ("numba", "walksat", "sampling")])
def test_what_is_not_installed_is_named(module: str, solver: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LogicMPError, match=f"needs {module}, which is not installed") as caught:
        infer(SMOKERS, FACTS, "Smokes", method="map", solver=solver)
    assert caught.value.hint == f'pip install "logicmp[{extra}]"'


@pytest.mark.usefixtures("without_numba")
@pytest.mark.parametrize("solver", ["ilp", "maxsat", "auto"])
def test_exact_solvers_need_no_numba(solver: str) -> None:
    got = infer(SMOKERS, FACTS, "Cancer, EXIST x Cancer(x)", method="map", solver=solver)
    assert got["Cancer(Anna)"] == got["EXIST x (Cancer(x))"] == 1
    assert f"{'ilp' if solver == 'auto' else solver}: proven to be the best" in got.notes[0]


@pytest.mark.usefixtures("without_numba")
def test_without_numba_auto_takes_an_exact_solver_for_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_module, "MAX_ACTIVE", 0)
    monkeypatch.setattr(map_module, "MAX_FEATURES", 0)
    assert infer(SMOKERS, FACTS, "Smokes", method="map").notes[0].startswith("ilp: proven to be the best")
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert infer(SMOKERS, FACTS, "Smokes", method="map").notes[0].startswith("maxsat: proven to be the best")
    monkeypatch.setitem(sys.modules, "pysat", None)
    with pytest.raises(LogicMPError) as caught:
        infer(SMOKERS, FACTS, "Smokes", method="map")
    assert caught.value.message == "method 'map' needs scipy, which is not installed"
    assert caught.value.hint == 'pip install "logicmp[map]"; or pip install "logicmp[sampling]" for MaxWalkSAT'


def test_with_numba_auto_leaves_large_networks_to_maxwalksat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_module, "MAX_ACTIVE", 0)
    facts = "Friends(Anna,Bob)\n0.9 Smokes(Anna)\n0.2 Smokes(Bob)"
    notes = infer(SMOKERS, facts, "Smokes", "map", max_flips=100).solution.notes
    assert notes[0].startswith("MaxWalkSAT: ")


@pytest.mark.parametrize("options, message", [
    ({"restarts": 0}, "restarts must be at least 1, got 0"),
    ({"max_flips": -3}, "max_flips must be at least 1, got -3")])
def test_a_search_of_no_length_is_rejected(options: dict[str, int], message: str) -> None:
    with pytest.raises(LogicMPError, match=message):
        infer(SMOKERS, FACTS, "Smokes", method="map", **options)


def test_an_unknown_solver_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(LogicMPError, match="unknown solver 'ilpp'") as caught:
        infer(SMOKERS, FACTS, "Smokes", method="map", solver="ilpp")
    assert caught.value.hint == "did you mean 'ilp'?"
