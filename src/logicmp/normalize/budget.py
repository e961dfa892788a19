"""What it may cost to write one rule as products: how many of them, and how many steps on the way.

Room: parse -> **normalize** -> ground, plan.

    P(a,b) v P(b,c) v ... v P(y,z)      each pair of atoms can be one atom: 25 products for 4 atoms, 293 for 6

Every loop that can grow faster than its rule spends from the budget, so that a rule is rejected within seconds.
"""

from __future__ import annotations

from collections import Counter

from ..errors import CostError
from ..parse.syntax import Atom, atoms
from ..parse.theory import Rule

MAX_CUBES = 512
# steps for each product that is allowed; a step looks at about two atoms, or eight pairs of atoms, and takes 3 us
STEPS = 2000


class Budget:
    """The products and steps that are left for one rule.

    Args:
        rule: the rule, for the error.
        max_cubes: products that the rule may need; the limit of steps is in proportion.
    """

    def __init__(self, rule: Rule, max_cubes: int = MAX_CUBES):
        self.rule = rule
        self.max_cubes = max_cubes
        self.steps = STEPS * max_cubes

    def spend(self, steps: int) -> None:
        """Use up some steps; raises a CostError if there are too few left."""
        self.steps -= steps
        if self.steps < 0:
            counts = Counter(leaf.predicate for leaf in atoms(self.rule.formula) if isinstance(leaf, Atom))
            name, n = max(counts.items(), key=lambda item: item[1], default=("", 0))
            raise CostError(f"this rule has {sum(counts.values())} atoms, {n} of them of {name}: to write it as "
                            f"products takes more than {STEPS * self.max_cubes:,} steps", self.rule.span,
                            "split it into smaller rules, or raise max_cubes")

    def check(self, n_cubes: int) -> None:
        """Raise a CostError if these are too many products."""
        if n_cubes > self.max_cubes:
            raise CostError(f"this rule needs more than {self.max_cubes} products", self.rule.span,
                            "split it into smaller rules, or raise max_cubes")
