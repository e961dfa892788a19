"""Cubes as data: substitution, text, and the merging of equal terms."""

from __future__ import annotations

import pytest

from logicmp.normalize.cubes import Const, Cube, Differ, Literal, Product, Range, Var, canonical, collect, substitute

X, Y, Z = (Range(name, "t") for name in "xyz")


def literal(name: str, *args: str, negated: bool = False) -> Literal:
    return Literal(name, tuple(map(Var, args)), negated)


def test_terms_with_other_names_add_up_and_cancel() -> None:
    one = Cube((X, Y), (literal("R", "x", "y"), literal("P", "y")))
    same = Cube((Y, Z), (literal("P", "z"), literal("R", "y", "z")))
    other = Cube((X, Y), (literal("R", "x", "y"), literal("P", "x")))
    assert canonical(one) == canonical(same) != canonical(other)
    assert collect([(1, one), (2, same), (1, other)]) == ((3, one), (1, other))
    assert collect([(1, one), (-1, same)]) == ()


@pytest.mark.parametrize("change", [
    Cube((Range("x", "t", 0, 1),), (literal("P", "x"),)),
    Cube((X,), (literal("P", "x", negated=True),)),
    Cube((X, Y), (literal("P", "x"),)),
    Cube((X,), (literal("P", "x"),), (Var("x"),)),
    Cube((X,), (literal("P", "x"),), needs=(("t", 2),)),
])
def test_cubes_with_another_sum_stay_apart(change: Cube) -> None:
    assert canonical(change) != canonical(Cube((X,), (literal("P", "x"),)))


def test_substitution_adds_offsets_and_reaches_into_products() -> None:
    inside = Product(Y, ((1, Cube((), (literal("R", "x", "y"),))),))
    assert str(substitute(inside, {"x": Var("z", 1)})) == "prod y (R(z+1,y))"
    shifted = Literal("P", (Var("x", 1),))
    assert substitute(shifted, {"x": Var("z", 1)}) == Literal("P", (Var("z", 2),))
    assert substitute(shifted, {"x": Const(3, "Anna")}) == Literal("P", (Const(4),))
    assert substitute(Differ(Var("x"), Var("y")), {"x": Var("z")}) == Differ(Var("y"), Var("z"))


def test_a_variable_in_no_factor_is_counted() -> None:
    assert str(Cube((X, Range("y", "s")), (literal("P", "x"),))) == "P(x) |s|"
