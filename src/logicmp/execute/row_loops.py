"""Compiled loops over rows for the items of a batch: all derivatives of a multilinear form in one pass.

Room: plan -> **execute** -> layer.  For one item, `fused_loops.py` has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def derivatives_of_items(columns: Any, factors: np.ndarray, xs: Any, outs: Any) -> None:
    """Add the derivative by every operand to its output.

    Args:
        columns: a tuple, for each operand the place that each row reads.
        factors: what each row is multiplied by; empty for 1.
        xs: a tuple of operands, [places, items].
        outs: a tuple of derivatives, of the same shapes; equal operands can have one.
    """
    k, n_items = len(columns), xs[0].shape[1]
    before = np.empty((k + 1, n_items))
    after = np.empty(n_items)
    for r in range(len(columns[0])):
        f = factors[r] if len(factors) else 1.0
        for b in range(n_items):
            before[0, b] = f
            after[b] = 1.0
        for j in range(k):
            p = columns[j][r]
            for b in range(n_items):
                before[j + 1, b] = before[j, b] * xs[j][p, b]
        for j in range(k - 1, -1, -1):
            p = columns[j][r]
            for b in range(n_items):
                outs[j][p, b] += before[j, b] * after[b]
                after[b] *= xs[j][p, b]
