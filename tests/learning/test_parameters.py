"""Which rules are learned, and the vector of their weights."""

from __future__ import annotations

import pytest
import torch

from logicmp import LogicMPError, RuleError, parse_theory
from logicmp.learning.parameters import HARD_WEIGHT, Parameters, choose_rules

THEORY = parse_theory("t = {A, B, C}\nP(t)\n2 P(x)\nP(+x) v P(y)\nP(+x) v P(+y)\nP(x) => P(y).")


def test_the_vector_starts_at_the_weights_and_splits_back_into_them() -> None:
    parameters = Parameters(THEORY, choose_rules(THEORY, [3]))
    assert parameters.start().tolist() == [2] + 12 * [0]
    parts = parameters.split(torch.arange(13.0, dtype=torch.float64))
    assert [list(part.shape) for part in parts] == [[], [3], [3, 3], []]
    assert torch.cat([part.flatten() for part in parts]).tolist() == [*range(13), HARD_WEIGHT]


def test_relearn_all_takes_every_rule_but_the_hard_ones() -> None:
    assert choose_rules(THEORY) == (1, 2)
    assert choose_rules(THEORY, "all") == (0, 1, 2)


@pytest.mark.parametrize("relearn, message, hint", [
    ("some", "relearn must be 'all' or a list of line numbers, got 'some'", None),
    ([2], "relearn: there is no rule on line 2", "lines with rules: 3, 4, 5, 6"),
])
def test_wrong_lines_are_rejected(relearn: str | list[int], message: str, hint: str | None) -> None:
    with pytest.raises(LogicMPError) as caught:
        choose_rules(THEORY, relearn)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_no_weight_to_learn_is_an_error_with_a_remedy() -> None:
    theory = parse_theory("P(t)\n1 P(A)\nP(B).")
    with pytest.raises(LogicMPError, match="there is no weight to learn: every rule has one, or is hard") as caught:
        choose_rules(theory)
    assert "--relearn all" in str(caught.value)


def test_a_hard_rule_is_not_learned_even_if_named() -> None:
    with pytest.raises(RuleError, match="a hard rule has no weight to learn"):
        choose_rules(THEORY, [6])
