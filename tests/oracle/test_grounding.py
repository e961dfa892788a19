"""Groundings over small domains, and the values that evidence leaves."""

import math

import pytest
import torch

from logicmp import LogicMPError, parse_theory
from logicmp.oracle.mean_field import expected_violations
from logicmp.oracle.worlds import count_models, exact_marginals, log_partition


def test_empty_domain_makes_exists_false_and_forall_true():
    sizes = {"x": 2, "y": 0}
    assert count_models(parse_theory("A(x)\nB(y)\nA(x) => EXIST y B(y)."), sizes) == 1
    assert count_models(parse_theory("A(x)\nB(y)\nA(x) v FORALL y B(y)."), sizes) == 4


def test_clause_is_grounded_over_its_own_variables():
    # A(x) has 2 groundings, B(y) has 3, each with half the weight
    theory = parse_theory("P(a)\nQ(b)\n1 P(x) ^ Q(y)")
    q = {"P": torch.tensor([0.1, 0.2]), "Q": torch.tensor([0.3, 0.4, 0.5])}
    sizes = {"a": 2, "b": 3}
    assert float(expected_violations(theory, q, sizes=sizes, semantics="alchemy")) == pytest.approx((1.7 + 1.8) / 2)
    assert float(expected_violations(theory, q, sizes=sizes, semantics="paper")) == pytest.approx(1.7 + 1.8)


def test_evidence_that_rules_values_out_leaves_the_others():
    evidence = {"l": torch.tensor([[0.0, math.nan, math.nan]]), "g": torch.tensor([0.0, 0.0])}
    got = exact_marginals(parse_theory("l(k) in {A, B, C}\ng(b?)"), evidence=evidence, sizes={"k": 1, "b": 2})
    assert got["l"].tolist() == [[0.0, 0.5, 0.5]]
    assert got["g"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("text, evidence, message", [
    ("f(b!)", {"f": [1.0, 1.0]}, "no value is left for f"),
    ("f(b!)", {"f": [0.0, 0.0]}, "no value is left for f"),
    ("symmetric C(b, b)", {"C": [[math.nan, 1.0], [0.0, math.nan]]}, r"no value is left for C\(0, 1\)"),
    ("A(b)\nA(x).", {"A": [1.0, 0.0]}, "the evidence violates the hard rule"),
    ("A(b)\nB\nA(x) => B.\n!B.", {"A": [1.0, math.nan]}, "no world satisfies"),
    ("A(b)", {"A": [0.5, 0.0]}, "has the value 0.5"),
    ("A(b)", {"A": [0.0]}, r"shape \[1\]; expected \[2\]"),
    ("A(b)", {"B": [0.0]}, "has the predicate 'B', which is not declared"),
])
def test_impossible_evidence_is_rejected(text, evidence, message):
    with pytest.raises(LogicMPError, match=message):
        log_partition(parse_theory(text), evidence=evidence, sizes={"b": 2})
