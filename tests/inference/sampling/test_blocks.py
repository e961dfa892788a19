"""Blocks of Gibbs sampling: which variables are drawn together, and from which joint states."""

from __future__ import annotations

import numpy as np
import pytest
from networks import network_of

from logicmp import CostError, infer
from logicmp.inference.sampling.blocks import build_blocks
from logicmp.inference.sampling.fields import prepare

PEOPLE = ", ".join(f"P{i}" for i in range(30))


def blocks_of(theory: str, facts: str = "", block_weight: float = 5.0) -> list[int]:
    """How many joint states each block has, 0 for variables of their own."""
    found = build_blocks(prepare(network_of(theory, facts)), block_weight, 4096)
    return (np.diff(found.state_first) // np.diff(found.first)).tolist()


def test_variables_that_a_hard_rule_ties_are_drawn_from_their_joint_states() -> None:
    assert blocks_of("p = {A}\nS(p)\nT(p)\nS(x) <=> T(x).") == [2]
    assert blocks_of("p = {A}\nS(p)\nT(p)\nS(x) v T(x).") == [3]


def test_a_strong_rule_makes_a_block_and_a_weak_one_does_not() -> None:
    assert blocks_of("p = {A}\nS(p)\nT(p)\n9 S(x) <=> T(x)") == [4]
    assert blocks_of("p = {A}\nS(p)\nT(p)\n2 S(x) <=> T(x)") == [0, 0]


def test_variables_that_hard_rules_decide_are_in_no_block() -> None:
    assert blocks_of("p = {A}\nS(p)\nT(p)\nR(p)\nS(x).\nS(x) => T(x).\n1 R(x)") == [0]


def test_a_block_that_only_strong_rules_would_make_too_big_is_split() -> None:
    sizes = blocks_of(f"p = {{{PEOPLE}}}\nS(p)\n9 S(x) <=> S(y)")
    assert max(sizes) <= 4096
    assert sum(size > 0 for size in sizes) > 1


def test_one_true_of_many_is_listed_though_its_product_of_values_is_not() -> None:
    people = ", ".join(f"P{i}" for i in range(20))
    theory = f"p = {{{people}}}\nS(p)\n1 S(P0)\nEXIST x S(x).\nx != y => !S(x) v !S(y)."
    assert blocks_of(theory) == [20]
    assert infer(theory, query="S", method="gibbs")["S(P0)"] == pytest.approx(np.e / (np.e + 19), abs=1e-6)


def test_a_hard_block_that_is_too_big_is_rejected_with_its_rule_and_numbers() -> None:
    with pytest.raises(CostError) as caught:
        infer(f"p = {{{PEOPLE}}}\nS(p)\nEXIST x S(x).", query="S", method="gibbs")
    assert caught.value.message == ("hard rules, this one among them, tie 30 variables together (S(P0), S(P1), S(P2), "
                                    "...), with more joint states than gibbs can draw from (limit 4,096)")
    assert caught.value.span is not None
    assert caught.value.span.line == 3
    assert caught.value.hint == "use mc-sat or exact, or raise max_states, or give the rule a weight"


def test_a_quantifier_over_many_follows_its_atoms_without_a_block() -> None:
    theory = f"p = {{{PEOPLE}}}\nS(p)\nR(p)\n-3 S(x)\n0.1 R(y) <=> EXIST x (S(x) ^ R(x))"
    assert max(blocks_of(theory)) == 0
    got, want = (infer(theory, query="S(P0), R(P0)", method=m) for m in ("gibbs", "exact"))
    assert got.probabilities == pytest.approx(want.probabilities, abs=0.01)
