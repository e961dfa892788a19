"""Forms over rows: each derivative against the sum written out, gradients of all orders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from logicmp.execute import rows as rows_module
from logicmp.execute.rows import Groups, make_rows

CPU = torch.device("cpu")


def slow(columns: list[np.ndarray], factors: np.ndarray | None, xs: list[Tensor]) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    n_items = max(x.shape[1] for x in xs)
    for r in range(len(columns[0])):
        part = torch.tensor(1.0 if factors is None else factors[r], dtype=torch.float64)
        for column, x in zip(columns, xs, strict=True):
            part = part * x[column[r]]
        # an operand that all items share counts in each of them
        total = total + torch.broadcast_to(part, (n_items,)).sum()
    return total


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("has_factors", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_items", [1, 3])
def test_derivatives(k: int, has_factors: bool, compiled: bool, n_items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_has_numba", lambda: compiled)
    rng = np.random.default_rng(k)
    lengths = [4 + j for j in range(k)]
    columns = [rng.integers(0, n, 17).astype(np.int32) for n in lengths]
    factors = rng.random(17) if has_factors else None
    # the second operand is shared by all items
    xs = [torch.from_numpy(rng.random((n, 1 if j == 1 else n_items))).requires_grad_()
          for j, n in enumerate(lengths)]
    rows = make_rows(columns, lengths, factors, CPU)
    want = torch.autograd.grad(slow(columns, factors, xs), xs, create_graph=True)
    # the derivative of each item; that by an operand which all items share is their sum
    got = [(one * torch.ones(1, n_items, dtype=torch.float64)).sum_to_size(x.shape)
           for one, x in zip(rows.derivatives(xs, tuple(range(k))), xs, strict=True)]
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    if k > 1:
        # expanded and not contiguous, as a cotangent can be
        loss, truth = (sum((x.sum() + (x * x).sum()) for x in group) for group in (got, want))
        for one, other in zip(torch.autograd.grad(loss, xs), torch.autograd.grad(truth, xs), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
        assert torch.autograd.gradgradcheck(lambda *ys: tuple(rows.derivatives(ys, (0, k - 1))), xs)


def test_no_rows_give_zeros() -> None:
    empty = np.zeros(0, dtype=np.int32)
    for k in (1, 2, 3):
        rows = make_rows([empty] * k, [3] * k, None, CPU)
        for x in rows.derivatives([torch.ones(3, 1, dtype=torch.float64)] * k, tuple(range(k))):
            assert x.tolist() == [[0], [0], [0]]


def test_transposed_columns_are_made_contiguous() -> None:
    pairs = np.array([[0, 2], [1, 0], [2, 1], [2, 2]], dtype=np.int32)
    rows = make_rows([pairs[:, 0], pairs[:, 1]], [3, 3], None, CPU)
    x = torch.tensor([[1.0], [10.0], [100.0]], dtype=torch.float64)
    assert rows.derivatives([x, x], (0,))[0].tolist() == [[100], [1], [110]]


def test_products_by_group() -> None:
    output = np.array([0, 0, 0, 2, 3, 3], dtype=np.int32)
    groups = Groups(output, 5, CPU)
    x = torch.tensor([[0.5, 0.0, 3.0, 4.0, 0.0, 0.0], [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]], dtype=torch.float64).mT
    assert groups.products(x).mT.tolist() == [[0, 1, 4, 0, 1], [24, 1, 5, 42, 1]]
    assert groups.others(x).mT.tolist() == [[0, 1.5, 0, 1, 0, 0], [12, 8, 6, 1, 7, 6]]
    y = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(groups.products, y)
    assert torch.autograd.gradcheck(groups.others, y)
    assert Groups(output[:0], 2, CPU).products(x[:0]).tolist() == [[1, 1], [1, 1]]
