"""The ground network: which groundings are left, and that together they are the distribution of Eq. 1."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from logicmp import CostError, LogicMPError, RuleError, oracle, parse_facts, parse_theory
from logicmp.execute.inputs import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.join import Relation, join, relation
from logicmp.ground.network import HARD, Literals, Network, Sets, simplify
from logicmp.normalize.cubes import Const, Differ, Same, Var
from logicmp.testing.random_models import Model, models


def network(theory: str, facts: str = "", queried: tuple[str, ...] = (), **options: object) -> Network:
    world = build_world(parse_facts(facts, parse_theory(theory)), queried)
    return build_network(world, **options)  # type: ignore[arg-type]


def score(network: Network, values: np.ndarray) -> float:
    """The exponent of Eq. 1 at one assignment of all variables, from the features alone; -inf if a hard one holds."""
    counts = network.base.copy()
    for f in range(network.n_features):
        literals = range(network.begins[f], network.begins[f + 1])
        if all(values[network.var[j]] in network.sets.members[network.set[j]] for j in literals):
            if network.param[f] == HARD:
                return -np.inf
            counts[network.param[f]] -= network.share[f]
    potentials = network.potentials[network.starts[:-1] + values]
    return float((network.weights * counts).sum() + potentials.sum())


def log_partition(network: Network) -> float:
    worlds = itertools.product(*(range(card) for card in network.cards))
    return float(np.logaddexp.reduce([score(network, np.array(world, dtype=int)) for world in worlds]))


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
    assert log_partition(found) + one_valued(model) == pytest.approx(want, rel=1e-9, abs=1e-9)


def test_only_groundings_that_the_evidence_leaves_open_are_kept() -> None:
    people = ", ".join(f"P{i}" for i in range(1000))
    found = network(f"person = {{{people}}}\nFriends(person, person)\nSmokes(person)\n"
                    "2 Friends(x, y) ^ Smokes(x) => Smokes(y)",
                    "Friends(P1, P2)\nFriends(P2, P3)\nFriends(P3, P3)", ("Smokes",))
    # a million pairs, three facts, one of them a tautology
    assert found.n_features == 2
    assert found.base.tolist() == [1_000_000]


def test_groundings_that_are_broken_already_count_and_need_no_feature() -> None:
    found = network("p = {A, B}\nS(p)\nT(p)\n1.5 S(x) => T(x)", "S(A)\n!T(A)")
    assert (found.n_features, found.base.tolist()) == (0, [1])


def test_evidence_that_breaks_a_hard_rule_is_refused_with_its_place() -> None:
    with pytest.raises(RuleError) as caught:
        network("p = {A, B}\nS(p)\nT(p)\nS(x) => T(x).", "S(B)\n!T(B)")
    assert str(caught.value) == """\
the evidence violates this hard rule where x = B
 --> <text>:4:1
4 | S(x) => T(x).
  | ^^^^^^^^^^^^^
hint: give the rule a weight, or correct the evidence"""


def test_too_many_groundings_are_refused_before_they_are_made() -> None:
    people = ", ".join(f"P{i}" for i in range(300))
    with pytest.raises(CostError) as caught:
        network(f"p = {{{people}}}\nF(p, p)\n1 F(x, y) => F(y, x)\n1 F(x, y) ^ F(y, z) => F(x, z)")
    assert caught.value.message == ("the evidence leaves at least 27,000,000 groundings of this rule open, after "
                                    "90,000 of those before it (limit 2,000,000)")


def test_the_papers_semantics_has_no_network() -> None:
    with pytest.raises(LogicMPError, match="treats equal atoms of a grounding as independent"):
        network("p = {A}\nS(p)\n1 S(x)", semantics="paper")


def test_existence_over_literals_needs_no_variable_of_its_own() -> None:
    found = network("p = {A, B, C}\nF(p, p)\n1 EXIST y F(x, y)")
    assert str(found) == "ground network: 9 unobserved variables, 3 soft and 0 hard features, 9 literals"


def test_existence_that_evidence_decides_is_no_feature() -> None:
    found = network("p = {A, B, C}\nF(p, p)\nS(p)\n1 (EXIST y F(x, y)) => S(x)", "F(A, B)", ("S",))
    assert str(found) == "ground network: 3 unobserved variables, 1 soft and 0 hard features, 1 literals"
    assert found.name(int(found.var[0])) == "S(A)"


# joins


def brute_force(relations: list[Relation], conditions: list[Same | Differ],
                windows: dict[str, tuple[int, int]]) -> set[tuple[int, ...]]:
    found = set()
    for values in itertools.product(*(range(*window) for window in windows.values())):
        bound = dict(zip(windows, values, strict=True))

        def value(term: Var | Const, bound: dict[str, int] = bound) -> int:
            return bound[term.name] + term.offset if isinstance(term, Var) else term.index

        if all(r.table[tuple(bound[name] for name in r.names)] for r in relations) and all(
                (value(c.left) == value(c.right)) == isinstance(c, Same) for c in conditions):
            found.add(values)
    return found


def test_a_join_finds_exactly_the_bindings_that_hold() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        sizes = {name: int(rng.integers(1, 5)) for name in "xyz"}
        windows = {name: (0, size) for name, size in sizes.items()}
        relations = []
        for _ in range(rng.integers(0, 4)):
            names = tuple(rng.permutation(list("xyz"))[: rng.integers(0, 4)].tolist())
            relations.append(Relation(names, rng.random([sizes[name] for name in names]) < rng.choice([0.2, 0.7, 1.0])))
        terms = [Var("x"), Var("y"), Var("z", -1), Const(0)]
        conditions: list[Same | Differ] = []
        for _ in range(rng.integers(0, 3)):
            i, j = rng.choice(4, 2, replace=False)
            conditions.append((Same, Differ)[rng.integers(2)](terms[i], terms[j]))
        rows = join(relations, conditions, windows, lambda n: None)
        got = set(zip(*(rows.columns[name].tolist() for name in windows), strict=True))
        assert got == brute_force(relations, conditions, windows)
        assert rows.n == len(got)


def test_a_literal_with_constants_repeats_and_shifts_is_a_relation() -> None:
    table = np.arange(9).reshape(3, 3) % 2 == 0
    assert relation(table, (Const(1), Var("y")), {"y": 3}).table.tolist() == table[1].tolist()
    shifted = relation(table, (Var("i"), Var("i", 1)), {"i": 3})
    assert shifted.names == ("i",)
    assert shifted.table.tolist() == [bool(table[0, 1]), bool(table[1, 2]), False]


def test_literals_of_one_variable_are_merged_and_contradictions_go() -> None:
    sets = Sets()
    ab, bc, b, c = (sets.of(3, set(values)) for values in ((0, 1), (1, 2), (1,), (2,)))
    row, var, chosen = zip((0, 7, ab), (0, 7, bc), (0, 8, 0), (1, 7, ab), (1, 7, c), (2, 9, 0), (2, 9, 0), strict=True)
    found, left = simplify(Literals(3, np.array(row), np.array(var), np.array(chosen)), sets)
    assert left.tolist() == [True, False, True]
    assert list(zip(found.row.tolist(), found.var.tolist(), found.set.tolist(), strict=True)) == [
        (0, 7, b), (0, 8, 0), (1, 9, 0)]


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
