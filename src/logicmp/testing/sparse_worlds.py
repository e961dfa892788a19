"""Sparse worlds for tests: some predicates of a world as lists of atoms, and the same world with all atoms.

Room: random_models -> **sparse_worlds** -> tests of methods.

    sparse, dense = sparse_pair(world, rng)      every answer of a method must be the same for both
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..facts.supports import Support, make_support
from ..facts.world import World
from ..parse.theory import Predicate


def sparse_pair(world: World, rng: np.random.Generator, share: float = 0.6) -> tuple[World, World]:
    """A world in which some predicates are lists, and the dense one in which every atom outside the lists is false.

    Args:
        world: dense; a predicate whose variables must have a value stays dense, because none of them can be left out.
        rng: the source of every choice.
        share: of the predicates that become lists.
    """
    values, unary, supports = dict(world.values), dict(world.unary), {}
    dense = dict(world.values)
    for p in world.theory.predicates:
        is_optional = p.labels is None and (not p.functional or p.may_be_none)
        if not is_optional or len(p.functional) == len(p.arguments) or rng.random() > share:
            continue
        full = world.values[p.name]
        shape = [1 if k in p.functional else size for k, size in enumerate(full.shape)]
        mask = np.broadcast_to(rng.random(shape) < rng.choice([0.2, 0.5, 0.9]), full.shape).copy()
        mask |= np.broadcast_to((full == 1).any(p.functional, keepdims=True), full.shape)
        mask = mask | mask.T if p.symmetric else mask
        dense[p.name] = np.where(mask, full, 0).astype(full.dtype)
        at = np.nonzero(mask.any(p.functional))
        supports[p.name] = support = make_support(p, at, world.sizes)
        values[p.name] = rows_of(p, support, dense[p.name], world.sizes)
        if p.name in unary:
            unary[p.name] = rows_of(p, support, unary[p.name], world.sizes)
    return replace(world, values=values, unary=unary, supports=supports), replace(world, values=dense)


def rows_of(p: Predicate, support: Support, full: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """The values of a sparse predicate by row, from an array of all its atoms."""
    read = full[support.columns]
    found = np.zeros(support.n_values, dtype=full.dtype)
    found[np.arange(len(support)) if support.places is None else support.places] = read
    return found.reshape(-1, *(sizes[p.types[k]] for k in p.functional)) if p.functional else found
