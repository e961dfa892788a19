"""The plan: its text for rules a reader can check, what it shares, what it refuses."""

from __future__ import annotations

import json

import pytest
from fixtures_reader import FIXTURES, blocks
from hypothesis import assume, given, settings

from logicmp import CostError, Plan, Theory, build_plan, normalize_theory, parse_theory
from logicmp.plan.build import MAX_ELEMENTS
from logicmp.plan.steps import Contract, Read, inputs
from logicmp.testing.random_theories import theories

CASES = list(blocks(FIXTURES / "plan/basic.txt"))
TRANSITIVITY = "2 C(a,b) ^ C(b,c) => C(a,c)"
# its largest value has three indices, more than any predicate
SQUARE = "1 R(a,b) ^ Q(a,c) ^ R(a,d) ^ R(b,c) ^ Q(b,d) => R(c,d)"


def plan_of(theory: Theory | str, size: int = 10, max_elements: int = MAX_ELEMENTS) -> Plan:
    """The plan with so many constants of each open type; predicates with a star are observed."""
    theory = parse_theory(theory) if isinstance(theory, str) else theory
    sizes = {t.name: size for t in theory.types if not t.closed}
    observed = [p.name for p in theory.predicates if p.closed_world]
    return build_plan(normalize_theory(theory, "exact", sizes), sizes, observed, max_elements)


def products(plan: Plan) -> list[str]:
    """The contractions of two matrices that every iteration makes for the messages."""
    steps = [plan.steps[v] for v in plan.for_messages if v not in plan.constant]
    return [s.equation for s in steps if isinstance(s, Contract) and len(s.operands) == 2
            and len(set(s.equation) - set(",->")) == 3]


@pytest.mark.parametrize("text, expected", CASES)
def test_rule_compiles_to_plan(text: str, expected: str) -> None:
    assert str(plan_of(text)) == expected + "\n"


@pytest.mark.parametrize("text", [text for text, _ in CASES])
def test_only_the_cost_depends_on_the_size(text: str) -> None:
    small, large = (str(plan_of(text, size)).splitlines() for size in (10, 1000))
    assert small[:-1] == large[:-1]
    assert small[-1].startswith("groundings ")


@pytest.mark.parametrize("text", [text for text, _ in CASES])
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


# what is shared


def test_transitivity_needs_three_products_and_one_if_symmetric() -> None:
    assert len(products(plan_of(TRANSITIVITY))) == 3
    assert len(products(plan_of(f"symmetric C(t, t)\n{TRANSITIVITY}"))) == 1


def test_the_same_rule_twice_costs_once() -> None:
    once, twice = plan_of(TRANSITIVITY), plan_of(f"{TRANSITIVITY}\n3 C(x,y) ^ C(y,z) => C(x,z)")
    assert len(products(twice)) == len(products(once))


def test_nothing_is_computed_for_observed_predicates_alone() -> None:
    plan = plan_of("*R(t, t)\nA(t)\n1 R(x,y) ^ R(y,z) => R(x,z)\n1 A(x)")
    assert plan.cost.steps_each == plan.cost.steps_once == 0


@settings(max_examples=100, deadline=None)
@given(theories())
def test_a_plan_is_a_straight_line_without_repetition(theory: Theory) -> None:
    try:
        # nested quantifiers over one predicate can take seconds at the usual limit
        normalize_theory(theory, "exact", theory.sizes, 32)
        plan = plan_of(theory)
    except CostError:
        assume(False)
    assert len(set(plan.steps)) == len(plan.steps)
    for value, step in enumerate(plan.steps):
        assert all(v < value for v in inputs(step))
    for wanted in (plan.for_messages, plan.for_counts):
        assert all(v in wanted for value in wanted for v in inputs(plan.steps[value]))
    assert all(isinstance(plan.steps[m.read], Read) for m in plan.messages)
    # a cache key, and the same every time
    assert hash(plan) == hash(plan_of(theory))
    assert str(plan) == str(plan_of(theory))


# limits


def test_a_value_over_the_limit_is_cut_into_pieces() -> None:
    whole, pieces = plan_of(SQUARE), plan_of(SQUARE, max_elements=300)
    assert whole.cost.largest == 1000
    assert pieces.cost.largest <= 300
    assert len(pieces.steps) > len(whole.steps)
    assert pieces.cost.groundings == whole.cost.groundings


def test_what_pieces_cannot_help_is_refused_with_numbers() -> None:
    text = "1 R(x,y) => Q(x,y)\nR(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))\n1 Q(x,y) => Q(y,x)"
    with pytest.raises(CostError) as caught:
        plan_of(text, 1000, 10**8)
    assert str(caught.value) == (
        "this rule needs a value of 1G elements, 4GB in float32 (limit 100M elements)\n"
        " --> <text>:2:1\n"
        "2 | R(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))\n"
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: split the rule so that fewer variables are in play at once, or raise max_elements")


def test_a_value_the_size_of_a_predicate_is_never_refused() -> None:
    assert str(plan_of(TRANSITIVITY, max_elements=1)) == str(plan_of(TRANSITIVITY))
