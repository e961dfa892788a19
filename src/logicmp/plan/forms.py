"""A rule over lists of rows: values, forms over them, and all forms of a theory as a printable plan.

Room: facts, normalize, ground -> **plan** -> execute.  Paper: Section 3.2, with lists in place of tensors.

    C(a,b) C(b,c) !C(a,c)      C(a,b) C(b,c)  - C(a,b) C(b,c) C(a,c)
      %0(b) = sum of C(a,b)    %1(b) = sum of C(b,c)    + %0(b) %1(b)          one row for each b
      - C C C                                                                  one row for each triangle

A form is a sum over rows of a product of values, each read at a column of places. Messages and counts are derivatives
of forms (`execute/rows.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from ..normalize.cubes import NormalForm
from .steps import quantity


@dataclass(frozen=True)
class ReadAll:
    """The marginals of a predicate, flat: of a sparse one, the values of its rows; of labels, the sum of a set."""

    predicate: str
    labels: frozenset[int] | None = None


@dataclass(frozen=True)
class WeightsOf:
    """The weights of a rule with one weight per constant, flat."""

    rule: int


@dataclass(frozen=True)
class Operand:
    """A value of a form, or one minus it."""

    value: int
    negated: bool = False


@dataclass(frozen=True, eq=False)
class Form:
    """A sum over rows of a product of operands, each read at its column."""

    operands: tuple[Operand, ...]
    # int32, the place that each row reads; one for each operand
    columns: tuple[np.ndarray, ...]
    n_rows: int
    # what each row is multiplied by; None for 1
    factors: np.ndarray | None
    # forms with equal keys have equal columns and factors
    key: Hashable


@dataclass(frozen=True, eq=False)
class Made:
    """A form that is summed by a column: one number for each place."""

    form: Form
    output: np.ndarray
    n_places: int


@dataclass(frozen=True, eq=False)
class Grouped:
    """For each place, the product of 1 + (sum of values) over its rows; 1 where a place has no rows."""

    # values over the same rows, with their coefficients
    parts: tuple[tuple[int, float], ...]
    # the place of each row, in order
    output: np.ndarray
    n_places: int
    # subtract 1, so that places without rows are 0
    minus_one: bool


Value = ReadAll | WeightsOf | Made | Grouped


@dataclass(frozen=True, eq=False)
class Root:
    """A form that is a term of a rule's violation count."""

    form: Form
    coefficient: float
    rule: int


@dataclass(frozen=True, eq=False)
class RowPlan:
    """Forms whose sum is the violation count of each rule, without the terms that have no sparse literal.

    Attributes:
        values: the values that forms read, each after those it is made of.
        live: which values depend on an unobserved predicate.
        roots: the terms of all counts.
        constants: by rule, the part of its count that is a number.
        dense: the terms without sparse literals, by rule.
    """

    values: tuple[Value, ...]
    live: tuple[bool, ...]
    roots: tuple[Root, ...]
    constants: tuple[float, ...]
    dense: NormalForm

    @property
    def n_rows(self) -> int:
        """The rows of all lists, each counted once."""
        forms = {f.key: f.n_rows for f in (*(v.form for v in self.values if isinstance(v, Made)),
                                            *(root.form for root in self.roots))}
        return sum(forms.values())

    def __str__(self) -> str:
        lines = []
        for k, value in enumerate(self.values):
            if isinstance(value, Made):
                lines.append(f"%{k} = sum of {_shown(value.form)} by {quantity(value.n_places)} places")
            elif isinstance(value, Grouped):
                lines.append(f"%{k} = product of {quantity(len(value.output))} rows by {quantity(value.n_places)} "
                             "places")
            else:
                lines.append(f"%{k} = {value}")
        lines += [f"rule {root.rule + 1}: {root.coefficient:+g} {_shown(root.form)}" for root in self.roots]
        return "\n".join([*lines, f"{quantity(self.n_rows)} rows"]) + "\n"


def _shown(form: Form) -> str:
    operands = " ".join(f"{'!' * o.negated}%{o.value}" for o in form.operands)
    return f"{operands or '1'} over {quantity(form.n_rows)} rows"
