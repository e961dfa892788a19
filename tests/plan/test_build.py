"""The plan: its text for rules a reader can check, what it shares, and which rules it rejects."""

from __future__ import annotations

import math

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
    """The plan with `size` constants of each open type; predicates with a star are observed."""
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


def error_of(text: str, size: int, max_elements: int) -> str:
    with pytest.raises(CostError) as caught:
        plan_of(text, size, max_elements)
    return str(caught.value)


def test_a_value_over_the_limit_is_sliced() -> None:
    whole, sliced = plan_of(SQUARE), plan_of(SQUARE, max_elements=300)
    assert whole.cost.largest == 1000
    assert sliced.cost.largest <= 300
    assert len(sliced.steps) > len(whole.steps)
    assert sliced.cost.groundings == whole.cost.groundings


def test_rules_share_the_slices_of_a_value_over_the_limit() -> None:
    # the second rule finds the large value of the first, which is not computed
    once, twice = plan_of(SQUARE, max_elements=300), plan_of(f"{SQUARE}\n2 !({SQUARE[2:]})", max_elements=300)
    assert twice.cost.largest <= 300
    assert twice.cost.each < 1.1 * once.cost.each


def test_a_rule_that_slices_cannot_help_is_rejected_with_numbers() -> None:
    text = "1 R(x,y) => Q(x,y)\nR(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))\n1 Q(x,y) => Q(y,x)"
    assert error_of(text, 1000, 10**8) == (
        "this rule needs a value of 1G elements, 4GB in float32 (limit 100M elements)\n"
        " --> <text>:2:1\n"
        "2 | R(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))\n"
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: split the rule into rules with fewer variables each, or raise max_elements")


@pytest.mark.parametrize("rule", [
    # weights over three variables
    "P(+x) ^ P(+y) ^ P(+z)",
    # slices of one large value do not make the other smaller
    "!(R(a,b) ^ Q(a,c) ^ R(a,d) ^ R(b,c) ^ Q(b,d) ^ Q(c,d) ^ S(e,f) ^ T(e,g) ^ S(e,h) ^ S(f,g) ^ T(f,h) ^ T(g,h)).",
])
def test_the_error_shows_the_rule_that_needs_the_value(rule: str) -> None:
    found = error_of(f"1 R(x,y) ^ P(x)\n{rule}\n1 R(x,y) => R(y,x)", 10, 300)
    assert found.startswith("this rule needs a value of 1k elements, 4kB in float32 (limit 300 elements)\n"
                            f" --> <text>:2:1\n2 | {rule}\n")


def test_a_value_the_size_of_a_predicate_is_never_rejected() -> None:
    assert str(plan_of(TRANSITIVITY, max_elements=1)) == str(plan_of(TRANSITIVITY))


@settings(max_examples=100, deadline=None)
@given(theories())
def test_no_value_of_a_plan_is_over_the_limit(theory: Theory) -> None:
    try:
        normalize_theory(theory, "exact", theory.sizes, 32)
        plan = plan_of(theory, 5, 10)
    except CostError:
        assume(False)
    sizes = dict(plan.sizes)
    limit = max(10, *(math.prod(sizes[t] for t in p.types) for p in theory.predicates))
    assert all(plan.elements(v) <= limit for v in (*plan.for_messages, *plan.for_counts))
