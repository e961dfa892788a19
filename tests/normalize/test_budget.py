"""A rule that is too large to be written as products is rejected within seconds, with numbers; a long one is not."""

from __future__ import annotations

import time

import pytest

from logicmp import CostError, build_plan, normalize_theory, parse_theory
from logicmp.normalize.build import SEMANTICS

# seconds of this process; these rules took minutes and gigabytes
SOON = 20


def chain(n: int) -> str:
    return " v ".join(f"P(x{i},x{i + 1})" for i in range(n))


@pytest.mark.parametrize("rule, numbers", [
    (f"1 {chain(299)}", "this rule has 299 atoms, 299 of them of P"),
    (f"1 {chain(12)}", "this rule has 12 atoms, 12 of them of P"),
    ("symmetric S(t, t)\n1 " + " v ".join(f"S(x{i},x{i + 1})" for i in range(20)), "20 of them of S"),
    ("1 " + " v ".join(f"P(x{i}) v x{i} = x{i + 1}" for i in range(60)) + " v P(x60)", "this rule has 61 atoms"),
    ("1 " + " v ".join(f"(P{i}(x) ^ Q{i}(x))" for i in range(40)), "this rule needs more than 512 products"),
], ids=["chain of 299", "chain of 12", "symmetric", "equalities", "products"])
def test_a_rule_that_costs_too_much_is_rejected_soon(rule: str, numbers: str) -> None:
    theory = parse_theory(rule)
    start = time.process_time()
    with pytest.raises(CostError) as error:
        normalize_theory(theory)
    assert numbers in error.value.message
    assert error.value.hint == "split it into smaller rules, or raise max_cubes"
    assert time.process_time() - start < SOON


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("rule", [
    # more atoms than Python has stack frames
    " v ".join(f"P{i}(x)" for i in range(1500)),
    # constants that differ never meet
    " v ".join(f"P(C{i})" for i in range(1500)),
], ids=["predicates", "constants"])
def test_a_long_clause_is_one_product(semantics: str, rule: str) -> None:
    form = normalize_theory(parse_theory(f"1 {rule}"), semantics)
    ((coefficient, cube),) = form.rules[0].terms
    assert (coefficient, len(cube.factors)) == (1, 1500)


def test_conditions_that_no_atom_hosts_are_rejected_soon_by_the_plan() -> None:
    rule = "1 " + " v ".join(f"P(x{i}) v x{i} = x{i + 1}" for i in range(60)) + " v P(x60)"
    form = normalize_theory(parse_theory(rule), "paper")
    start = time.process_time()
    with pytest.raises(CostError, match="61 atoms, 61 of them of P"):
        build_plan(form, {"thing": 3})
    assert time.process_time() - start < SOON
