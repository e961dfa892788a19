"""Classes of constants that nothing distinguishes, and a smaller world with a few of each.

Room: inference/bp; used by lifted.

    a thousand people without evidence, rules with two people each      three of them are enough
    Friends(A,B), A and B in the class        stands for 1000 * 999 / (3 * 2) atoms
    Smokes(A)                                 stands for 1000 / 3 atoms

Two constants are in one class if no rule names them and swapping them does not change the evidence. In the smaller
world each class has one constant more than any rule has variables of its type, so every pattern of equal and different
constants occurs, and none is the only one of its kind if it was not before. An atom or a grounding with j different
constants of a class of m, of which k are kept, stands for m (m - 1) ... / (k (k - 1) ...) of them, j factors each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...facts.supports import Support, make_support
from ...facts.world import UNKNOWN, World
from ...ground.join import number_rows
from ...ground.network import Network
from ...normalize.expand import variable_ranges
from ...parse.syntax import Atom, Constant, Equal, Exists, Forall, Formula, atoms, children, terms
from ...parse.theory import Predicate, Theory
from ..answers import with_evidence
from .graph import Scopes, mix

# atoms that get their answers at once
PIECE = 2**20


@dataclass(frozen=True)
class Classes:
    """A world with some constants of each class, and what each of them stands for."""

    # all constants, and those that are kept
    whole: World
    small: World
    # by type with classes: the class of each constant, -1 if it is alone; and the place of the first constant of its
    # class, or its own, in the smaller world
    label: Mapping[str, np.ndarray]
    first: Mapping[str, np.ndarray]
    # by type, the class of each constant of the smaller world, -1 if it is alone
    small_label: Mapping[str, np.ndarray]
    # [classes, j]: by how much the j-th different constant of a class multiplies
    ratio: np.ndarray

    def repeats(self, columns: Sequence[tuple[str, np.ndarray]], n: int) -> np.ndarray:
        """How many tuples of all constants each of n tuples of the smaller world stands for.

        Args:
            columns: the type and the constants of each place of the tuples.
        """
        keys = [np.where(self.small_label[t][column] >= 0, self.small_label[t][column] * 2**32 + column, -1)
                for t, column in columns if t in self.label]
        return self._repeats(np.stack(keys, axis=1)) if keys else np.ones(n)

    def size(self, type_name: str) -> int:
        """The number of constants of a type in the larger world."""
        return self.whole.sizes[type_name]

    def _repeats(self, keys: np.ndarray) -> np.ndarray:
        """The same for keys of constants: their class times 2^32 plus their number, negative for those alone."""
        keys = np.sort(keys, axis=1)
        found, rank = np.ones(len(keys)), np.zeros(len(keys), dtype=np.int64)
        before = np.full(len(keys), -1)
        for key in keys.T:
            is_new = (key >= 0) & (key != before)
            rank = np.where(is_new, np.where((key >> 32 == before >> 32) & (before >= 0), rank + 1, 0), rank)
            found *= np.where(is_new, self.ratio[np.where(is_new, key >> 32, 0), np.where(is_new, rank, 0)], 1.0)
            before = key
        return found

    def keys(self, network: Network) -> np.ndarray:
        """The constants of each variable of a ground network of the smaller world as keys, [variables, arguments]."""
        arity = max((len(p.types) for p in network.world.theory.predicates), default=0)
        found = np.full((len(network.cards), max(arity, 1)), -1, dtype=np.int64)
        for predicate in network.world.theory.predicates:
            numbers = network.variables[predicate.name]
            is_open = numbers >= 0
            if predicate.name in network.world.supports or not bool(is_open.any()):
                continue
            kept = [t for k, t in enumerate(predicate.types) if k not in predicate.functional]
            if not kept:
                continue
            places = np.nonzero(is_open)
            for k, t in enumerate(kept):
                if t in self.label:
                    label = self.small_label[t][places[k]]
                    found[numbers[is_open], k] = np.where(label >= 0, label * 2**32 + places[k], -1)
        return found

    def scopes(self, network: Network) -> Scopes:
        """How many sets of variables each set of variables of a ground network stands for."""
        keys = self.keys(network)

        def count(variables: np.ndarray, begins: np.ndarray) -> np.ndarray:
            found = np.ones(len(begins) - 1)
            lengths = np.diff(begins)
            for n in np.unique(lengths).tolist():
                rows = np.flatnonzero(lengths == n)
                for some in np.array_split(rows, 1 + len(rows) * n // PIECE):
                    chosen = variables[begins[some][:, None] + np.arange(n)]
                    found[some] = self._repeats(keys[chosen].reshape(len(some), -1))
            return found

        return count

    def expand(self, log_odds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The answers for all atoms, from those of the smaller world."""
        found = {}
        for predicate in self.whole.theory.predicates:
            values, odds = self.whole.values[predicate.name], log_odds[predicate.name]
            if not bool((values == UNKNOWN).any()):
                found[predicate.name] = np.broadcast_to(0.0, values.shape)
            elif not any(t in self.label for t in predicate.types):
                found[predicate.name] = odds
            else:
                found[predicate.name] = self._expand(predicate, odds, values.shape)
        return with_evidence(self.whole, found)

    def _expand(self, predicate: Predicate, odds: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        found = np.empty(shape)
        n_rows = max(1, PIECE // max(1, math.prod(shape[1:])))
        for low in range(0, shape[0], n_rows):
            rows = np.arange(low, min(shape[0], low + n_rows), dtype=np.int32)
            axes = np.ix_(rows, *(np.arange(n, dtype=np.int32) for n in shape[1 : len(predicate.types)]))
            found[rows] = odds[tuple(self._places(predicate.types, axes))]
        return found

    def _places(self, types: Sequence[str], axes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The constants of the smaller world that each atom reads: of a class the first, the second, ... in its order.

        Args:
            axes: the constants of each argument, of shapes that broadcast.
        """
        places: list[np.ndarray] = []
        for k, (t, own) in enumerate(zip(types, axes, strict=True)):
            if t not in self.label:
                places.append(own)
                continue
            place = self.first[t][own]
            for j in range(k):
                if types[j] == t:
                    is_first = np.logical_and.reduce([axes[i] != axes[j] for i in range(j) if types[i] == t] or [True])
                    same = (self.label[t][own] == self.label[t][axes[j]]) & (self.label[t][own] >= 0)
                    place = place + (same & is_first & (own != axes[j]))
            for j in range(k):
                if types[j] == t:
                    place = np.where(own == axes[j], places[j], place)
            places.append(place)
        return places


def find_classes(world: World) -> Classes | None:
    """The classes of constants of a world, None if there are none that save anything.

    Rules with quantifiers have factors over all constants of a type, so they have no smaller world.
    """
    theory = world.theory
    if any(_has_quantifier(rule.formula) for rule in theory.rules):
        return None
    types = _types(world)
    codes = _codes(world, types)
    label, kept, n_classes, sizes = {}, {}, 0, []
    for t, n_kept in types.items():
        classes = number_rows(codes[t])
        counts = np.bincount(classes)
        is_large = counts > n_kept
        if not is_large.any():
            continue
        rank = np.empty(len(classes), dtype=np.int64)
        order = np.argsort(classes, kind="stable")
        rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept[t] = np.flatnonzero(~is_large[classes] | (rank < n_kept))
        number = np.full(len(counts), -1)
        number[is_large] = n_classes + np.arange(int(is_large.sum()))
        label[t] = number[classes]
        n_classes += int(is_large.sum())
        sizes += [(int(m), n_kept) for m in counts[is_large]]
    if not label:
        return None
    # constants of one class are neighbours in the smaller world
    kept = {t: places[np.lexsort((places, label[t][places]))] for t, places in kept.items()}
    first = {}
    for t, places in kept.items():
        first[t] = np.zeros(len(label[t]), dtype=np.int64)
        first[t][places] = np.arange(len(places))
        begin = np.zeros(n_classes, dtype=np.int64)
        _, start = np.unique(label[t][places], return_index=True)
        begin[label[t][places[start]]] = start
        first[t] = np.where(label[t] >= 0, begin[label[t]], first[t])
    most = max(k for _, k in sizes)
    ratio = np.array([[(m - j) / (k - j) if j < k else 1.0 for j in range(most)] for m, k in sizes])
    return Classes(world, shrink(world, kept), label, first, {t: label[t][kept[t]] for t in kept}, ratio)


def _has_quantifier(formula: Formula) -> bool:
    return isinstance(formula, (Exists, Forall)) or any(_has_quantifier(child) for child in children(formula))


def _types(world: World) -> dict[str, int]:
    """The types that can have classes, and how many constants of a class must be kept."""
    theory = world.theory
    counts = dict.fromkeys(theory.type, 1)
    excluded: set[str] = set()
    for predicate in theory.predicates:
        for t in predicate.types:
            counts[t] = max(counts[t], predicate.types.count(t))
        # the values of a variable, and the numbers of listed atoms, depend on the constants
        excluded |= {predicate.types[k] for k in predicate.functional}
        if predicate.name in world.supports and not bool((world.values[predicate.name] == 1).all()):
            excluded |= set(predicate.types)
    for rule in theory.rules:
        ranges = variable_ranges(rule.formula)
        used = [v.type for v in ranges.values()]
        for t in used:
            counts[t] = max(counts[t], used.count(t))
        excluded |= {v.type for v in ranges.values() if v.low or v.high}
        excluded |= {rule.variables[name] for name in rule.per_constant}
    return {t: n + 1 for t, n in counts.items() if t not in excluded}


def _codes(world: World, types: Mapping[str, int]) -> dict[str, np.ndarray]:
    """By type, a number for each constant, the same for two that can be swapped.

    It is the sum of random numbers, one for each atom with the constant that differs from most atoms of its predicate;
    in the other arguments of the atom, the constant itself is only "itself".
    """
    generator = np.random.default_rng(0)
    sizes = world.sizes
    names = {t: generator.integers(2**64, size=n, dtype=np.uint64) for t, n in sizes.items()}
    found = {t: np.zeros(sizes[t], dtype=np.uint64) for t in types}
    # a constant that a rule names is alone
    for rule in world.theory.rules:
        for leaf in atoms(rule.formula):
            for t, constant in _constants(leaf):
                if t in types:
                    found[t][world.theory.index(t, constant)] = names[t][world.theory.index(t, constant)]
    itself = generator.integers(2**64, size=1, dtype=np.uint64)[0]
    for predicate in world.theory.predicates:
        salt = generator.integers(2**64, size=len(predicate.types) + 2, dtype=np.uint64)
        columns, value = _exceptions(world, predicate)
        for k, t in enumerate(predicate.types):
            if t not in types:
                continue
            total = mix(value + salt[k])
            for j, other in enumerate(predicate.types):
                if j != k:
                    code = names[other][columns[j]]
                    if other == t:
                        code = np.where(columns[j] == columns[k], itself, code)
                    total += mix(code + salt[j] + np.uint64(len(salt)))
            for column in columns[len(predicate.types) :]:
                total += mix(column.astype(np.uint64) + salt[-1])
            np.add.at(found[t], columns[k], mix(total))
    return found


def _constants(leaf: Atom | Equal) -> list[tuple[str, str]]:
    return [(term.type, term.name) for term in terms(leaf) if isinstance(term, Constant)]


def _exceptions(world: World, predicate: Predicate) -> tuple[list[np.ndarray], np.ndarray]:
    """The atoms (and labels) whose value or soft evidence is not the most frequent one: a column for each axis, and a
    code for what is known of each."""
    values = world.values[predicate.name]
    if predicate.name in world.supports:
        columns = [column.astype(np.int64) for column in world.supports[predicate.name].columns]
        return columns, np.ones(len(columns[0]), dtype=np.uint64)
    kinds = values.reshape(-1).astype(np.int64) + 1
    if predicate.name in world.unary:
        kinds = number_rows(kinds, np.broadcast_to(world.unary[predicate.name], values.shape).reshape(-1))
    usual = int(np.bincount(kinds).argmax()) if len(kinds) else 0
    at = np.flatnonzero(kinds != usual)
    return list(np.unravel_index(at, values.shape)) if values.ndim else [], kinds[at].astype(np.uint64)


def shrink(world: World, kept: Mapping[str, np.ndarray]) -> World:
    """The world with some constants of some types only.

    Args:
        kept: by type, the places of the constants, which get new ones in this order.
    """
    theory = world.theory
    types = tuple(replace(t, constants=tuple(t.constants[k] for k in kept[t.name].tolist())) if t.name in kept else t
                  for t in theory.types)
    small = Theory(types, theory.predicates, theory.rules)
    values: dict[str, np.ndarray] = {}
    unary: dict[str, np.ndarray] = {}
    supports: dict[str, Support] = {}
    for predicate in theory.predicates:
        name = predicate.name
        if name in world.supports and any(t in kept for t in predicate.types):
            columns = list(world.supports[name].columns)
            inside = np.ones(len(columns[0]), dtype=bool)
            for k, t in enumerate(predicate.types):
                if t in kept:
                    place = np.full(world.sizes[t], -1)
                    place[kept[t]] = np.arange(len(kept[t]))
                    columns[k] = place[columns[k]]
                    inside &= columns[k] >= 0
            supports[name] = make_support(predicate, [column[inside] for column in columns], small.sizes)
            # listed types have classes only if every listed atom is true
            values[name] = np.ones(supports[name].n_values, dtype=np.int8)
            continue
        if name in world.supports:
            supports[name] = world.supports[name]
        for source, target in ((world.values, values), (world.unary, unary)):
            if name in source:
                target[name] = source[name]
                for k, t in enumerate(predicate.types if name not in supports else ()):
                    if t in kept:
                        target[name] = target[name].take(kept[t], axis=k)
    return World(small, values, unary, world.closed, world.warnings, supports)
