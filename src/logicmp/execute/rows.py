"""Sums over rows of products of values, and their derivatives, which are sums of the same kind.

Room: plan -> **execute** -> layer.  Paper: Eq. 4-5, with lists of rows in place of tensors.

    E(x_1, ..., x_K) = sum over rows r of f[r] * x_1[i_1[r]] * ... * x_K[i_K[r]]

A message is dE/dx_k, and all of them come from one pass over the columns. A gradient in training is the derivative of a
message: E again, with one operand replaced by the gradient that came in. So operands are stored, never rows.

An operand is [places, items]: the items of a batch read the same rows, and lie together.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..ground.patterns import sort_order

# rows that are multiplied at once where no compiled loop runs
CHUNK = 2**20


class Linear:
    """K = 1: the form is a product with one vector."""

    def __init__(self, column: np.ndarray, length: int, factors: np.ndarray | None, device: torch.device):
        counts = np.bincount(column, weights=factors, minlength=length)
        self.vector = torch.from_numpy(counts.astype(np.float64)).to(device).unsqueeze(1)

    def derivatives(self, xs: Sequence[Tensor], wanted: Sequence[int]) -> list[Tensor]:
        return [self.vector for _ in wanted]


class Bilinear:
    """K = 2: a sparse matrix, kept in both directions."""

    def __init__(self, columns: Sequence[np.ndarray], lengths: Sequence[int], factors: np.ndarray | None,
                 device: torch.device):
        self.matrices = [_csr(columns[k], columns[1 - k], (lengths[k], lengths[1 - k]), factors, device)
                         for k in (0, 1)]
        # the product with a vector of ones
        self.sums = [torch.from_numpy(np.bincount(columns[k], weights=factors, minlength=lengths[k])
                                      .astype(np.float64)).to(device).unsqueeze(1) for k in (0, 1)]

    def product(self, k: int, x: Tensor) -> Tensor:
        """dE/dx_k, from the other operand, [n, width]."""
        found: Tensor = _Product.apply(self.matrices[k], self.matrices[1 - k], x)  # type: ignore[no-untyped-call]
        return found

    def derivatives(self, xs: Sequence[Tensor], wanted: Sequence[int]) -> list[Tensor]:
        return [self.product(k, xs[1 - k]) for k in wanted]


def _csr(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], factors: np.ndarray | None,
         device: torch.device) -> Tensor:
    if not bool((rows[1:] >= rows[:-1]).all()):
        order = sort_order(rows)
        rows, columns = rows[order], columns[order]
        factors = None if factors is None else factors[order]
    starts = np.zeros(shape[0] + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=starts[1:])
    values = np.ones(len(rows)) if factors is None else factors
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        # int32 and contiguous: int64 indices take 2 to 10 times as long, and others give wrong products
        return torch.sparse_csr_tensor(
            torch.from_numpy(starts), torch.from_numpy(np.ascontiguousarray(columns, np.int32)),
            torch.from_numpy(np.ascontiguousarray(values, np.float64)), shape, device=device, check_invariants=False)


class _Product(torch.autograd.Function):
    """A sparse matrix times a vector or a matrix; its gradient is the transposed matrix times the gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:
        ctx.matrices = matrix, transposed
        # a vector takes two thirds of the time of a matrix with one column
        return (matrix @ x[:, 0].contiguous()).unsqueeze(1) if x.shape[1] == 1 else matrix @ x.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        matrix, transposed = ctx.matrices
        return None, None, _Product.apply(transposed, matrix, gradients[0])  # type: ignore[no-untyped-call]


class Multilinear:
    """Any K: columns of places, one for each operand."""

    def __init__(self, columns: Sequence[np.ndarray], lengths: Sequence[int], factors: np.ndarray | None,
                 device: torch.device):
        self.lengths = list(lengths)
        self.is_compiled = device.type == "cpu" and sum(lengths) < 2**31 and _has_numba()
        self.n_rows = len(columns[0])
        self.factors = None if factors is None else torch.from_numpy(np.ascontiguousarray(factors)).to(device)
        # the plan's own columns: a compiled loop needs them in one precision
        size = np.int32 if self.is_compiled else None
        self.columns = [torch.from_numpy(np.ascontiguousarray(c, size)).to(device) for c in columns]

    def derivatives(self, xs: Sequence[Tensor], wanted: Sequence[int]) -> list[Tensor]:
        """Operands that are one tensor get the sum of their derivatives once, at the first of them, and then zeros."""
        first = {id(x): k for k, x in reversed(list(enumerate(xs)))}
        same = tuple(first[id(x)] for x in xs)
        width = max(x.shape[1] for x in xs)
        wide = [x if x.shape[1] == width else x.expand(-1, width) for x in xs]
        found = _Derivatives.apply(self, tuple(wanted), same, *wide)  # type: ignore[no-untyped-call]
        return list(found)

    def run(self, xs: Sequence[Tensor], wanted: Sequence[int], same: tuple[int, ...]) -> list[Tensor]:
        """The derivatives, without a record for gradients."""
        if self.is_compiled:
            return self._run_compiled(xs, wanted, same)
        found = {k: xs[k].new_zeros(self.lengths[k], xs[k].shape[1]) for k in {same[k] for k in wanted}}
        for start in range(0, self.n_rows, CHUNK):
            places = [c[start : start + CHUNK] for c in self.columns]
            read = [x[p] for x, p in zip(xs, places, strict=True)]
            for k in wanted:
                part = torch.ones_like(read[k])
                if self.factors is not None:
                    part = part * self.factors[start : start + CHUNK].unsqueeze(1)
                for j, x in enumerate(read):
                    if j != k:
                        part = part * x
                found[same[k]].index_add_(0, places[k], part)
        return _at_first(found, wanted, same)

    def _run_compiled(self, xs: Sequence[Tensor], wanted: Sequence[int], same: tuple[int, ...]) -> list[Tensor]:
        from .fused_loops import add_many, add_three
        from .row_loops import derivatives_of_items

        # the loop adds the derivatives of all operands of a vector
        if any(same[k] == same[j] for k in wanted for j in range(len(xs)) if j not in wanted):
            same = tuple(range(len(xs)))
        read = {k: xs[k].contiguous().numpy() for k in set(same)}
        out = {k: np.zeros(x.shape) for k, x in read.items()}
        columns = tuple(column.numpy() for column in self.columns)
        factors = np.ones(0) if self.factors is None else self.factors.numpy()
        if xs[0].shape[1] > 1:
            derivatives_of_items(columns, factors, tuple(read[k] for k in same), tuple(out[k] for k in same))
        else:
            values, outs = (tuple(x[k][:, 0] for k in same) for x in (read, out))
            if len(same) == 3:
                add_three(1.0, factors, *columns, *values, *outs)
            else:
                add_many(1.0, factors, columns, values, outs)
        return _at_first({k: torch.from_numpy(x) for k, x in out.items()}, wanted, same)


