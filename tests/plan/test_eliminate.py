"""Plans of rows, as they print: which variables are summed out first, and what is shared."""

from __future__ import annotations

import numpy as np
import pytest

from logicmp import normalize_theory, parse_theory
from logicmp.facts.supports import make_support
from logicmp.plan.eliminate import build_rows

N = 6
# a ring with one chord: x -> x + 1, and 0 -> 2
RING = [np.array([0, 1, 2, 3, 4, 5, 0]), np.array([1, 2, 3, 4, 5, 0, 2])]

PLANS = {
    # both directions read the same list
    "2 F(x,y) => (S(x) <=> S(y))": ("F", """\
%0 = S
rule 1: +1 %0 !%0 over 7 rows
rule 1: +1 !%0 %0 over 7 rows
7 rows
"""),
    # the ends of a chain are counts, known before anything runs
    "2 F(x,y) ^ F(y,z) => S(y)": ("F", """\
%0 = S
rule 1: +1 !%0 over 7 rows
7 rows
"""),
    # a latent head outside the list is false: premises alone, minus premises with the head
    "2 C(a,b) ^ C(b,c) => C(a,c)": ("", """\
%0 = C
%1 = sum of %0 over 7 rows by 6 places
rule 1: +1 %0 %1 over 7 rows
rule 1: -1 %0 %0 %0 over 1 rows
15 rows
"""),
    # factors that share no variable are multiplied as numbers
    "2 F(x,y) ^ S(x) => S(z)": ("F", None),
}


@pytest.mark.parametrize("rule", PLANS)
def test_plans(rule: str) -> None:
    observed, expected = PLANS[rule]
    theory = parse_theory(rule)
    name = "C" if "C" in theory.predicate else "F"
    support = make_support(theory.predicate[name], RING, {"thing": N})
    plan = build_rows(normalize_theory(theory), {"thing": N}, {name: support}, [observed] if observed else [])
    if expected is None:
        assert plan.n_rows < 4 * N
    else:
        assert str(plan) == expected


def test_terms_without_sparse_literals_stay_dense() -> None:
    theory = parse_theory("1 F(x,y)\n2 S(x) => T(x)")
    support = make_support(theory.predicate["F"], RING, {"thing": N})
    plan = build_rows(normalize_theory(theory), {"thing": N}, {"F": support})
    assert [str(cube) for rule in plan.dense.rules for _, cube in rule.terms] == ["|thing| |thing|", "S(x) !T(x)"]
    assert [(root.coefficient, root.rule) for root in plan.roots] == [(-1, 0)]


def test_observed_rules_are_numbers() -> None:
    theory = parse_theory("1 F(x,y) => F(y,x)\n2 S(x)")
    support = make_support(theory.predicate["F"], RING, {"thing": N})
    plan = build_rows(normalize_theory(theory), {"thing": N}, {"F": support}, ["F"])
    assert plan.constants == (7.0, 0.0)
    assert plan.roots == ()
