"""Which factors of a cube are multiplied next: the variable that costs the fewest rows is summed out first.

Room: facts, normalize, ground -> **plan** -> execute.

    C(a,b) C(b,c) D(c)      D(c) and C(b,c) first: one row for each C(b,c)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ..ground.patterns import Pattern, estimate_rows
from ..normalize.cubes import Differ
from ..normalize.cubes import Term as CubeTerm
from .forms import Operand


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor of a cube: where it is not zero, and the value that it reads there."""

    names: tuple[str, ...]
    # factors with equal keys have equal rows, up to the names of their variables; they can read different labels
    key: Hashable
    # None: it is read everywhere, at the place that its terms and shape give
    pattern: Pattern | None = None
    terms: tuple[CubeTerm, ...] = ()
    shape: tuple[int, ...] = ()
    # what it reads: nothing (it is 1), a value, or numbers
    operand: Operand | None = None
    numbers: np.ndarray | None = None
    conditions: tuple[Differ, ...] = ()


def next_bucket(factors: list[Factor], keep: tuple[str, ...]) -> tuple[list[Factor], list[Factor]]:
    """The factors to multiply next, so that a variable can be summed out, and the others."""
    names = list(dict.fromkeys(n for f in factors for n in f.names if n not in keep))
    patterns = [f for f in factors if f.pattern is not None and f.names]
    scalars = [f for f in factors if not f.names]
    if not names:
        return factors, []
    # a variable of one literal only is summed out of it alone, as a value that all rules share
    for f in patterns:
        alone = {n for n in f.names if n in names and not any(n in g.names for g in factors if g is not f)}
        if alone and len(patterns) > 1 and alone != set(f.names):
            return [f], [g for g in factors if g is not f]
    best: tuple[float, list[Factor], list[Factor]] | None = None
    for name in names:
        bucket, bound = _bucket(name, factors)
        rest = [f for f in factors if f not in bucket]
        cost = _cost(bucket)
        if [f for f in rest if f.names]:
            # an intermediate pays if its rows and those of the rest are fewer than the rows of all together
            output = len({n for f in rest for n in f.names} & bound) > 1
            cost += _cost(rest) + (cost if output else 0)
        if best is None or cost < best[0]:
            best = cost, bucket, rest
    assert best is not None
    whole = [f for f in factors if f.names]
    if best[2] and _is_connected(whole) and _cost(whole) <= best[0]:
        return whole, scalars
    return best[1], best[2]


def _bucket(name: str, factors: list[Factor]) -> tuple[list[Factor], set[str]]:
    """All factors with a variable, those that their variables close, and a pattern for each of their variables."""
    bound = {n for f in factors if name in f.names for n in f.names}
    while True:
        bucket = [f for f in factors if f.names and set(f.names) <= bound]
        open_names = bound - {n for f in bucket if f.pattern is not None for n in f.names}
        if not open_names:
            return bucket, bound
        binding = [f.pattern for f in factors if f.pattern is not None and not open_names.isdisjoint(f.names)]
        bound |= set(min(binding, key=lambda p: p.n).names)


def _cost(factors: Sequence[Factor]) -> float:
    patterns = [f.pattern for f in factors if f.pattern is not None and f.names]
    return estimate_rows(patterns) if patterns else 0.0


def _is_connected(factors: list[Factor]) -> bool:
    bound: set[str] = set(factors[0].names)
    left = factors[1:]
    while left:
        near = [f for f in left if bound & set(f.names)]
        if not near:
            return False
        bound |= {n for f in near for n in f.names}
        left = [f for f in left if f not in near]
    return True


def bucket_key(bucket: Sequence[Factor], names: tuple[str, ...]) -> Hashable:
    number: dict[str, int] = {}
    for f in bucket:
        for n in f.names:
            number.setdefault(n, len(number))
    return (tuple((f.key, tuple(number[n] for n in f.names)) for f in bucket), tuple(number[n] for n in names))
