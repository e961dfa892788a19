"""Real files: Markov logic from six engines, and the folders of ExpressGNN."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from logicmp import RuleError, load_theory, parse_theory

CASES = [
    "alarm_kreator_q1", "alarm_noisyor_q2", "alchemy_asthma", "alchemy_binomial", "alchemy_multinomial",
    "friendsmoker_forclift", "hard_and_alchemy6", "hard_or_lomrf22", "hmm_pos_tags", "include_statement_base",
    "precedence_and_or", "rockit_minimal", "smoke_logicmp_owa", "smokers_forclift_learned", "smokers_pracmln_test",
    "tuffy_smoke", "tuffy_uwcse", "tweety_conj_q1", "vegetarian_2_2", "worksfor_exists",
]
REJECTED = "alchemy_univ"


def test_every_case_is_listed(data: Path) -> None:
    assert sorted(path.parent.name for path in data.glob("mln/*/model.mln")) == sorted([*CASES, REJECTED])


@pytest.mark.parametrize("case", CASES)
def test_case_has_the_expected_rules_and_predicates(data: Path, case: str) -> None:
    expected = json.loads((data / "mln" / case / "expected.json").read_text(encoding="utf-8"))
    for grammar in ("auto", expected["grammar"]):
        theory = load_theory(data / "mln" / case / "model.mln", grammar)
        assert len(theory.rules) == expected["n_formulas"]
        assert {p.name: [str(a) for a in p.arguments] for p in theory.predicates} == expected["predicates"]
        assert parse_theory(str(theory)) == theory


def test_undeclared_predicate_is_rejected_with_its_line(data: Path) -> None:
    with pytest.raises(RuleError) as error:
        load_theory(data / "mln" / REJECTED / "model.mln")
    assert error.value.message == "predicate 'publication' is used but not declared"
    assert error.value.span is not None
    assert (error.value.span.line, error.value.span.column) == (27, 8)
    assert error.value.hint == "declare it: publication(thing, person)"


def test_every_split_has_the_rules_of_the_readme(data: Path) -> None:
    # | smoke/all | entities | predicates | facts | queries | ground atoms | ground clauses | rules |
    rows = re.findall(r"^\| (\w+/\w+) \|[^|]*\| (\d+) \|(?:[^|]*\|){4} (\d+) \|$",
                      (data / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 16
    for split, n_predicates, n_rules in rows:
        theory = load_theory(data / "relational" / split)
        assert (split, len(theory.predicates), len(theory.rules)) == (split, int(n_predicates), int(n_rules))
        assert all(rule.weight == 1.0 for rule in theory.rules)
        assert parse_theory(str(theory)) == theory
