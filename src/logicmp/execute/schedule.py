"""The settings of a run: how many iterations, and temperature, weight factor and damping of each.

Room: plan -> **execute** -> layer.  Paper: Algorithm 1, which is the schedule "paper".

    adaptive    small pushes first, by confident marginals, and stronger ones as the marginals agree; the default
    paper       every rule pushes with its full weight from the first iteration on
    cold        marginals close to 0 and 1, weights raised over the first 70% of the iterations

While everything is in doubt, many half-violated groundings push every atom to the state in which nothing is true. Small
pushes let the confident atoms agree first, and sharpened marginals keep the undecided ones from pushing. Rules without
weights are as strong as the logits support: the first messages to an atom come from the other atoms alone, so how well
they predict its logit tells what they are worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from ..arguments import check_argument, check_fields
from ..errors import LogicMPError, closest

# the share of the iterations after which the push has its full size
RAMP = 0.6


@dataclass(frozen=True, slots=True)
class Schedule:
    """How mean field iterates.

    Args:
        iterations: updates of all marginals, at least 0.
        damping: share of the previous log-odds kept in each update, 0 to below 1.
        temperature: log-odds are divided by it before they become marginals, above 0.
        factor: every rule weight is multiplied by it, at least 0.
        ramp: share of the iterations over which the weights rise from 0 to their full size, as a square; 0 to 1.
        push: the root mean square of the messages of an item is limited to the first value in the first iteration and
            to the second after 60% of them, with geometric steps between; None for no limit.
        lift: the limit of `push` grows where the rules overturn more than this share of the decisions of an item with
            pushes that differ more than they agree, because such logits are mostly noise; None for never.
        sharpen: choose the temperature of each item from the size of its first messages: this number divided by it, at
            most 1 and at least a tenth of the size of its logits; None for a fixed temperature. Equal logits are not
            sharpened: none of them is more confident than the others. Gradients pass as at temperature 1.
        calibrate: if no rule has a weight, and the first messages are smaller than `push` allows, multiply all weights
            by what the logits of the item support.
        gradients: how many of the last iterations carry gradients; None for all.
        tolerance: stop when no marginal changes by more than this; 0 runs all iterations.
    """

    iterations: int = 5
    damping: float = 0.0
    temperature: float = 1.0
    factor: float = 1.0
    ramp: float = 0.0
    push: tuple[float, float] | None = None
    lift: float | None = None
    sharpen: float | None = None
    calibrate: bool = False
    gradients: int | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.push, list):
            # as it was read from a file
            object.__setattr__(self, "push", tuple(self.push))
        check_fields(self)
        for name, number in (("iterations", self.iterations), ("gradients", self.gradients)):
            if number is not None and number < 0:
                raise LogicMPError(f"{name} must be a whole number and at least 0, got {number!r}")
        for name, value, is_right, expected in (
                ("damping", self.damping, 0 <= self.damping < 1, "at least 0 and below 1"),
                ("temperature", self.temperature, 0 < self.temperature < math.inf, "above 0 and finite"),
                ("factor", self.factor, 0 <= self.factor < math.inf, "at least 0 and finite"),
                ("ramp", self.ramp, 0 <= self.ramp <= 1, "between 0 and 1"),
                ("lift", self.lift, self.lift is None or 0 <= self.lift <= 1, "between 0 and 1"),
                ("sharpen", self.sharpen, self.sharpen is None or 0 < self.sharpen < math.inf, "above 0 and finite"),
                ("tolerance", self.tolerance, 0 <= self.tolerance < math.inf, "at least 0 and finite")):
            if not is_right:
                raise LogicMPError(f"{name} must be {expected}, got {value:g}")
        if self.push is not None and not all(0 < x < math.inf for x in self.push):
            raise LogicMPError(f"push must be two numbers above 0, got {self.push!r}", "for example push=(0.2, 3)")
        if self.push is None and (self.lift is not None or self.calibrate):
            raise LogicMPError("lift and calibrate need push", "for example push=(0.2, 3)")

    def __str__(self) -> str:
        """The settings that differ from those of a schedule without any.

        >>> print(SCHEDULES["adaptive"])
        Schedule(iterations=15, damping=0.1, push=(0.2, 3.0), lift=0.13, sharpen=0.25, calibrate=True, gradients=3)
        """
        given = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self)
                          if f.name == "iterations" or getattr(self, f.name) != f.default)
        return f"Schedule({given})"

    @property
    def is_plain(self) -> bool:
        """Whether no iteration depends on the size of its messages, so that they can be subtracted at once."""
        return self.push is None and self.sharpen is None and self.ramp == 0

    def weight_factor(self, number: int) -> float:
        """The factor of all weights in one iteration, before messages are limited."""
        if not self.ramp:
            return self.factor
        return float(self.factor * min(1.0, (number + 1) / (self.ramp * self.iterations)) ** 2)

    def largest_push(self, number: int) -> float | None:
        """The limit of the size of messages in one iteration.

        >>> [round(SCHEDULES["adaptive"].largest_push(t), 2) for t in (0, 5, 13, 14)]
        [0.2, 0.9, 3.0, 3.0]
        """
        if self.push is None:
            return None
        first, last = self.push
        share = min(1.0, number / max(1, round(RAMP * self.iterations)))
        return float(first * (last / first) ** share)

    def is_full(self, number: int) -> bool:
        """Whether weights and messages have their final size in one iteration: a run must not stop before.

        >>> [SCHEDULES["adaptive"].is_full(t) for t in (0, 8, 9)], SCHEDULES["paper"].is_full(0)
        ([False, False, True], True)
        """
        is_limited = self.push is not None and number < round(RAMP * self.iterations)
        return not is_limited and number + 1 >= self.ramp * self.iterations

    def carries_gradients(self, number: int) -> bool:
        return self.gradients is None or number >= self.iterations - self.gradients


SCHEDULES = {
    "adaptive": Schedule(iterations=15, damping=0.1, push=(0.2, 3.0), lift=0.13, sharpen=0.25, calibrate=True,
                         gradients=3),
    "paper": Schedule(),
    "cold": Schedule(iterations=20, damping=0.5, temperature=0.1, ramp=0.7, gradients=3),
}


def make_schedule(schedule: str | Schedule, iterations: int | None = None, damping: float | None = None,
                  tolerance: float | None = None) -> Schedule:
    """A schedule by name, or one of your own, with some settings replaced.

    >>> make_schedule("paper", iterations=20).iterations
    20
    """
    check_argument("schedule", schedule, Schedule | str)
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise LogicMPError(f"unknown schedule {schedule!r}", closest(schedule, list(SCHEDULES), "schedule"))
        schedule = SCHEDULES[schedule]
    given = {"iterations": iterations, "damping": damping, "tolerance": tolerance}
    return replace(schedule, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
