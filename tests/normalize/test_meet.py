"""Atoms that meet: where two literals are the same atom, and what the product of both becomes there."""

from __future__ import annotations

import pytest

from logicmp import CostError, normalize_theory, parse_theory
from logicmp.normalize.cubes import Const, Cube, Differ, Literal, Range, Same, Var
from logicmp.normalize.meet import Meeting, apply, split_difference, unify

X, Y, I1 = Var("x"), Var("y"), Var("i", 1)


@pytest.mark.parametrize("pairs, mapping", [
    ([(X, Y)], {"y": X}),
    ([(X, X)], {}),
    ([(X, Const(2))], {"x": Const(2)}),
    # x = y and y = 2
    ([(X, Y), (Y, Const(2))], {"y": Const(2), "x": Const(2)}),
    ([(I1, Y)], {"y": I1}),
    ([(Const(1), Const(2))], None),
    ([(X, Var("x", 1))], None),
    # i + 1 is never the first entity
    ([(I1, Const(0))], None),
])
def test_terms_unify(pairs: list[tuple[Var | Const, Var | Const]], mapping: dict[str, Var | Const] | None) -> None:
    found = unify(pairs, lambda name: True)
    assert (found.mapping if found else None) == mapping


def test_a_variable_that_cannot_be_bound_must_be_equal() -> None:
    assert unify([(X, Y)], lambda name: False) == Meeting({}, (Same(X, Y),))


def test_a_cube_is_restricted_to_a_meeting() -> None:
    cube = Cube((Range("x", "t", 0, 1), Range("y", "t", -1, 0)), (Literal("R", (X, Y)),))
    assert apply(cube, Meeting({"y": X}, ()), {"t": 3}) == Cube((Range("x", "t", -1, 1),), (Literal("R", (X, X)),))
    # entity 3 is missing in a type of 3
    fixed = apply(cube, Meeting({"y": Const(3)}, ()), {"t": 3})
    assert fixed == Cube((Range("x", "t", 0, 1),), (Literal("R", (X, Const(3))),), needs=(("t", 4),))
    apart = Cube(cube.variables, (*cube.factors, Differ(X, Y)))
    assert apply(apart, Meeting({"y": X}, ()), {"t": 3}) is None


def test_a_difference_is_one_minus_an_equality() -> None:
    apart = Differ(X, Y)
    cube = Cube((Range("x", "t"), Range("y", "t")), (Literal("R", (X, Y)), apart))
    assert [(c, str(part)) for c, part in split_difference(cube, apart, {"t": 3})] == [(1, "R(x,y)"), (-1, "R(x,x)")]


def test_too_many_ways_to_meet() -> None:
    rule = "1 " + " v ".join(f"R({a}, {b})" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    with pytest.raises(CostError) as error:
        normalize_theory(parse_theory(f"R(t, t)\n{rule}", "model.mln"), max_cubes=4)
    message, *places = str(error.value).split("\n")
    assert message == "this rule has 8 atoms, 8 of them of R: to write it as products takes more than 8,000 steps"
    assert places == [" --> model.mln:2:1", f"2 | {rule}", f"  | {'^' * len(rule)}",
                      "hint: split it into smaller rules, or raise max_cubes"]
