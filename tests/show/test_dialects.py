"""Files of every dialect read back with the same meaning, or a line says what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logicmp import Evidence, LogicMPError, Theory, infer, load_facts, load_theory, parse_facts, parse_theory
from logicmp.cli.convert import Dialect, _read
from logicmp.limits import silent
from logicmp.show.dialects import DIALECTS, Written, write_dialect

# rules are lost, or atoms are no longer exclusive
LOST = ("left out", "independent")


def read_back(done: Written, dialect: str, folder: Path) -> tuple[Theory, Evidence]:
    for name, text in done.files.items():
        path = folder / (f"out{name}" if name.startswith(".") else name)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    is_pair = ".mln" in done.files
    facts = [str(folder / "out.db")] if ".db" in done.files else []
    theory, evidence, notes = _read(str(folder / "out.mln" if is_pair else folder), Dialect(dialect), facts, silent)
    assert not [note for note in notes if "left out" in note]
    return theory, evidence


def answers(theory: Theory, facts: Evidence, query: list[str], closed: list[str]) -> dict[str, float]:
    return dict(infer(theory, facts, query, "exact", world="open", closed=[x for x in closed if x in theory.predicate]))


ALL = """
person = {Anna, Bob, Carl}
Smokes(person)
*Old(person)
symmetric Friends(person, person)
Lives(person, place?)
Mood(person) in {Good, Bad, So-so}
Rain
0.8 Friends(x,y) => (Smokes(x) <=> Smokes(y))
1.1 Smokes(x) ^ !Old(x)
-0.4 Mood(x) in {Good, So-so} v Smokes(x)
0.3 Lives(x, c) ^ Lives(y, c) ^ x != y => Friends(x, y)
0.5 EXIST y Friends(x, y) v Smokes(x)
0.2 Smokes(+x)
Smokes(Anna) => Rain.
-0.7 Rain
"""
FACTS = "Old(Bob)\n0.7 Smokes(Carl)\nFriends(Anna, Bob)\n!Friends(Anna, Carl)\nLives(Anna, Rome)\n?Lives(Bob, Oslo)\n"
QUERY = ["Smokes", "Friends", "Rain"]


@pytest.mark.parametrize("dialect", ["alchemy", "tuffy", "pracmln", "csv"])
def test_every_construct_keeps_its_probabilities(dialect: str, tmp_path: Path) -> None:
    theory = parse_theory(ALL)
    facts = parse_facts(FACTS, theory)
    want = answers(theory, facts, QUERY, ["Lives"])
    done = write_dialect(theory, facts, dialect)
    got = answers(*read_back(done, dialect, tmp_path), QUERY, ["Lives", "Old"])
    assert {name: p for name, p in got.items() if name in want} == pytest.approx(want, abs=1e-9)


def test_notes_name_what_is_missing() -> None:
    theory = parse_theory("*Old(t)\nP(t)\nlabel(t) in {A, B}\n(P(x) v Old(x))\n1 P(i) => P(i+1)\nP(x) => Old(x).\n"
                          "-2 P(x) v Old(x)\n1 P(x) ^ EXIST y Old(y)\nP(+x) v Old(x)")
    facts = parse_facts("Old(B)\n?P(B)", theory)
    notes = {name: write_dialect(theory, facts, name).notes for name in DIALECTS}
    offset = "line 5: 1 P(i) => P(i+1): left out: {} has no offsets such as i+1"
    assert notes["csv"] == []
    assert notes["alchemy"] == ["Old is closed (*): run Alchemy with -cw Old", offset.format("Alchemy")]
    assert notes["tuffy"] == [
        "1 unobserved facts of P (?P) are left out",
        "line 4: P(x) v Old(x): it has no weight, so it is written with weight 1", offset.format("Tuffy"),
        "line 8: 1 P(x) ^ (EXIST y (Old(y))): left out: Tuffy has clauses only, and this formula has none of the same "
        "meaning", "line 9: P(+x) v Old(x): left out: Tuffy has no weights for single constants (+x)"]
    assert "Old is closed (*): run pracmln with cw_preds=Old" in notes["pracmln"]
    assert {"label(t, label_label!): ExpressGNN has no marks ! and ?, so its atoms are independent",
            "line 6: P(x) => Old(x).: left out: ExpressGNN has no hard rules"} <= set(notes["expressgnn"])
    assert {"line 7: -2 P(x) v Old(x): left out: PSL has no negative weights",
            "PSL's truth values and hinge losses are not probabilities: the weights keep their numbers only"
            } <= set(notes["psl"])


def test_an_unknown_dialect_is_rejected() -> None:
    theory = parse_theory("1 P(x)")
    with pytest.raises(LogicMPError, match="unknown dialect 'prolog'\nhint: available dialects: alchemy, tuffy"):
        write_dialect(theory, parse_facts("", theory), "prolog")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_published_models_keep_their_exact_answers(data: Path, tmp_path: Path, dialect: str) -> None:
    n_compared = 0
    for case in sorted(path for path in (data / "mln").iterdir() if path.is_dir()):
        if case.name == "alchemy_univ":
            # it is rejected: a predicate is not declared
            continue
        theory = load_theory(case / "model.mln")
        facts = load_facts(case / "evidence.db", theory)
        done = write_dialect(theory, facts, dialect)
        folder = tmp_path / case.name
        folder.mkdir()
        back, evidence = read_back(done, dialect, folder)
        expected = json.loads((case / "expected.json").read_text())
        if any(word in note for note in done.notes for word in LOST):
            continue
        assert len(back.rules) >= len(theory.rules)
        if expected["status"] == "exact":
            query = [name.strip(",") for name in (case / "query.txt").read_text().split()]
            got = answers(back, evidence, query, expected["closed_world"])
            for atom, p in expected["marginals"].items():
                assert got[atom] == pytest.approx(p, abs=1e-9), (case.name, atom)
            n_compared += 1
    assert n_compared >= {"expressgnn": 7, "psl": 13}.get(dialect, 18)


def splits(data: Path) -> list[Path]:
    return sorted(path.parent for path in (data / "relational").glob("*/*/rules"))


@pytest.mark.parametrize("dialect", ["alchemy", "tuffy", "pracmln", "expressgnn", "csv"])
def test_folders_of_expressgnn_keep_rules_and_facts(data: Path, tmp_path: Path, dialect: str) -> None:
    for split in splits(data):
        theory = load_theory(split)
        facts = load_facts(split / "facts", theory)
        folder = tmp_path / "-".join(split.parts[-2:])
        folder.mkdir()
        back, evidence = read_back(write_dialect(theory, facts, dialect), dialect, folder)
        # Tuffy has no +w, and all weights are the same
        want = [str(rule).replace("+", "") if dialect == "tuffy" else str(rule) for rule in theory.rules]
        assert [str(rule) for rule in back.rules] == want
        assert as_sets(evidence) == as_sets(facts)
    assert len(splits(data)) == 16


def as_sets(facts: Evidence) -> dict[str, set[tuple[tuple[str, ...], float]]]:
    return {name: set(zip(table.args, table.values.tolist(), strict=True)) for name, table in facts.tables.items()
            if not name.startswith("of_")}


@pytest.mark.parametrize("dialect", ["alchemy", "tuffy", "pracmln", "expressgnn", "csv"])
def test_a_knowledge_graph_keeps_rules_and_facts(data: Path, tmp_path: Path, dialect: str) -> None:
    theory = load_theory(data / "kg/fb15k-237/rules.mln")
    facts = load_facts(data / "kg/fb15k-237/test.db", theory)
    back, evidence = read_back(write_dialect(theory, facts, dialect), dialect, tmp_path)
    assert as_sets(evidence) == as_sets(facts)
    assert len(back.rules) == len(theory.rules)
    if dialect in ("alchemy", "csv"):
        assert [str(rule) for rule in back.rules] == [str(rule) for rule in theory.rules]


@pytest.mark.parametrize("split", ["smoke/all", "uw_cse/language"])
def test_psl_keeps_clauses_and_facts(data: Path, tmp_path: Path, split: str) -> None:
    theory = load_theory(data / "relational" / split)
    facts = load_facts(data / "relational" / split / "facts", theory)
    back, evidence = read_back(write_dialect(theory, facts, "psl"), "psl", tmp_path)
    assert len(back.rules) == len(theory.rules)
    assert as_sets(evidence) == as_sets(facts)
