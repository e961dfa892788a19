"""Values: equal contractions are one, in any order and under any names."""

from __future__ import annotations

import pytest
import torch

from logicmp import CostError, LogicMP, build_plan, normalize_theory, parse_theory
from logicmp.plan.steps import At, Axis, Combine, Read, Scaled
from logicmp.plan.values import Operand, Values

T = Axis("t")


def matrix(values: Values, predicate: str, letters: str) -> Operand:
    return values.add(Read(predicate, (At(0, 0), At(1, 0)), (T, T))), tuple(letters)


def product(values: Values, left: tuple[str, str], right: tuple[str, str], keep: str) -> tuple[int, str]:
    found = values.contract([matrix(values, *left), matrix(values, *right)], keep)
    assert found is not None
    return found[0], "".join(found[1])


def test_names_and_order_do_not_matter() -> None:
    values = Values({"t": 3}, (), ())
    first = product(values, ("C", "ab"), ("D", "bc"), "ac")
    assert product(values, ("D", "yz"), ("C", "xy"), "xz") == (first[0], "xz")
    assert product(values, ("C", "ab"), ("D", "cb"), "ac")[0] != first[0]
    assert str(values.steps[first[0]]) == "%0, %1   einsum 'ab,bc->ac'"


def test_a_symmetric_value_has_its_axes_either_way() -> None:
    values = Values({"t": 3}, (), {"C"})
    first = product(values, ("C", "ab"), ("C", "bc"), "ac")
    assert product(values, ("C", "ab"), ("C", "cb"), "ac") == first
    # C C is symmetric too, and C D is not
    assert first[0] in values.symmetric
    assert product(values, ("C", "ab"), ("D", "bc"), "ac")[0] not in values.symmetric


def test_an_index_of_one_operand_is_summed_first() -> None:
    values = Values({"t": 3}, (), ())
    value, letters = product(values, ("C", "ab"), ("D", "bc"), "a")
    assert letters == "a"
    assert [str(step) for step in values.steps] == ["C(a,b)", "D(a,b)", "%1   einsum 'ab->a'",
                                                    "%0, %2   einsum 'ab,b->a'"]
    assert value == 3


def test_a_value_of_observed_predicates_is_not_live() -> None:
    values = Values({"t": 3}, {"C"}, ())
    known, mixed = (product(values, ("C", "ab"), (name, "bc"), "ac")[0] for name in "CD")
    assert not values.live[known] and values.live[mixed]


def test_equal_terms_add_up_and_cancel() -> None:
    values = Values({"t": 3}, (), {"C"})
    c, d = (matrix(values, name, "ab")[0] for name in "CD")
    terms = [Scaled(c, (0, 1)), Scaled(c, (1, 0), 2.0), Scaled(d, (0, 1)), Scaled(d, (0, 1), -1.0)]
    assert values.add_up(terms) == [Scaled(c, (0, 1), 3.0)]


def test_a_common_weight_stays_outside_of_a_sum() -> None:
    values = Values({"t": 3}, (), ())
    c, d = (matrix(values, name, "ab")[0] for name in "CD")
    one = values.combine([Scaled(c, (0, 1), weight=0), Scaled(d, (0, 1), weight=0)], (T, T))
    assert one.weight == 0 and one.value is not None
    assert values.steps[one.value] == Combine((Scaled(c, (0, 1)), Scaled(d, (0, 1))), (T, T))
    single = Scaled(c, (0, 1), weight=1)
    assert values.combine([single], (T, T)) == single


@pytest.mark.parametrize("rule", [
    " v ".join(f"P{i}(x{i})" for i in range(60)),
    " v ".join(f"P{i}(x{i},x{i + 1})" for i in range(60)),
    " v ".join(f"P{i}(x,y{i})" for i in range(60)),
], ids=["apart", "chain", "star"])
def test_a_rule_may_have_more_variables_than_the_alphabet_has_letters(rule: str) -> None:
    theory = parse_theory(f"1 {rule}")
    layer = LogicMP(theory, sizes={"thing": 1}, iterations=1, schedule="paper")
    logits = {p.name: torch.zeros([1] * len(p.types), dtype=torch.float64) for p in theory.predicates}
    # one grounding of 60 atoms: the message to each atom is the probability that all others are false
    assert all(abs(found.item() - 0.5**59) < 1e-30 for found in layer(logits).values())


@pytest.mark.parametrize("rule, n", [
    ("P(" + ",".join(f"x{i}" for i in range(60)) + ") => Q(x0)", 60),
    (" v ".join(f"P{i}(+x{i})" for i in range(60)), 60),
    ("EXIST y (" + " v ".join(f"P{i}(x{i},y)" for i in range(60)) + ")", 61),
], ids=["predicate", "weights", "quantifier"])
def test_a_value_with_too_many_indices_is_rejected(rule: str, n: int) -> None:
    with pytest.raises(CostError, match=f"this rule needs a value with {n} indices .limit 52.") as error:
        build_plan(normalize_theory(parse_theory(f"1 {rule}")), {"thing": 1})
    assert error.value.span is not None
