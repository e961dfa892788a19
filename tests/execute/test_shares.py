"""Rows in several processes: counts, messages and gradients equal those of one process, for any number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_sparse import RULES, Case, case_of, check, random_case
from torch import Tensor

from logicmp import CostError
from logicmp.execute.sparse import SparseExecutor, build_sparse_executor
from logicmp.execute.state import Call, Values
from logicmp.facts.supports import Support, rows_type
from logicmp.ground.engine import BuiltIn, Grounding
from logicmp.inference.run import n_literals
from logicmp.normalize.build import normalize_theory
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


def test_random_theories_with_divided_facts() -> None:
    """Every rank has some rows of a predicate that no rule reads twice, whichever these are."""
    n_checked = 0
    for seed in range(300):
        case = random_case(seed)
        n = 2 + seed % 2

        def run(shares: ThreadShares, case: Case | None = case, seed: int = seed) -> bool:
            assert case is not None
            rng = np.random.default_rng(seed)
            parts = {name: own_rows(case.supports[name], rng.integers(shares.share.size, size=len(case.supports[name]))
                                    == shares.share.rank) for name in divisible(case)}
            executor = build_sparse_executor(case.theory, case.sizes, {**case.supports, **parts}, case.observed,
                                             case.semantics, grounding=Grounding(BuiltIn(), shares))
            check(case, Whole(executor), 1)
            return True

        try:
            if case is not None and divisible(case):
                n_checked += all(run_shares(n, run))
        except CostError:
            # quantifiers over all constants are rejected
            continue
    print("checked", n_checked)
    assert n_checked >= 10


def divisible(case: Case) -> list[str]:
    """Sparse predicates that are all observed, of which no rule reads two, or one twice."""
    terms = [cube for rule in normalize_theory(case.theory, case.semantics, case.sizes).rules for _, cube in rule.terms]
    found: list[str] = []
    for name, support in case.supports.items():
        if (name in case.observed and support.places is None and any(n_literals(cube, [name]) for cube in terms)
                and all(n_literals(cube, [*found, name]) < 2 for cube in terms)):
            found.append(name)
    return found


def own_rows(support: Support, is_own: np.ndarray) -> Support:
    columns = tuple(column[is_own] for column in support.columns)
    return replace(support, columns=columns, n_values=int(is_own.sum()), is_share=True)


@pytest.mark.parametrize("seed", [
    # weights of one rule that are read at x+1, at a constant and at a variable; windows of different sizes
    708, 839,
    # a predicate with labels that no list reads, and a process without atoms
    749,
    # one constant, so that no x has a next one, and quantifiers over no values
    907, 2561, 4565,
    # a constant with the name of a number
    3734])
def test_theories_of_a_longer_search(seed: int) -> None:
    case = random_case(seed)
    assert case is not None
    check(case, build_sparse_executor(case.theory, case.sizes, case.supports, case.observed, case.semantics))
    check_shares(case, 2 + seed % 2)


def test_ranks_without_rows() -> None:
    # one triangle, five ranks
    case = case_of("0.7 C(a,b) ^ C(b,c) => C(a,c)", {"C": 0.05}, n=4)
    check_shares(case, 5)
