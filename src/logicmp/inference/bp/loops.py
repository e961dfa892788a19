"""Compiled loops of belief propagation: all messages of a range of factors, in place.

Room: inference/bp; used by batches and messages.

A loop reads the log-odds of all variables, which no loop changes, and its own old messages. So ranges of factors can
run at the same time, and the result does not depend on how factors are divided.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# messages of a product with a weight up to this size keep ten digits without logarithms of probabilities
MILD = 12.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _clip(x: float, most: float) -> float:
    return min(max(x, -most), most)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_add(a: float, b: float) -> float:
    top, low = max(a, b), min(a, b)
    return top if top == -np.inf else top + np.log1p(np.exp(low - top))


@njit(cache=True, nogil=True, error_model="numpy")
def add_sent(var: np.ndarray, sent: np.ndarray, counts: np.ndarray, out: np.ndarray) -> None:
    """Add the messages of tables, [factors, variables], to the variables.

    Args:
        counts: how often each message counts; empty for once.
        out: by variable.
    """
    n, k = var.shape
    is_counted = len(counts) > 0
    for r in range(n):
        for a in range(k):
            out[var[r, a]] += sent[r, a] * counts[r, a] if is_counted else sent[r, a]


@njit(cache=True, nogil=True, error_model="numpy")
def add_signed(place: np.ndarray, sign: np.ndarray, sent: np.ndarray, count: np.ndarray, out: np.ndarray) -> None:
    """Add the messages of products to the places of their literals.

    Args:
        count: how often each message counts; empty for once.
    """
    is_counted = len(count) > 0
    for j in range(len(place)):
        out[place[j]] += sign[j] * (sent[j] * count[j] if is_counted else sent[j])


@njit(cache=True, nogil=True, error_model="numpy")
def send_tables(first: int, last: int, values: np.ndarray, kind: np.ndarray, var: np.ndarray, odds: np.ndarray,
                sent: np.ndarray, damping: float, most: float) -> float:
    """Update the messages of tables over binary variables; returns the largest change before damping.

    Args:
        first, last: the range of tables.
        values: [kinds, cells], log-weights.
        kind: of each table.
        var: [tables, variables].
        odds: the log-odds of each variable with all messages.
        sent: [tables, variables], the log-odds of each message, updated.
        damping: share of the old message kept.
        most: bound of log-odds.
    """
    k = var.shape[1]
    n_cells = values.shape[1]
    given, joint = np.empty(k), np.empty(n_cells)
    change = 0.0
    for r in range(first, last):
        joint[0] = 0.0
        width = 1
        for a in range(k - 1, -1, -1):
            x = _clip(odds[var[r, a]] - sent[r, a], most)
            given[a] = x
            for c in range(width):
                joint[width + c] = joint[c] + x
            width *= 2
        table = values[kind[r]]
        top = -np.inf
        for c in range(n_cells):
            joint[c] += table[c]
            top = max(top, joint[c])
        # the first variable divides the cells in halves; then it is summed out
        for c in range(n_cells):
            joint[c] = np.exp(joint[c] - top)
        half = n_cells // 2
        for a in range(k):
            no, yes = 0.0, 0.0
            for c in range(half):
                no += joint[c]
                yes += joint[half + c]
                joint[c] += joint[half + c]
            half //= 2
            if no > 1e-280 and yes > 1e-280:
                new = np.log(yes / no) - given[a]
            else:
                new = _sum_in_logs(table, given, a)
            new = _clip(new, most)
            old = sent[r, a]
            change = max(change, abs(new - old) / max(1.0, abs(new)))
            sent[r, a] = damping * old + (1 - damping) * new
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_in_logs(table: np.ndarray, given: np.ndarray, axis: int) -> float:
    """The message to one variable, for cells that differ by more than the range of floats."""
    k = len(given)
    no, yes = -np.inf, -np.inf
    for c in range(len(table)):
        x = table[c]
        for a in range(k):
            if a != axis and (c >> (k - 1 - a)) & 1:
                x += given[a]
        if (c >> (k - 1 - axis)) & 1:
            yes = _log_add(yes, x)
        else:
            no = _log_add(no, x)
    return yes - no


@njit(cache=True, nogil=True, error_model="numpy")
def send_products(first: int, last: int, begins: np.ndarray, place: np.ndarray, sign: np.ndarray, gain: np.ndarray,
                  head: np.ndarray, odds: np.ndarray, sent: np.ndarray, damping: float, most: float) -> float:
    """Update the messages of products of literals; returns the largest change before damping.

    Args:
        first, last: the range of products.
        begins: where the literals of each product begin.
        place: of each literal and then of each head, in `odds`.
        sign: -1 where a literal is true if the value at its place is false.
        gain: the log-weight of each product.
        head: the number of the literal that is true iff the product is, -1 for none.
        odds: the log-odds of each place with all messages.
        sent: the log-odds of each message, updated.
        damping: share of the old message kept.
        most: bound of log-odds.
    """
    longest = 0
    for f in range(first, last):
        longest = max(longest, begins[f + 1] - begins[f])
    before, own, new = np.empty(longest + 1), np.empty(longest), np.empty(longest + 1)
    change = 0.0
    for f in range(first, last):
        low = begins[f]
        n = begins[f + 1] - low
        for i in range(n):
            j = low + i
            own[i] = _clip(sign[j] * odds[place[j]] - sent[j], most)
        h = head[f]
        if h < 0 and abs(gain[f]) <= MILD:
            # log(1 + (e^g - 1) r2 r3)
            before[0] = np.expm1(gain[f])
            for i in range(n):
                own[i] = 1 / (1 + np.exp(-own[i]))
                before[i + 1] = before[i] * own[i]
            after = 1.0
            for i in range(n - 1, -1, -1):
                new[i] = np.log1p(before[i] * after)
                after *= own[i]
        else:
            g = gain[f] if h < 0 else _clip(sign[h] * odds[place[h]] - sent[h], most)
            _send_in_logs(own, n, g, before, new)
        for i in range(n if h < 0 else n + 1):
            j = low + i if i < n else h
            x = _clip(new[i], most)
            old = sent[j]
            change = max(change, abs(x - old) / max(1.0, abs(x)))
            sent[j] = damping * old + (1 - damping) * x
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _send_in_logs(own: np.ndarray, n: int, gain: float, before: np.ndarray, new: np.ndarray) -> None:
    """Messages to n literals and the head, with products of probabilities r as t = log(-log r)."""
    before[0] = -np.inf
    for i in range(n):
        own[i] = -own[i] if own[i] > 600 else np.log(_log_add(0.0, -own[i]))
        before[i + 1] = _log_add(before[i], own[i])
    log_r, log_not = _log_both(before[n])
    new[n] = log_r - log_not
    after = -np.inf
    for i in range(n - 1, -1, -1):
        log_r, log_not = _log_both(_log_add(before[i], after))
        new[i] = _log_add(log_not, gain + log_r)
        after = _log_add(after, own[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _log_both(t: float) -> tuple[float, float]:
    """log r and log(1 - r) from t = log(-log r)."""
    log_r = -np.exp(t)
    return log_r, t if t < -30 else np.log(-np.expm1(log_r))
