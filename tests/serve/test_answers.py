"""Answers of the page are those of `infer`, and its frames those of the layer."""

from __future__ import annotations

import math
from typing import Any

import pytest

from logicmp import LogicMPError, infer
from logicmp.limits import Limits
from logicmp.serve.answers import answer, explain, report
from logicmp.serve.examples import EXAMPLES

DEFAULTS: dict[str, Any] = {"facts": "", "query": "", "method": "auto", "semantics": "exact", "iterations": 6,
                            "damping": 0.5, "temperature": 1.0, "seed": 0}


def ask(example: Any = EXAMPLES[0], **options: Any) -> dict[str, Any]:
    return {**DEFAULTS, "rules": example.rules, "facts": example.facts, "query": example.query, **options}


def flat(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["atom"]: entry for group in found["groups"] for entry in group["answers"]}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_answers_are_those_of_infer(example: Any) -> None:
    found = answer(ask(example), Limits())
    expected = infer(example.rules, example.facts, example.query)
    entries = flat(found)
    assert {atom: entry["probability"] for atom, entry in entries.items()} == dict(expected)
    assert found["is_exact"] == (expected.status == "exact") == (found["log_partition"] is not None)
    for atom, odds in zip(entries, expected.log_odds.tolist(), strict=True):
        assert entries[atom]["log_odds"] == (odds if math.isfinite(odds) else None)
    assert "groundings" in found["plan"]
    # the strip begins before the rules
    assert [entry["before"] for entry in entries.values()] == found["trace"]["frames"][0]


VIEWS = {"smokers": ["bars", "graph"], "blocks": ["matrix", "graph", "bars"], "tagger": ["sequence", "bars"],
         "sudoku": ["grid", "bars"], "hierarchy": ["bars", "graph"], "entities": ["matrix", "graph", "bars"],
         "ranking": ["matrix", "graph", "bars"]}


def test_views_fit_the_shape_of_the_predicate() -> None:
    rules = """
person = {Anna, Bob}
town = {Oslo, Rome}
Rain
Knows(person, person)
Visited(person, town)
advisor(person, person!)
Gave(person, person, town)
1 Rain
"""
    groups = answer({**DEFAULTS, "rules": rules, "query": "Rain, Knows, Visited, advisor, Gave, Rain ^ Knows(x, y)"},
                    Limits())["groups"]
    assert [group["views"] for group in groups] == [
        ["bars"], ["matrix", "graph", "bars"], ["matrix", "bars"], ["sequence", "bars"], ["bars"], ["bars"]]
    assert groups[3]["answers"][1] | {"probability": 0} == {
        "atom": "advisor(Anna,Bob)", "args": ["Anna"], "value": "Bob", "probability": 0, "log_odds": 0.0,
        "before": 0.5, "observed": False}
    assert groups[5]["predicate"] is None
    assert groups[0]["answers"][0]["probability"] == pytest.approx(1 / (1 + math.exp(-1)))


