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
from typing import Any

import numpy as np

from ..normalize.cubes import NormalForm
from .steps import quantity


@dataclass(frozen=True)
class ReadAll:
    """The marginals of a predicate, flat: of a sparse one, the values of its rows; of labels, the sum of a set."""

    predicate: str
    labels: frozenset[int] | None = None

    def __str__(self) -> str:
        return self.predicate if self.labels is None else f"{self.predicate}, labels {sorted(self.labels)}"


@dataclass(frozen=True)
class WeightsOf:
    """The weights of a rule with one weight per constant, flat."""

    rule: int

    def __str__(self) -> str:
        return f"weights of rule {self.rule + 1}"


@dataclass(frozen=True)
class Present:
    """1 for each entity of a masked type that exists, 0 for padding."""

    type: str


@dataclass(frozen=True)
class Operand:
    """A value of a form, or one minus it."""

    value: int
    negated: bool = False


@dataclass(eq=False)
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


@dataclass(eq=False)
class Made:
    """A form that is summed by a column: one number for each place."""

    form: Form
    output: np.ndarray
    n_places: int


@dataclass(frozen=True, eq=False)
class Grouped:
    """For each place, the product of base + (sum of values) over its rows; 1 where a place has no rows."""

    # values over the same rows, with their coefficients
    parts: tuple[tuple[int, float], ...]
    # the place of each row, in order
    output: np.ndarray
    n_places: int
    # subtract 1, so that places without rows are 0
    minus_one: bool
    # 1 for a quantifier that is 1 where it has no rows; 0 for one that is 0 there: only places with all rows are read
    base: float = 1.0


Value = ReadAll | WeightsOf | Present | Made | Grouped


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
        short: the keys of lists of such terms, of one variable each, which do not count as rows.
    """

    values: tuple[Value, ...]
    live: tuple[bool, ...]
    roots: tuple[Root, ...]
    constants: tuple[float, ...]
    dense: NormalForm
    short: frozenset[Hashable] = frozenset()

    @property
    def n_rows(self) -> int:
        """The rows of all lists over sparse predicates, each counted once."""
        forms = {f.key: f.n_rows for f in (*(v.form for v in self.values if isinstance(v, Made)),
                                            *(root.form for root in self.roots)) if f.key not in self.short}
        return sum(forms.values())

    @property
    def n_bytes(self) -> int:
        """The bytes of the columns of all lists, each counted once."""
        forms = [*(v.form for v in self.values if isinstance(v, Made)), *(root.form for root in self.roots)]
        columns = [*(v.output for v in self.values if isinstance(v, (Made, Grouped))),
                   *(column for form in forms for column in form.columns)]
        return sum({id(column): column.nbytes for column in columns}.values())

    def to_dict(self) -> dict[str, Any]:
        """The lists of rows for JSON: what each one sums, by rule or as a value."""
        return {"rows": self.n_rows, "bytes": self.n_bytes, "lists": str(self).splitlines()[:-1]}

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
