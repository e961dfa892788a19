"""Grounding: which groundings are left, and that together they are the distribution of Eq. 1."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from networks import literals, network_of, score, worlds

from logicmp import CostError, LogicMPError, RuleError, oracle, parse_facts, parse_theory
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import Network
from logicmp.testing.random_models import Model, models, random_model
from logicmp.testing.sparse_worlds import sparse_pair


def one_valued(model: Model) -> float:
    """Unary potentials of variables that have one value only, which the network does not count."""
    total = 0.0
    for predicate in model.theory.predicates:
        if predicate.functional and all(model.sizes[predicate.types[k]] == 1 for k in predicate.functional) \
                and not predicate.may_be_none:
            total += float(model.unary[predicate.name].sum())
    return total


@pytest.mark.parametrize("semantics", ["exact", "alchemy"])
@settings(max_examples=150, deadline=None)
@given(model=models(max_ground=7, max_constants=3))
def test_the_features_sum_to_the_partition_function(semantics: str, model: Model) -> None:
    try:
        want = oracle.log_partition(model.theory, model.unary, model.evidence, model.sizes, semantics)
    except LogicMPError:
        # no world satisfies the hard rules and the evidence
        want = -np.inf
    try:
        found = build_network(world_from_tensors(model.theory, model.unary, model.evidence), semantics=semantics)
    except RuleError as error:
        assert error.message.startswith("the evidence violates this hard rule")
        assert want == -np.inf
        return
    # quantified parts may have variables of their own, and then there are too many worlds to walk through here
    assume(len(found.cards) <= 12)
    got = np.logaddexp.reduce([score(found, values) for values in worlds(found)]) + one_valued(model)
    assert got == pytest.approx(want, rel=1e-9, abs=1e-9)


def test_only_groundings_that_the_evidence_leaves_open_are_kept() -> None:
    people = ", ".join(f"P{i}" for i in range(1000))
    found = network_of(f"person = {{{people}}}\nFriends(person, person)\nSmokes(person)\n"
                    "2 Friends(x, y) ^ Smokes(x) => Smokes(y)",
                    "Friends(P1, P2)\nFriends(P2, P3)\nFriends(P3, P3)", ("Smokes",))
    # a million pairs, three facts, one of them a tautology
    assert found.n_features == 2
    assert found.base.tolist() == [1_000_000]


def test_groundings_that_the_evidence_violates_are_counted_without_a_feature() -> None:
    found = network_of("p = {A, B}\nS(p)\nT(p)\n1.5 S(x) => T(x)", "S(A)\n!T(A)")
    assert (found.n_features, found.base.tolist()) == (0, [1])


def test_evidence_that_violates_a_hard_rule_is_an_error_with_its_place() -> None:
    with pytest.raises(RuleError) as caught:
        network_of("p = {A, B}\nS(p)\nT(p)\nS(x) => T(x).", "S(B)\n!T(B)")
    assert str(caught.value) == """\
the evidence violates this hard rule where x = B
 --> <text>:4:1
4 | S(x) => T(x).
  | ^^^^^^^^^^^^^
hint: give the rule a weight, or correct the evidence"""


def test_too_many_groundings_are_rejected_before_they_are_made() -> None:
    people = ", ".join(f"P{i}" for i in range(300))
    with pytest.raises(CostError) as caught:
        network_of(f"p = {{{people}}}\nF(p, p)\n1 F(x, y) => F(y, x)\n1 F(x, y) ^ F(y, z) => F(x, z)")
    assert caught.value.message == ("the evidence leaves at least 27,000,000 groundings of this rule open, after "
                                    "90,000 of those before it (limit 10,000,000)")


def test_the_semantics_of_the_paper_has_no_network() -> None:
    with pytest.raises(LogicMPError, match="treats equal atoms of a grounding as independent"):
        network_of("p = {A}\nS(p)\n1 S(x)", semantics="paper")


def test_a_world_of_tensors_is_the_same_as_one_of_facts() -> None:
    theory = parse_theory("p = {A, B}\nS(p)\nlives(p, p!)\n1 S(x) ^ lives(x, y) => S(y)")
    from_facts = build_world(parse_facts("S(A)\n!lives(A, B)\n0.7 lives(B, A)", theory), world="open")
    nan = float("nan")
    from_tensors = world_from_tensors(
        theory, {"lives": torch.tensor([[0.0, 0.0], [np.log(7 / 3), 0.0]])},
        {"S": torch.tensor([1.0, nan]), "lives": torch.tensor([[nan, 0.0], [nan, nan]])})
    for name, values in from_facts.values.items():
        assert values.tolist() == from_tensors.values[name].tolist()
    assert from_facts.unary["lives"] == pytest.approx(from_tensors.unary["lives"])


def test_more_unobserved_atoms_than_fit_are_rejected_before_they_are_numbered() -> None:
    theory = parse_theory("t = {1, ..., 9000}\nP(t, t)\n1 P(x, x)")
    with pytest.raises(CostError, match=r"^P\(t, t\) has 81,000,000 atoms, and not all are observed"):
        build_network(build_world(parse_facts("", theory), ["P"]))


def features_of(network: Network) -> list[tuple[object, ...]]:
    return sorted((int(network.rule[f]), int(network.param[f]), float(network.share[f]),
                   tuple((v, tuple(sorted(members))) for v, members in literals(network, f)))
                  for f in range(network.n_features))


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_the_network_of_a_sparse_world_is_that_of_the_dense_one(first: int) -> None:
    n_checked = 0
    for seed in range(first, first + 100):
        model = random_model(random.Random(seed), max_constants=4)
        sparse, dense = sparse_pair(world_from_tensors(model.theory, model.unary, model.evidence),
                                    np.random.default_rng(seed))
        semantics = ("exact", "alchemy")[seed % 2]
        try:
            want = build_network(dense, semantics=semantics)
        except RuleError as error:
            with pytest.raises(RuleError) as caught:
                build_network(sparse, semantics=semantics)
            assert caught.value.message.startswith("the evidence violates this hard rule")
            assert error.message.startswith("the evidence violates this hard rule")
            continue
        got = build_network(sparse, semantics=semantics)
        n_checked += bool(sparse.supports)
        np.testing.assert_array_equal(got.cards, want.cards)
        np.testing.assert_array_equal(got.potentials, want.potentials)
        np.testing.assert_allclose(got.base, want.base)
        assert got.n_features == want.n_features
        assert [got.name(v) for v in range(got.n_own)] == [want.name(v) for v in range(want.n_own)]
        if len(got.cards) == got.n_own:
            assert features_of(got) == features_of(want)
    assert n_checked > 40


def test_progress_and_memory_are_seen_while_a_rule_is_grounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logicmp.ground.join.PIECE", 20)
    monkeypatch.setattr("logicmp.ground.build.REPORTED", 10)
    world = build_world(parse_facts("", parse_theory("p = {1, ..., 10}\nF(p, p)\n1 F(x, y) => F(y, x)\n1 F(x, x)")))
    seen: list[tuple[int, int]] = []
    needed: list[float] = []
    build_network(world, progress=lambda done, n: seen.append((done, n)), allow=lambda n, what: needed.append(n))
    assert seen == [(0, 2)] * 5 + [(1, 2), (2, 2)]
    assert max(needed) == 110 * 200
    assert needed[0] == 100 * 200
