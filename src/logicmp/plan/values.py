"""Values and their contractions, each added only once.

Room: normalize -> **plan** -> execute.  Paper: Section 3.2, "Einsum optimization".

    C(a,b) C(b,c) -> ac   and   C(x,y) C(y,z) -> xz     are one value; of a symmetric C, so is  C(a,b) C(c,b) -> ac

A contraction is written in a canonical way before it is looked up, so the names of its indices do not matter. Messages,
cubes and rules share values this way, without a later pass over the plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import opt_einsum

from ..errors import CostError, Span
from .steps import Axis, Combine, Contract, Read, Scaled, Step, inputs

# a value, with a name for each of its axes
Operand = tuple[int, tuple[str, ...]]
Name = TypeVar("Name")
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Values:
    """The steps so far, without duplicates."""

    def __init__(self, sizes: Mapping[str, int], observed: Collection[str], symmetric_predicates: Collection[str]):
        self.sizes = sizes
        self.observed = observed
        self.symmetric_predicates = symmetric_predicates
        self.steps: list[Step] = []
        # whether the value depends on a latent predicate
        self.live: list[bool] = []
        # values with two axes that are equal to their transpose
        self.symmetric: set[int] = set()
        self._known: dict[Step, int] = {}
        # the rule that is planned, for errors
        self.span: Span | None = None

    def add(self, step: Step) -> int:
        """Return the number of a step, adding the step if it is new."""
        if step not in self._known:
            self._symbols(range(len(step.axes)))
            self._known[step] = len(self.steps)
            self.steps.append(step)
            is_latent = isinstance(step, Read) and step.predicate not in self.observed
            self.live.append(is_latent or any(self.live[v] for v in inputs(step)))
            if isinstance(step, Read) and step.predicate in self.symmetric_predicates and _is_square(step):
                self.symmetric.add(self._known[step])
            if isinstance(step, Combine) and self._is_symmetric_sum(step):
                self.symmetric.add(self._known[step])
        return self._known[step]

    def size(self, axis: Axis) -> int:
        return axis.size(self.sizes)

    def _symbols(self, names: Iterable[Name]) -> dict[Name, str]:
        """A letter for each index of one step."""
        distinct = list(dict.fromkeys(names))
        if len(distinct) > len(LETTERS):
            raise CostError(f"this rule needs a value with {len(distinct)} indices (limit {len(LETTERS)})", self.span,
                            "use fewer variables in one rule, and fewer arguments in one predicate")
        return dict(zip(distinct, LETTERS, strict=False))

    # contractions

    def contract(self, operands: Iterable[Operand], keep: Collection[str]) -> Operand | None:
        """Multiply operands in pairs, in the cheapest order; sum over all indices not kept; None for no operands."""
        todo = list(operands)
        if len(todo) > 2:
            for pair in self._path(todo, keep):
                chosen = [todo.pop(k) for k in sorted(pair, reverse=True)]
                needed = set(keep).union(*(letters for _, letters in todo))
                todo.append(self._one_or_two(chosen[::-1], needed))
        return self._one_or_two(todo, keep) if todo else None

    def _path(self, operands: list[Operand], keep: Collection[str]) -> list[tuple[int, ...]]:
        names = list(dict.fromkeys(name for _, letters in operands for name in letters))
        # more letters than `LETTERS` has: the path may have any number of indices, one step may not
        symbol = {name: opt_einsum.get_symbol(k) for k, name in enumerate(names)}
        terms = ["".join(symbol[name] for name in letters) for _, letters in operands]
        output = "".join(symbol[name] for name in names if name in keep)
        shapes = [tuple(self.size(axis) for axis in self.steps[v].axes) for v, _ in operands]
        # "dp" is optimal also for an index of three operands; "optimal" of opt_einsum 3.4 is not
        equation = f"{','.join(terms)}->{output}"
        for optimize in ("dp", "auto") if len(operands) <= 12 else ("auto",):
            try:
                path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=optimize)
                return list(path)
            except RuntimeError:
                # "dp" finds no order for some equations with factors that share no index
                continue
        raise AssertionError(f"no order found for {equation}")

    def _one_or_two(self, operands: list[Operand], keep: Collection[str]) -> Operand:
        if len(operands) == 1:
            return self._sum(operands[0], keep)
        # an index of only one operand is summed first
        left, right = operands
        return self._pair(self._sum(left, {*keep, *right[1]}), self._sum(right, {*keep, *left[1]}), keep)

    def _sum(self, operand: Operand, keep: Collection[str]) -> Operand:
        value, letters = operand
        kept = tuple(name for name in letters if name in keep)
        if kept == letters:
            return operand
        if value in self.symmetric and kept == letters[1:]:
            letters = letters[::-1]
        symbol = self._symbols(letters)
        equation = f"{''.join(symbol[n] for n in letters)}->{''.join(symbol[n] for n in kept)}"
        axes = tuple(self.steps[value].axes[letters.index(name)] for name in kept)
        return self.add(Contract((value,), equation, axes)), kept

    def _pair(self, left: Operand, right: Operand, keep: Collection[str]) -> Operand:
        """Add one contraction of two values, written as the first in order of all equal equations."""
        ways = []
        for one, other in ((left, right), (right, left)):
            if one[0] <= other[0]:
                for a, b in itertools.product(self._orders(one), self._orders(other)):
                    ways.append(((one[0], other[0]), *self._equation(a, b, keep)))
        operands, equation, output = min(ways, key=lambda way: way[1])
        axis_of = dict(zip((*left[1], *right[1]),
                           (*self.steps[left[0]].axes, *self.steps[right[0]].axes), strict=True))
        value = self.add(Contract(operands, equation, tuple(axis_of[name] for name in output)))
        if len(output) == 2 and any(way[1] == equation and way[2] == output[::-1] for way in ways):
            self.symmetric.add(value)
        return value, output

    def _orders(self, operand: Operand) -> list[tuple[str, ...]]:
        return [operand[1], operand[1][::-1]] if operand[0] in self.symmetric else [operand[1]]

    def _equation(self, left: tuple[str, ...], right: tuple[str, ...],
                  keep: Collection[str]) -> tuple[str, tuple[str, ...]]:
        """Return the equation and its output: shared indices, then those of the left, then of the right, as in bmm."""
        shared = tuple(n for n in left if n in right and n in keep)
        output = (*shared, *(n for n in left if n in keep and n not in right),
                  *(n for n in right if n in keep and n not in left))
        symbol = self._symbols((*left, *right))
        text = ["".join(symbol[n] for n in names) for names in (left, right, output)]
        return f"{text[0]},{text[1]}->{text[2]}", output

    # sums

    def combine(self, terms: Iterable[Scaled], axes: tuple[Axis, ...]) -> Scaled:
        """Return a sum of scaled values as one; a single term is not changed, and a common weight stays outside."""
        merged = self.add_up(terms)
        if len(merged) == 1:
            return merged[0]
        weights = {term.weight for term in merged}
        common = next(iter(weights)) if len(weights) == 1 else None
        inside = tuple(replace(term, weight=None) if common is not None else term for term in merged)
        used = sorted({k for term in inside for k in term.axes})
        packed = tuple(replace(term, axes=tuple(used.index(k) for k in term.axes)) for term in inside)
        value = self.add(Combine(packed, tuple(axes[k] for k in used)))
        return Scaled(value, tuple(used), weight=common)

    def add_up(self, terms: Iterable[Scaled]) -> list[Scaled]:
        """Merge terms that differ only in their coefficient, or in the order of a symmetric value's axes."""
        sums: dict[Scaled, float] = {}
        for term in terms:
            axes = tuple(sorted(term.axes)) if term.value in self.symmetric else term.axes
            key = replace(term, axes=axes, coefficient=1.0)
            sums[key] = sums.get(key, 0.0) + term.coefficient
        return [replace(key, coefficient=total) for key, total in sums.items() if total]

    def _is_symmetric_sum(self, step: Combine) -> bool:
        if len(step.axes) != 2 or step.axes[0] != step.axes[1]:
            return False
        swapped = (replace(term, axes=tuple(1 - k for k in term.axes)) for term in step.terms)
        return set(self.add_up(swapped)) == set(self.add_up(step.terms))


def _is_square(read: Read) -> bool:
    return len(read.axes) == 2 and read.axes[0] == read.axes[1] and all(at.offset == 0 for at in read.args)
