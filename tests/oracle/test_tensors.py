"""Logits, marginals and weights as the oracle reads them."""

import math

import pytest
import torch
from oracle_cases import assert_same, marginals, random_unary

from logicmp import LogicMPError, parse_theory
from logicmp.oracle.mean_field import expected_violations, mean_field_step
from logicmp.oracle.worlds import log_partition


def test_none_has_logit_zero_and_a_symmetric_pair_the_mean_of_its_two_log_odds():
    unary = {"g": torch.tensor([0.3, -0.4]), "C": torch.tensor([[0.1, 0.5], [0.2, -1.0]])}
    expected = math.log(math.exp(0.3) + math.exp(-0.4) + 1)
    expected += sum(math.log(1 + math.exp(u)) for u in (0.1, 0.35, -1.0))
    theory = parse_theory("g(b?)\nsymmetric C(t, t)")
    assert log_partition(theory, unary, sizes={"b": 2, "t": 2}) == pytest.approx(expected)


def test_the_marginal_of_an_excluded_value_is_ignored():
    theory = parse_theory("l(k) in {A, B, C}\n1 l(i) in {B}")
    evidence = {"l": torch.tensor([[0.0, math.nan, math.nan]])}
    q = {"l": torch.tensor([[0.5, 0.3, 0.2]])}
    assert float(expected_violations(theory, q, evidence, {"k": 1})) == pytest.approx(0.2)
    got = mean_field_step(theory, None, q, evidence, {"k": 1})["l"]
    assert_same({"l": got}, {"l": torch.softmax(torch.tensor([[-math.inf, 1.0, 0.0]], dtype=torch.float64), -1)})


def test_weight_per_constant_is_one_rule_per_constant():
    plus = parse_theory("t = {K, L}\nA(t)\nB(t)\n1 A(+x) ^ B(y)")
    apart = parse_theory("t = {K, L}\nA(t)\nB(t)\n0.8 A(K) ^ B(y)\n-0.3 A(L) ^ B(y)")
    unary = random_unary(plus, plus.sizes)
    q = marginals(plus, random_unary(plus, plus.sizes, seed=1))
    weights = [torch.tensor([0.8, -0.3], dtype=torch.float64)]
    for semantics in ("exact", "paper", "alchemy"):
        got = mean_field_step(plus, unary, q, semantics=semantics, weights=weights)
        # a clause without x is grounded for every x, as the two rules do
        assert_same(got, mean_field_step(apart, unary, q, semantics=semantics))
        assert log_partition(plus, unary, semantics=semantics, weights=weights) == pytest.approx(
            log_partition(apart, unary, semantics=semantics))
    # without weights of its own every constant has the rule's
    assert log_partition(plus) == log_partition(plus, weights=[torch.ones(2)]) == log_partition(plus, weights=[None])


def test_rule_without_weight_has_weight_one():
    assert log_partition(parse_theory("A\nA => A\n(A)")) == pytest.approx(1 + math.log(1 + math.e))


@pytest.mark.parametrize("weights, message", [
    ([1.0, 2.0], "2 weights are given for 1 rules"), ([torch.ones(2)], r"shape \[2\]; expected \[\]")])
def test_wrong_weights_are_rejected(weights, message):
    with pytest.raises(LogicMPError, match=message):
        log_partition(parse_theory("A\n2 A"), weights=weights)
