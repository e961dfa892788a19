"""Options of a method, and the status of a solution."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from logicmp import CostError, LogicMPError, parse_facts, parse_theory
from logicmp.facts.world import build_world
from logicmp.inference.method import Method, Problem, Solution, Status
from logicmp.limits import Limits


@dataclass
class Coin(Method):
    name: ClassVar[str] = "coin"
    flips: int = 3
    bias: float = 0.5
    is_fair: bool = True
    side: str | None = None

    def solve(self, problem: Problem) -> Solution:
        return Solution({}, Status.EXACT)


def test_options_are_the_fields_of_the_class() -> None:
    assert Coin.make({"flips": 4, "bias": 1, "side": None}) == Coin(flips=4, bias=1, side=None)


@pytest.mark.parametrize("options, message", [
    ({"flip": 4}, "method 'coin' has no option 'flip'\nhint: did you mean 'flips'?"),
    ({"speed": 4}, "method 'coin' has no option 'speed'\nhint: available options: bias, flips, is_fair, side"),
    ({"flips": 2.5}, "option 'flips' of method 'coin' is 2.5\nhint: expected a whole number"),
    ({"flips": True}, "option 'flips' of method 'coin' is True\nhint: expected a whole number"),
    ({"flips": None}, "option 'flips' of method 'coin' is None\nhint: expected a whole number"),
    ({"bias": "high"}, "option 'bias' of method 'coin' is 'high'\nhint: expected a number"),
    ({"is_fair": 1}, "option 'is_fair' of method 'coin' is 1\nhint: expected true or false"),
    ({"side": 1}, "option 'side' of method 'coin' is 1\nhint: expected a word"),
])
def test_an_option_that_does_not_fit_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        Coin.make(options)
    assert str(caught.value) == message


def test_a_status_is_its_text() -> None:
    assert Status.TIME == "time"
    assert f"{Status.TIME} {Status.TIME!s} {json.dumps(Status.TIME)}" == 'time time "time"'


def test_a_problem_grounds_within_its_limits() -> None:
    theory = parse_theory("p = {A, B}\nS(p)\nT(p)\n1 S(x) => T(x)")
    world = build_world(parse_facts("", theory))
    assert Problem(world, limits=Limits(groundings=2)).network().n_features == 2
    with pytest.raises(CostError, match=r"at least 2 groundings of this rule open \(limit 1\)"):
        Problem(world, limits=Limits(groundings=1)).network()
