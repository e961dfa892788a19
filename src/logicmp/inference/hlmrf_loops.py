"""Compiled loops over hinges: the copies of consensus ADMM, and descent by one variable after the other.

Room: inference; used by hlmrf.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# steps of Newton's method for one variable, unless a step is small
NEWTON, SMALL = 8, 1e-3


@njit(cache=True, nogil=True, error_model="numpy")
def move_copies(first: int, last: int, begins: np.ndarray, value: np.ndarray, coefficient: np.ndarray,
                bound: np.ndarray, weight: np.ndarray, truth: np.ndarray, held: np.ndarray, total: np.ndarray,
                step_size: float, is_squared: bool) -> float:
    """Move the copies of each hinge to the minimum of its loss; returns how far a copy is from the truth at most.

    Args:
        first, last: the range of hinges.
        begins: where the entries of each hinge begin.
        value: the value that each entry is a copy of.
        coefficient: of each entry, 1 or -1.
        bound: of each hinge.
        weight: of each hinge, infinite for a constraint.
        truth: of each value.
        held: by entry, the copy plus its dual, updated.
        total: by value, the sum of what the copies of this range hold; added to.
        step_size: how strongly copies attract each other.
        is_squared: whether the loss is the square of the hinge.
    """
    apart = 0.0
    for f in range(first, last):
        low, high = begins[f], begins[f + 1]
        excess = -bound[f]
        for j in range(low, high):
            # the truth minus the dual, which is what is held minus the truth
            excess += coefficient[j] * (2 * truth[value[j]] - held[j])
        step = 0.0
        if excess > 0:
            norm = high - low
            w = weight[f]
            if w == np.inf:
                step = excess / norm
            elif is_squared:
                step = 2 * w / (step_size + 2 * w * norm) * excess
            else:
                step = min(w / step_size, excess / norm)
        for j in range(low, high):
            t = truth[value[j]]
            moved = t - held[j] - step * coefficient[j]
            apart = max(apart, abs(moved))
            # the copy is t + moved, its dual held - t
            held[j] += moved
            total[value[j]] += held[j]
    return apart


@njit(cache=True, nogil=True, error_model="numpy")
def by_value(begins: np.ndarray, owner: np.ndarray, value: np.ndarray, coefficient: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:
    """The hinge and the coefficient of each entry, sorted by value.

    Args:
        begins: where the entries of each value begin.
        owner, value, coefficient: the hinge, the value and the coefficient of each entry.
    """
    place = begins[:-1].copy()
    hinges, signs = np.empty_like(owner), np.empty_like(coefficient)
    for j in range(len(value)):
        k = place[value[j]]
        hinges[k], signs[k] = owner[j], coefficient[j]
        place[value[j]] += 1
    return hinges, signs


@njit(cache=True, nogil=True, error_model="numpy")
def descend(places: np.ndarray, begins: np.ndarray, hinge: np.ndarray, coefficient: np.ndarray, weight: np.ndarray,
            truth: np.ndarray, excess: np.ndarray) -> float:
    """Minimize squared hinges over one binary variable after the other; returns the largest change of a truth value.

    Args:
        places: of the value 1 of each variable; the value 0 is before it.
        begins: where the hinges of each value begin.
        hinge: the hinges of all values, one value after the other.
        coefficient: of the value in each of them, 1 or -1.
        weight: of each hinge, finite.
        truth: of each value, updated.
        excess: by hinge, the sum of its truth values minus its bound, updated.
    """
    largest = 0.0
    for p in places:
        start = truth[p]
        # Newton's method between two bounds: the slope grows, and jumps where hinges begin or end to act
        low, high = -1.0, 2.0
        for _ in range(NEWTON):
            slope, curve = 0.0, 0.0
            for j in range(begins[p], begins[p + 1]):
                f = hinge[j]
                if excess[f] > 0:
                    slope += coefficient[j] * weight[f] * excess[f]
                    curve += weight[f]
            if slope == 0:
                break
            if slope > 0:
                high = truth[p]
            else:
                low = truth[p]
            aim = min(max(truth[p] - slope / curve, 0.0), 1.0)
            if (slope > 0 and aim <= low) or (slope < 0 and aim >= high):
                aim = (low + high) / 2
            step = aim - truth[p]
            if step == 0:
                break
            for j in range(begins[p], begins[p + 1]):
                excess[hinge[j]] += coefficient[j] * step
            truth[p] += step
            if abs(step) < SMALL:
                break
        truth[p - 1] = 1 - truth[p]
        largest = max(largest, abs(truth[p] - start))
    return largest
