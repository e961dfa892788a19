"""Steps and plans as data: sizes, inputs, text and JSON."""

from __future__ import annotations

import json

import pytest
from fixtures_reader import FIXTURES, blocks

from logicmp import Plan, build_plan, normalize_theory, parse_theory
from logicmp.plan.steps import Axis, Combine, Contract, Multiply, Others, Read, Scaled, inputs


def plan_of(text: str) -> Plan:
    theory = parse_theory(text)
    sizes = {t.name: 10 for t in theory.types if not t.closed}
    return build_plan(normalize_theory(theory, "exact", sizes), sizes)


@pytest.mark.parametrize("axis, size", [
    (Axis("t"), 10),
    # i-1, i and i+2 are inside
    (Axis("t", -1, 2), 7), (Axis("t", 0, 12), 0),
    # slices; the last one may be shorter
    (Axis("t", 0, 0, 2, 5), 3), (Axis("t", -1, 0, 6, 12), 3), (Axis("t", 0, 0, 12, 14), 0),
])
def test_the_size_of_an_axis(axis: Axis, size: int) -> None:
    assert axis.size({"t": 10}) == size


def test_the_inputs_of_a_step() -> None:
    axes = (Axis("t"),)
    assert inputs(Read("P", (), ())) == ()
    assert inputs(Contract((3, 1), "a,a->a", axes)) == (3, 1)
    assert inputs(Combine((Scaled(2, (0,)), Scaled(None)), axes)) == (2,)
    assert inputs(Multiply(4, 0, ())) == inputs(Others(4, 0, axes)) == (4,)


@pytest.mark.parametrize("text", [text for text, _ in blocks(FIXTURES / "plan/basic.txt")])
def test_a_plan_is_json(text: str) -> None:
    plan = plan_of(text)
    read = json.loads(json.dumps(plan.to_dict()))
    assert read == plan.to_dict()
    assert [rule["rule"] for rule in read["rules"]] == [rule.text for rule in plan.rules]
    assert {step["value"] for step in read["steps"]} == {*plan.for_messages, *plan.for_counts}
    assert read["cost"]["largest_bytes"] == 4 * plan.cost.largest


def test_json_of_a_clause() -> None:
    assert plan_of("2 Smokes(x) => Cancer(x)").to_dict() == {
        "sizes": {"thing": 10},
        "steps": [
            {"value": 0, "step": "Smokes(a)", "once": False, "elements": 10, "multiply_adds": 0},
            {"value": 1, "step": "!Cancer(a)", "once": False, "elements": 10, "multiply_adds": 0},
            {"value": 2, "step": "%0, %1   einsum 'a,a->'", "once": False, "elements": 1, "multiply_adds": 10},
        ],
        "rules": [{"rule": "2 Smokes(x) => Cancer(x)", "line": 1, "groundings": 10, "violations": ["+ %2()"]}],
        "messages": [{"to": "!Cancer(a)", "term": "+ w1 %0(a)"}, {"to": "Smokes(a)", "term": "+ w1 %1(a)"}],
        "cost": {"groundings": 10, "naive": 20, "once": 0, "each": 0, "steps_once": 0, "steps_each": 0, "largest": 10,
                 "largest_bytes": 40},
    }
