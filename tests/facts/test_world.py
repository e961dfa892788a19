"""Worlds: the values of atoms without a fact, and how the choice is described."""

from __future__ import annotations

import numpy as np
import pytest

from logicmp import LogicMPError, parse_facts, parse_theory
from logicmp.execute.worlds import world_tensors
from logicmp.facts.world import World, build_world

THEORY = parse_theory("""\
person = {Anna, Bob, Carl}
place = {Bonn, Kiel, Ulm}
Smokes(person)
Cancer(person)
*Friends(person, person)
livesIn(person, place!)
drives(person, place?)
mood(person) in {Glad, Sad}
symmetric Kin(person, person)

1 Smokes(x) => Cancer(x)
""")


def world(facts: str = "", queried: tuple[str, ...] = (), **options: object) -> World:
    return build_world(parse_facts(facts, THEORY), queried, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("queried, options, closed", [
    # Alchemy: a predicate with facts is closed unless it is queried; `*` closes in every convention
    ((), {}, {"Smokes": "it has facts", "Friends": "declared with *"}),
    (("Smokes",), {}, {"Friends": "declared with *"}),
    ((), {"world": "open"}, {"Friends": "declared with *"}),
    (("Smokes", "livesIn", "drives", "mood", "Kin"), {"world": "closed"},
     {"Cancer": "not queried", "Friends": "declared with *"}),
    # a choice by name overrides all conventions
    ((), {"opened": ["Smokes", "Friends"], "closed": ["Cancer"]}, {"Cancer": "as requested"}),
])
def test_the_convention_decides_which_predicates_are_closed(
        queried: tuple[str, ...], options: dict[str, object], closed: dict[str, str]) -> None:
    found = world("Smokes(Anna)", queried, **options)
    assert {name: why for name, why in found.closed.items() if why} == closed


def test_the_choice_is_described_by_reason() -> None:
    assert world("Smokes(Anna)\nCancer(Bob)").describe() == (
        "closed world: Smokes, Cancer (they have facts); Friends (declared with *)\n"
        "open world:   livesIn, drives, mood, Kin")


def test_closed_atoms_are_false_and_open_ones_unobserved() -> None:
    found = world("Smokes(Anna)\n?Smokes(Carl)\n!Cancer(Bob)", ["Cancer"])
    assert found.values["Smokes"].tolist() == [1, 0, -1]
    assert found.values["Cancer"].tolist() == [-1, 0, -1]


def test_an_atom_with_soft_evidence_is_unobserved_and_has_log_odds() -> None:
    found = world("0.8 Smokes(Anna)\n0.5 Kin(Anna, Bob)\n0.9 Kin(Carl, Anna)")
    assert found.values["Smokes"].tolist() == [-1, 0, 0]
    assert found.unary["Smokes"].tolist() == pytest.approx([np.log(4), 0, 0])
    assert found.unary["Kin"] == pytest.approx(found.unary["Kin"].T)
    assert found.unary["Kin"][0, 2] == pytest.approx(np.log(9))


@pytest.mark.parametrize("name, facts, more", [
    ("Smokes", "0.8 Smokes(Anna)", "0.1 Smokes(Bob)\n0.1 Smokes(Carl)"),
    # what has a fact keeps it: true, false, soft 0.5, unobserved
    ("Friends", "Friends(Anna, Anna)\n!Friends(Anna, Bob)\n0.5 Friends(Bob, Anna)\n?Friends(Carl, Carl)\n"
     "0.9 Friends(Bob, Bob)",
     "0.1 Friends(Anna, Carl)\n0.1 Friends(Bob, Carl)\n0.1 Friends(Carl, Anna)\n0.1 Friends(Carl, Bob)"),
    ("Kin", "0.8 Kin(Anna, Bob)\nKin(Carl, Carl)\n?Kin(Bob, Carl)", "0.1 Kin(Anna, Anna)\n0.1 Kin(Bob, Bob)\n"
     "0.1 Kin(Anna, Carl)"),
    # without any fact
    ("Cancer", "", "0.1 Cancer(Anna)\n0.1 Cancer(Bob)\n0.1 Cancer(Carl)"),
])
def test_a_prior_is_soft_evidence_for_every_atom_without_a_fact(name: str, facts: str, more: str) -> None:
    got = world(facts, opened=[name], prior={name: 0.1})
    want = world(f"{facts}\n{more}", opened=[name])
    assert got.values[name].tolist() == want.values[name].tolist()
    assert got.unary[name] == pytest.approx(want.unary[name])


def test_the_prior_of_one_predicate_is_not_that_of_another() -> None:
    assert world(prior={"Cancer": 0.1}).unary.keys() == {"Cancer"}


def test_atoms_without_a_fact_are_told_where_others_are_soft() -> None:
    facts = "0.8 Smokes(Anna)\n0.9 Kin(Anna, Bob)\nKin(Bob, Carl)\nCancer(Anna)"
    assert world(facts, ["Smokes", "Kin", "Cancer"]).warnings == [
        "Smokes: 2 of 3 atoms have no fact, prior probability 0.5; set another prior (--prior Smokes=0.1), or make "
        "them false (-cw Smokes)",
        "Kin: 4 of 6 atoms have no fact, prior probability 0.5; set another prior (--prior Kin=0.1), or make them "
        "false (-cw Kin)"]
    assert world(facts, ["Smokes"], prior={"Smokes": 0.25}).warnings == [
        "Smokes: 2 of 3 atoms have no fact, prior probability 0.25"]
    # closed, or all atoms have a fact
    assert world(facts).warnings == []
    assert world("0.8 Smokes(Anna)\n0.8 Smokes(Bob)\n!Smokes(Carl)", ["Smokes"]).warnings == []


def test_one_true_value_makes_the_others_false() -> None:
    found = world("livesIn(Anna, Kiel)\nmood(Bob) = Sad")
    assert found.values["livesIn"][0].tolist() == [0, 1, 0]
    assert found.values["mood"][1].tolist() == [0, 1]


def test_the_last_possible_value_is_true() -> None:
    assert world("!livesIn(Bob, Bonn)\n!livesIn(Bob, Ulm)").values["livesIn"][1].tolist() == [0, 1, 0]


def test_a_variable_that_must_have_a_value_is_never_closed() -> None:
    found = world("livesIn(Anna, Kiel)\n!livesIn(Bob, Ulm)")
    assert found.values["livesIn"].tolist() == [[0, 1, 0], [-1, -1, 0], [-1, -1, -1]]
    assert found.warnings == ["livesIn is closed, but no fact gives a value to 2 of its variables: they stay "
                              "unobserved, because each must have one"]


def test_a_variable_that_may_have_no_value_is_closed() -> None:
    assert world("drives(Anna, Ulm)").values["drives"].tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_symmetric_facts_apply_both_ways() -> None:
    assert world("Kin(Bob, Anna)").values["Kin"].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_tensors_are_those_the_layer_takes() -> None:
    unary, evidence = world_tensors(world("Smokes(Anna)\n?Smokes(Bob)\nFriends(Anna, Bob)", ["Cancer"]))
    assert sorted(unary) == ["Cancer", "Kin", "Smokes", "drives", "livesIn", "mood"]
    assert evidence["Friends"].dtype.is_floating_point is False
    assert evidence["Smokes"].isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("options, message", [
    ({"world": "flat"}, "unknown world 'flat'\nhint: available worlds: alchemy, open, closed"),
    ({"closed": ["Smoke"]}, "predicate 'Smoke' is not declared\nhint: did you mean 'Smokes'?"),
    ({"closed": ["Smokes"], "opened": ["Smokes"]}, "predicate 'Smokes' cannot be both closed and open"),
    ({"prior": {"Smoke": 0.1}}, "predicate 'Smoke' is not declared\nhint: did you mean 'Smokes'?"),
    ({"prior": {"mood": 0.1}}, "mood(person) in {Glad, Sad} cannot have a prior: one of its values must be true\n"
                               "hint: write a rule with a weight for each value"),
    ({"prior": {"Friends": 0.1}}, "the prior of Friends has no effect, because Friends is closed (declared with *)\n"
                                  "hint: open it: opened=['Friends'], or -ow Friends on the command line"),
    *(({"prior": {"Smokes": p}}, f"the prior of Smokes must be a probability above 0 and below 1, got {p!r}\n"
                                 "hint: for false atoms close the predicate: closed=['Smokes'], or -cw Smokes")
      for p in (0, 1.0, -0.1, float("nan"), True, "0.1")),
])
def test_a_wrong_choice_is_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        world(**options)
    assert str(caught.value) == message


def test_evidence_against_every_value_is_rejected() -> None:
    with pytest.raises(LogicMPError) as caught:
        world("!mood(Bob) = Sad\n!mood(Bob) = Glad")
    assert str(caught.value) == ("the evidence excludes every value of a variable of mood(person) in {Glad, Sad}\n"
                                 "hint: one of them must be true: remove the '!' before it, or write '?' instead")


def test_a_type_without_constants_is_rejected() -> None:
    with pytest.raises(LogicMPError) as caught:
        build_world(parse_facts("", parse_theory("Smokes(person)\n1 Smokes(x)")))
    assert str(caught.value) == ("type 'person' has no constants\nhint: declare them (person = {A, B}), or give "
                                 "evidence that names them")


def test_a_predicate_with_more_arguments_than_an_array_has_axes_is_rejected() -> None:
    theory = parse_theory(f"t = {{A}}\nP({', '.join(['t'] * 70)})")
    with pytest.raises(LogicMPError, match=r"^P has 70 arguments \(limit 32\)"):
        build_world(parse_facts("", theory))
