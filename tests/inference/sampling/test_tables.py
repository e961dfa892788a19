"""Tables of rules over the same variables, against the features that they replace."""

from __future__ import annotations

import pytest
from networks import network_of

from logicmp.inference.sampling.fields import prepare

THEORY = "p = {A}\nS(p)\nT(p)\n-1.2 S(x) ^ T(x)\n-0.1 S(x) ^ !T(x)\n-2.3 !S(x) ^ T(x)\n-0.5 !S(x) ^ !T(x)"


def test_rules_over_the_same_variables_become_one_table() -> None:
    network = network_of(THEORY)
    found = prepare(network, tables=True)
    g = found.fields
    cells = {tuple(network.sets.members[k] for k in g.set[g.begins[f] : g.begins[f + 1]]): float(g.weight[f])
             for f in range(found.n_features)}
    zero, one = frozenset({0}), frozenset({1})
    # the best cell, !S(A) ^ !T(A), needs no feature
    assert cells == pytest.approx({(zero, zero): -0.4, (zero, one): -2.2, (one, one): -1.1})
    assert not g.base.any()


def test_opposite_strong_rules_cancel() -> None:
    theory = "p = {A}\nS(p)\nT(p)\n-50 S(x) ^ T(x)\n-50 S(x) ^ !T(x)\n-50 !S(x) ^ T(x)\n-49 !S(x) ^ !T(x)"
    assert prepare(network_of(theory), tables=True).fields.weight.tolist() == pytest.approx([-1.0] * 3)


def test_clauses_are_not_merged() -> None:
    network = network_of("p = {A}\nS(p)\nT(p)\n1 S(x) v T(x)\n2 S(x) v !T(x)")
    assert prepare(network, tables=True).fields.weight.tolist() == [-1.0, -2.0]
