"""The .mln file of learned weights: it reads back, and means the same."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logicmp import Learned, Theory, learn, oracle, parse_facts, parse_theory
from logicmp.learning.learned import Report, split_rule
from logicmp.testing.random_theories import ALL, random_theory

REPORT = Report("pseudo-likelihood", "log pseudo-likelihood", "exact", (), ("train.db",), (), 100.0, 1, 3, 3,
                "converged", -2.0, -1.0, None, None, ())


def learned(theory: Theory, rng: random.Random) -> Learned:
    """A theory with random weights for the rules that have none."""
    chosen = tuple(f for f, rule in enumerate(theory.rules) if rule.weight is None and not rule.is_hard)
    weights = []
    for rule in theory.rules:
        shape = [theory.sizes[rule.variables[name]] for name in rule.per_constant]
        flat = [round(rng.uniform(-2, 2), 3) for _ in range(math.prod(shape))]
        weights.append(torch.tensor(flat, dtype=torch.float64).reshape(shape))
    return Learned(theory, theory, tuple(weights), chosen, REPORT)


def unweighted(rng: random.Random, **options: object) -> Theory:
    theory = random_theory(rng, **options)
    return replace(theory, rules=tuple(replace(rule, weight=None) for rule in theory.rules))


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_file_reads_back_as_the_same_theory_but_for_the_weights(rng: random.Random) -> None:
    theory = unweighted(rng, features=ALL - {"per_constant"})
    back = learned(theory, rng).to_theory()
    assert replace(back, rules=tuple(replace(rule, weight=None) for rule in back.rules)) == theory


@given(st.randoms(use_true_random=False), st.sampled_from(["exact", "alchemy"]))
@settings(max_examples=60, deadline=None)
def test_rules_per_constant_mean_the_same_when_written_one_by_one(rng: random.Random, semantics: str) -> None:
    theory = unweighted(rng, max_ground=7, features=ALL - {"hard"})
    found = learned(theory, rng)
    back = found.to_theory()
    assert not any(rule.per_constant for rule in back.rules)
    want = oracle.exact_marginals(theory, weights=list(found.weights), semantics=semantics)
    got = oracle.exact_marginals(back, sizes=theory.sizes, semantics=semantics)
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=0, atol=1e-9)


def test_a_premise_fixes_the_constants_of_a_rule_with_an_equality() -> None:
    theory = parse_theory("t = {A, B}\nP(t)\nP(+x) v P(y) v x = y")
    assert [str(rule) for rule in split_rule(theory.rules[0], torch.tensor([1.0, 2.0]), theory)] == [
        "1 x = A => P(x) v P(y) v x = y", "2 x = B => P(x) v P(y) v x = y"]


def test_rule_whose_atoms_meet_in_a_constant_keeps_its_clauses() -> None:
    theory = parse_theory("t = {A, B}\nP(t)\nP(+x) <=> P(A)")
    assert [str(rule) for rule in split_rule(theory.rules[0], torch.tensor([1.0, 2.0]), theory)] == [
        "1 x = A => (P(x) <=> P(A))", "2 P(B) <=> P(A)"]


def test_grounding_that_an_offset_leads_out_of_the_type_has_no_line() -> None:
    theory = parse_theory("t = {A, B, C}\nP(t)\nP(+x) => P(x+1)")
    assert [str(rule) for rule in split_rule(theory.rules[0], torch.tensor([1.0, 2.0, 3.0]), theory)] == [
        "1 P(A) => P(B)", "2 P(B) => P(C)"]


def test_the_whole_file() -> None:
    theory = parse_theory("person = {Anna, Bob, Carl, Dora}\nSmokes(person)\n*Friends(person, person)\n"
                          "(Smokes(x))\n!Friends(x, x).\n1.5 Friends(x, y) ^ Smokes(x) => Smokes(y)")
    facts = parse_facts("Smokes(Anna)\nSmokes(Bob)\nSmokes(Carl)", theory)
    found = learn(theory, [facts], query=["Smokes"])
    assert str(found) == """\
// pseudo-likelihood of Smokes, exact semantics; weights learned: 1
// databases: database 1
// log pseudo-likelihood: -2.77259 before, -2.24934 after 4 iterations (converged)
// Gaussian prior: mean 0, standard deviation 100

person = {Anna, Bob, Carl, Dora}

Smokes(person)
*Friends(person, person)

// (Smokes(x))
1.098464 Smokes(x)

// !Friends(x, x).
!Friends(x, x).

// 1.5 Friends(x, y) ^ Smokes(x) => Smokes(y)
1.5 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
    assert str(learn(theory, [facts], query=["Smokes"])) == str(found)


def test_a_hundred_databases_are_not_all_listed() -> None:
    text = str(replace(REPORT, databases=tuple(f"{k}.db" for k in range(100))))
    assert "databases: 0.db, 1.db, 2.db, 3.db, 4.db, 5.db, 6.db, 7.db, ... (100 in all)\n" in text
