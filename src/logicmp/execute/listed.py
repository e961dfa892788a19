"""Dense evidence that is mostly false, as a list of its true atoms: made once for each tensor.

Room: lists -> **execute** -> layer.

    parent, bool [4100, 4100], 8,200 links      every product reads 8,200 rows in place of 17 million entries

The list is kept as long as the tensor, and made again when the tensor was changed in place. Evidence is listed only
where that saves most of the work; outputs and gradients are the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..errors import CostError, LogicMPError
from ..facts.supports import DENSE_ATOMS, split_keys
from ..parse.theory import Predicate, Theory
from .dense import DenseExecutor
from .inputs import Evidence, Logits, Mask
from .lists import KnownPlans, SparseRun, make_sparse_run
from .sparse import SparseExecutor

# a tensor is listed if at most this share of its atoms is true: a dense product takes so much less time per entry
LISTED_SHARE = 1 / 64
# the time for a row of a list, compared with that for a multiplication in a product of dense matrices
ROW_COST = 256
# entries that are looked at before all are counted
SAMPLED = 4096
MakeDense = Callable[[Mapping[str, int], Sequence[str]], DenseExecutor]


class Listed:
    """The lists of the tensors of earlier calls, and their plans."""

    def __init__(self) -> None:
        # by the identity of a tensor: the tensor, its version, and its list, None if it stays dense
        self._known: dict[int, tuple[weakref.ref[Tensor], int, Tensor | None]] = {}
        self._plans = KnownPlans()

    def run(self, dense: MakeDense, theory: Theory, unary: Logits, evidence: Evidence, mask: Mask | None,
            known: Mapping[str, int], weights: Sequence[Tensor], semantics: str, reduce: str) -> SparseRun | None:
        """A run with evidence as lists where that is faster, else None.

        Args:
            dense: the dense plan for given sizes and observed predicates.
            theory, unary, evidence, mask, known, weights, semantics, reduce: as for `make_sparse_run`.
        """
        tensors = list(unary.values()) if isinstance(unary, Mapping) else [unary]
        listed = self.find(theory, unary, evidence) if all(isinstance(x, Tensor) for x in tensors) else None
        if listed is None:
            return None
        try:
            return make_sparse_run(theory, unary, listed, mask, known, weights, semantics, reduce, self._plans,
                                   partial(_judge, dense))
        except LogicMPError:
            # too many rows: dense is faster; or wrong tensors: the dense path reports them
            return None

    def find(self, theory: Theory, unary: object, evidence: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        """The evidence with sparse tensors in place of dense ones that are mostly false; None if there are none."""
        found = {}
        for name, x in evidence.items():
            predicate = theory.predicate.get(name)
            if predicate is None or not isinstance(x, Tensor) or (isinstance(unary, Mapping) and name in unary):
                continue
            if _may_be_listed(predicate, x) and (rows := self._rows(predicate, x)) is not None:
                found[name] = rows
        return {**evidence, **found} if found else None

    def _rows(self, predicate: Predicate, x: Tensor) -> Tensor | None:
        # a tensor of inference mode has no version
        version = -1 if x.is_inference() else x._version
        known = self._known.get(id(x))
        if known is not None and known[0]() is x and known[1] == version >= 0:
            return known[2]
        with torch.inference_mode(False), torch.no_grad():
            rows = _list(predicate, x)
        if version >= 0:
            key = id(x)
            self._known[key] = weakref.ref(x, lambda _: self._known.pop(key, None)), version, rows
        return rows


def _judge(make: MakeDense, sparse: SparseExecutor) -> None:
    """Raise a CostError if the dense plan is faster."""
    dense = make(dict(sparse.plan.sizes), sorted(sparse.observed)).plan
    if ROW_COST * sparse.rows.n_rows > dense.cost.each - sparse.plan.cost.each:
        raise CostError("dense tensors are faster", None)


def _may_be_listed(predicate: Predicate, x: Tensor) -> bool:
    """Whether a tensor has the form of evidence that all items share, and is large."""
    return (x.layout == torch.strided and x.device.type == "cpu" and x.dim() == len(predicate.arguments) >= 2
            and x.numel() >= DENSE_ATOMS and (x.dtype == torch.bool or x.is_floating_point())
            and not predicate.is_categorical)


def _list(predicate: Predicate, x: Tensor) -> Tensor | None:
    """The true atoms of a tensor; None if there are many, or if some atoms are neither true nor false."""
    x = x.detach()
    flat = x.reshape(-1)
    sample = flat[:: max(1, len(flat) // SAMPLED)]
    # a look at a few entries is enough for most tensors that stay dense
    if int(sample.count_nonzero()) > 2 * LISTED_SHARE * len(sample):
        return None
    # numpy finds the true entries seven times as fast as torch
    is_set = (flat if x.dtype == torch.bool else flat != 0).numpy()
    if np.count_nonzero(is_set) > LISTED_SHARE * len(flat):
        return None
    columns = split_keys(np.flatnonzero(is_set), x.shape)
    indices = torch.from_numpy(np.stack(columns).astype(np.int64))
    values = x[tuple(indices)]
    if not bool((values == 1).all()):
        return None
    if predicate.symmetric and not bool(x[indices[1], indices[0]].all()):
        # the dense path reports what is wrong
        return None
    return torch.sparse_coo_tensor(indices, values, tuple(x.shape), is_coalesced=True, check_invariants=False)
