"""The dense executor."""

from __future__ import annotations

import pytest
import torch

from logicmp import Plan, Theory
from logicmp.execute.dense import DenseExecutor
from logicmp.execute.operations import compile_contract, spread
from logicmp.plan.steps import Axis, Contract
from logicmp.testing.executor_battery import ExecutorBattery


class TestDense(ExecutorBattery):
    def make(self, plan: Plan, theory: Theory) -> DenseExecutor:
        return DenseExecutor(plan, theory)


@pytest.mark.parametrize("equation", [
    "ab,bc->ac", "ab,cb->ac", "ba,bc->ac", "ab,ac->bc", "a,a->", "ab,ab->", "ab,ab->a", "ab,ab->ab", "a,b->ab",
    "abc,acd->abd", "abc,dbc->ad", "abc,cbd->ad", "ab,b->a", "a,ab->b", "abc,bc->a", "abc,dca->bd", "abcd,dcb->a",
    "abc,abd->abcd", "ab->a", "ab->b", "abc->b", "ab->",
])
def test_a_contraction_is_its_einsum(equation: str) -> None:
    left, output = equation.split("->")
    terms = left.split(",")
    sizes = dict(zip("abcd", (2, 3, 4, 5), strict=True))
    generator = torch.Generator().manual_seed(0)
    operands = [torch.rand([6, *(sizes[n] for n in term)], generator=generator, dtype=torch.float64) for term in terms]
    step = Contract(tuple(range(len(terms))), equation, tuple(Axis(n) for n in output))
    want = torch.einsum(",".join("z" + term for term in terms) + "->z" + output, *operands)
    torch.testing.assert_close(compile_contract(step)(dict(enumerate(operands))), want, rtol=1e-12, atol=1e-12)


def test_axes_are_laid_out_over_more_axes() -> None:
    x = torch.arange(6.0).reshape(1, 2, 3)
    assert spread(x, (0, 1), 2) is x
    assert torch.equal(spread(x, (2, 0), 3), x.mT.reshape(1, 3, 1, 2))
    assert spread(torch.zeros(4), (), 2).shape == (4, 1, 1)
