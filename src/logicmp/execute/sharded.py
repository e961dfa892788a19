"""Dense predicates over several devices: DTensors in and out, sharded along one argument.

Room: state -> **execute** -> layer.

    logits = distribute_tensor(logits, mesh, [Shard(0)])       a rank has the rows of its own entities
    layer(logits)                                              a DTensor with the same placement

Every step of a plan is a torch function, which DTensor runs on the shards and sends what they need. Nothing may depend
on values meanwhile: `.item()` of a sharded tensor is the number of one rank. So checks of values are made here, once
for all ranks, and the run is one as for `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication

from ..errors import LogicMPError
from .state import MESH


@contextmanager
def sharded(mesh: Any, method: str, tolerance: float, unary: Any) -> Iterator[None]:
    """Run a layer on DTensors; plain tensors are the same in every rank.

    Args:
        mesh: of the devices.
        method, tolerance: of the layer.
        unary: the log-odds, which must be finite in all ranks.
    """
    if method != "mean-field":
        raise LogicMPError(f"method={method!r} needs whole tensors, got a DTensor",
                           "use method='mean-field', or call .full_tensor() on it")
    if tolerance:
        raise LogicMPError("a tolerance needs whole tensors, got a DTensor",
                           "use tolerance=0, or call .full_tensor() on it")
    for name, x in (unary.items() if isinstance(unary, Mapping) else [("", unary)]):
        _check_finite(f"unary[{name!r}]" if name else "unary", x, mesh)
    token = MESH.set(mesh)
    try:
        with implicit_replication():
            yield
    finally:
        MESH.reset(token)


def _check_finite(what: str, x: Tensor, mesh: Any) -> None:
    """Raise in every rank if one of them has a number that is not finite."""
    local = x.to_local() if isinstance(x, DTensor) else x
    bad = (~torch.isfinite(local.detach())).sum().to(torch.int64).reshape(1)
    for dim in range(mesh.ndim):
        dist.all_reduce(bad, group=mesh.get_group(dim))
    if int(bad):
        raise LogicMPError(f"{what} has values that are NaN or infinite",
                           "check the model's output; use mask for padding, evidence for observed atoms")


def replicate(weights: Sequence[Tensor]) -> list[Tensor]:
    """Weights as DTensors that every rank has whole; gradients are added up over the ranks."""
    mesh = MESH.get()
    return [w if isinstance(w, DTensor) else DTensor.from_local(w, mesh, [Replicate()] * mesh.ndim, run_check=False)
            for w in weights]


def as_placed(found: Any, given: Any) -> Any:
    """Outputs with the placement of their inputs; DTensor may choose another one on the way."""
    if isinstance(found, Mapping):
        return {name: as_placed(x, given[name]) for name, x in found.items()}
    if not isinstance(found, DTensor):
        return found
    wanted = given.placements if isinstance(given, DTensor) else [Replicate()] * found.device_mesh.ndim
    return found.redistribute(placements=wanted)


_ROWS, _COLUMNS = Shard(1), Shard(2)

# products of matrices, [batch, n, n], without gradients: DTensor would gather both factors, each with copies


def add_product(total: Tensor | None, left: Tensor, right: Tensor, alpha: float = 1.0) -> Tensor | None:
    """A sum plus a product of matrices, in place; None if DTensor must choose how.

    One shard of a factor, or of the product, is sent after the other, so no rank ever has a whole matrix.

    Args:
        total: the sum so far, which nothing else uses; None for a product alone.
        left, right: matrices in shards of rows or columns.
        alpha: factor of the product.
    """
    given = [x for x in (total, left, right) if x is not None]
    if not all(isinstance(x, DTensor) and x.dim() == 3 and x.device_mesh.ndim == 1 and x.shape[0] == left.shape[0]
               and x.placements[0] in (_ROWS, _COLUMNS) for x in given):
        return None
    assert isinstance(left, DTensor) and isinstance(right, DTensor)
    sides = {left.placements[0], right.placements[0]}
    wanted = total.placements[0] if isinstance(total, DTensor) else left.placements[0] if len(sides) == 1 else _ROWS
    if len(sides) == 1 and wanted not in sides:
        return None
    if wanted == _COLUMNS:
        # in shards of rows after transposing all of them
        turned = add_product(None if total is None else total.mT, right.mT, left.mT, alpha)
        return None if turned is None else turned.mT if total is None else total
    mesh, a = left.device_mesh, left.to_local()
    if total is None:
        n_own = _lengths(left, 1)[mesh.get_local_rank()]
        total = DTensor.from_local(a.new_zeros(left.shape[0], n_own, right.shape[2]), mesh, [_ROWS], run_check=False,
                                   shape=torch.Size((left.shape[0], left.shape[1], right.shape[2])),
                                   stride=(left.shape[1] * right.shape[2], right.shape[2], 1))
    assert isinstance(total, DTensor)
    out = total.to_local()
    if left.placements[0] == _COLUMNS:
        # each rank adds the part of its own entities to the rows of every rank
        group, start = mesh.get_group(0), 0
        for rank, length in enumerate(_lengths(left, 1)):
            part = torch.matmul(a[:, start : start + length], right.to_local())
            dist.reduce(part, dist.get_global_rank(group, rank), group=group)
            if rank == mesh.get_local_rank():
                out.add_(part, alpha=alpha)
            start += length
    elif right.placements[0] == _ROWS:
        for start, block in _blocks(right):
            out.baddbmm_(a[:, :, start : start + block.shape[1]], block, alpha=alpha)
    else:
        columns = right.mT
        assert isinstance(columns, DTensor)
        for start, block in _blocks(columns):
            out[:, :, start : start + block.shape[1]].baddbmm_(a, block.mT, alpha=alpha)
    return total


def _lengths(x: DTensor, dim: int) -> list[int]:
    """The length of each rank's shard, if a dimension is sharded."""
    size = x.device_mesh.size()
    found = [len(part) for part in torch.arange(x.shape[dim]).chunk(size)]
    return found + [0] * (size - len(found))


def _blocks(x: DTensor) -> Iterator[tuple[int, Tensor]]:
    """The shards of a matrix in shards of rows, one after the other, with the first row of each."""
    mesh, own, start = x.device_mesh, x.to_local().contiguous(), 0
    group = mesh.get_group(0)
    for rank, length in enumerate(_lengths(x, 1)):
        block = own if rank == mesh.get_local_rank() else own.new_empty(x.shape[0], length, x.shape[2])
        if length:
            dist.broadcast(block, dist.get_global_rank(group, rank), group=group)
            yield start, block
        start += length


def off_diagonal(x: Tensor, pairs: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> Tensor:
    """True where indices of a tensor [batch, n, ...] differ, in the shards of the tensor.

    Args:
        pairs: the axes, without the batch, whose indices must differ.
        spans: the first index of each axis, and its length.
    """
    mesh = MESH.get()

    def index(k: int) -> Tensor:
        (start, length), whole = spans[k], [Replicate()] * mesh.ndim
        placed = [Shard(0) if p == Shard(1 + k) else Replicate() for p in x.placements] if isinstance(
            x, DTensor) and x.shape[1 + k] == length else whole
        own = distribute_tensor(torch.arange(start, start + length, device=x.device), mesh, placed)
        return own.reshape([length if d == 1 + k else 1 for d in range(1 + len(spans))])

    found: Tensor | None = None
    for i, j in pairs:
        part = index(i) != index(j)
        found = part if found is None else torch.logical_and(found, part)
    assert found is not None
    return found