def _at_first(found: dict[int, Tensor], wanted: Sequence[int], same: tuple[int, ...]) -> list[Tensor]:
    seen: set[int] = set()
    parts = []
    for k in wanted:
        parts.append(torch.zeros_like(found[same[k]]) if same[k] in seen else found[same[k]])
        seen.add(same[k])
    return parts


class _Derivatives(torch.autograd.Function):
    """Some of the dE/dx_k; the gradient of each is E with x_k replaced, so this function is its own derivative."""

    @staticmethod
    def forward(ctx: Any, rows: Multilinear, wanted: tuple[int, ...], same: tuple[int, ...],
                *xs: Tensor) -> tuple[Tensor, ...]:
        ctx.rows, ctx.wanted, ctx.same = rows, wanted, same
        ctx.save_for_backward(*xs)
        ctx.set_materialize_grads(False)
        return tuple(rows.run(xs, wanted, same))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        xs, same = ctx.saved_tensors, ctx.same
        totals: list[Tensor | None] = [None] * len(xs)
        # equal operands have one output, at the first of them
        given = dict(reversed([(same[k], g) for k, g in zip(ctx.wanted, gradients, strict=True)]))
        for k in ctx.wanted:
            gradient = given[same[k]]
            others = tuple(j for j in range(len(xs)) if j != k and ctx.needs_input_grad[3 + j])
            if gradient is None or not others:
                continue
            replaced = [gradient if j == k else x for j, x in enumerate(xs)]
            parts = ctx.rows.derivatives(replaced, others)
            for j, part in zip(others, parts, strict=True):
                old = totals[j]
                totals[j] = part if old is None else old + part
        return None, None, None, *totals


Rows = Linear | Bilinear | Multilinear


def make_rows(columns: Sequence[np.ndarray], lengths: Sequence[int], factors: np.ndarray | None,
              device: torch.device) -> Rows:
    """The form over these columns, ready to run.

    Args:
        columns: for each operand, the place that each row reads.
        lengths: the length of each operand.
        factors: what each row is multiplied by; None for 1.
        device: of the operands.
    """
    if len(columns) == 1:
        return Linear(columns[0], lengths[0], factors, device)
    return (Bilinear if len(columns) == 2 else Multilinear)(columns, lengths, factors, device)


def _has_numba() -> bool:
    return find_spec("numba") is not None


class Groups:
    """Products of the rows of each group, by tables of rows of similar length.

    Args:
        output: the group of each row, in order.
        n_places: the number of groups; one without rows has the product 1.
    """

    def __init__(self, output: np.ndarray, n_places: int, device: torch.device):
        counts = np.bincount(output, minlength=n_places)
        starts = np.cumsum(counts) - counts
        self.n_places, self.n_rows = n_places, len(output)
        self.tables: list[tuple[Tensor, Tensor]] = []
        width = 1
        while width < 2 * max(int(counts.max(initial=0)), 1):
            # groups of more than half this width, filled with a row that is 1
            groups = np.flatnonzero((counts > width // 2) & (counts <= width))
            if len(groups):
                at = starts[groups, None] + np.arange(width)
                at = np.where(np.arange(width) < counts[groups, None], at, self.n_rows)
                self.tables.append((torch.from_numpy(groups).to(device), torch.from_numpy(at).to(device)))
            width *= 2

    def products(self, x: Tensor) -> Tensor:
        """The product of each group, [n_places, items]."""
        found = x.new_ones(self.n_places, x.shape[1])
        padded = torch.cat([x, x.new_ones(1, x.shape[1])])
        for groups, at in self.tables:
            found = found.index_put((groups,), padded[at].prod(1))
        return found

    def others(self, x: Tensor) -> Tensor:
        """For each row, the product of the other rows of its group."""
        padded = torch.cat([x, x.new_ones(1, x.shape[1])])
        found = torch.zeros_like(padded)
        for _, at in self.tables:
            table = padded[at]
            one = torch.ones_like(table[:, :1])
            # exclusive products, from the left and from the right, so that a factor of zero does no harm
            before = torch.cumprod(torch.cat([one, table[:, :-1]], 1), 1)
            after = torch.cumprod(torch.cat([one, table[:, 1:].flip(1)], 1), 1).flip(1)
            found = found.index_put((at,), before * after)
        return found[: self.n_rows]
