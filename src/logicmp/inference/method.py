"""The interface of all methods: a problem goes in, a solution with a status comes out.

Room: facts, ground -> **inference**.

    Problem(world, formulas, limits)   ->   Method.solve   ->   Solution(log_odds, status)

Methods compute and rank by log-odds: with large counts a probability is 1 in any precision long before log-odds become
equal.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from ..errors import LogicMPError, closest
from ..facts.supports import DENSE_ATOMS
from ..facts.world import World
from ..ground.build import Multiples, build_network
from ..ground.engine import ALONE, Grounding, Share
from ..ground.network import Network
from ..limits import Limits, Progress, silent
from ..normalize.build import counted_formulas
from ..parse.theory import Rule


class Status(StrEnum):
    """Why a method stopped; equal to its text: `status == "converged"`."""

    # every probability is exact, up to rounding
    EXACT = "exact"
    # no world is more probable, which is proven
    OPTIMAL = "optimal"
    # the answers no longer change: by `tolerance`, or for a sampler by the standard error `error`
    CONVERGED = "converged"
    # all iterations, samples or flips are used up
    ITERATIONS = "iterations"
    # the time limit is reached
    TIME = "time"
    # stopped before the first step: the log-odds are those of the soft evidence alone, and `infer` rejects them
    NONE = "none"

    __str__ = str.__str__


@dataclass(frozen=True)
class Problem:
    """What a method has to solve, and with which limits."""

    world: World
    # queried formulas, each a rule of weight 0 with one weight for every binding of its variables: the expected count
    # of such a weight is the probability that the formula is satisfied
    formulas: tuple[Rule, ...] = ()
    semantics: str = "exact"
    seed: int = 0
    progress: Progress = silent
    limits: Limits = field(default_factory=Limits)
    # predicates that the queries mention, by default all: samplers stop when these are accurate
    queried: frozenset[str] = frozenset()
    # how the rows of rules over lists are made, and which of them this process has
    grounding: Grounding = field(default_factory=Grounding)

    def network(self, rules: Sequence[Rule] | None = None, multiples: Multiples | None = None,
                share: Share = ALONE.share) -> Network:
        """The ground network of some rules, by default all rules of the theory and then the queried formulas.

        Args:
            multiples: if each grounding stands for several.
            share: of several processes, which then have some of the features each.
        """
        def report(done: int, n: int) -> None:
            self.progress("grounding", done, n)
            if done < n:
                self.limits.check("grounding")

        rules = (*self.world.theory.rules, *self.formulas) if rules is None else rules
        return build_network(self.world, rules, self.semantics, self.limits.groundings, report,
                             self.limits.allow, multiples, share)


@dataclass
class TraceLine:
    """One line of a trace."""

    number: int
    elbo: float
    # by rule, expected
    violations: list[float]
    change: float


@dataclass
class Solution:
    """What a method found, and why it stopped."""

    # by predicate, log-odds of every atom (and label), infinite where the evidence or hard rules decide it
    log_odds: dict[str, np.ndarray]
    status: Status
    # for each queried formula, log-odds by binding
    formulas: list[np.ndarray] = field(default_factory=list)
    log_partition: float | None = None
    # a lower bound of it
    elbo: float | None = None
    # of the lists that rules over sparse predicates need, if there are any
    n_rows: int | None = None
    # for people to read: which part was solved how, and what did not converge
    notes: list[str] = field(default_factory=list)
    trace: list[TraceLine] = field(default_factory=list)
    # the methods that `auto` used, as a phrase; empty for all other methods
    used: str = ""


@dataclass
class Method(ABC):
    """A method of inference; its options are the fields of the class."""

    name: ClassVar[str]
    # a closed predicate with more atoms than this is a list of its true atoms
    dense_atoms: ClassVar[int] = DENSE_ATOMS
    # whether rules over lists run without a ground network, and whether several processes can have a share each
    takes_lists: ClassVar[bool] = False
    takes_shares: ClassVar[bool] = False

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """The log-odds of every unobserved atom and every queried formula."""

    @classmethod
    def make(cls, options: Mapping[str, Any]) -> Method:
        """The method with these options; unknown names and wrong types raise an error."""
        known = {f.name: str(f.type) for f in fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise LogicMPError(f"method {cls.name!r} has no option {name!r}", closest(name, known, "option"))
            kind = known[name].removesuffix(" | None")
            is_fitting = isinstance(value, _KINDS[kind]) and (kind == "bool" or not isinstance(value, bool))
            if not is_fitting and not (value is None and known[name] != kind):
                raise LogicMPError(f"option {name!r} of method {cls.name!r} is {value!r}", f"expected {_WORDS[kind]}")
        return cls(**options)

    def __post_init__(self) -> None:
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            words, is_inside = _RANGES.get(name, ("", None))
            if is_inside is not None and not is_inside(value):
                raise LogicMPError(f"{name} must be {words}, got {value}")


# the types and the name of a value, by the annotation of its field
_KINDS: Mapping[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word"}
# the ranges of options, whichever method has them
_RANGES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("iterations", "tolerance", "burn_in", "error", "max_search_flips", "max_cells", "max_messages"),
                    ("at least 0", lambda x: x is None or x >= 0)),
    **dict.fromkeys(("restarts", "chains", "samples", "max_flips", "max_states", "effective"),
                    ("at least 1", lambda x: x is None or x >= 1)),
    "damping": ("at least 0 and below 1", lambda x: 0 <= x < 1),
    "noise": ("between 0 and 1", lambda x: 0 <= x <= 1),
    **dict.fromkeys(("step_size", "temperature"), ("above 0", lambda x: x > 0)),
    "correction": ("tap or none", lambda x: x in ("tap", "none")),
}


def n_hard_groundings(world: World, semantics: str) -> int:
    """The number of groundings of hard rules."""
    return sum(math.prod(max(0, world.sizes[v.type] - v.high + v.low) for v in free)
               for rule in world.theory.rules if rule.is_hard
               for _, _, free in counted_formulas(rule, semantics))
