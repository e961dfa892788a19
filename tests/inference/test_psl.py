"""PSL itself, in Java, finds no better truth values than ours and no worse."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from logicmp import parse_facts, parse_theory
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import Network
from logicmp.inference.hlmrf import HingeLossMRF, build_loss
from logicmp.inference.method import Problem

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java, which PSL runs on")

PEOPLE = [f"P{i}" for i in range(8)]
CITIES = ["Rome", "Oslo", "Bern"]
# each rule as we write it, and as PSL does
RULES = [
    ("1.5 Smokes(x) => Cancer(x)", "1.5: Smokes(X) -> Cancer(X)"),
    ("1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)", "1.1: Friends(X, Y) & Smokes(X) -> Smokes(Y)"),
    ("0.7 !Smokes(x)", "0.7: !Smokes(X)"),
    ("0.4 !Cancer(x)", "0.4: !Cancer(X)"),
    ("0.9 Friends(x, y) ^ Lives(x, c) => Lives(y, c)", "0.9: Friends(X, Y) & Lives(X, C) -> Lives(Y, C)"),
    ("1.3 Born(x, c) => Lives(x, c)", "1.3: Born(X, C) -> Lives(X, C)"),
    ("0.6 Lives(x, Rome) => Smokes(x)", "0.6: Lives(X, 'Rome') -> Smokes(X)"),
    ("Friends(x, y) => Smokes(x) v Smokes(y).", "Friends(X, Y) -> Smokes(X) | Smokes(Y) ."),
    ("", "Lives(X, +C) = 1 ."),
]
DECLARED = f"""\
person = {{{', '.join(PEOPLE)}}}
city = {{{', '.join(CITIES)}}}
Friends(person, person)
Born(person, city)
Smokes(person)
Cancer(person)
Lives(person, city!)
"""


def random_facts(seed: int) -> dict[str, list[list[str]]]:
    rng = random.Random(seed)
    friends = sorted({tuple(rng.sample(PEOPLE, 2)) for _ in range(14)})
    return {"Friends": [list(pair) for pair in friends], "Born": [[p, rng.choice(CITIES)] for p in PEOPLE[:5]],
            "Smokes": [["P0"]]}


def psl_truth(facts: dict[str, list[list[str]]], squared: bool, folder: Path) -> dict[tuple[str, ...], float]:
    """What PSL says of every atom that no fact names."""
    from pslpython.model import Model
    from pslpython.partition import Partition
    from pslpython.predicate import Predicate
    from pslpython.rule import Rule

    model = Model("people")
    targets = {"Smokes": [[p] for p in PEOPLE[1:]], "Cancer": [[p] for p in PEOPLE],
               "Lives": [[p, c] for p in PEOPLE for c in CITIES]}
    for name, size in (("Friends", 2), ("Born", 2), ("Smokes", 1), ("Cancer", 1), ("Lives", 2)):
        predicate = Predicate(name, size=size)
        for partition, rows in ((Partition.OBSERVATIONS, facts.get(name)), (Partition.TARGETS, targets.get(name))):
            if rows:
                predicate.add_data(partition, rows)
        model.add_predicate(predicate)
    for _, rule in RULES:
        model.add_rule(Rule(rule if rule.endswith(".") or not squared else f"{rule} ^2"))
    options = {"runtime.log.level": "ERROR", "admmreasoner.epsilonabs": 1e-8, "admmreasoner.epsilonrel": 1e-6,
               "reasoner.tolerance": 1e-9, "admmreasoner.maxiterations": 50000}
    found = model.infer(psl_options=options, jvm_options=[f"-Djava.io.tmpdir={folder}"])
    return {(predicate.name(), *row[:-1]): float(row[-1]) for predicate, table in found.items()
            for row in table.to_numpy().tolist()}


def as_truth(network: Network, atoms: dict[tuple[str, ...], float]) -> np.ndarray:
    """Truth values of atoms as those of the network's variables."""
    truth = np.zeros(int(network.starts[-1]))
    for (name, person, *city), value in atoms.items():
        start = int(network.starts[network.variables[name.capitalize()][PEOPLE.index(person)]])
        if city:
            truth[start + CITIES.index(city[0])] = value
        else:
            truth[start : start + 2] = 1 - value, value
    return truth


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_psl(tmp_path: Path, seed: int, squared: bool) -> None:
    pytest.importorskip("pslpython", reason="needs pslpython: pip install pslpython")
    facts = random_facts(seed)
    theory = parse_theory(DECLARED + "\n".join(rule for rule, _ in RULES))
    text = "\n".join(f"{name}({', '.join(row)})" for name, rows in facts.items() for row in rows)
    world = build_world(parse_facts(text, theory), ["Smokes", "Cancer", "Lives"])
    network = build_network(world)
    loss = build_loss(network, squared)
    ours, _, _ = HingeLossMRF(squared=squared).minimize(loss, network, Problem(world))
    theirs = as_truth(network, psl_truth(facts, squared, tmp_path))
    assert loss.violation(ours) < 1e-4
    assert loss.violation(theirs) < 1e-2
    assert loss(ours) == pytest.approx(loss(theirs), abs=1e-3)
