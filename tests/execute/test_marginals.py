"""Marginals of logits with evidence, with and without gradients."""

from __future__ import annotations

import pytest
import torch

from logicmp import parse_theory
from logicmp.execute.inputs import read_inputs
from logicmp.execute.marginals import marginals


@pytest.mark.parametrize("n_observed", [1, 2, 30])
def test_evidence_is_the_same_without_gradients(n_observed: int) -> None:
    theory = parse_theory("P(t)\n1 P(x)")
    logits = torch.linspace(-2, 2, 40, dtype=torch.float64)
    evidence = torch.full((40,), torch.nan, dtype=torch.float64)
    evidence[3 : 3 + n_observed] = torch.arange(n_observed, dtype=torch.float64) % 2
    inputs = read_inputs(theory, {"P": logits}, {"P": evidence}, None)
    before = inputs.unary["P"].clone()
    want = marginals(inputs, theory.predicate["P"], inputs.unary["P"])
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(marginals(inputs, theory.predicate["P"], inputs.unary["P"]), want)
    assert torch.equal(inputs.unary["P"], before)
    assert want[0, 3] == 0
    assert want[0, 0] == torch.sigmoid(logits[0])
