"""Classes of constants: the smaller world gives the groups, the messages and the answers of all constants."""

from __future__ import annotations

import random

import numpy as np
import pytest

from logicmp import LogicMPError, infer, parse_facts, parse_theory
from logicmp.facts.world import World, build_world
from logicmp.inference.answers import as_probability
from logicmp.inference.bp.classes import find_classes
from logicmp.inference.bp.lifted import LiftedBeliefPropagation
from logicmp.inference.bp.method import BeliefPropagation
from logicmp.inference.method import Problem, Solution
from logicmp.testing.method_battery import SMOKERS

LITERALS = ("S(x)", "S(y)", "F(x,y)", "F(y,x)", "F(x,x)", "G(x,a)", "G(y,a)", "U(a)", "mood(x) = K",
            "mood(y) in {K, L}", "F(x,A0)", "G(x,b)")


def random_world(seed: int) -> World | None:
    """A world with few facts, so that most constants are alike; None if its evidence is contradictory."""
    rng = random.Random(seed)
    people, things = ([f"{name}{k}" for k in range(rng.randint(3, 8))] for name in "AB")
    lines = [f"p = {{{', '.join(people)}}}", f"q = {{{', '.join(things)}}}", "S(p)", "F(p, p)", "G(p, q)", "U(q)",
             "mood(p) in {K, L, M}"]
    for _ in range(rng.randint(1, 4)):
        parts = [rng.choice(("", "!")) + literal for literal in rng.sample(LITERALS, rng.randint(1, 3))]
        formula = parts[0]
        for part in parts[1:]:
            formula = f"({formula} {rng.choice(('v', '=>', '<=>', '^'))} {part})"
        if rng.random() < 0.2 and "x" in formula:
            formula = f"x != A0 => {formula}"
        lines.append(f"{rng.uniform(-1, 1):.3f} {formula}")
    lines += ["!F(x,x)."] * (rng.random() < 0.3)
    facts = dict.fromkeys(rng.choice((
        f"S({rng.choice(people)})", f"!S({rng.choice(people)})", f"F({rng.choice(people)},{rng.choice(people)})",
        f"0.7 S({rng.choice(people)})", f"G({rng.choice(people)},{rng.choice(things)})", f"U({rng.choice(things)})"))
        for _ in range(rng.randint(0, 4)))
    theory = parse_theory("\n".join(lines))
    try:
        return build_world(parse_facts("\n".join(facts), theory), ["S"], rng.choice(("open", "alchemy")))
    except LogicMPError:
        return None


def solve(method: BeliefPropagation, world: World, is_grounded: bool = False) -> Solution:
    problem = Problem(world)
    return method.solve(problem, problem.network() if is_grounded else None)


@pytest.mark.parametrize("rounds, damping", [(3, 0.0), (40, 0.3)])
def test_every_round_is_that_of_bp_with_the_groups_of_the_ground_network(rounds: int, damping: float) -> None:
    n_lifted = 0
    for seed in range(40):
        world = random_world(seed)
        if world is None or find_classes(world) is None:
            continue
        try:
            want = solve(BeliefPropagation(rounds, damping), world)
        except LogicMPError as error:
            assert "no world satisfies" in error.message or "violates this hard rule" in error.message
            continue
        n_lifted += 1
        lifted = LiftedBeliefPropagation(rounds, damping)
        got, ground = solve(lifted, world), solve(lifted, world, is_grounded=True)
        for name, odds in want.log_odds.items():
            np.testing.assert_allclose(as_probability(got.log_odds[name]), as_probability(odds), atol=1e-6)
        assert got.notes[0] == ground.notes[0], seed
        bethe = [float(found.notes[-1].removeprefix("Bethe log Z = ")) for found in (want, got)]
        assert bethe[1] == pytest.approx(bethe[0], rel=1e-5, abs=1e-5)
    assert n_lifted > 25


def people(n: int) -> str:
    return SMOKERS.replace("{Anna, Bob, Carl}", f"{{{', '.join(f'P{i}' for i in range(n))}}}")


def test_the_cost_does_not_grow_with_the_people() -> None:
    # 4 million groundings, of which three people in each class are grounded
    got = infer(people(2000), "Smokes(P0)\nSmokes(P1)", "Smokes, Cancer", method="lifted-bp", opened=["Friends"],
                max_groundings=1000)
    assert got.status == "converged"
    assert got.notes[0].startswith("4,003,998 variables in 6 groups, 3,996,000 factors in 3: ")
    small = infer(people(60), "Smokes(P0)\nSmokes(P1)", "Smokes, Cancer", method="bp", opened=["Friends"])
    assert got["Cancer(P7)"] == pytest.approx(got["Cancer(P1999)"], abs=1e-12)
    assert small["Cancer(P7)"] == pytest.approx(small["Cancer(P59)"], abs=1e-6)


def classes_of(theory: str, facts: str = "") -> dict[str, list[int]]:
    world = build_world(parse_facts(facts, parse_theory(theory)))
    found = find_classes(world)
    return {} if found is None else {t: label.tolist() for t, label in found.label.items()}


def test_constants_are_alike_if_swapping_them_changes_nothing() -> None:
    theory = "p = {A, B, C, D, E, F, G}\nS(p)\nF(p, p)\n1 F(x,y) => S(x)"
    assert classes_of(theory, "F(A,B)\nS(C)") == {"p": [-1, -1, -1, 0, 0, 0, 0]}
    # everybody is a friend of himself, and nobody of another
    alone = "\n".join(f"F({c},{c})" for c in "ABCDEFG")
    assert classes_of(theory, alone) == {"p": [0] * 7}
    # all are a friend of A
    assert classes_of(theory, "\n".join(f"F({c},A)" for c in "BCDEFG")) == {"p": [-1, 0, 0, 0, 0, 0, 0]}


@pytest.mark.parametrize("rule, what", [
    ("1 S(A) => S(x)", "a constant that a rule names is alone"),
    ("1 EXIST x S(x)", "a factor over all constants"),
    ("1 S(x) => S(x+1)", "neighbours"),
    ("1 S(+x)", "a weight for each"),
])
def test_what_distinguishes_constants(rule: str, what: str) -> None:
    names = ", ".join("ABCDEFG") if "+1" not in rule else "1, ..., 7"
    found = classes_of(f"p = {{{names}}}\nS(p)\n{rule}")
    assert found == ({"p": [-1, 0, 0, 0, 0, 0, 0]} if what.startswith("a constant") else {}), what


def test_values_of_a_variable_are_no_class() -> None:
    theory = "p = {A, B, C, D, E}\nq = {K, L, M, N, O}\nlives(p, q!)\n1 lives(x,a) ^ lives(y,a)"
    assert classes_of(theory) == {"p": [0, 0, 0, 0, 0]}


def test_listed_facts_distinguish_constants() -> None:
    theory = "F(p, p)\nS(p)\n1 F(x,y) ^ S(x) => S(y)"
    facts = "F(A,B)\n" + "\n".join(f"!F(P{k},P{k})" for k in range(6))
    world = build_world(parse_facts(facts, parse_theory(theory)), ["S"], dense_atoms=1)
    assert list(world.supports) == ["F"]
    found = find_classes(world)
    assert found is not None
    alone = np.array(world.theory.type["p"].constants)[found.label["p"] < 0]
    assert alone.tolist() == ["A", "B"]
    want, got = (solve(method, world) for method in (BeliefPropagation(), LiftedBeliefPropagation()))
    np.testing.assert_allclose(got.log_odds["S"], want.log_odds["S"], atol=1e-6)
    assert got.log_odds["F"].tolist() == want.log_odds["F"].tolist()
