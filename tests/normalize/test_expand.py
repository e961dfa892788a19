"""Expansion: disjoint products of any formula, and unique names for bound variables."""

from __future__ import annotations

import pytest

from logicmp import CostError, normalize_theory, parse_theory
from logicmp.normalize.budget import Budget
from logicmp.normalize.cubes import Range
from logicmp.normalize.expand import Expander, rename_apart, variable_ranges, write_out
from logicmp.parse.syntax import Constant, Formula
from logicmp.parse.theory import Theory

DECLARED = "t = {A, B, C}\nP(t)\nQ(t)\nR(t, t)\n"


def formula_of(text: str) -> tuple[Theory, Formula]:
    theory = parse_theory(f"{DECLARED}1 {text}")
    return theory, theory.rules[0].formula


@pytest.mark.parametrize("text, cubes", [
    # disjoint: the atom that appears twice decides first
    ("(P(x) v Q(x)) ^ (P(x) v Q(y))", ["+ P(x)", "+ !P(x) Q(x) Q(y)"]),
    ("EXIST y R(x, y)", ["+ 1", "- prod y (!R(x,y))"]),
    # an atom that the quantifier does not bind is outside of the product
    ("EXIST y (P(x) ^ R(x, y))", ["+ P(x)", "- P(x) prod y (!R(x,y))"]),
])
def test_a_formula_is_a_sum_of_disjoint_products(text: str, cubes: list[str]) -> None:
    theory, formula = formula_of(text)
    expander = Expander(theory, variable_ranges(formula), Budget(theory.rules[0], 10))
    assert [f"{'+' if c > 0 else '-'} {cube}" for c, cube in expander.expand(formula)] == cubes


def test_bound_variables_are_renamed_apart() -> None:
    _, formula = formula_of("P(x) ^ (EXIST x Q(x)) ^ (EXIST x, y R(x, y))")
    assert str(rename_apart(formula)) == "P(x) ^ (EXIST x' (Q(x'))) ^ (EXIST x'' (EXIST y (R(x'', y))))"


def test_ranges_have_the_lowest_and_highest_offset() -> None:
    _, formula = formula_of("P(i+1) ^ Q(i-2) ^ (EXIST j R(i, j))")
    assert variable_ranges(formula) == {"i": Range("i", "t", -2, 1), "j": Range("j", "t")}


def test_a_quantifier_is_written_out_where_offsets_are_inside() -> None:
    _, formula = formula_of("Q(x) => (EXIST i (P(i) ^ P(i+1)))")
    constants = [Constant(name, "t") for name in "ABC"]
    assert str(write_out(formula, "i", constants, Range("i", "t", 0, 1))) == "Q(x) => P(A) ^ P(B) v P(B) ^ P(C)"


def error_of(text: str, **options: int) -> str:
    with pytest.raises(CostError) as error:
        normalize_theory(parse_theory(text, "model.mln"), **options)  # type: ignore[arg-type]
    return str(error.value)


def test_too_many_products() -> None:
    rule = "1 " + " <=> ".join(f"P({name})" for name in "abcdefghijkl")
    expected = f"""\
 --> model.mln:2:1
2 | {rule}
  | {'^' * len(rule)}
hint: split it into smaller rules, or raise max_cubes"""
    assert error_of(f"P(t)\n{rule}") == f"this rule needs more than 512 products\n{expected}"
    assert error_of(f"P(t)\n{rule}", max_cubes=2) == f"this rule needs more than 2 products\n{expected}"
