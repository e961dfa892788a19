"""The settings of a run: how many iterations, and temperature, weight factor and damping of each.

Room: plan -> **execute** -> layer.  Paper: Algorithm 1, which is `Schedule(iterations=T)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import LogicMPError


@dataclass(frozen=True, slots=True)
class Schedule:
    """How mean field iterates.

    Args:
        iterations: updates of all marginals, at least 0.
        damping: share of the previous log-odds kept in each update, 0 to below 1.
        temperature: log-odds are divided by it before they become marginals, above 0.
        factor: every rule weight is multiplied by it, at least 0.
        tolerance: stop when no marginal changes by more than this; 0 runs all iterations.
    """

    iterations: int = 5
    damping: float = 0.0
    temperature: float = 1.0
    factor: float = 1.0
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.iterations, int) or isinstance(self.iterations, bool) or self.iterations < 0:
            raise LogicMPError(f"iterations must be a whole number and at least 0, got {self.iterations!r}")
        for name, value, is_right, expected in (
                ("damping", self.damping, 0 <= self.damping < 1, "at least 0 and below 1"),
                ("temperature", self.temperature, 0 < self.temperature < math.inf, "above 0 and finite"),
                ("factor", self.factor, 0 <= self.factor < math.inf, "at least 0 and finite"),
                ("tolerance", self.tolerance, 0 <= self.tolerance < math.inf, "at least 0 and finite")):
            if not is_right:
                raise LogicMPError(f"{name} must be {expected}, got {value:g}")
