"""Training data: every atom is true or false, or it is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from logicmp import LogicMPError, parse_facts, parse_theory
from logicmp.learning.databases import read_databases

THEORY = parse_theory("Smokes(person)\n*Friends(person, person)\nlabel(person) in {L, M}\nboss(person, person!)")


def test_an_atom_without_a_fact_is_false_with_or_without_a_star() -> None:
    theory = parse_theory("Smokes(person)\n*Friends(person, person)")
    _, (database,) = read_databases(theory, [parse_facts("Friends(Anna, Bob)", theory)])
    assert database.world.values["Smokes"].tolist() == [0, 0]
    assert database.world.values["Friends"].tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("fact, message", [
    ("?Smokes(Bob)", "train.db:2: Smokes(Bob) is unobserved; `learn` needs facts that are true or false"),
    ("0.7 Smokes(Bob)", "train.db:2: Smokes(Bob) is soft (0.7); `learn` needs facts that are true or false"),
])
def test_uncertain_facts_are_rejected(fact: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.db").write_text(f"Smokes(Anna)\n{fact}\n")
    with pytest.raises(LogicMPError) as caught:
        read_databases(THEORY, ["train.db"])
    assert caught.value.message == message
    assert caught.value.hint == "make it true or false, or remove the line: atoms without a fact are false"


@pytest.mark.parametrize("facts, message", [
    ("label(Anna) = L\nSmokes(Bob)\nboss(Anna, Bob)\nboss(Bob, Bob)",
     "database 1: no fact gives a value to label(Bob)"),
    ("label(Anna) = L\nlabel(Bob) = M\nboss(Anna, Bob)", "database 1: no fact gives a value to boss(Bob, _)"),
])
def test_a_variable_without_its_value_is_rejected(facts: str, message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        read_databases(THEORY, [parse_facts(facts, THEORY)])
    assert caught.value.message == message
    assert "if there may be no value, mark the argument '?'" in str(caught.value)


def test_error_of_a_world_names_the_database() -> None:
    with pytest.raises(LogicMPError, match="database 2: type 'person' has no constants"):
        read_databases(parse_theory("Smokes(person)"),
                       [parse_facts(text, parse_theory("Smokes(person)")) for text in ("Smokes(Anna)", "")])


def test_other_types_stay_per_database() -> None:
    theory = parse_theory("Word(text, word)\nWord(t, +w)")
    facts = [parse_facts(text, theory) for text in ("Word(A, X)\nWord(B, X)", "Word(A, Y)")]
    shared, databases = read_databases(theory, facts)
    assert shared.type["word"].constants == ("X", "Y")
    assert [database.world.sizes for database in databases] == [{"text": 2, "word": 2}, {"text": 1, "word": 2}]
    # the same constant has the same place in each of them
    assert [database.world.values["Word"].tolist() for database in databases] == [[[1, 0], [1, 0]], [[0, 1]]]
