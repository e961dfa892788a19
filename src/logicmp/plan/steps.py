"""The plan as data: numbered values, the step that computes each, and the messages and counts made of them.

Room: normalize -> **plan** -> execute.  Paper: Section 3.2, Eq. 4-5.

    %0 = C(a,b)                       a read of the marginals
    %1 = !C(a,b)                      ... of their complement
    %2 = %0, %1   einsum 'ab,cb->ac'  one pairwise contraction

Steps do not depend on the size of a type: the same plan runs at any size, and costs are computed for given sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import Span
from ..page import Html, code, fragment, graph


@dataclass(frozen=True, slots=True)
class Axis:
    """An index of a value: the entities of a type whose shifts by `low` and `high` are entities too, or a slice."""

    type: str
    low: int = 0
    high: int = 0
    # a slice, counted within the range: set if a value would be too large otherwise
    start: int = 0
    stop: int | None = None

    def size(self, sizes: Mapping[str, int]) -> int:
        whole = max(0, sizes[self.type] + self.low - self.high)
        return max(0, (whole if self.stop is None else min(whole, self.stop)) - self.start)


@dataclass(frozen=True, slots=True)
class At:
    """An argument: an axis, shifted, or one fixed entity (axis None)."""

    axis: int | None
    offset: int


def _letters(axes: tuple[Axis, ...]) -> str:
    return "".join(chr(ord("a") + k) for k in range(len(axes)))


def _argument(at: At) -> str:
    if at.axis is None:
        return f"#{at.offset}"
    return f"{chr(ord('a') + at.axis)}{f'{at.offset:+d}' if at.offset else ''}"


@dataclass(frozen=True, slots=True)
class Read:
    """The marginals of a predicate, or their complement, at the arguments of one literal."""

    predicate: str
    args: tuple[At, ...]
    axes: tuple[Axis, ...]
    negated: bool = False
    labels: frozenset[int] | None = None
    # pairs of axes on whose diagonal the value is zero
    apart: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        args = f"({','.join(map(_argument, self.args))})" if self.args else ""
        labels = "" if self.labels is None else f" in {sorted(self.labels)}"
        letters = _letters(self.axes)
        apart = "".join(f" [{letters[i]}!={letters[j]}]" for i, j in self.apart)
        return f"{'!' if self.negated else ''}{self.predicate}{args}{labels}{apart}"


@dataclass(frozen=True, slots=True)
class Weigh:
    """The weights of a rule with one weight per constant."""

    rule: int
    args: tuple[At, ...]
    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"weights of rule {self.rule + 1} at ({','.join(map(_argument, self.args))})"


@dataclass(frozen=True, slots=True)
class Compare:
    """One where two arguments are equal (or differ), zero elsewhere."""

    left: At
    right: At
    axes: tuple[Axis, ...]
    equal: bool = True

    def __str__(self) -> str:
        return f"[{_argument(self.left)}{'=' if self.equal else '!='}{_argument(self.right)}]"


@dataclass(frozen=True, slots=True)
class Contract:
    """One contraction of the plan: of two values, or the sum of one over some of its axes."""

    operands: tuple[int, ...]
    # one letter per axis, chosen by the planner, so that variables may have any name
    equation: str
    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"{', '.join(f'%{v}' for v in self.operands)}   einsum {self.equation!r}"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A value times factors that are known only when the plan runs: sizes of types, and the weight of a rule."""

    # None means 1
    value: int | None
    # for each axis of the value, its place among the axes of the sum; the value is constant along the other axes
    axes: tuple[int, ...] = ()
    coefficient: float = 1.0
    counts: tuple[Axis, ...] = ()
    weight: int | None = None

    def __str__(self) -> str:
        parts = [] if abs(self.coefficient) == 1 else [f"{abs(self.coefficient):g}"]
        parts += [f"|{axis.type}|" for axis in self.counts]
        parts += [f"w{self.weight + 1}"] if self.weight is not None else []
        if self.value is not None:
            parts.append(f"%{self.value}({','.join(chr(ord('a') + k) for k in self.axes)})")
        return f"{'-' if self.coefficient < 0 else '+'} {' '.join(parts) or '1'}"


