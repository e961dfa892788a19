"""The arithmetic of messages: sums in log space that keep their digits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logicmp.inference.bp.messages import log_both, log_cost, log_sums, log_sums_of_others


@given(st.lists(st.lists(st.floats(-30, 30), min_size=1, max_size=5), min_size=1, max_size=5))
def test_sums_of_segments_are_those_of_a_loop(segments: list[list[float]]) -> None:
    flat, begins = np.concatenate(segments), np.cumsum([0, *map(len, segments)])
    assert log_sums(flat, begins) == pytest.approx([np.logaddexp.reduce(s) for s in segments])
    want = [np.logaddexp.reduce(s[:k] + s[k + 1 :], initial=-np.inf) for s in segments for k in range(len(s))]
    assert log_sums_of_others(flat, begins) == pytest.approx(want)


@given(odds=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6))
def test_products_of_probabilities_near_one_keep_their_digits(odds: list[float]) -> None:
    cost = log_cost(np.array(odds))
    log_p, log_not = log_both(log_sums_of_others(cost, np.array([0, len(odds)])))
    assert not np.isnan(log_p).any()
    for k in range(len(odds)):
        others = np.array(odds[:k] + odds[k + 1 :])
        assert log_p[k] == pytest.approx(-np.logaddexp(0, -others).sum(), rel=1e-9, abs=1e-12)
        # 1 - prod r lies between the largest 1 - r and the sum of all
        each = -np.logaddexp(0, others)
        low, high = each.max(initial=-np.inf), np.logaddexp.reduce(each, initial=-np.inf)
        assert low - 1e-6 <= log_not[k] <= min(high, 0) + 1e-6
