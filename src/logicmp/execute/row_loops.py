"""Compiled loops over rows: all derivatives of a multilinear form in one pass.

Room: plan -> **execute** -> layer.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def all_derivatives(places: np.ndarray, factors: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """Add the derivative by every operand to `out`.

    Args:
        places: [rows, K], where each row reads its operands in `x`.
        factors: what each row is multiplied by; empty for 1.
        x: all operands, one after the other.
        out: the derivatives, in the same places.
    """
    n, k = places.shape
    has_factors = len(factors) > 0
    if k == 3:
        for r in range(n):
            a, b, c = places[r, 0], places[r, 1], places[r, 2]
            xa, xb, xc = x[a], x[b], x[c]
            f = factors[r] if has_factors else 1.0
            out[a] += f * xb * xc
            out[b] += f * xa * xc
            out[c] += f * xa * xb
        return
    before = np.empty(k + 1)
    for r in range(n):
        before[0] = factors[r] if has_factors else 1.0
        for j in range(k):
            before[j + 1] = before[j] * x[places[r, j]]
        after = 1.0
        for j in range(k - 1, -1, -1):
            out[places[r, j]] += before[j] * after
            after *= x[places[r, j]]


@njit(cache=True, nogil=True, error_model="numpy")
def derivatives_of_items(places: np.ndarray, factors: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """Like `all_derivatives`, for the items of a batch: `x` and `out` are [places, items]."""
    n, k = places.shape
    n_items = x.shape[1]
    has_factors = len(factors) > 0
    before = np.empty((k + 1, n_items))
    after = np.empty(n_items)
    for r in range(n):
        f = factors[r] if has_factors else 1.0
        for b in range(n_items):
            before[0, b] = f
            after[b] = 1.0
        for j in range(k):
            p = places[r, j]
            for b in range(n_items):
                before[j + 1, b] = before[j, b] * x[p, b]
        for j in range(k - 1, -1, -1):
            p = places[r, j]
            for b in range(n_items):
                out[p, b] += before[j, b] * after[b]
                after[b] *= x[p, b]
