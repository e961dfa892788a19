"""The normal form: its text for rules a reader can check, its value for random ones, and the rules it rejects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from evaluate import violations
from fixtures_reader import FIXTURES, blocks
from hypothesis import given, reject, settings
from torch import Tensor

from logicmp import CostError, LogicMPError, Theory, normalize_theory, parse_theory
from logicmp.normalize.build import SEMANTICS
from logicmp.oracle.mean_field import expected_violations
from logicmp.parse.theory import Predicate
from logicmp.testing.random_models import Model, models
from logicmp.testing.random_theories import theories

CASES = [(semantics, *case) for semantics in SEMANTICS
         for case in blocks(Path(FIXTURES / f"normalize/{semantics}.txt"))]
each_semantics = pytest.mark.parametrize("semantics", SEMANTICS)


@pytest.mark.parametrize("semantics, text, expected", CASES)
def test_rule_becomes(semantics: str, text: str, expected: str) -> None:
    assert str(normalize_theory(parse_theory(text), semantics)) == expected + "\n"


# the value


def check_value(theory: Theory, q: Mapping[str, Tensor], sizes: Mapping[str, int], semantics: str) -> None:
    """The terms of every rule add up to what the oracle counts."""
    arrays = {name: value.numpy() for name, value in q.items()}
    form = normalize_theory(theory, semantics, sizes)
    want = expected_violations(theory, q, sizes=sizes, semantics=semantics).tolist()
    for rule, value in zip(form.rules, want, strict=True):
        assert violations(rule, arrays, sizes) == pytest.approx(value, rel=1e-9, abs=1e-9), str(rule)


@each_semantics
@settings(max_examples=150, deadline=None)
@given(models())
def test_value_is_the_oracles(semantics: str, model: Model) -> None:
    try:
        check_value(model.theory, model.q, model.sizes, semantics)
    except CostError:
        reject()


@each_semantics
@settings(max_examples=100, deadline=None)
@given(models(max_constants=2, max_atoms=6, max_rules=1, max_ground=8, features={
    "formulas", "quantifiers", "equality", "functional", "multiclass", "offsets", "repeated", "symmetric"}))
def test_value_of_longer_rules_is_the_oracles(semantics: str, model: Model) -> None:
    try:
        check_value(model.theory, model.q, model.sizes, semantics)
    except CostError:
        reject()


def random_marginals(predicate: Predicate, sizes: Mapping[str, int], generator: torch.Generator) -> Tensor:
    shape = [sizes[t] for t in predicate.types] + ([] if predicate.labels is None else [len(predicate.labels)])
    q = torch.rand(shape, generator=generator, dtype=torch.float64)
    if predicate.symmetric:
        return (q + q.T) / 2
    if predicate.is_categorical:
        axes = predicate.functional if predicate.labels is None else (-1,)
        return q / (q.sum(axes, keepdim=True) + predicate.may_be_none)
    return q


@pytest.mark.parametrize("semantics, text, expected", CASES)
def test_value_of_the_text_is_the_oracles(semantics: str, text: str, expected: str) -> None:
    theory = parse_theory(text)
    # one to three constants more than the rules name
    for more in (1, 2, 3):
        sizes = {t.name: len(t.constants) + (0 if t.closed else more) for t in theory.types}
        generator = torch.Generator().manual_seed(more)
        q = {p.name: random_marginals(p, sizes, generator) for p in theory.predicates}
        check_value(theory, q, sizes, semantics)


@each_semantics
@settings(max_examples=100, deadline=None)
@given(theories())
def test_printed_theory_has_the_same_form(semantics: str, theory: Theory) -> None:
    try:
        form = normalize_theory(theory, semantics)
    except CostError:
        reject()
    assert str(normalize_theory(parse_theory(str(theory)), semantics)) == str(form)
    assert normalize_theory(theory, semantics) == form


# errors


def error_of(text: str, semantics: str = "exact", **options: object) -> str:
    with pytest.raises(LogicMPError) as error:
        normalize_theory(parse_theory(text, "model.mln"), semantics, **options)  # type: ignore[arg-type]
    return str(error.value)


def test_a_limit_is_only_a_limit() -> None:
    text = "A\nB\nC\n1 A <=> (B <=> C)"
    assert error_of(text, max_cubes=3).startswith("this rule needs more than 3 products\n")
    assert normalize_theory(parse_theory(text), max_cubes=4) == normalize_theory(parse_theory(text))


# P(i+1) is in the factor of i and in that of i+1
WRITTEN_OUT = "P(step)\n1 EXIST i (P(i) ^ P(i+1))"


def test_quantifier_to_be_written_out_over_nothing() -> None:
    assert error_of(WRITTEN_OUT) == """\
the quantifier over 'step' must be written out, because it can contain an atom twice, but 'step' has no constants yet
 --> model.mln:2:1
2 | 1 EXIST i (P(i) ^ P(i+1))
  | ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: declare them (step = {A, B, C}) or give sizes"""


def test_quantifier_to_be_written_out_over_too_much() -> None:
    assert error_of(WRITTEN_OUT, sizes={"step": 600}) == """\
the quantifier over 'step' must be written out, because it can contain an atom twice, \
and 'step' has 600 constants (limit 512)
 --> model.mln:2:1
2 | 1 EXIST i (P(i) ^ P(i+1))
  | ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: split the rule so that the quantifier cannot contain an atom twice, or raise max_cubes"""


def test_quantifier_is_written_out_over_the_sizes() -> None:
    # the unnamed constants by their numbers
    form = normalize_theory(parse_theory(WRITTEN_OUT), sizes={"step": 2})
    assert str(form).replace('"', "") == """\
1 EXIST i (P(i) ^ P(i+1))
  + 1
  - P(#0) P(#1)
"""


def test_wrong_semantics_and_sizes() -> None:
    assert error_of("A v B", "fuzzy") == "unknown semantics 'fuzzy'\nhint: available semantics: exact, paper, alchemy"
    assert error_of("P(t)\n1 P(x)", sizes={"s": 3}) == (
        "sizes names the type 's', which the theory does not have\nhint: declared types: t")
    assert error_of("P(t)\n1 P(A) v P(B)", sizes={"t": 1}) == "type 't' has 2 constants, but its size is given as 1"
    assert error_of("t = {A, B}\nP(t)\n1 P(x)", sizes={"t": 3}) == (
        "type 't' has 2 constants, but its size is given as 3")
