"""Warnings: each where it applies, and not where it does not."""

from __future__ import annotations

import pytest

from logicmp import normalize_theory, parse_theory
from logicmp.normalize.review import find_warnings

LOWERS = ("a weighted implication also lowers its premise: an atom there becomes less likely "
          "where the conclusion is unlikely")
DECLARED = "person = {Anna, Bob}\nP(person)\nQ(person)\nR(person, person)\n(P(x) v Q(x) v R(x, x))\n"


def warnings_of(text: str) -> list[str]:
    return [str(warning) for warning in find_warnings(normalize_theory(parse_theory(text)))]


def about(rule: str) -> list[str]:
    """The warnings about one rule, the seventh line of a theory in which nothing else is odd."""
    return warnings_of(f"{DECLARED}\n{rule}")


def test_a_usual_theory_has_no_warnings() -> None:
    assert warnings_of(DECLARED) == []


@pytest.mark.parametrize("rule, messages", [
    # a weighted implication
    ("1 P(x) => Q(x)", [LOWERS]),
    ("(P(x) => Q(x))", [LOWERS]),
    ("-1 P(x) => Q(x)", []),
    ("P(x) => Q(x).", []),
    ("1 !P(x) v Q(x)", []),
    ("1 P(x) <=> Q(x)", []),
    # a variable of the conclusion only
    ("P(x) => R(x, y).", ["y appears only in the conclusion, so the rule requires the conclusion for every constant"]),
    ("P(x) => R(z, y).",
     ["y, z appear only in the conclusion, so the rule requires the conclusion for every constant"]),
    ("P(x) => (EXIST y R(x, y)).", []),
    ("R(x, y) => P(x).", []),
    ("2 P(x) v R(x, y)", []),
    # always and never true
    ("1 P(x) v !P(x)", ["this rule is always true and changes nothing"]),
    ("P(x) ^ !P(x).", ["this rule is never true: no world satisfies it"]),
    ("1 P(x) ^ !P(x)", ["this rule is never true and changes nothing"]),
    ("1 P(x) ^ Q(x)", []),
    # a weight of zero
    ("0 P(x) ^ Q(x)", ["the weight is zero: the rule changes nothing"]),
    ("1e-9 P(x) ^ Q(x)", []),
    # a variable that looks like a constant
    ("1 P(anna) ^ Q(anna)",
     ["anna is a variable, but a constant has the same letters: capitalise or quote constants"]),
    ("1 P(Anna) ^ Q(x)", []),
    # weights per constant and a quantifier
    ("1 P(+x) ^ (EXIST y R(x, y))",
     ["weights per constant and a quantifier in one rule: variables of the quantifier have no weights"]),
    ("1 P(+x) ^ R(x, y)", []),
    ("1 P(x) ^ (EXIST y R(x, y))", []),
])
def test_rule_is_warned_of(rule: str, messages: list[str]) -> None:
    assert about(rule) == [f"line 7: {message}" for message in messages]


def test_one_letter_is_no_misspelt_constant() -> None:
    assert warnings_of("t = {X, Y}\nP(t)\n1 P(x) ^ P(y)") == []


def test_predicate_in_no_rule() -> None:
    assert warnings_of("P(t)\nQ(t)\n1 P(x)") == ["line 2: predicate Q is in no rule"]
    assert warnings_of("P(t)\nQ(t)\n1 P(x)\n1 EXIST y !Q(y)") == []


def test_the_same_formula_twice() -> None:
    assert warnings_of("P(t)\n1 P(x)\n2 P(x)") == ["line 3: this formula is given twice: the weights add up"]
    assert warnings_of("P(t)\n1 P(x)\n2 !P(x)") == []


def test_rules_with_the_same_warning_share_it() -> None:
    assert about("1 P(x) => Q(x)\n1 P(x) => R(x, x)\nP(x) => R(x, x) ^ Q(x).\n2 Q(x) => P(x)") == [
        f"lines 7, 8, 10: {LOWERS}"]


def test_a_long_list_of_lines_is_cut() -> None:
    rules = "\n".join(f"{k} P(x) => Q(Anna) v R(x, Bob) v P({name})" for k, name in enumerate("abcdefghij", 1))
    assert f"lines 7, 8, 9, 10, 11, 12, 13, 14, ...: {LOWERS}" in about(rules)


def test_a_warning_knows_its_lines() -> None:
    (warning,) = find_warnings(normalize_theory(parse_theory("P(t)\nQ(t)\n\n1 P(x) => Q(x)\n1 Q(x) => P(x)")))
    assert warning.lines == (4, 5)
    assert warning.message == LOWERS
