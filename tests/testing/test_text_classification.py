"""The made model of documents: its size, the two ways to write one category each, and that its facts lead back."""

from __future__ import annotations

import numpy as np

from logicmp import infer, parse_facts, parse_theory
from logicmp.testing.text_classification import text_classification


def test_the_model_has_the_size_that_it_claims() -> None:
    made = text_classification()
    theory = parse_theory(made.rules)
    evidence = parse_facts(made.facts, theory)
    assert len(theory.rules) == 15
    assert len(evidence.tables["HasWord"]) == 80_000
    assert (evidence.theory.sizes["doc"], evidence.theory.sizes["category"]) == (2500, 10)
    assert len(evidence.tables["Category"]) == 250


def test_one_category_as_rules_has_the_same_answers() -> None:
    one, other = (text_classification(8, 3, 6, 1, as_rules=as_rules) for as_rules in (False, True))
    assert one.facts == other.facts
    found, same = (infer(made.rules, made.facts, "Category", "exact") for made in (one, other))
    assert dict(found).keys() == dict(same).keys()
    assert np.allclose(found.probabilities, same.probabilities, atol=1e-9)


def test_most_documents_get_the_category_that_they_were_made_from() -> None:
    made = text_classification(60, 4)
    found = infer(made.rules, made.facts, "Category", "mean-field")
    p = np.array([[found[f"Category(D{d},C{c})"] for c in range(4)] for d in range(60)])
    assert (p.argmax(1) == made.category).mean() > 0.8
