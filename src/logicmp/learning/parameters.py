"""Which weights are learned, and where each of them stands in one vector.

Stage: parse -> **learn**.  Paper: the weights w_f of Eq. 1.

    Smokes(x) => Cancer(x)          no weight: learned, one number
    Word(t, +w) => Topic(t)         learned, one number for each constant of w's type
    1.5 Friends(x, y)               fixed, unless asked for
    !Friends(x, x).                 hard: never learned
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import LogicMPError, RuleError
from ..parse.theory import Theory

# what a hard rule weighs in a conditional probability: exp(10) to 1, as in the layer
HARD_WEIGHT = 10.0


@dataclass(frozen=True)
class Parameters:
    """The learned weights of a theory as one vector, in the order of the rules."""

    theory: Theory
    # the rules that are learned, by index
    learned: tuple[int, ...]

    def shape(self, rule: int) -> tuple[int, ...]:
        """Empty for one number, one axis for each `+x`."""
        found = self.theory.rules[rule]
        return tuple(self.theory.sizes[found.variables[name]] for name in found.per_constant)

    def start(self) -> Tensor:
        """The vector to start from: the weight a rule has, else zero."""
        parts = [torch.full((math.prod(self.shape(f)),), self.theory.rules[f].weight or 0.0, dtype=torch.float64)
                 for f in self.learned]
        return torch.cat(parts)

    def split(self, vector: Tensor) -> list[Tensor]:
        """One tensor for each rule of the theory, those that are not learned as they are.

        >>> from logicmp import parse_theory
        >>> theory = parse_theory("t = {A, B}\\nP(t)\\n2 P(x)\\nP(+x) v P(x)")
        >>> Parameters(theory, (1,)).split(torch.tensor([5.0, 6.0]))
        [tensor(2., dtype=torch.float64), tensor([5., 6.])]
        """
        found, at = [], 0
        for f, rule in enumerate(self.theory.rules):
            shape = self.shape(f)
            if f in self.learned:
                n = math.prod(shape)
                found.append(vector[at : at + n].reshape(shape))
                at += n
            else:
                fixed = HARD_WEIGHT if rule.weight is None else rule.weight
                found.append(torch.full(shape, fixed, dtype=torch.float64))
        return found


def choose_rules(theory: Theory, relearn: str | Collection[int] = ()) -> tuple[int, ...]:
    """The rules to learn: those without a weight, and those asked for by their lines, or all that are not hard.

    >>> from logicmp import parse_theory
    >>> theory = parse_theory("P(t)\\n2 P(x)\\nP(x) v P(y)\\nP(x) => P(y).")
    >>> choose_rules(theory), choose_rules(theory, [2]), choose_rules(theory, "all")
    ((1,), (0, 1), (0, 1))
    """
    lines = {rule.span.line for rule in theory.rules if rule.span is not None}
    if isinstance(relearn, str) and relearn != "all":
        raise LogicMPError(f"relearn is {relearn!r}", "give 'all' or the lines of rules")
    for line in () if isinstance(relearn, str) else relearn:
        if line not in lines:
            raise LogicMPError(f"no rule stands on line {line}, which is to be learned again",
                               f"rules stand on lines {', '.join(map(str, sorted(lines)))}")
    chosen = []
    for f, rule in enumerate(theory.rules):
        asked = not isinstance(relearn, str) and rule.span is not None and rule.span.line in relearn
        if asked and rule.is_hard:
            raise RuleError("a hard rule has no weight to learn", rule.span, "take away its final '.'")
        if not rule.is_hard and (rule.weight is None or asked or relearn == "all"):
            chosen.append(f)
    if not chosen:
        raise LogicMPError("no weight is to be learned: every rule has one, or is hard",
                           "take away the weights to learn, or ask for them: relearn='all', on the command line "
                           "--relearn all or --relearn LINE,LINE")
    return tuple(chosen)