@dataclass(frozen=True, slots=True)
class Combine:
    """A sum of scaled values, each broadcast over the axes it lacks."""

    terms: tuple[Scaled, ...]
    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return " ".join(map(str, self.terms)).removeprefix("+ ") or "0"


@dataclass(frozen=True, slots=True)
class Multiply:
    """The product of a value along one of its axes, for a quantifier."""

    value: int
    over: int
    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"%{self.value}   product over axis {self.over}"


@dataclass(frozen=True, slots=True)
class Others:
    """For every entity along an axis, the product over all other entities: the derivative of `Multiply`."""

    value: int
    over: int
    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"%{self.value}   product of the others along axis {self.over}"


Step = Read | Weigh | Compare | Contract | Combine | Multiply | Others


def inputs(step: Step) -> tuple[int, ...]:
    """The values that a step is computed from."""
    if isinstance(step, Contract):
        return step.operands
    if isinstance(step, Combine):
        return tuple(term.value for term in step.terms if term.value is not None)
    if isinstance(step, (Multiply, Others)):
        return (step.value,)
    return ()


@dataclass(frozen=True, slots=True)
class Message:
    """A part of dV/dq for one predicate: a scaled value, added at the atoms that a `Read` reads."""

    read: int
    term: Scaled
    # whether the value is equal to its transpose
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The plan of one rule: its text, its place, its groundings and the terms of its violation count."""

    text: str
    span: Span | None = field(compare=False)
    # the ranges of the variables of the formula, or of each clause, those with weights per constant last; the product
    # of their sizes is the number of groundings
    groundings: tuple[tuple[Axis, ...], ...]
    n_weight_axes: int
    n_atoms: int
    # the largest latent predicate in the rule, for reduce="mean"
    spread: tuple[Axis, ...]
    n_clauses: int
    # scalars that add up to the expected number of violations
    counts: tuple[Scaled, ...]
    # scalars that add up to the weighted violations, for a rule with one weight per constant
    energies: tuple[Scaled, ...] | None
    # the values that this rule is the first to need
    values: tuple[int, ...]

    def n_groundings(self, sizes: Mapping[str, int]) -> int:
        return sum(math.prod(axis.size(sizes) for axis in ranges) for ranges in self.groundings)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to compute all messages and counts: the steps in order, without branches or loops.

    Attributes:
        steps: the values in order; step k computes value %k.
        messages: the message to each predicate, as a sum of values.
        rules: the violation count of each rule.
        constant: values that depend only on evidence: computed once per call.
        for_messages: values that the messages need.
        for_counts: values that the counts need.
        sizes: the number of constants of each type that the plan was made for.
        is_sized: whether the plan is right only for these sizes: a quantifier was written out, or a value was sliced.
    """

    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    rules: tuple[RulePlan, ...]
    constant: frozenset[int]
    for_messages: tuple[int, ...]
    for_counts: tuple[int, ...]
    sizes: tuple[tuple[str, int], ...]
    is_sized: bool = False

    def elements(self, value: int) -> int:
        """The number of elements of a value."""
        sizes = dict(self.sizes)
        return math.prod(axis.size(sizes) for axis in self.steps[value].axes)

    def multiply_adds(self, value: int) -> int:
        """The number of multiplications in a step."""
        step, sizes = self.steps[value], dict(self.sizes)
        if isinstance(step, Contract):
            ranges: dict[str, Axis] = {}
            for letters, operand in zip(step.equation.split("->")[0].split(","), step.operands, strict=True):
                ranges.update(zip(letters, self.steps[operand].axes, strict=True))
            return math.prod(axis.size(sizes) for axis in ranges.values())
        if isinstance(step, (Combine, Multiply, Others)):
            return max(self.elements(v) for v in (value, *inputs(step)))
        return 0

    @property
    def cost(self) -> Cost:
        sizes = dict(self.sizes)
        groundings = [rule.n_groundings(sizes) for rule in self.rules]
        made = [v for v in self.for_messages if not isinstance(self.steps[v], (Read, Weigh))]
        return Cost(
            groundings=sum(groundings),
            # for every atom of every grounding, the product of the other atoms
            naive=sum(g * rule.n_atoms * max(1, rule.n_atoms - 1)
                      for g, rule in zip(groundings, self.rules, strict=True)),
            once=sum(self.multiply_adds(v) for v in made if v in self.constant),
            each=sum(self.multiply_adds(v) for v in made if v not in self.constant),
            steps_once=sum(v in self.constant for v in made),
            steps_each=sum(v not in self.constant for v in made),
            largest=max((self.elements(v) for v in self.for_messages), default=0),
        )

    def __str__(self) -> str:
        shown: set[int] = set()
        lines: list[str] = []
        for rule in self.rules:
            lines.append(rule.text)
            for value in rule.values:
                if value in shown or (value not in self.for_messages and value not in self.for_counts):
                    continue
                shown.add(value)
                once = "   (once)" if value in self.constant else ""
                lines.append(f"  %{value} = {self.steps[value]}{once}")
            total = " ".join(map(str, rule.counts)).removeprefix("+ ") or "0"
            lines += [f"  violations = {total}", ""]
        lines.append("messages")
        for value in self.for_messages:
            if value not in shown:
                lines.append(f"  %{value} = {self.steps[value]}{'   (once)' if value in self.constant else ''}")
        for message in self.messages:
            read = self.steps[message.read]
            assert isinstance(read, Read)
            sign = -1 if read.negated else 1
            term = Scaled(message.term.value, message.term.axes, sign * message.term.coefficient, message.term.counts,
                          message.term.weight)
            plain = Read(read.predicate, read.args, read.axes, False, read.labels, read.apart)
            lines.append(f"  d/d{plain} {'-=' if term.coefficient < 0 else '+='} {str(term)[2:]}")
        return "\n".join([*lines, "", str(self.cost)]) + "\n"

    def to_graph(self) -> Html:
        """A drawing: a box for each step, with arrows to the steps that use its value, and the message it ends in."""
        used = sorted({*self.for_messages, *self.for_counts})
        place = {value: k for k, value in enumerate(used)}
        labels = [f"%{value} = {self.steps[value]}" for value in used]
        arrows = [(place[operand], place[value]) for value in used for operand in inputs(self.steps[value])]
        by_atom: dict[str, list[int]] = {}
        for message in self.messages:
            values = by_atom.setdefault(f"message to {self.steps[message.read]}", [])
            # a message without a value is a constant
            values += [] if message.term.value is None else [place[message.term.value]]
        for label, values in by_atom.items():
            labels.append(label)
            arrows += [(k, len(labels) - 1) for k in dict.fromkeys(values)]
        return graph(labels, arrows, f"plan of {len(used)} steps and {len(by_atom)} messages")

    def _repr_html_(self) -> str:
        return fragment(self.to_graph(), code(str(self.cost)))

    def to_dict(self) -> dict[str, object]:
        """The plan as JSON data: every step, message and count, and the cost."""
        return {
            "sizes": dict(self.sizes),
            "steps": [{"value": v, "step": str(step), "once": v in self.constant, "elements": self.elements(v),
                       "multiply_adds": self.multiply_adds(v)} for v, step in enumerate(self.steps)
                      if v in self.for_messages or v in self.for_counts],
            "rules": [{"rule": rule.text, "line": rule.span.line if rule.span else None,
                       "groundings": rule.n_groundings(dict(self.sizes)),
                       "violations": [str(term) for term in rule.counts]} for rule in self.rules],
            "messages": [{"to": str(self.steps[m.read]), "term": str(m.term)} for m in self.messages],
            "cost": self.cost.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one iteration, compared with the cost of computing every grounding (`naive`)."""

    groundings: int
    naive: int
    once: int
    each: int
    steps_once: int
    steps_each: int
    largest: int

    def to_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__} | {"largest_bytes": 4 * self.largest}

    def __str__(self) -> str:
        return (f"groundings {quantity(self.groundings)}; multiply-adds per iteration: naive {quantity(self.naive)}, "
                f"planned {quantity(self.each)} in {self.steps_each} steps"
                + (f", and once {quantity(self.once)} in {self.steps_once} steps" if self.steps_once else "")
                + f"; largest value {quantity(self.largest)} elements, {quantity(4 * self.largest)}B in float32")


def quantity(number: float) -> str:
    """Format a number with three digits: 622, 6.22k, 622G.

    >>> quantity(6.22e11), quantity(42), quantity(1500)
    ('622G', '42', '1.5k')
    """
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}E"
