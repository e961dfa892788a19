"""The steps of a plan as torch calls: contractions, views of a predicate's tensor, counts of entities.

Room: plan -> **execute** -> layer.

    'ab,bc->ac'    bmm(x, y)              'ab,cb->ac'    bmm(x, y.mT)         no copy: bmm takes strided matrices
    C(a,a)         the diagonal           label(i+1)     a shifted slice      P(x, A)    one column

`view` takes the marginals of a predicate to the axes of a read; `unview`, its transpose, puts a message back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..parse.theory import Theory
from ..plan.steps import At, Axis, Contract, Read, Scaled
from .state import Call, Kept, Values, is_sharded, is_tracing


def spread(x: Tensor, axes: tuple[int, ...], ndim: int) -> Tensor:
    """Lay the axes of a tensor out over more axes, of size one where it has none; the batch stays in front."""
    if axes == tuple(range(ndim)):
        return x
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order != list(range(len(axes))):
        x = x.permute(0, *(1 + k for k in order))
    for k in range(ndim):
        if k not in axes:
            x = x.unsqueeze(1 + k)
    return x


@dataclass(frozen=True)
class MatrixProduct:
    """A contraction over one index of two matrices: which value, transposed or not, on which side."""

    left: int
    right: int
    left_transposed: bool
    right_transposed: bool

    def factors(self, values: Values, transposed: bool) -> tuple[Tensor, Tensor]:
        """The two matrices whose product is the value, or its transpose."""
        x, y = values[self.left], values[self.right]
        x = x.mT if self.left_transposed else x
        y = y.mT if self.right_transposed else y
        return (y.mT, x.mT) if transposed else (x, y)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """The product of two matrices, [batch, ...]; one that all items share is multiplied with all of them at once."""
    # in this order: a graph must not depend on the batch size
    if is_tracing() or left.shape[0] == right.shape[0]:
        return torch.matmul(left, right)
    if right.shape[0] != 1:
        return multiply(right.mT, left.mT).mT
    return torch.mm(left.flatten(0, 1), right[0]).view(*left.shape[:2], right.shape[-1])


def _multiplied(left: Tensor, right: Tensor) -> Tensor:
    """Like `multiply`, for matrices that may be in shards."""
    if is_sharded() and not torch.is_grad_enabled():
        from .sharded import add_product

        found = add_product(None, left, right)
        if found is not None:
            return found
    return multiply(left, right)


class SymmetricSquare(torch.autograd.Function):
    """x x for a symmetric x: its gradient G x + x G is, for a symmetric G, one product and its transpose.

    The gradient is symmetric whatever comes in: right where x is itself made from something symmetric, as the marginals
    of a symmetric predicate are.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.matmul(x, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        half = torch.matmul((grad + grad.mT) / 2, x)
        return half + half.mT


def as_matrix_product(step: Contract) -> MatrixProduct | None:
    """The contraction as a plain product of matrices, if it is one."""
    left_side, output = step.equation.split("->")
    terms = left_side.split(",")
    if len(terms) != 2 or [len(t) for t in terms] != [2, 2] or len(output) != 2:
        return None
    left, right = terms
    common = set(left) & set(right)
    if len(common) != 1 or common & set(output) or output[0] not in left:
        return None
    (index,) = common
    first, second = step.operands
    return MatrixProduct(first, second, left[0] == index, right[1] == index)


def compile_contract(step: Contract) -> Callable[[Values], Tensor]:
    """A contraction as a product of matrices, a product of elements, or a sum."""
    left_side, output = step.equation.split("->")
    terms = left_side.split(",")
    if len(terms) == 1:
        (operand,) = step.operands
        dims = tuple(1 + k for k, letter in enumerate(terms[0]) if letter not in output)
        return lambda values: values[operand].sum(dims)
    product = as_matrix_product(step)
    if product is not None:
        return lambda values: _multiplied(*product.factors(values, False))
    left, right = terms
    first, second = step.operands
    if not any(n in right and n not in output for n in left):
        place, other, ndim = (tuple(output.index(n) for n in left), tuple(output.index(n) for n in right), len(output))
        return lambda values: spread(values[first], place, ndim) * spread(values[second], other, ndim)
    return _general(step, left, right, output)


def _general(step: Contract, left: str, right: str, output: str) -> Callable[[Values], Tensor]:
    """A batched matrix product after bringing shared, own and summed indices together."""
    first, second = step.operands
    shared = [n for n in left if n in right and n in output]
    summed = [n for n in left if n in right and n not in output]
    rows = [n for n in left if n not in right]
    columns = [n for n in right if n not in left]
    left_order = [0, *(1 + left.index(n) for n in (*shared, *rows, *summed))]
    right_order = [0, *(1 + right.index(n) for n in (*shared, *summed, *columns))]
    n_shared, n_rows, n_summed, n_columns = len(shared), len(rows), len(summed), len(columns)

    def run(values: Values) -> Tensor:
        x, y = values[first].permute(left_order), values[second].permute(right_order)
        if not n_rows and not n_columns:
            return (x * y).sum(tuple(range(1 + n_shared, x.dim())))
        row_shape, column_shape = x.shape[1 + n_shared : 1 + n_shared + n_rows], y.shape[1 + n_shared + n_summed :]
        x = x.flatten(1 + n_shared + n_rows)
        y = y.flatten(1 + n_shared, n_shared + n_summed)
        x = x.flatten(1 + n_shared, n_shared + n_rows) if n_rows else x.unsqueeze(1 + n_shared)
        y = y.flatten(2 + n_shared) if n_columns else y.unsqueeze(-1)
        product = torch.matmul(x, y) if n_shared else multiply(x, y)
        return product.reshape(*product.shape[: 1 + n_shared], *row_shape, *column_shape)

    return run


def span(axis: Axis, offset: int, call: Call) -> tuple[int, int]:
    """Where an axis starts in the argument it reads, and how long it is."""
    length = axis.size(call.sizes)
    return (axis.start - axis.low + offset if length else 0), length


def is_whole(args: tuple[At, ...], axes: tuple[Axis, ...]) -> bool:
    """Whether a read takes a predicate as it is: every argument an axis of its own, in order, in full."""
    return tuple(args) == tuple(At(k, 0) for k in range(len(axes))) and all(
        axis == Axis(axis.type) for axis in axes)


def view(x: Tensor, args: tuple[At, ...], axes: tuple[Axis, ...], call: Call) -> Tensor:
    """A tensor over arguments as one over axes: constants selected, ranges sliced, repeated axes on the diagonal."""
    dims: list[int] = []
    for at in args:
        dim = 1 + len(dims)
        if at.axis is None:
            x = x.select(dim, at.offset)
            continue
        if axes[at.axis] != Axis(axes[at.axis].type) or at.offset:
            x = x.narrow(dim, *span(axes[at.axis], at.offset, call))
        if at.axis in dims:
            first = 1 + dims.index(at.axis)
            # the diagonal goes last: bring it back to the place of the first
            x = x.diagonal(0, first, dim).movedim(-1, first)
        else:
            dims.append(at.axis)
    if dims != sorted(dims):
        # labels stay last
        x = x.permute(0, *(1 + dims.index(k) for k in range(len(dims))), *range(1 + len(dims), x.dim()))
    return x


def unview(x: Tensor, read: Read, theory: Theory, call: Call) -> Tensor:
    """The transpose of `view`: a tensor over axes, and maybe labels, put back over the arguments, zero elsewhere."""
    order = list(dict.fromkeys(at.axis for at in read.args if at.axis is not None))
    if order != sorted(order):
        x = x.permute(0, *(1 + k for k in order), *range(1 + len(order), x.dim()))
    types = theory.predicate[read.predicate].types
    position = len(order)
    # from the last argument to the first, undo what `view` did
    for k in range(len(read.args) - 1, -1, -1):
        at, n = read.args[k], call.sizes[types[k]]
        if at.axis is None:
            x = _pad(x.unsqueeze(1 + position), 1 + position, at.offset, n)
            continue
        start, _ = span(read.axes[at.axis], at.offset, call)
        if any(earlier.axis == at.axis for earlier in read.args[:k]):
            first = 1 + order.index(at.axis)
            x = torch.diag_embed(x.movedim(first, -1), 0, first, 1 + position)
            x = _pad(x, 1 + position, start, n)
        else:
            position -= 1
            x = _pad(x, 1 + position, start, n)
    return x


def _pad(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Zeros around a tensor along one dimension, so that it starts at `start` and fills `length`."""
    after = length - start - x.shape[dim]
    if isinstance(after, int) and not start and not after:
        return x
    sides = [0, 0] * (x.dim() - 1 - dim) + [start, after]
    return torch.nn.functional.pad(x, sides)


def compare(left: At, right: At, axes: tuple[Axis, ...], call: Call) -> Tensor:
    """True where two arguments are equal, as [1, ...] over the axes."""
    device = call.like.device
    places = []
    for at in (left, right):
        if at.axis is None:
            places.append(torch.full((1,) * len(axes), at.offset, device=device))
            continue
        start, length = span(axes[at.axis], at.offset, call)
        shape = [1] * len(axes)
        shape[at.axis] = length
        places.append(torch.arange(start, start + length, device=device).reshape(shape))
    return (places[0] == places[1]).unsqueeze(0)


class Apart:
    """Sets the diagonals that a read excludes to zero."""

    def __init__(self, read: Read):
        self.read = read
        self._kept = Kept()

    def __call__(self, x: Tensor, call: Call, in_place: bool = False) -> Tensor:
        # a product, because masked_fill is slower
        off = self._sharded(x, call) if is_sharded() else self._kept.get(
            (call.like.device, call.like.dtype, call.sizes), partial(self._off_diagonal, call))
        return x.mul_(off) if in_place and x.shape[1:] == off.shape[1:] else x * off

    def _off_diagonal(self, call: Call) -> Tensor:
        """One where the indices that the read keeps apart differ."""
        off = call.like.new_ones(())
        for i, j in self.read.apart:
            off = off * (~compare(At(i, 0), At(j, 0), self.read.axes, call)).to(off.dtype)
        return off

    def _sharded(self, x: Tensor, call: Call) -> Tensor:
        """Like `_off_diagonal`, in the shards of a DTensor."""
        from .sharded import off_diagonal

        return off_diagonal(x, self.read.apart, [span(axis, 0, call) for axis in self.read.axes])


# counts of entities, and values scaled by them


def present(axis: Axis, call: Call) -> Tensor | None:
    """Which entities of an axis exist, with all their shifts: [batch, n]; None without a mask."""
    mask = call.masks.get(axis.type)
    if mask is None:
        return None
    found = None
    for offset in sorted({axis.low, 0, axis.high}):
        piece = mask.narrow(1, *span(axis, offset, call))
        found = piece if found is None else found * piece
    return found


def within(x: Tensor, axes: Sequence[Axis], call: Call) -> Tensor:
    """A value over axes, zero where an entity exists and one of its shifts does not."""
    for k, axis in enumerate(axes):
        existing = present(axis, call) if axis.low or axis.high else None
        if existing is not None:
            # a value of labels has one more dimension
            x = x * spread(existing, (k,), x.dim() - 1)
    return x


def count(axis: Axis, call: Call) -> Tensor | float:
    """How many entities an axis ranges over: a number, or one per item of a masked batch."""
    existing = present(axis, call)
    return axis.size(call.sizes) if existing is None else existing.sum(-1)


def factor(term: Scaled, call: Call) -> Tensor | float:
    """The number that a value is multiplied by, without its weight; [batch] where counts depend on a mask."""
    found: Tensor | float = term.coefficient
    for axis in term.counts:
        found = found * count(axis, call)
    return found


def scaled(term: Scaled, values: Values, call: Call, ndim: int) -> Tensor:
    """A scaled value laid out over `ndim` axes, of size one where it lacks an axis."""
    times = factor(term, call)
    if term.weight is not None:
        times = call.weights[term.weight] * times
    if isinstance(times, Tensor):
        times = times.reshape(-1, *[1] * ndim)
    if term.value is None:
        return times if isinstance(times, Tensor) else call.like.new_full((1,) * (ndim + 1), times)
    value = spread(values[term.value], term.axes, ndim)
    return value if isinstance(times, float) and times == 1 else value * times
