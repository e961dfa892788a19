"""Compiled loops over the columns of a list, which add to the arrays of its operands in place.

Room: plan -> **execute** -> layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = Any


@njit(cache=True, nogil=True, error_model="numpy")
def add_one(scale: float, factors: Array, a: Array, out_a: Array) -> None:
    """K = 1: add the derivative of scale * sum of factors * x."""
    for r in range(len(a)):
        out_a[a[r]] += scale * factors[r] if len(factors) else scale


@njit(cache=True, nogil=True, error_model="numpy")
def add_two(scale: float, factors: Array, a: Array, b: Array, x: Array, y: Array, out_a: Array, out_b: Array) -> None:
    """K = 2: add the derivatives of scale * sum of factors * x * y."""
    for r in range(len(a)):
        f = scale * factors[r] if len(factors) else scale
        out_a[a[r]] += f * y[b[r]]
        out_b[b[r]] += f * x[a[r]]


@njit(cache=True, nogil=True, error_model="numpy")
def add_three(scale: float, factors: Array, a: Array, b: Array, c: Array, x: Array, y: Array, z: Array, out_a: Array,
              out_b: Array, out_c: Array) -> None:
    """K = 3: add the derivatives of scale * sum of factors * x * y * z."""
    for r in range(len(a)):
        f = scale * factors[r] if len(factors) else scale
        p, q, s = x[a[r]], y[b[r]], z[c[r]]
        out_a[a[r]] += f * q * s
        out_b[b[r]] += f * p * s
        out_c[c[r]] += f * p * q


@njit(cache=True, nogil=True, error_model="numpy")
def add_many(scale: float, factors: Array, columns: Array, xs: Array, outs: Array) -> None:
    """Any K: add the derivatives of scale * sum of factors * product of operands; each argument is a tuple."""
    k = len(columns)
    before = np.empty(k + 1)
    for r in range(len(columns[0])):
        before[0] = scale * factors[r] if len(factors) else scale
        for j in range(k):
            before[j + 1] = before[j] * xs[j][columns[j][r]]
        after = 1.0
        for j in range(k - 1, -1, -1):
            outs[j][columns[j][r]] += before[j] * after
            after *= xs[j][columns[j][r]]


@njit(cache=True, nogil=True, error_model="numpy")
def spread(factors: Array, a: Array, x: Array, b: Array, out_b: Array) -> None:
    """Add factors * x, read at one column, to another array at another column."""
    for r in range(len(a)):
        out_b[b[r]] += factors[r] * x[a[r]] if len(factors) else x[a[r]]


@njit(cache=True, nogil=True, error_model="numpy")
def add_products(factors: Array, columns: Array, xs: Array, output: Array, out: Array) -> None:
    """Add the product of the operands of each row to its place in the output."""
    for r in range(len(output)):
        f = factors[r] if len(factors) else 1.0
        for j in range(len(columns)):
            f *= xs[j][columns[j][r]]
        out[output[r]] += f


@njit(cache=True, nogil=True, error_model="numpy")
def sum_products(factors: Array, columns: Array, xs: Array) -> float:
    """The sum over all rows of the product of their operands."""
    total = 0.0
    for r in range(len(columns[0])):
        f = factors[r] if len(factors) else 1.0
        for j in range(len(columns)):
            f *= xs[j][columns[j][r]]
        total += f
    return total
