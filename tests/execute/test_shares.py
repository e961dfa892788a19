"""Rows in several processes: counts, messages and gradients equal those of one process, for any number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from test_sparse import RULES, Case, case_of, check, random_case
from torch import Tensor

from logicmp import CostError
from logicmp.execute.sparse import SparseExecutor, build_sparse_executor
from logicmp.execute.state import Call, Values
from logicmp.facts.supports import rows_type
from logicmp.ground.engine import BuiltIn, Grounding
from logicmp.testing.thread_shares import ThreadShares, run_shares


class Whole:
    """An executor that has the atoms of one process, seen from outside: all atoms in and out."""

    def __init__(self, executor: SparseExecutor):
        self.executor, self.parts = executor, executor.parts

    def take(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: self.parts[name].take(x) if name in self.parts else x for name, x in tensors.items()}

    def local(self, call: Call) -> Call:
        own = {rows_type(name): len(part) for name, part in self.parts.items() if isinstance(name, str)}
        return replace(call, sizes={**call.sizes, **own}, observed=self.take(call.observed))

    def constants(self, call: Call) -> Values:
        return self.executor.constants(self.local(call))

    def messages(self, q: Mapping[str, Tensor], call: Call, constants: Values) -> dict[str, Tensor]:
        found = self.executor.messages(self.take(q), self.local(call), constants)
        return {name: self.parts[name].whole(x) if name in self.parts else x for name, x in found.items()}

    def counts(self, q: Mapping[str, Tensor], call: Call, weighted: bool = False) -> Tensor:
        return self.executor.counts(self.take(q), self.local(call), weighted)


def check_shares(case: Case, n: int, n_items: int = 1) -> int:
    """Check every rank; returns the rows of all of them."""
    def run(shares: ThreadShares) -> int:
        executor = build_sparse_executor(case.theory, case.sizes, case.supports, case.observed, case.semantics,
                                         grounding=Grounding(BuiltIn(), shares))
        check(case, Whole(executor), n_items)
        with torch.no_grad():
            # the compiled loops, where they are used
            check(case, Whole(executor), 1)
        return executor.rows.n_rows

    return sum(run_shares(n, run))


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    text, sparse, observed = RULES[name]
    case = case_of(text, sparse, observed=observed)
    whole = build_sparse_executor(case.theory, case.sizes, case.supports, case.observed, case.semantics).rows.n_rows
    n = 2 + len(name) % 2
    assert check_shares(case, n, 2) == whole or "EXIST" in text or "FORALL" in text


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_theories(first: int) -> None:
    n_checked = 0
    for seed in range(first, first + 20):
        case = random_case(seed)
        if case is None:
            continue
        try:
            check_shares(case, 2 + seed % 2)
        except CostError:
            # quantifiers over all constants are rejected
            continue
        n_checked += 1
    assert n_checked >= 5


def test_ranks_without_rows() -> None:
    # one triangle, five ranks
    case = case_of("0.7 C(a,b) ^ C(b,c) => C(a,c)", {"C": 0.05}, n=4)
    check_shares(case, 5)
