"""Mean field without any of the paper's improvements gives the same answers as the layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from benchmarks.sequential import MeanFieldSequential
from logicmp import CostError, LogicMPError, Marginals, RuleError, infer
from logicmp.execute.worlds import world_from_tensors
from logicmp.inference.answers import as_probability
from logicmp.inference.mean_field import MeanField
from logicmp.inference.method import Problem
from logicmp.testing.method_battery import MethodBattery
from logicmp.testing.random_models import Model, models
from logicmp.testing.random_theories import ALL

VARIANTS = [{"rule_out": rule_out, "parallel": parallel} for rule_out in (True, False) for parallel in (True, False)]


class TestSequential(MethodBattery):
    method, tolerance = "mean-field-sequential", 1e-5

    def infer(self, theory: str, evidence: str = "", query: Any = None, seed: int = 0, max_seconds: float | None = None,
              candidates: str | None = None, **options: Any) -> Marginals:
        return infer(theory, evidence, query, MeanFieldSequential.make({**self.options, **options}), seed=seed,
                     max_seconds=max_seconds, candidates=candidates)


class TestParallel(TestSequential):
    options = VARIANTS[2]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@settings(max_examples=40, deadline=None)
@given(model=models(max_ground=8, features=ALL - {"quantifiers"}))
def test_every_variant_equals_the_layer(variant: dict[str, bool], model: Model) -> None:
    problem = Problem(world_from_tensors(model.theory, model.unary, model.evidence))
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
                 for method in (MeanField(correction="none"), MeanFieldSequential()))
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-5)


def test_a_quantifier_that_needs_a_variable_of_its_own_is_rejected() -> None:
    with pytest.raises(RuleError) as caught:
        infer("p = {A, B}\nF(p, p)\nS(p)\n1 (EXIST y F(x, y)) => S(x)", query="S", method=MeanFieldSequential())
    assert str(caught.value) == """\
mean-field-sequential does not support the quantifier of this rule
 --> <text>:4:1
4 | 1 (EXIST y F(x, y)) => S(x)
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: use mean-field"""


def test_without_numba_the_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from benchmarks import sequential

    monkeypatch.setitem(sys.modules, "numba", None)
    sequential._compiled.cache_clear()
    with pytest.raises(LogicMPError, match=r'pip install "logicmp\[sampling\]"; or use parallel=True'):
        infer("p = {A}\nS(p)\n1 S(x)", query="S", method=MeanFieldSequential())
