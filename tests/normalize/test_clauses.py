"""Clauses: what a formula is split into, and when it is too long for that."""

from __future__ import annotations

import pytest

from logicmp import CostError, normalize_theory, parse_theory
from logicmp.normalize.clauses import is_clause, push_negation, to_clauses
from logicmp.parse.syntax import Not, Or


@pytest.mark.parametrize("text, clauses", [
    ("A => B", ["!A v B"]),
    ("A <=> B", ["!A v B", "!B v A"]),
    ("A v (B ^ C)", ["A v B", "A v C"]),
    # a clause that is always true, and one that is given twice
    ("(A v !A) ^ (A v B) ^ (B v A)", ["A v B"]),
    # a formula that is a clause keeps its literals
    ("A v A", ["A v A"]),
    ("!(A ^ (EXIST x P(x)))", ["!A v !P(x)"]),
    ("!(A ^ !(EXIST x P(x)))", ["!A v (EXIST x (P(x)))"]),
])
def test_a_formula_is_split_into_clauses(text: str, clauses: list[str]) -> None:
    (rule,) = parse_theory(f"A\nB\nC\nP(t)\n1 {text}").rules
    assert [str(Or(clause)) for clause in to_clauses(rule, 10)] == clauses


@pytest.mark.parametrize("text, expected", [("A => B v !C", True), ("!(A ^ !B)", True), ("A v (EXIST x P(x))", True),
                                            ("A ^ B", False), ("A v (B ^ C)", False), ("A <=> B", False)])
def test_a_disjunction_in_any_form_is_a_clause(text: str, expected: bool) -> None:
    assert is_clause(parse_theory(f"A\nB\nC\nP(t)\n1 {text}").rules[0].formula) is expected


def test_a_negation_goes_to_the_atoms() -> None:
    (rule,) = parse_theory("P(t)\nQ(t)\n1 (EXIST x P(x)) => (FORALL x Q(x))").rules
    expected = "(EXIST x (P(x))) ^ (EXIST x (!Q(x)))"
    assert str(push_negation(rule.formula, True)) == expected
    assert str(push_negation(Not(rule.formula), False)) == expected


@pytest.mark.parametrize("semantics", ["paper", "alchemy"])
def test_too_many_clauses(semantics: str) -> None:
    names = [[f"{letter}{k}" for k in range(10)] for letter in "ABC"]
    rule = "1 " + " v ".join(map(" ^ ".join, names))
    with pytest.raises(CostError) as error:
        normalize_theory(parse_theory(rule, "model.mln"), semantics)
    assert str(error.value) == f"""\
this rule has at least 1000 clauses (limit 512)
 --> model.mln:1:1
1 | {rule}
  | {'^' * len(rule)}
hint: use semantics="exact", which needs no clauses, raise max_cubes, or split the rule"""
    # A, or not A and B, or neither and C
    assert len(normalize_theory(parse_theory(rule)).rules[0].terms) == 1 + 1 + 10 + 100


@pytest.mark.parametrize("semantics", ["paper", "alchemy"])
def test_equivalences_inside_each_other_are_rejected_before_they_are_written_out(semantics: str) -> None:
    rule = " <=> ".join(f"P{i}(x)" for i in range(40))
    with pytest.raises(CostError, match="this rule has 40 atoms, 1 of them of P0: to write it as products takes more"):
        normalize_theory(parse_theory(f"1 {rule}"), semantics)
    # in brackets it is not split: the rule itself has too many products
    with pytest.raises(CostError, match="this rule needs more than 512 products"):
        normalize_theory(parse_theory(f"1 [{rule}]"), semantics)


@pytest.mark.parametrize("text, expected", [
    ("P(x)", True), ("!P(x)", True), ("P(x) v !Q(x)", True), ("P(x) => Q(x)", True), ("P(x) ^ Q(x)", False),
    ("!(P(x) ^ Q(x))", True), ("!(P(x) => Q(x))", False), ("P(x) <=> Q(x)", False), ("!(P(x) <=> Q(x))", False),
    ("EXIST y R(x, y) v P(x)", True), ("FORALL y R(x, y)", False), ("!(FORALL y R(x, y))", True),
    ("P(x) ^ Q(x) => P(y) v !Q(y)", True), ("(P(x) => Q(x)) => P(y)", False), ("P(x) v (Q(x) v x = y)", True),
])
def test_a_clause_is_a_disjunction_in_any_notation(text: str, expected: bool) -> None:
    theory = parse_theory(f"P(t)\nQ(t)\nR(t, t)\n1 ({text})")
    assert is_clause(theory.rules[0].formula) is expected
