"""Tests that every executor inherits: counts and messages equal the oracle's, in one piece or in slices.

Room: plan, execute, oracle, random_models -> **executor_battery**.

    class TestSparse(ExecutorBattery):
        def make(self, plan, theory): return SparseExecutor(plan, theory)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from logicmp import CostError, Plan, Theory, build_plan, normalize_theory, oracle, parse_theory
from logicmp.execute.state import Call
from logicmp.normalize.build import SEMANTICS
from logicmp.plan.build import MAX_ELEMENTS
from logicmp.testing.random_models import Model, models

each_semantics = pytest.mark.parametrize("semantics", SEMANTICS)
# the tests are inherited, so hypothesis runs one test in several classes
checked = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
HARD_WEIGHT = 10.0
# at the default limit, 1 random theory in 200 (nested quantifiers over one predicate) takes seconds
MAX_CUBES = 32
TRANSITIVITY = "1.5 C(a,b) ^ C(b,c) => C(a,c)"

# all six pairs of four variables: a value with three indices is larger than any predicate
SQUARE = "R(a,b) ^ Q(a,c) ^ R(a,d) ^ R(b,c) ^ Q(b,d) => R(c,d)"
# theory, sizes, and a limit that is at least the size of the largest predicate, which is never sliced
BIG = {
    "four variables": (f"0.7 {SQUARE}", {"thing": 5}, 25),
    "symmetric": (f"symmetric R(t, t)\nQ(t, t)\n0.7 {SQUARE}", {"t": 4}, 16),
    "offsets": ("R(k, k)\nQ(k, k)\n0.9 R(a,b) ^ Q(a+1,c) ^ R(a,d) ^ R(b,c) ^ Q(b,d-1) => R(c,d)", {"k": 5}, 40),
    "one weight per constant": ("0.8 R(+a,b) ^ Q(a,c) ^ R(a,d) ^ R(b,c) ^ Q(b,d) => R(c,d)", {"thing": 4}, 16),
    "exists": ("0.8 R(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))", {"thing": 4}, 64),
}


def weights_of(theory: Theory, sizes: Mapping[str, int]) -> list[Tensor]:
    """The weights of the rules for an executor, different for each constant of `+x`."""
    found = []
    for rule in theory.rules:
        value = HARD_WEIGHT if rule.is_hard else 1.0 if rule.weight is None else rule.weight
        shape = [sizes[rule.variables[name]] for name in rule.per_constant]
        spread = torch.linspace(1, 2, max(1, torch.Size(shape).numel()), dtype=torch.float64).reshape(shape)
        found.append(value * spread.unsqueeze(0) if shape else torch.tensor(value, dtype=torch.float64))
    return found


def random_q(theory: Theory, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Tensor]:
    """Marginals of plain and symmetric predicates, [1, n, ...]."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for p in theory.predicates:
        q = torch.rand([1, *(sizes[t] for t in p.types)], generator=generator, dtype=torch.float64)
        found[p.name] = (q + q.mT) / 2 if p.symmetric else q
    return found


