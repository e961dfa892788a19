"""What every method takes and gives: a problem, a solution, and the answers a user reads.

Stage: ground, layer -> **infer** -> cli.

    Problem(world, formulas)   ->   Method.solve   ->   Solution(log_odds)   ->   Marginals: {"Smokes(Anna)": 0.93}

Log-odds are what is computed and ranked by: with large counts a probability is 1 in any precision long before the
log-odds stop to differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from ..errors import LogicMPError, closest
from ..facts.world import World
from ..ground.build import build_network
from ..ground.network import Network
from ..limits import Progress, silent
from ..parse.theory import Rule


@dataclass(frozen=True)
class Problem:
    """What is asked of a method."""

    world: World
    # formulas asked for, each a rule of weight 0 with one weight for every binding of its variables: the expected count
    # of such a weight is the probability that the formula holds
    formulas: tuple[Rule, ...] = ()
    semantics: str = "exact"
    seed: int = 0
    progress: Progress = silent

    def network(self, max_groundings: int, rules: Sequence[Rule] | None = None) -> Network:
        """The ground network of some rules, by default the theory's own and after them the formulas asked for."""
        rules = (*self.world.theory.rules, *self.formulas) if rules is None else rules
        return build_network(self.world, rules, self.semantics, max_groundings,
                             lambda done, n: self.progress("grounding", done, n))


@dataclass
class Iteration:
    """One line of a trace."""

    number: int
    elbo: float
    # by rule, expected
    violations: list[float]
    change: float


@dataclass
class Solution:
    """What a method found."""

    # by predicate, log-odds of every atom (and label), infinite where it is decided
    log_odds: dict[str, np.ndarray]
    # for each formula asked for, log-odds by binding
    formulas: list[np.ndarray] = field(default_factory=list)
    log_partition: float | None = None
    # a lower bound of it
    elbo: float | None = None
    # what the user should know: which part was solved how, what did not settle
    notes: list[str] = field(default_factory=list)
    trace: list[Iteration] = field(default_factory=list)


@dataclass
class Method(ABC):
    """A way to answer; its options are the fields of the class.

    Args:
        max_seconds: stop after so long with what there is, and say so.
    """

    name: ClassVar[str]
    max_seconds: float | None = None

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """The log-odds of every unknown atom."""

    @classmethod
    def make(cls, options: Mapping[str, Any]) -> Method:
        """The method with some options; unknown ones and wrong types are refused."""
        known = {f.name: str(f.type) for f in fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise LogicMPError(f"method {cls.name!r} has no option {name!r}", closest(name, known, "option"))
            kind = known[name].removesuffix(" | None")
            is_fitting = isinstance(value, _KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))
            if not is_fitting and not (value is None and known[name] != kind):
                raise LogicMPError(f"option {name!r} of method {cls.name!r} is {value!r}", f"expected {_WORDS[kind]}")
        return cls(**options)


# what an option may be, by the type of its field
_KINDS: Mapping[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word"}
