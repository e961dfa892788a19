"""Compiling rules: options, limits and errors."""

from __future__ import annotations

import sys

import pytest

from logicmp import CostError, LogicMPError, compile_rules

TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"


@pytest.mark.parametrize("options", [{"vtree": "right"}, {"minimize": True}])
def test_the_vtree_does_not_change_the_models(options: dict[str, object]) -> None:
    assert compile_rules(TRANSITIVITY, {"thing": 4}, **options).count_models() == 3994


def test_rules_without_open_groundings_compile_to_true() -> None:
    assert compile_rules("P(x) v !P(x)", {"thing": 3}).count_models() == 8


@pytest.mark.parametrize("options", [{"max_nodes": 20}, {"max_seconds": 0.0}])
def test_a_limit_stops_compilation_and_names_the_rule_and_an_alternative(options: dict[str, float]) -> None:
    with pytest.raises(CostError, match=r"do not compile(.|\n)*C\(a,b\) \^ C\(b,c\)(.|\n)*SLrelax"):
        compile_rules(TRANSITIVITY, {"thing": 4}, **options)


def test_too_many_groundings_are_rejected_before_compilation() -> None:
    with pytest.raises(CostError, match=r"groundings(.|\n)*SLrelax"):
        compile_rules(TRANSITIVITY, {"thing": 512})


def test_rules_that_contradict_each_other_are_named() -> None:
    with pytest.raises(LogicMPError, match=r"cannot all be satisfied:\n  A v B\.\n  !A\.\n  !B\."):
        compile_rules("A v B\n!A.\n!B.\n")


def test_the_error_without_pysdd_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pysdd", "pysdd.sdd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LogicMPError, match=r"logicmp\[circuits\]"):
        compile_rules("A v B")
