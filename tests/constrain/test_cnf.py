"""Rules as constraints: which ones, and their clauses."""

from __future__ import annotations

import pytest

from logicmp import LogicMPError, RuleError, compile_rules
from logicmp.constrain.cnf import as_constraints, build_cnf, ground_constraints

LABELS = "label(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}"


def test_a_rule_with_a_negative_weight_is_not_a_constraint() -> None:
    with pytest.raises(RuleError, match=r"weight -1 is not a constraint(.|\n)*LogicMP layer"):
        compile_rules("-1 A v B")


def test_only_rules_with_a_full_stop_count_if_rules_is_hard() -> None:
    assert compile_rules("2 A v B\nA => B.", rules="hard").count_models() == 3
    with pytest.raises(LogicMPError, match="none ends with a full stop"):
        compile_rules("2 A v B", rules="hard")


def test_a_categorical_variable_has_exactly_one_value() -> None:
    cnf = build_cnf(ground_constraints(as_constraints(LABELS), {"token": 1}))
    assert cnf.clauses == [(1, 2, 3), (-1, -2), (-1, -3), (-2, -3)]
