"""Lists that add to the logits in place: equal to the executor that records gradients, on random theories."""

from __future__ import annotations

import pytest
import torch
from execute.test_sparse import RULES, Case, case_of, random_case, sparse_of

from logicmp import CostError
from logicmp.execute.fused import Fused, can_fuse, is_thin
from logicmp.execute.sparse import SparseExecutor
from logicmp.execute.state import Call
from logicmp.ground.engine import Alone
from logicmp.testing.executor_battery import weights_of


def compare(case: Case, executor: SparseExecutor) -> None:
    """Counts and messages with gradients, by the lists of each rule, and without, in place."""
    executor.fused = Fused(executor.rows)
    weights = weights_of(case.theory, case.sizes)
    q = {name: case.rows(name, case.q[name]) for name in case.latent}
    observed = {name: case.q[name] for name in case.observed if name not in case.supports}
    call = Call(weights, case.sizes, next(iter(case.q.values())), observed=observed)
    base = {name: torch.linspace(-1, 1, x.numel(), dtype=x.dtype).reshape(x.shape) for name, x in q.items()}
    before = {name: x.clone() for name, x in base.items()}
    want = executor.subtract_messages(base, q, call, executor.constants(call))
    want_counts = [executor.counts(q, call, weighted) for weighted in (False, True)]
    with torch.no_grad():
        got = executor.subtract_messages(base, q, call, executor.constants(call))
        for weighted, counts in zip((False, True), want_counts, strict=True):
            torch.testing.assert_close(executor.counts(q, call, weighted), counts, rtol=1e-9, atol=1e-9)
    for name in q:
        torch.testing.assert_close(got[name], want[name], rtol=1e-9, atol=1e-9)
        assert torch.equal(base[name], before[name])


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_theories(first: int) -> None:
    n_checked = 0
    for seed in range(first, first + 40):
        case = random_case(seed)
        try:
            executor = None if case is None else sparse_of(case)
        except CostError:
            continue
        is_plain = executor is not None and not any(rule.n_weight_axes for rule in executor.plan.rules)
        if case is not None and executor is not None and is_plain and can_fuse(executor.rows, executor.theory):
            compare(case, executor)
            n_checked += 1
    assert n_checked >= 5


@pytest.mark.parametrize("name", ["smokers", "transitivity", "symmetric", "chain", "four-cycle", "inequality",
                                  "a dense pair between sparse ones", "offsets", "constants", "empty"])
def test_rules(name: str) -> None:
    text, shares, observed = RULES[name]
    case = case_of(text, shares, observed=observed)
    executor = sparse_of(case)
    assert can_fuse(executor.rows, executor.theory)
    compare(case, executor)


def test_labels_and_quantifiers_run_as_before() -> None:
    for name in ("labels", "exists", "one weight per constant"):
        text, shares, observed = RULES[name]
        executor = sparse_of(case_of(text, shares, observed=observed))
        assert not can_fuse(executor.rows, executor.theory)
        assert executor.fused is None


def test_a_thin_list_is_fused_and_a_matrix_is_not() -> None:
    thin = sparse_of(case_of("0.5 A(a,b) ^ B(b,a) => C(a,b)", {"A": 0.3, "B": 0.3, "C": 0.3}, n=12))
    assert is_thin(thin.rows, thin._lengths, Alone(), False)
    assert thin.fused is not None
    text, shares, observed = RULES["smokers"]
    assert sparse_of(case_of(text, shares, observed=observed, n=40)).fused is None
