"""Worlds by solvers, from the tensors of a layer: against enumeration, and on rules that are too wide for tables."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch.nn.functional import one_hot

from logicmp import LogicMP, LogicMPError, decode, oracle
from logicmp.execute.inputs import read_inputs
from logicmp.inference.search.tensors import best_worlds
from logicmp.limits import Limits
from logicmp.testing.random_models import Model, models

TRANSITIVE = "C(a,b) ^ C(b,c) => C(a,c)."


@given(model=models(max_ground=9))
@settings(max_examples=60, deadline=None)
def test_the_worlds_of_solvers_equal_enumeration(model: Model) -> None:
    weights = LogicMP(model.theory, dtype=torch.float64, sizes=model.sizes).weights
    inputs = read_inputs(model.theory, model.unary, model.evidence, None, model.sizes)
    try:
        _, want = oracle.best_world(model.theory, model.unary, model.evidence, model.sizes)
    except LogicMPError:
        with pytest.raises(LogicMPError):
            best_worlds(model.theory, inputs, weights, "exact", Limits())
        return
    found, n_proven = best_worlds(model.theory, inputs, weights, "exact", Limits())
    assert n_proven == 1 and found.keys() == model.unary.keys()
    # random logits have no ties
    for name, value in found.items():
        labels = model.theory.predicate[name].labels
        torch.testing.assert_close((value if labels is None else one_hot(value, len(labels))).double(), want[name])


def test_a_layer_decodes_rules_that_are_too_wide_for_tables() -> None:
    torch.manual_seed(0)
    unary = torch.randn(2, 12, 12)
    found = LogicMP(TRANSITIVE).decode(unary)
    assert torch.equal(found, decode(TRANSITIVE, unary).values["C"])
    # the same with padding: its atoms are false, and do not count
    mask = torch.arange(12).expand(2, 12) < torch.tensor([[12], [9]])
    masked = LogicMP(TRANSITIVE).decode(unary, mask=mask)
    assert torch.equal(masked[0], found[0]) and not masked[1, 9:].any() and not masked[1, :, 9:].any()
    assert torch.equal(masked[1, :9, :9], LogicMP(TRANSITIVE).decode(unary[1, :9, :9]))


def test_soft_rules_count_with_their_present_weights() -> None:
    torch.manual_seed(0)
    unary = torch.randn(10, 10, dtype=torch.float64)
    layer = LogicMP("1 C(a,b) ^ C(b,c) => C(a,c)", dtype=torch.float64)
    with torch.no_grad():
        layer.raw_weights[0].fill_(1e-6)
    assert torch.equal(layer.decode(unary), unary > 0)
    with torch.no_grad():
        layer.raw_weights[0].fill_(100.0)
    assert torch.equal(layer.decode(unary), LogicMP(TRANSITIVE).decode(unary))


def test_a_world_that_is_not_proven_is_said() -> None:
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match=r"1 of 1 decoded worlds is not proven to be the best; raise max_seconds"):
        found = LogicMP("0.3 C(a,b) ^ C(b,c) => C(a,c)").decode(torch.randn(24, 24), max_seconds=0.5)
    assert found.shape == (24, 24) and found.dtype == torch.bool