def test_many_answers_are_bars() -> None:
    rules = "t = {1, ..., 51}\nP(t, t)\n1 P(x, y)"
    assert answer({**DEFAULTS, "rules": rules, "query": "P"}, Limits())["groups"][0]["views"] == ["bars"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_last_frame_is_the_answer_of_the_layer(example: Any) -> None:
    found = answer(ask(example, method="layer", iterations=7, damping=0.3, temperature=0.5), Limits())
    assert found["groups"][0]["views"] == VIEWS[example.name]
    assert found["trace"]["iterations"] == list(range(8))
    assert found["method"] == "mean-field" and found["status"] == "iterations"
    assert found["trace"]["frames"][-1] == pytest.approx(
        [entry["probability"] for entry in flat(found).values()], abs=1e-9)
    # what was stopped after seven iterations is compared with exact inference
    exact = infer(example.rules, example.facts, example.query)
    if exact.status == "exact":
        entries = flat(found)
        worst = max(exact, key=lambda atom: abs(exact[atom] - entries[atom]["probability"]))
        assert found["difference"]["atom"] == worst
        assert found["difference"]["largest"] == pytest.approx(abs(exact[worst] - entries[worst]["probability"]))
    else:
        assert found["difference"] is None and found["why_no_difference"] == "the model is too large"


def test_the_temperature_changes_the_trace() -> None:
    frames = [answer(ask(temperature=t), Limits())["trace"]["frames"][-1] for t in (1.0, 0.2)]
    assert frames[0] != pytest.approx(frames[1], abs=1e-3)


def test_many_frames_are_thinned_out_but_keep_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logicmp.serve.answers.MAX_FRAME_VALUES", 40)
    trace = answer(ask(iterations=30), Limits())["trace"]
    assert trace["iterations"] == [0, 10, 20, 30]
    assert len(trace["frames"]) == len(trace["bound"]) == len(trace["violations"]) == 4


def test_observed_pairs_are_the_edges_of_a_graph() -> None:
    (relation,) = answer(ask(), Limits())["relations"]
    assert relation["predicate"] == "Friends"
    assert relation["pairs"] == [("Anna", "Bob"), ("Bob", "Carl"), ("Carl", "Dora")]


def test_a_fact_decides_an_atom() -> None:
    entries = flat(answer(ask(), Limits()))
    assert entries["Smokes(Anna)"]["observed"] and not entries["Smokes(Bob)"]["observed"]
    assert entries["Cancer(Dora)"]["observed"] and entries["Cancer(Dora)"]["before"] == 0.0


def test_a_model_without_unobserved_atoms_has_no_trace() -> None:
    found = answer({**DEFAULTS, "rules": "P(t)\n1 P(x)", "facts": "P(A)", "query": "P(A)"}, Limits())
    assert found["trace"] is None
    assert flat(found)["P(A)"] == {"atom": "P(A)", "args": ["A"], "value": None, "probability": 1.0, "log_odds": None,
                                   "before": 1.0, "observed": True}


def test_pushes_add_up_to_the_next_update() -> None:
    # at the fixed point the next update is the state itself
    asked = ask(iterations=200)
    found = explain({**asked, "atom": "Smokes(Bob)"}, Limits())
    final = answer(asked, Limits())["trace"]["frames"][-1]
    q = final[list(flat(answer(asked, Limits()))).index("Smokes(Bob)")]
    total = found["before"] + sum(push["amount"] for push in found["pushes"])
    assert total == pytest.approx(math.log(q / (1 - q)), abs=1e-4)
    friends = next(push for push in found["pushes"] if push["rule"].startswith("2 Friends"))
    assert friends["line"] == 7
    assert friends["groundings"][0]["text"] == "Friends(Anna, Bob) => (Smokes(Anna) <=> Smokes(Bob))"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_unobserved_atom_of_an_example_can_be_explained(example: Any) -> None:
    asked = ask(example, iterations=2)
    open_atoms = [atom for atom, entry in flat(answer(asked, Limits())).items() if not entry["observed"]]
    assert open_atoms
    for atom in open_atoms[:: max(1, len(open_atoms) // 3)]:
        found = explain({**asked, "atom": atom}, Limits())
        assert not found["observed"] and found["pushes"]


def test_an_observed_atom_and_a_wrong_one() -> None:
    assert explain({**ask(), "atom": "Smokes(Anna)"}, Limits())["observed"]
    with pytest.raises(LogicMPError, match="not a person"):
        explain({**ask(), "atom": "Smokes(Zoe)"}, Limits())


def test_the_report_is_one_page_with_the_answers() -> None:
    html = report(ask(), Limits())["html"]
    assert "Smokes(Bob)" in html and "status: exact" in html and "Friends(x, y) =&gt;" in html
    assert "<script" not in html and "http" not in html.replace('http-equiv="Content-Security-Policy"', "")
