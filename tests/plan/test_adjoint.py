"""The walk down: derivatives as steps, for every kind of step. The oracle checks their numbers in tests/execute."""

from __future__ import annotations

import pytest

from logicmp.plan.adjoint import walk_down
from logicmp.plan.steps import At, Axis, Combine, Multiply, Read, Scaled, Step
from logicmp.plan.values import Values

T, U = Axis("t"), Axis("u")
A, B = Read("A", (At(0, 0),), (T,)), Read("B", (At(0, 0), At(1, 0)), (T, U))


def values_of(*steps: Step, observed: tuple[str, ...] = ()) -> Values:
    values = Values({"t": 2, "u": 3}, observed, ())
    for step in steps:
        values.add(step)
    return values


def messages(values: Values, seed: Scaled) -> list[str]:
    """Messages for the last value, which the weight and the coefficient of `seed` scale."""
    found = walk_down(values, {len(values.steps) - 1: [seed]})
    return [f"d/d{values.steps[m.read]} {m.term}" for m in found]


WEIGHTED = Scaled(None, weight=0)


def test_the_derivative_of_a_product_is_the_other_factor() -> None:
    values = values_of(A, B)
    values.contract([(0, ("x",)), (1, ("x", "y"))], ())
    assert messages(values, WEIGHTED) == ["d/dB(a,b) + w1 %0(a)", "d/dA(a) + w1 %2(a)"]
    assert str(values.steps[2]) == "%1   einsum 'ab->a'"


def test_an_observed_predicate_gets_no_message() -> None:
    values = values_of(A, B, observed=("B",))
    values.contract([(0, ("x",)), (1, ("x", "y"))], ())
    assert messages(values, WEIGHTED) == ["d/dA(a) + w1 %2(a)"]


def test_a_term_of_a_sum_is_counted_along_the_axes_it_lacks() -> None:
    values = values_of(A, B, Combine((Scaled(0, (0,), 2.0), Scaled(1, (0, 1), -1.0)), (T, U)))
    assert messages(values, WEIGHTED) == ["d/dB(a,b) - w1", "d/dA(a) + 2 |u| w1"]


def test_the_derivative_of_a_quantifier_is_the_product_of_the_others() -> None:
    values = values_of(B, Multiply(0, 1, (T,)))
    assert messages(values, WEIGHTED) == ["d/dB(a,b) + w1 %2(a,b)"]
    assert str(values.steps[2]) == "%0   product of the others along axis 1"


@pytest.mark.parametrize("seeds, expected", [
    ([Scaled(None, weight=0), Scaled(None, (), 2.0, weight=0)], ["3 w1"]),
    ([Scaled(None, weight=0), Scaled(None, weight=1)], ["w1", "w2"]),
    ([Scaled(None, weight=0), Scaled(None, (), -1.0, weight=0)], []),
])
def test_seeds_of_one_value_add_up(seeds: list[Scaled], expected: list[str]) -> None:
    found = walk_down(values_of(A), {0: seeds})
    assert [str(m.term)[2:] for m in found] == expected
