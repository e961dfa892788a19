"""The value of a normal form under given marginals, by plain loops: what the cubes mean, without any tensor plan."""

import itertools
import math

from logicmp.normalize.cubes import Const, Differ, Literal, Same


def term_value(term, at):
    return term.index if isinstance(term, Const) else at[term.name] + term.offset


def values(range_, sizes):
    return range(-range_.low, sizes[range_.type] - range_.high)


def factor_value(factor, at, q, sizes):
    if isinstance(factor, (Same, Differ)):
        return float((term_value(factor.left, at) == term_value(factor.right, at)) == isinstance(factor, Same))
    if isinstance(factor, Literal):
        p = q[factor.predicate][tuple(term_value(t, at) for t in factor.args)]
        if factor.labels is not None:
            return float(sum(p[k] for k in factor.labels))
        return float(1 - p if factor.negated else p)
    return math.prod(
        sum(c * cube_value(cube, q, sizes, {**at, factor.over.name: v}) for c, cube in factor.terms)
        for v in values(factor.over, sizes))


def cube_value(cube, q, sizes, outer=None):
    if any(sizes[t] < n for t, n in cube.needs):
        return 0.0
    total = 0.0
    for choice in itertools.product(*(values(v, sizes) for v in cube.variables)):
        at = {**(outer or {}), **{v.name: x for v, x in zip(cube.variables, choice, strict=True)}}
        total += math.prod(factor_value(f, at, q, sizes) for f in cube.factors)
    return total


def violations(rule, q, sizes):
    return sum(c * cube_value(cube, q, sizes) for c, cube in rule.terms) / rule.n_clauses
