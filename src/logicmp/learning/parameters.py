"""Choose which weights are learned, and flatten them into one vector.

Room: parse -> **parameters** -> train.  Paper: the weights w_f of Eq. 1.

    Smokes(x) => Cancer(x)          no weight: learned, one number
    Word(t, +w) => Topic(t)         learned, one number for each constant of w's type
    1.5 Friends(x, y)               fixed, unless `relearn` names its line
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

# finite weight that stands in for a hard rule, as in the layer
HARD_WEIGHT = 10.0


@dataclass(frozen=True)
class Parameters:
    """The learned weights of a theory as one vector, in the order of the rules."""

    theory: Theory
    # indices of the learned rules
    learned: tuple[int, ...]

    def shape(self, rule: int) -> tuple[int, ...]:
        """The shape of a rule's weight: empty for one number, one axis for each `+x`."""
        found = self.theory.rules[rule]
        return tuple(self.theory.sizes[found.variables[name]] for name in found.per_constant)

    def start(self) -> Tensor:
        """The initial vector: the weight of each learned rule, 0 if it has none."""
        parts = [torch.full((math.prod(self.shape(f)),), self.theory.rules[f].weight or 0.0, dtype=torch.float64)
                 for f in self.learned]
        return torch.cat(parts)

    def split(self, vector: Tensor) -> list[Tensor]:
        """One weight tensor for each rule of the theory; the weights of other rules are constants.

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
    """The indices of the rules to learn: those without a weight, and those that `relearn` names.

    >>> from logicmp import parse_theory
    >>> theory = parse_theory("P(t)\\n2 P(x)\\nP(x) v P(y)\\nP(x) => P(y).")
    >>> choose_rules(theory), choose_rules(theory, [2]), choose_rules(theory, "all")
    ((1,), (0, 1), (0, 1))

    Args:
        theory: the rules.
        relearn: line numbers of rules that have a weight, or "all" for every soft rule.
    """
    lines = {rule.span.line for rule in theory.rules if rule.span is not None}
    if isinstance(relearn, str) and relearn != "all":
        raise LogicMPError(f"relearn must be 'all' or a list of line numbers, got {relearn!r}")
    for line in () if isinstance(relearn, str) else relearn:
        if line not in lines:
            raise LogicMPError(f"relearn: there is no rule on line {line}",
                               f"lines with rules: {', '.join(map(str, sorted(lines)))}")
    chosen = []
    for f, rule in enumerate(theory.rules):
        named = not isinstance(relearn, str) and rule.span is not None and rule.span.line in relearn
        if named and rule.is_hard:
            raise RuleError("a hard rule has no weight to learn", rule.span,
                            "remove its final '.', or its line from relearn")
        if not rule.is_hard and (rule.weight is None or named or relearn == "all"):
            chosen.append(f)
    if not chosen:
        raise LogicMPError("there is no weight to learn: every rule has one, or is hard",
                           "remove the weights to learn, or name their rules: relearn='all', on the command line "
                           "--relearn all or --relearn LINE,LINE")
    return tuple(chosen)
