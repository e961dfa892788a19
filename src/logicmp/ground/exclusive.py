"""A hard "at most one", written as a rule, as a variable with one value for each choice.

Room: ground.

    !M(x,y) v !M(x,z) v y = z.      over 50 x and 200 y: 1,990,000 groundings, all in cliques of 200 atoms
    M(x, y?)                        50 variables with 201 values each, and no rule

Both allow the same worlds with the same weights, so every method that sums over worlds or searches them may use the
second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..facts.world import World, one_value_each
from ..normalize.budget import Budget
from ..normalize.cubes import Differ, Literal, Var
from ..normalize.expand import Expander, rename_apart, variable_ranges
from ..parse.syntax import Atom, Equal, Not, atoms
from ..parse.theory import Predicate, Rule, Theory


def merge_exclusive(world: World) -> World:
    """The same worlds, with each hard rule of the form `!M(x,y) v !M(x,z) v y = z` as `M(x, y?)`, and a note on it.

    >>> from logicmp import parse_facts, parse_theory
    >>> from logicmp.facts.world import build_world
    >>> theory = parse_theory("t = {A, B}\\nM(t, t)\\nM(x, y) ^ M(x, z) => y = z.")
    >>> merged = merge_exclusive(build_world(parse_facts("", theory)))
    >>> print(*merged.theory.predicates, len(merged.theory.rules))
    M(t, t?) 0
    """
    for rule in world.theory.rules:
        found = find_at_most_one(rule, world.theory)
        if found is None or found[0] in world.supports:
            continue
        name, place = found
        if ((world.values[name] == 1).sum(place) > 1).any():
            # the evidence violates the rule: grounding it says where
            continue
        world = _merge(world, rule, name, place)
    return world


def find_at_most_one(rule: Rule, theory: Theory) -> tuple[str, int] | None:
    """The predicate and the argument that has at most one value for all others, if a hard rule says only that."""
    leaves = list(atoms(rule.formula))
    if not rule.is_hard or len(leaves) != 3 or sum(isinstance(leaf, Equal) for leaf in leaves) != 1:
        return None
    names = {leaf.predicate for leaf in leaves if isinstance(leaf, Atom)}
    predicate = theory.predicate[next(iter(names))]
    if len(names) > 1 or predicate.is_categorical or predicate.symmetric:
        return None
    formula = rename_apart(rule.formula)
    cubes = Expander(theory, variable_ranges(formula), Budget(rule)).expand(Not(formula))
    if len(cubes) != 1:
        return None
    factors = cubes[0][1].factors
    literals = [f for f in factors if isinstance(f, Literal) and not f.negated]
    apart = [f for f in factors if isinstance(f, Differ)]
    if (len(factors), len(literals), len(apart)) != (3, 2, 1):
        return None
    return _one_argument(predicate, literals[0], literals[1], apart[0])


def _one_argument(predicate: Predicate, one: Literal, other: Literal, apart: Differ) -> tuple[str, int] | None:
    """The only argument in which two literals differ, if it is the one that the condition compares."""
    differing = [k for k, (a, b) in enumerate(zip(one.args, other.args, strict=True)) if a != b]
    if len(differing) != 1 or {one.args[differing[0]], other.args[differing[0]]} != {apart.left, apart.right}:
        return None
    terms = {*one.args, *other.args}
    # different variables without offsets, so that every value is compared with every other
    if len(terms) != len(one.args) + 1 or not all(isinstance(t, Var) and not t.offset for t in terms):
        return None
    return predicate.name, differing[0]


def _merge(world: World, rule: Rule, name: str, place: int) -> World:
    old = world.theory.predicate[name]
    if old.is_categorical:
        # a second rule about the same predicate: a matching has only one direction as values
        return world
    arguments = tuple(replace(a, mark="?") if k == place else a for k, a in enumerate(old.arguments))
    new = replace(old, arguments=arguments)
    theory = replace(world.theory, rules=tuple(r for r in world.theory.rules if r is not rule),
                     predicates=tuple(new if p.name == name else p for p in world.theory.predicates))
    values: Mapping[str, np.ndarray] = {**world.values, name: world.values[name].copy()}
    one_value_each(new, values[name])
    where = f"line {rule.span.line}" if rule.span is not None else "a hard rule"
    note = f"{where} allows at most one {old.types[place]} in {name}: treated as {new}"
    return replace(world, theory=theory, values=values, warnings=(*world.warnings, note))
