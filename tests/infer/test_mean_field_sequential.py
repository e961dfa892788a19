"""Vanilla mean field: the same answers as the layer, whichever of the paper's improvements are left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from method_battery import MethodBattery

from logicmp import LogicMPError, RuleError, infer
from logicmp.errors import CostError
from logicmp.ground import World
from logicmp.infer.base import Problem, as_probability
from logicmp.infer.mean_field import MeanField
from logicmp.infer.mean_field_sequential import MeanFieldSequential
from logicmp.testing import ALL, Model, models

VARIANTS = [{"rule_out": rule_out, "parallel": parallel} for rule_out in (True, False) for parallel in (True, False)]


class TestSequential(MethodBattery):
    method, tolerance = "mean-field-sequential", 1e-5


class TestParallel(MethodBattery):
    method, tolerance = "mean-field-sequential", 1e-5
    options = VARIANTS[2]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@settings(max_examples=40, deadline=None)
@given(model=models(max_ground=8, features=ALL - {"quantifiers"}))
def test_every_variant_equals_the_layer(variant: dict[str, bool], model: Model) -> None:
    problem = Problem(World.from_tensors(model.theory, model.unary, model.evidence))
    assume(problem.world.latent)
    options = {"iterations": 3, "damping": 0.2, "tolerance": 0.0}
    try:
        want = MeanField(**options).solve(problem)
    except CostError:
        assume(False)
    got = MeanFieldSequential(**options, **variant).solve(problem)
    for name, odds in want.log_odds.items():
        np.testing.assert_allclose(as_probability(got.log_odds[name]), as_probability(odds), atol=1e-9)


def test_existence_of_a_literal_is_one_long_grounding() -> None:
    theory = "p = {A, B, C}\nF(p, p)\nS(p)\n1 EXIST y F(x, y)\n-0.5 F(x, y) ^ S(y)"
    want, got = (infer(theory, query="F, S, EXIST y F(A, y)", method=method)
                 for method in ("mean-field", "mean-field-sequential"))
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-5)


def test_a_quantifier_that_needs_a_variable_of_its_own_is_refused() -> None:
    with pytest.raises(RuleError) as caught:
        infer("p = {A, B}\nF(p, p)\nS(p)\n1 (EXIST y F(x, y)) => S(x)", query="S", method="mean-field-sequential")
    assert str(caught.value) == """\
the quantifier of this rule cannot be done grounding by grounding
 --> <text>:4:1
4 | 1 (EXIST y F(x, y)) => S(x)
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: use mean-field, which multiplies over it"""


def test_without_numba_the_sequential_loop_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from logicmp.infer import mean_field_sequential

    monkeypatch.setitem(sys.modules, "numba", None)
    mean_field_sequential._compiled.cache_clear()
    with pytest.raises(LogicMPError, match=r'pip install "logicmp\[sampling\]", or use parallel=True'):
        infer("p = {A}\nS(p)\n1 S(x)", query="S", method="mean-field-sequential")
