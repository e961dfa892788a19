"""Cubes made ready for contraction: every condition finds a place in a literal, or is multiplied out.

Stage: normalize -> **plan** -> execute.

    S(x) F(x,y) !S(y) [x!=y]      F without its diagonal
    P(x) !P(y) [x!=y]             P(x) !P(y) - P(x) !P(x), because no literal has both x and y
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..normalize.coincide import apply, split_difference, unify
from ..normalize.cubes import Const, Cube, Differ, Literal, Signed, Var, collect
from ..parse.theory import Theory


def ready(terms: tuple[Signed, ...], theory: Theory, sizes: Mapping[str, int]) -> tuple[Signed, ...]:
    """The cubes of a rule, rewritten until every condition can be a property of a literal."""
    found: list[Signed] = []
    todo = list(terms)
    while todo:
        coefficient, cube = todo.pop(0)
        if any(sizes[t] < n for t, n in cube.needs):
            continue
        parts = _split(cube, theory)
        if parts is None:
            found.append((coefficient, cube))
        else:
            todo[:0] = [(coefficient * c, part) for c, part in parts]
    return collect(found)


def _split(cube: Cube, theory: Theory) -> tuple[Signed, ...] | None:
    """One rewriting of a cube into several, or None if it needs none."""
    known = theory.sizes
    for factor in cube.factors:
        if isinstance(factor, Differ) and not hosts(cube, factor):
            own = {v.name for v in cube.variables}
            if all(isinstance(t, Const) or t.name in own for t in (factor.left, factor.right)):
                return split_difference(cube, factor, known)
    # of a symmetric predicate, products of its off-diagonal part with itself are shared: one product instead of three
    counts = Counter(f.predicate for f in cube.factors if isinstance(f, Literal))
    for factor in cube.factors:
        if not isinstance(factor, Literal) or counts[factor.predicate] < 3:
            continue
        if not theory.predicate[factor.predicate].symmetric:
            continue
        rest = tuple(f for f in cube.factors if f is not factor)
        if factor.negated:
            positive = replace(factor, negated=False)
            return (1, replace(cube, factors=rest)), (-1, replace(cube, factors=(*rest, positive)))
        left, right = factor.args
        if left != right and all(isinstance(t, Var) and not t.offset for t in (left, right)):
            apart = Differ(left, right).in_order()
            names = {v.name for v in cube.variables}
            meeting = unify([(left, right)], names.__contains__)
            if apart not in cube.factors and meeting is not None and not meeting.equal:
                met = apply(cube, meeting, known)
                off = (1, replace(cube, factors=(*cube.factors, apart)))
                return (off,) if met is None else (off, (1, met))
    return None


def hosts(cube: Cube, apart: Differ) -> list[Literal]:
    """The literals that have both terms of a condition among their arguments, unshifted."""
    if not all(isinstance(t, Var) and not t.offset for t in (apart.left, apart.right)):
        return []
    return [f for f in cube.factors if isinstance(f, Literal) and apart.left in f.args and apart.right in f.args]