def close(got: Tensor, want: Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(got, want, rtol=1e-9, atol=atol)


class ExecutorBattery:
    """Tests of one executor: inherit, and define `make`."""

    def make(self, plan: Plan, theory: Theory) -> Any:
        raise NotImplementedError

    def call(self, q: Mapping[str, Tensor], weights: list[Tensor], sizes: Mapping[str, int],
             observed: Collection[str] = ()) -> Call:
        """A call of the executor; all tensors have one batch dimension."""
        return Call(weights, dict(sizes), next(iter(q.values())), observed={name: q[name] for name in observed})

    def counts(self, executor: Any, q: Mapping[str, Tensor], weights: list[Tensor], sizes: Mapping[str, int],
               weighted: bool = False) -> Tensor:
        found: Tensor = executor.counts(q, self.call(q, weights, sizes), weighted)
        return found

    def executor(self, theory: Theory, sizes: Mapping[str, int], semantics: str = "exact",
                 observed: Collection[str] = (), max_elements: int = MAX_ELEMENTS) -> Any:
        form = normalize_theory(theory, semantics, sizes, MAX_CUBES)
        return self.make(build_plan(form, sizes, observed, max_elements), theory)

    def planned(self, model: Model, semantics: str, observed: Collection[str] = ()) -> Any:
        """The executor of a random model; models that exceed a limit of the planner are skipped."""
        try:
            return self.executor(model.theory, model.sizes, semantics, observed)
        except CostError:
            assume(False)

    def messages(self, executor: Any, q: Mapping[str, Tensor], weights: list[Tensor], sizes: Mapping[str, int],
                 observed: Collection[str] = ()) -> dict[str, Tensor]:
        call = self.call(q, weights, sizes, observed)
        latent = {name: x for name, x in q.items() if name not in observed}
        found: dict[str, Tensor] = executor.messages(latent, call, executor.constants(call))
        return found

    # the oracle

    @each_semantics
    @checked
    @given(model=models())
    def test_counts_are_the_oracles(self, semantics: str, model: Model) -> None:
        executor = self.planned(model, semantics)
        weights = weights_of(model.theory, model.sizes)
        q = {name: tensor.unsqueeze(0) for name, tensor in model.q.items()}
        want = oracle.expected_violations(model.theory, model.q, sizes=model.sizes, semantics=semantics)
        close(self.counts(executor, q, weights, model.sizes)[0], want)

    @each_semantics
    @checked
    @given(model=models())
    def test_every_message_is_a_gradient(self, semantics: str, model: Model) -> None:
        executor = self.planned(model, semantics)
        weights = weights_of(model.theory, model.sizes)
        q = {name: tensor.unsqueeze(0).requires_grad_() for name, tensor in model.q.items()}
        energy = self.counts(executor, q, weights, model.sizes, True).sum()
        messages = self.messages(executor, q, weights, model.sizes)
        gradients: Sequence[Tensor] = [torch.zeros_like(x) for x in q.values()]
        if energy.requires_grad:
            gradients = torch.autograd.grad(energy, list(q.values()), allow_unused=True, materialize_grads=True)
        assert messages.keys() == q.keys()
        for name, gradient in zip(q, gradients, strict=True):
            if model.theory.predicate[name].symmetric:
                # one variable for both orders, the diagonal once
                gradient = gradient + gradient.mT - torch.diag_embed(gradient.diagonal(0, 1, 2))
            close(messages[name], gradient, 1e-9)

    # the same result in another way

    @each_semantics
    @checked
    @given(model=models(), chosen=st.integers(0, 15))
    def test_folding_observed_predicates_changes_nothing(self, semantics: str, model: Model, chosen: int) -> None:
        observed = [name for k, name in enumerate(model.q) if chosen >> k & 1]
        q = {name: tensor.unsqueeze(0) for name, tensor in model.q.items()}
        weights = weights_of(model.theory, model.sizes)
        plain, folded = self.planned(model, semantics), self.planned(model, semantics, observed)
        got = self.messages(folded, q, weights, model.sizes, observed)
        want = self.messages(plain, q, weights, model.sizes)
        assert got.keys() == q.keys() - set(observed)
        for name, message in got.items():
            close(message, want[name])
        close(self.counts(folded, q, weights, model.sizes), self.counts(plain, q, weights, model.sizes))

    @each_semantics
    @checked
    @given(model=models())
    def test_items_of_a_batch_are_independent(self, semantics: str, model: Model) -> None:
        executor = self.planned(model, semantics)
        weights = weights_of(model.theory, model.sizes)
        items = [{name: f(tensor).unsqueeze(0) for name, tensor in model.q.items()}
                 for f in (torch.clone, torch.square, torch.zeros_like)]
        together = {name: torch.cat([item[name] for item in items]) for name in model.q}
        messages = self.messages(executor, together, weights, model.sizes)
        counts = self.counts(executor, together, weights, model.sizes)
        for k, item in enumerate(items):
            alone = self.messages(executor, item, weights, model.sizes)
            for name in alone:
                close(messages[name][k], alone[name][0])
            close(counts[k], self.counts(executor, item, weights, model.sizes)[0])

    @each_semantics
    @checked
    @given(model=models(), limit=st.integers(1, 9))
    def test_pieces_add_up_to_the_whole(self, semantics: str, model: Model, limit: int) -> None:
        whole = self.planned(model, semantics)
        try:
            pieces = self.executor(model.theory, model.sizes, semantics, max_elements=limit)
        except CostError:
            # rejecting is right, too; the cases below are never rejected
            return
        self._check_same(whole, pieces, {name: q.unsqueeze(0) for name, q in model.q.items()}, model.theory,
                         model.sizes)

    @pytest.mark.parametrize("name", BIG)
    def test_values_over_the_limit_are_sliced(self, name: str) -> None:
        text, sizes, limit = BIG[name]
        theory = parse_theory(text)
        whole = self.executor(theory, sizes)
        pieces = self.executor(theory, sizes, max_elements=limit)
        assert limit < whole.plan.cost.largest
        assert len(pieces.plan.steps) > len(whole.plan.steps)
        self._check_same(whole, pieces, random_q(theory, sizes), theory, sizes)

    def _check_same(self, one: Any, other: Any, q: Mapping[str, Tensor], theory: Theory,
                    sizes: Mapping[str, int]) -> None:
        weights = weights_of(theory, sizes)
        want, got = self.messages(one, q, weights, sizes), self.messages(other, q, weights, sizes)
        for name in want:
            close(got[name], want[name])
        for weighted in (False, True):
            close(self.counts(other, q, weights, sizes, weighted),
                  self.counts(one, q, weights, sizes, weighted))

    # shapes and dtypes

    def test_an_empty_batch_gives_empty_messages(self) -> None:
        theory, sizes = parse_theory(TRANSITIVITY), {"thing": 3}
        executor = self.executor(theory, sizes)
        q = {"C": torch.zeros(0, 3, 3, dtype=torch.float64)}
        assert self.messages(executor, q, weights_of(theory, sizes), sizes)["C"].shape == (0, 3, 3)
        assert self.counts(executor, q, weights_of(theory, sizes), sizes).shape == (0, 1)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_messages_and_counts_have_the_dtype_of_the_marginals(self, dtype: torch.dtype) -> None:
        theory, sizes = parse_theory(TRANSITIVITY), {"thing": 3}
        executor = self.executor(theory, sizes)
        q = {name: x.to(dtype) for name, x in random_q(theory, sizes).items()}
        weights = [w.to(dtype) for w in weights_of(theory, sizes)]
        assert self.messages(executor, q, weights, sizes)["C"].dtype == dtype
        assert self.counts(executor, q, weights, sizes).dtype == dtype
