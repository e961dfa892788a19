"""Random models: valid marginals, evidence that agrees with them."""

from __future__ import annotations

import random
import subprocess
import sys

import torch
from hypothesis import given, settings

from logicmp.testing.random_models import Model, models, random_model


def test_same_seed_gives_the_same_model() -> None:
    for seed in range(20):
        one, other = random_model(random.Random(seed)), random_model(random.Random(seed))
        assert one.theory == other.theory
        for name in one.q:
            assert torch.equal(one.unary[name], other.unary[name]) and torch.equal(one.q[name], other.q[name])


@settings(max_examples=100, deadline=None)
@given(models())
def test_marginals_are_valid_and_equal_the_evidence(model: Model) -> None:
    assert model.sizes == model.theory.sizes
    for predicate in model.theory.predicates:
        unary, q = model.unary[predicate.name], model.q[predicate.name]
        shape = [model.sizes[t] for t in predicate.types] + ([len(predicate.labels)] if predicate.labels else [])
        assert list(unary.shape) == list(q.shape) == shape
        assert unary.dtype == q.dtype == torch.float64
        assert ((q >= 0) & (q <= 1)).all() and unary.isfinite().all()
        if predicate.symmetric:
            assert torch.equal(unary, unary.T) and torch.equal(q, q.T)
        if predicate.labels is not None:
            torch.testing.assert_close(q.sum(-1), torch.ones(shape[:-1], dtype=torch.float64))
        if predicate.functional:
            total = q.sum(predicate.functional)
            assert (total < 1).all() if predicate.may_be_none else total.allclose(torch.ones_like(total))
        if predicate.name in model.evidence:
            evidence = model.evidence[predicate.name]
            known = ~evidence.isnan()
            assert not predicate.functional and evidence.shape == q.shape
            assert torch.equal(q[known], evidence[known]) and ((evidence[known] == 0) | (evidence[known] == 1)).all()
            if predicate.labels is not None:
                assert torch.equal(known.any(-1), known.all(-1)) and (evidence.nansum(-1)[known.all(-1)] == 1).all()
            if predicate.symmetric:
                assert torch.equal(evidence.nan_to_num(2), evidence.nan_to_num(2).T)


def test_evidence_occurs_for_every_kind_but_functional() -> None:
    seen = set()
    for seed in range(100):
        model = random_model(random.Random(seed))
        seen |= {"multiclass" if p.labels else "symmetric" if p.symmetric else "plain" for p in model.theory.predicates
                 if p.name in model.evidence and not model.evidence[p.name].isnan().all()}
    assert seen == {"plain", "symmetric", "multiclass"}


def test_the_import_needs_neither_torch_nor_hypothesis() -> None:
    code = "import sys, logicmp.testing.random_models; print([m for m in ('torch', 'hypothesis') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
