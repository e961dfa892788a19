"""Answers as text, JSON and CSV."""

from __future__ import annotations

import json
import math

import pytest

from logicmp import Marginals, infer, parse_facts, parse_theory
from logicmp.inference.method import TraceLine
from logicmp.show.answers import to_csv, to_json, to_text, trace_to_csv

THEORY = parse_theory("p = {A, \"B, C\"}\nS(p)\nT(p)\n2 S(x) => T(x)\nS(x)")
FACTS = parse_facts("S(A)", THEORY)


@pytest.fixture
def found() -> Marginals:
    return infer(THEORY, FACTS, "S, T(A)", "exact")


def test_text_has_one_answer_per_line(found: Marginals) -> None:
    p = (math.exp(3) + math.exp(1)) / (math.exp(3) + math.exp(1) + 2 * math.exp(2))
    assert to_text(found) == f'S(A) 1\nS("B, C") {p:.6g}\nT(A) 0.880797\n'


def test_csv_quotes_commas_and_writes_infinite_log_odds(found: Marginals) -> None:
    rows = to_csv(found).splitlines()
    assert rows[:2] == ["atom, probability, log_odds".replace(" ", ""), "S(A),1,inf"]
    assert rows[2].startswith('"S(""B, C"")",0.')
    assert rows[3] == "T(A),0.880797,2"


def test_json_is_valid_where_log_odds_are_infinite(found: Marginals) -> None:
    def reject(constant: str) -> None:
        raise AssertionError(constant)

    parsed = json.loads(to_json(found, {"largest": 0.5}), parse_constant=reject)
    assert parsed["check"] == {"largest": 0.5}
    assert parsed["marginals"][0] == {"atom": "S(A)", "probability": 1.0, "log_odds": None, "decided": True}
    assert "check" not in json.loads(to_json(found))


def test_a_trace_has_a_column_per_rule() -> None:
    trace = [TraceLine(0, -2.0, [1.0, 0.5], math.inf), TraceLine(1, -1.5, [0.5, 0.25], 0.125)]
    assert trace_to_csv(trace, ["1 S(x)", "T(x), hard"]) == (
        'iteration,elbo,change,1 S(x),"T(x), hard"\n0,-2.0,,1.0,0.5\n1,-1.5,0.125,0.5,0.25\n')


def test_the_description_names_rules_without_a_weight(found: Marginals) -> None:
    lines = list(found.describe())
    assert lines[:2] == ["2 predicates, 2 rules, 1 fact",
                         "1 rule without a weight: using 1 (logicmp learn learns weights)"]
    assert lines[-1] == f"log Z = {found.log_partition:.9g}"
