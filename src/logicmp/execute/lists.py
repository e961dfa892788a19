"""Sparse predicates in, checked inputs and an executor of rows out.

Room: plan -> **execute** -> layer, inference.

    evidence={"Link": edge_index}          [2, n]: the links that exist, all observed
    unary={"C": sparse_coo_tensor}         its indices are the candidates of C; every other atom is false
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ..facts.supports import Support, flat_theory
from ..parse.theory import Theory
from .inputs import Inputs, read_inputs
from .sparse import SparseExecutor, build_sparse_executor


def read_rows(theory: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support], unary: Mapping[str, Tensor],
              evidence: Mapping[str, Tensor], semantics: str) -> tuple[Inputs, SparseExecutor]:
    """Check the tensors of a world with sparse predicates, and plan its rules.

    Args:
        theory: the rules.
        sizes: the number of constants of each type.
        supports: the sparse predicates; a tensor of one of them has one entry for each of its values.
        unary: log-odds by predicate.
        evidence: by predicate, bool (all atoms observed) or 1, 0 and NaN; a sparse one that is bool is true throughout.
        semantics: "exact", "paper" or "alchemy".
    """
    true = [name for name in supports if name in evidence and evidence[name].dtype == torch.bool]
    flat = flat_theory(theory, supports, true)
    inputs = read_inputs(flat, unary, {name: x for name, x in evidence.items() if name not in true}, None)
    inputs = replace(inputs, sizes={**sizes, **inputs.sizes})
    executor = build_sparse_executor(theory, sizes, supports, (*inputs.observed, *true), semantics,
                                     device=inputs.like.device)
    return inputs, executor
