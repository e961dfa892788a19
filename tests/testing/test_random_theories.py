"""Random theories: every feature occurs unless left out, limits are respected."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from logicmp import LogicMPError, Theory
from logicmp.parse.syntax import (
    And,
    Atom,
    Constant,
    Equal,
    Exists,
    Forall,
    Implies,
    Not,
    Or,
    Variable,
    atoms,
    children,
    terms,
)
from logicmp.testing.random_theories import ALL, MAX_FREE, n_ground, random_theory, theories


def leaves(theory: Theory) -> list[Atom | Equal]:
    return [leaf for rule in theory.rules for leaf in atoms(rule.formula)]


def nodes(theory: Theory) -> list[object]:
    found, rest = [], [rule.formula for rule in theory.rules]
    while rest:
        found.append(rest.pop())
        rest += children(found[-1])
    return found


def repeats(theory: Theory) -> bool:
    return any(len(names) != len(set(names)) for leaf in leaves(theory)
               for names in [[term.name for term in terms(leaf) if isinstance(term, Variable)]])


def is_clause(theory: Theory) -> bool:
    """Whether every rule is literals joined by v, or by ^ before a => and v after it; a literal may be quantified."""
    def is_part(node: object) -> bool:
        if isinstance(node, (Not, Exists, Forall)):
            return is_part(node.body)
        return isinstance(node, (Atom, Equal))

    def is_joined(node: object, kind: type[And] | type[Or]) -> bool:
        return all(map(is_part, node.parts)) if isinstance(node, kind) else is_part(node)

    return all(is_joined(f.premise, And) and is_joined(f.conclusion, Or) if isinstance(f, Implies) else is_joined(f, Or)
               for f in (rule.formula for rule in theory.rules))


USES: dict[str, Callable[[Theory], bool]] = {
    "formulas": lambda t: not is_clause(t) or any(rule.indivisible for rule in t.rules),
    "quantifiers": lambda t: any(isinstance(node, (Exists, Forall)) for node in nodes(t)),
    "equality": lambda t: any(isinstance(leaf, Equal) for leaf in leaves(t)),
    "constants": lambda t: any(isinstance(term, Constant) for leaf in leaves(t) for term in terms(leaf)),
    "repeated": repeats,
    "symmetric": lambda t: any(p.symmetric for p in t.predicates),
    "multiclass": lambda t: any(p.labels is not None for p in t.predicates),
    "functional": lambda t: any(p.functional for p in t.predicates),
    "offsets": lambda t: any(isinstance(term, Variable) and term.offset for leaf in leaves(t) for term in terms(leaf)),
    "per_constant": lambda t: any(rule.per_constant for rule in t.rules),
    "hard": lambda t: any(rule.is_hard for rule in t.rules),
    "negative": lambda t: any((rule.weight or 0) < 0 for rule in t.rules),
    "zero_arity": lambda t: any(not p.arguments for p in t.predicates),
    "unweighted": lambda t: any(rule.weight is None and not rule.is_hard for rule in t.rules),
}


def test_every_feature_has_a_test_of_its_use() -> None:
    assert set(USES) == ALL


@pytest.mark.parametrize("feature", sorted(ALL))
def test_feature_occurs_unless_excluded(feature: str) -> None:
    assert any(USES[feature](random_theory(random.Random(seed))) for seed in range(100))
    for seed in range(100):
        theory = random_theory(random.Random(seed), features=ALL - {feature})
        assert not USES[feature](theory), str(theory)


def test_without_features_there_are_weighted_clauses_only() -> None:
    for seed in range(100):
        theory = random_theory(random.Random(seed), features=())
        assert not [feature for feature, uses in USES.items() if uses(theory)], str(theory)


@settings(max_examples=100, deadline=None)
@given(theories(max_constants=2, max_atoms=3, max_ground=9))
def test_the_limits_are_respected(theory: Theory) -> None:
    assert all(1 <= size <= 2 for size in theory.sizes.values())
    assert all(type_.closed for type_ in theory.types)
    assert sum(n_ground(p, theory.sizes) for p in theory.predicates) <= 9
    assert 1 <= len(theory.predicates) <= 4 and 1 <= len(theory.rules) <= 3
    for rule in theory.rules:
        assert 1 <= len(list(atoms(rule.formula))) <= 3
        assert len(rule.variables) <= MAX_FREE


def test_smallest_limits_leave_a_theory() -> None:
    for seed in range(50):
        theory = random_theory(random.Random(seed), max_constants=1, max_atoms=1, max_predicates=1, max_rules=1,
                               max_ground=1)
        assert len(theory.rules) == 1


def test_same_seed_gives_the_same_theory() -> None:
    for seed in range(20):
        assert random_theory(random.Random(seed)) == random_theory(random.Random(seed))


def test_unknown_feature_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="unknown feature 'magic'"):
        random_theory(random.Random(0), features={"magic"})
    with pytest.raises(LogicMPError, match="at least 1"):
        random_theory(random.Random(0), max_atoms=0)
