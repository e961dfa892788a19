"""Hard "at most one" and "exactly one", written as rules, as variables with one value for each choice.

Room: ground.

    !M(x,y) v !M(x,z) v y = z.      over 50 x and 200 y: 1,990,000 groundings, all in cliques of 200 atoms
    M(x, y?)                        50 variables with 201 values each, and no rule
    EXIST y M(x,y).                 in addition: M(x, y!), 200 values each

Both allow the same worlds with the same weights, so every method may use the second. If the atoms of M are listed, each
variable has the values of its own atoms in the list.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..facts.supports import make_support
from ..facts.world import World, one_value_each
from ..normalize.budget import Budget
from ..normalize.cubes import Differ, Literal, Var
from ..normalize.expand import Expander, rename_apart, variable_ranges
from ..parse.syntax import Atom, Equal, Exists, Not, Variable, atoms
from ..parse.theory import Predicate, Rule, Theory

# listed values are stored in rows as long as the longest: places for values that may be empty, for each listed atom
MAX_EMPTY = 8


def merge_exclusive(world: World) -> World:
    """The same worlds, with each hard rule of the form `!M(x,y) v !M(x,z) v y = z` as `M(x, y?)`, and a note on it.

    A hard rule `EXIST y M(x,y)` then makes it `M(x, y!)`.

    >>> from logicmp import parse_facts, parse_theory
    >>> from logicmp.facts.world import build_world
    >>> theory = parse_theory("t = {A, B}\\nM(t, t)\\nM(x, y) ^ M(x, z) => y = z.")
    >>> merged = merge_exclusive(build_world(parse_facts("", theory)))
    >>> print(*merged.theory.predicates, len(merged.theory.rules))
    M(t, t?) 0
    """
    for rule in world.theory.rules:
        found = find_at_most_one(rule, world.theory)
        if found is not None:
            world = _merge(world, rule, *found)
    for rule in world.theory.rules:
        name = find_some_value(rule, world.theory)
        if name is not None:
            world = _require(world, rule, name)
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


def find_some_value(rule: Rule, theory: Theory) -> str | None:
    """The predicate whose variables must have a value, if a hard rule says only that."""
    body = rule.formula
    if not rule.is_hard or not isinstance(body, Exists) or len(body.variables) != 1:
        return None
    atom = body.body
    if not isinstance(atom, Atom) or not theory.predicate[atom.predicate].may_be_none:
        return None
    names = [arg.name for arg in atom.args if isinstance(arg, Variable) and not arg.offset]
    is_value = [k for k, name in enumerate(names) if name == body.variables[0].name]
    if len(set(names)) != len(atom.args) or tuple(is_value) != theory.predicate[atom.predicate].functional:
        return None
    return atom.predicate


def _merge(world: World, rule: Rule, name: str, place: int) -> World:
    """The world with values of a predicate, or the same world if its atoms or the evidence do not allow them."""
    old = world.theory.predicate[name]
    if old.is_categorical:
        # a second rule about the same predicate: a matching has only one direction as values
        return world
    new = replace(old, arguments=tuple(replace(a, mark="?") if k == place else a for k, a in enumerate(old.arguments)))
    values, unary, supports = world.values[name].copy(), world.unary.get(name), world.supports
    if name in supports:
        listed = make_support(new, supports[name].columns, world.sizes)
        if listed.n_values > MAX_EMPTY * max(len(listed), 2**17):
            return world
        at = listed.find(supports[name].columns)
        shape = listed.n_values // listed.width, listed.width
        values = _scattered(values, at, shape)
        unary = None if unary is None else _scattered(unary, at, shape)
        supports = {**supports, name: listed}
    if bool(((values == 1).sum(1 if name in supports else place) > 1).any()):
        # the evidence violates the rule: grounding it says where
        return world
    changed = replace(world, theory=_with_predicate(world.theory, new), supports=supports,
                      values={**world.values, name: values},
                      unary=world.unary if unary is None else {**world.unary, name: unary})
    one_value_each(changed.stored(name), values)
    note = f"{_where(rule)} allows at most one {old.types[place]} in {name}: treated as {new}"
    return _without_rule(changed, rule, note)


def _require(world: World, rule: Rule, name: str) -> World:
    """The world in which variables must have a value, or the same world if the evidence leaves one without any."""
    old = world.theory.predicate[name]
    new = replace(old, arguments=tuple(replace(a, mark="!") if k in old.functional else a
                                       for k, a in enumerate(old.arguments)))
    values = world.values[name].copy()
    axes = old.functional
    if name in world.supports:
        axes = tuple(range(1, values.ndim))
        if len(values) < math.prod(world.sizes[t] for k, t in enumerate(old.types) if k not in old.functional):
            # grounding the rule says which variable is not listed
            return world
    n_left = (values != 0).sum(axes)
    if bool((n_left == 0).any()) or (name in world.unary and bool((n_left == 1).any())):
        # a variable without values is an error; one with a single value would lose its soft evidence
        return world
    changed = replace(world, theory=_with_predicate(world.theory, new), values={**world.values, name: values})
    one_value_each(changed.stored(name), values)
    return _without_rule(changed, rule, f"{_where(rule)} requires a value: {name} is treated as {new}")


def _scattered(x: np.ndarray, at: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Values by listed atom, at their places among the values of variables; the other places are false."""
    found = np.zeros(shape, dtype=x.dtype)
    found.reshape(-1)[at] = x
    return found


def _with_predicate(theory: Theory, new: Predicate) -> Theory:
    return replace(theory, predicates=tuple(new if p.name == new.name else p for p in theory.predicates))


def _without_rule(world: World, rule: Rule, note: str) -> World:
    theory = replace(world.theory, rules=tuple(r for r in world.theory.rules if r is not rule))
    return replace(world, theory=theory, warnings=(*world.warnings, note))


def _where(rule: Rule) -> str:
    return f"line {rule.span.line}" if rule.span is not None else "a hard rule"
