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
from torch.distributed.tensor import DTensor, Replicate
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
