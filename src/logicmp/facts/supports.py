"""The support of a predicate: all its atoms, or a list of the atoms that can be true.

Room: parse -> **facts** -> ground, plan, execute.

    Friends(person, person)     10^6 people, 10^7 facts: columns (0, 0, 1, ...) and (7, 912, 3, ...), sorted
    outside the list            every atom is false, in every method

A predicate without a `Support` is dense: all its atoms are there, and their numbers are arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import LogicMPError
from ..parse.theory import Argument, Predicate, Theory, Type

# a predicate from files is sparse if it has more atoms than this, of which less than this share can be true
DENSE_ATOMS = 2**20
SPARSE_SHARE = 1 / 8
# row numbers are int32
MAX_ROWS = 2**31 - 1
# keys of tuples are int64
MAX_BOX = 2**62
# keys that are split at once
PIECE = 2**18


@dataclass(frozen=True, eq=False)
class Support:
    """The atoms of a predicate that can be true, each once, sorted by their arguments."""

    # int32, one for each argument
    columns: tuple[np.ndarray, ...]
    # the number of constants of each argument
    sizes: tuple[int, ...]
    # the value that each row reads; None where row k reads value k. Both orders of a symmetric atom read one value
    places: np.ndarray | None
    n_values: int
    # values of one functional variable, which lie together; 1 for other predicates
    width: int = 1
    # whether the values of each functional variable are listed, at most `width` of them
    lists_values: bool = False
    # whether other processes have the other rows
    is_share: bool = False

    def __len__(self) -> int:
        return len(self.columns[0])

    def find(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """The value that each tuple reads, -1 for tuples outside the support."""
        keys, wanted = make_keys(self.columns, self.sizes), make_keys(columns, self.sizes)
        if not len(keys):
            return np.full(len(wanted), -1, dtype=np.int64)
        order = None
        if not bool((keys[1:] > keys[:-1]).all()):
            # the values of functional arguments that are not the last ones
            order = np.argsort(keys)
            keys = keys[order]
        at = np.searchsorted(keys, wanted).clip(0, len(keys) - 1)
        found = keys[at] == wanted
        at = at if order is None else order[at]
        value = at if self.places is None else self.places[at]
        return np.where(found, value, -1)


    def entities(self, variable: int, functional: Sequence[int] = ()) -> list[int]:
        """The entities of a variable: the first row that reads its first value, without the functional arguments."""
        value = variable * self.width
        row = value if self.places is None else int(np.flatnonzero(self.places == value)[0])
        return [int(column[row]) for k, column in enumerate(self.columns) if k not in functional]


def make_keys(columns: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """One int64 for each tuple, in the order of the tuples.

    >>> make_keys([np.array([0, 1]), np.array([2, 0])], (2, 3)).tolist()
    [2, 3]
    """
    found = np.zeros(len(columns[0]) if len(columns) else 0, dtype=np.int64)
    for column, size in zip(columns, sizes, strict=True):
        found *= size
        found += column
    return found


def split_keys(keys: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, ...]:
    """The tuples of keys, as int32 columns."""
    columns = tuple(np.empty(len(keys), dtype=np.int32) for _ in sizes)
    for start in range(0, len(keys), PIECE):
        piece = keys[start : start + PIECE]
        for column, size in zip(reversed(columns), reversed(sizes), strict=True):
            piece, column[start : start + PIECE] = np.divmod(piece, max(size, 1))
    return columns


def distinct(keys: np.ndarray) -> np.ndarray:
    """The distinct keys in order: `np.unique` hashes them first, which takes ten times as long."""
    keys = np.sort(keys)
    is_new = keys[1:] != keys[:-1]
    return keys if bool(is_new.all()) else keys[np.append(True, is_new)]


def make_support(predicate: Predicate, columns: Sequence[np.ndarray], sizes: Mapping[str, int]) -> Support:
    """Sort and merge tuples of entities; of a symmetric predicate both orders are listed.

    Args:
        predicate: its functional arguments, if any, have all their values for every tuple of the others, or those that
            are listed.
        columns: one column of entity numbers for each argument; without functional ones if all their values can be
            true.
        sizes: the number of constants of each type.
    """
    key_args = [k for k in range(len(predicate.arguments)) if k not in predicate.functional]
    if not key_args:
        raise LogicMPError(f"{predicate} cannot be sparse: it has no arguments that are not values",
                           "pass all its atoms")
    box = tuple(sizes[predicate.types[k]] for k in key_args)
    if math.prod(box) >= MAX_BOX:
        raise LogicMPError(f"{predicate} has {math.prod(box):,} atoms, too many to number (limit {MAX_BOX:,})",
                           "remove constants that are not needed")
    if predicate.functional and len(columns) == len(predicate.arguments):
        return _list_values(predicate, key_args, columns, sizes)
    keys = distinct(make_keys(columns, box))
    rows = split_keys(keys, box)
    places, n_values = None, len(keys)
    if predicate.symmetric:
        low, high = np.minimum(*rows), np.maximum(*rows)
        pairs = distinct(make_keys((low, high), box))
        low, high = split_keys(pairs, box)
        both = make_keys((np.concatenate([low, high]), np.concatenate([high, low])), box)
        keys, first = np.unique(both, return_index=True)
        rows, places, n_values = split_keys(keys, box), (first % max(len(pairs), 1)).astype(np.int32), len(pairs)
    width = math.prod(sizes[predicate.types[k]] for k in predicate.functional)
    if len(rows[0]) * width > MAX_ROWS:
        raise LogicMPError(f"{predicate.name} has {len(rows[0]) * width:,} candidates (limit {MAX_ROWS:,})",
                           "give fewer candidates")
    if predicate.functional:
        rows = _with_values(predicate, key_args, rows, sizes, width)
    return Support(rows, tuple(sizes[t] for t in predicate.types), places, n_values * width, width)


def _list_values(predicate: Predicate, key_args: list[int], columns: Sequence[np.ndarray],
                 sizes: Mapping[str, int]) -> Support:
    """The values of each variable that are listed, in the order of its tensor [variables, largest number of values]."""
    order = [*key_args, *predicate.functional]
    box = [sizes[predicate.types[k]] for k in order]
    if math.prod(box) >= MAX_BOX:
        raise LogicMPError(f"{predicate} has {math.prod(box):,} atoms, too many to number (limit {MAX_BOX:,})",
                           "remove constants that are not needed")
    rows = split_keys(distinct(make_keys([columns[k] for k in order], box)), box)
    variables = make_keys(rows[: len(key_args)], box[: len(key_args)])
    starts = np.append(True, variables[1:] != variables[:-1])[: len(variables)]
    number, first = np.cumsum(starts) - 1, np.flatnonzero(starts)
    width = int(np.diff(np.append(first, len(variables))).max(initial=1))
    if len(first) * width > MAX_ROWS:
        raise LogicMPError(f"{predicate.name} has {len(first):,} variables with up to {width:,} values (limit "
                           f"{MAX_ROWS:,} in all)", "give fewer candidates to the variables that have most")
    if len(key_args) == 1 and len(first) < box[0] and not predicate.may_be_none:
        missing = int(np.flatnonzero(np.bincount(rows[0], minlength=box[0]) == 0)[0])
        raise LogicMPError(f"{predicate} has one value for each {predicate.types[key_args[0]]}, but entity {missing} "
                           "has no candidate", f"give it one, or declare {predicate.name} with ? in place of !")
    places = (number * width + np.arange(len(variables)) - first[number]).astype(np.int32)
    found = dict(zip(order, rows, strict=True))
    return Support(tuple(found[k] for k in sorted(found)), tuple(sizes[t] for t in predicate.types), places,
                   len(first) * width, width, True)


def _with_values(predicate: Predicate, key_args: list[int], rows: tuple[np.ndarray, ...], sizes: Mapping[str, int],
                 width: int) -> tuple[np.ndarray, ...]:
    """All values of each variable, in the order of its tensor [variables, values...]."""
    values = split_keys(np.arange(width, dtype=np.int64), [sizes[predicate.types[k]] for k in predicate.functional])
    n = len(rows[0])
    found = {k: np.repeat(column, width) for k, column in zip(key_args, rows, strict=True)}
    found |= {k: np.tile(column, n) for k, column in zip(predicate.functional, values, strict=True)}
    return tuple(found[k] for k in sorted(found))


def flat_theory(theory: Theory, supports: Mapping[str, Support], observed: Sequence[str] = ()) -> Theory:
    """The same predicates, each sparse one with one argument in place of its entities: the number of a value.

    Args:
        observed: sparse predicates whose rows are all true; they have no values and are left out.
    """
    predicates, types = [], []
    for p in theory.predicates:
        if p.name in observed:
            continue
        if p.name in supports:
            p = flat_predicate(p, supports[p.name])
            if supports[p.name].lists_values:
                types.append(Type(values_type(p.name)))
            types.append(Type(rows_type(p.name)))
        predicates.append(p)
    used = {t for p in predicates for t in p.types}
    return Theory((*(t for t in theory.types if t.name in used), *types), tuple(predicates), theory.rules)


def flat_predicate(p: Predicate, support: Support) -> Predicate:
    """A sparse predicate with one argument in place of its entities, and its functional ones, or the listed values."""
    kept = tuple(p.arguments[k] for k in p.functional)
    if support.lists_values:
        kept = (Argument(values_type(p.name), "?" if p.may_be_none else "!"),)
    return Predicate(p.name, (Argument(rows_type(p.name)), *kept), p.labels, span=p.span)


def rows_type(name: str) -> str:
    """The type whose entities are the values of a sparse predicate; no text can contain this name."""
    return f"rows of {name}"


def values_type(name: str) -> str:
    """The type whose entities are the candidates of one functional variable, in order."""
    return f"values of {name}"
