"""Between tensors and variables: scores of values, open values, labels and answers."""

from __future__ import annotations

import pytest
import torch

from logicmp import LogicMPError, parse_theory
from logicmp.execute.inputs import read_inputs
from logicmp.execute.values import (
    as_evidence,
    certain_logits,
    open_values,
    read_labels,
    to_atoms,
    value_scores,
    write_answer,
)

DECLARATIONS = ["P(t, u)", "symmetric P(t, t)", "P(t) in {A, B, C}", "P(t, u!)", "P(t!, u)", "P(t, u?)", "P(t?, u?)"]
SIZES = {"t": 3, "u": 3}


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_the_values_of_a_variable_are_a_distribution_and_come_back_as_marginals(declaration: str) -> None:
    theory = parse_theory(declaration)
    predicate = theory.predicates[0]
    logits = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits = (logits + logits.mT) / 2 if predicate.symmetric else logits
    inputs = read_inputs(theory, logits, None, None)
    p = value_scores(inputs, predicate).exp()
    torch.testing.assert_close(p.sum(-1), torch.ones_like(p[..., 0]))
    got = to_atoms(predicate, p, SIZES)
    if not predicate.is_categorical:
        want = logits.sigmoid()
    else:
        dims = (-1,) if predicate.labels else tuple(k + 1 for k in predicate.functional)
        weights = logits.exp()
        want = weights / (weights.sum(dims, keepdim=True) + predicate.may_be_none)
    torch.testing.assert_close(got, want)
    # the most probable values as an answer, one for each variable
    answer = write_answer(predicate, p.argmax(-1), inputs)
    best = to_atoms(predicate, p == p.amax(-1, True), SIZES)
    assert torch.equal(answer, logits.argmax(-1) if predicate.labels else best)


def test_evidence_of_a_label_excludes_the_others() -> None:
    theory = parse_theory("P(t) in {A, B, C}")
    nan = torch.nan
    evidence = torch.tensor([[1.0, nan, nan], [0.0, nan, nan]])
    scores = value_scores(read_inputs(theory, {"P": torch.zeros(2, 3)}, {"P": evidence}, None), theory.predicates[0])
    torch.testing.assert_close(scores.exp(), torch.tensor([[[1.0, 0, 0], [0, 0.5, 0.5]]]))


def test_observed_and_masked_atoms_are_not_open() -> None:
    theory = parse_theory("P(t, t)")
    evidence = torch.full((3, 3), torch.nan)
    evidence[0, 1] = 0
    inputs = read_inputs(theory, {"P": torch.zeros(3, 3)}, {"P": evidence}, torch.tensor([True, True, False]))
    assert open_values(inputs, theory.predicates[0])[0].any(-1).tolist() == [
        [True, False, False], [True, True, False], [False, False, False]]


def test_an_answer_becomes_one_hot_and_certain() -> None:
    theory = parse_theory("P(t) in {A, B, C}\nQ(t)")
    answer = {"P": torch.tensor([2, 0]), "Q": torch.tensor([True, False])}
    found = as_evidence(theory, answer)
    assert found["P"].tolist() == [[False, False, True], [True, False, False]]
    assert found["Q"].tolist() == [True, False]
    assert certain_logits(theory, answer)["P"].sigmoid().round().tolist() == [[0, 0, 1], [1, 0, 0]]


def test_labels_may_be_missing() -> None:
    theory = parse_theory("P(t) in {A, B, C}\nQ(t)")
    logits = {"P": torch.zeros(2, 3), "Q": torch.zeros(2)}
    found = read_labels(theory, logits, {"P": torch.tensor([2, -1]), "Q": torch.tensor([1, 0])}, None)
    scores = value_scores(found, theory.predicate["P"]).exp()
    torch.testing.assert_close(scores, torch.tensor([[[0, 0, 1.0], [1 / 3, 1 / 3, 1 / 3]]]))
    assert found.evidence["Q"].tolist() == [[1, 0]]
    with pytest.raises(LogicMPError) as caught:
        read_labels(theory, logits, torch.tensor([2, -1]), None)  # type: ignore[arg-type]
    assert str(caught.value) == ("labels is a Tensor; expected a dict of torch tensors")
