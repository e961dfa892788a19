"""Which features share a table: the same in one process and in several, each table in one of them."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from logicmp import LogicMPError
from logicmp.execute.worlds import world_from_tensors
from logicmp.ground.engine import ALONE, Shares
from logicmp.ground.features import queried_features
from logicmp.ground.network import Network
from logicmp.inference.bp.scopes import SharedTables
from logicmp.inference.method import Problem
from logicmp.parse.query import parse_queries
from logicmp.testing.random_models import Model, random_model
from logicmp.testing.thread_shares import run_shares

Feature = tuple[int, int, tuple[tuple[int, int], ...]]


def feature(network: Network, f: int) -> Feature:
    span = slice(network.begins[f], network.begins[f + 1])
    return (int(network.rule[f]), int(network.param[f]),
            tuple(zip(network.var[span].tolist(), network.set[span].tolist(), strict=True)))


def content(model: Model, shares: Shares) -> Counter[object]:
    """The variables and features of each table, and the features that have none, of this process."""
    world = world_from_tensors(model.theory, model.unary, model.evidence)
    formulas = tuple(parse_queries(str(rule.formula), model.theory)[0].as_rule() for rule in model.theory.rules)
    network = Problem(world, formulas).network(share=shares.share)
    queried = queried_features(network)
    is_own = (np.diff(network.begins) > 1) & ~np.isin(np.arange(network.n_features), queried)
    merged = SharedTables(network, np.flatnonzero(is_own), queried)
    if network.owners is not None:
        merged = merged.collect(shares)
    network = merged.network
    found: Counter[object] = Counter()
    for _, rows, own, own_row, asked, asked_row in merged.tables():
        for k, row in enumerate(rows.tolist()):
            features = [Counter(feature(network, f) for f in chosen[place == k].tolist())
                        for chosen, place in ((own, own_row), (asked, asked_row))]
            found["table", tuple(row), *(frozenset(x.items()) for x in features)] += 1
    for kind, chosen in (("alone", merged.single), ("unread", merged.unread)):
        found.update((kind, feature(network, f)) for f in chosen.tolist())
    return found


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_several_processes_have_the_tables_of_one(first: int) -> None:
    n_tables = 0
    for seed in range(first, first + 20):
        model = random_model(random.Random(seed))
        try:
            want = content(model, ALONE)
        except LogicMPError:
            # a rule that cannot be queried
            continue
        got = sum(run_shares(2 + seed % 3, lambda shares, model=model: content(model, shares)), Counter())
        assert got == want
        n_tables += sum(key[0] == "table" for key in want)  # type: ignore[index]
    assert n_tables >= 10
