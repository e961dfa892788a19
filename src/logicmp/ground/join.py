"""Find the groundings of a product that can be true, by joins over the atoms that the evidence leaves possible.

Room: ground.  Paper: Eq. 1, the groundings G_f.

    Friends(x,y) Smokes(x) !Smokes(y)      Friends closed with 3 facts: 3 rows (x, y) for any number of people

Each literal is a table of the atoms for which it can be true. Tables that exclude no atom are skipped; the others are
joined smallest first. The number of rows of each step is computed before the rows are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..normalize.cubes import Differ, Same, Term, Var

# called with the number of rows of a step before they are made; raises an error if they are too many
Guard = Callable[[int], None]


@dataclass(frozen=True)
class Relation:
    """A table of truth over some variables, each an axis of all constants of its type."""

    names: tuple[str, ...]
    table: np.ndarray


def relation(table: np.ndarray, args: tuple[Term, ...], sizes: Mapping[str, int]) -> Relation:
    """The table of a literal over its variables: constants selected, repeated variables and offsets resolved.

    >>> relation(np.eye(3, dtype=bool), (Var("x"), Var("x")), {"x": 3}).table
    array([ True,  True,  True])
    """
    names = tuple(dict.fromkeys(arg.name for arg in args if isinstance(arg, Var)))
    if len(names) == len(args) and not any(isinstance(arg, Var) and arg.offset for arg in args):
        return Relation(names, table)
    shape = tuple(sizes[name] for name in names)
    inside = np.ones(shape, dtype=bool)
    places = []
    for arg, size in zip(args, table.shape, strict=True):
        if not isinstance(arg, Var):
            places.append(np.asarray(arg.index))
            continue
        axis = [1] * len(names)
        axis[names.index(arg.name)] = -1
        place = np.arange(sizes[arg.name]).reshape(axis) + arg.offset
        inside &= (place >= 0) & (place < size)
        places.append(place.clip(0, size - 1))
    return Relation(names, np.broadcast_to(table[tuple(places)], shape) & inside)


@dataclass
class Rows:
    """Bindings of some variables, one column per variable."""

    n: int = 1
    columns: dict[str, np.ndarray] = field(default_factory=dict)

    def value(self, term: Term) -> np.ndarray:
        """The number of a term's constant in each row."""
        if isinstance(term, Var):
            return self.columns[term.name] + term.offset
        return np.full(self.n, term.index, dtype=np.int64)

    def take(self, chosen: np.ndarray) -> Rows:
        """The rows with these numbers."""
        return Rows(len(chosen), {name: column[chosen] for name, column in self.columns.items()})

    def keep(self, mask: np.ndarray) -> Rows:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def knows(self, term: Term) -> bool:
        return not isinstance(term, Var) or term.name in self.columns


def join(relations: Iterable[Relation], conditions: Iterable[Same | Differ], windows: Mapping[str, tuple[int, int]],
         guard: Guard) -> Rows:
    """All bindings of the variables, each within its window, that satisfy every relation and every condition."""
    rows = Rows()
    pending = [r for r in relations if not r.table.all()]
    counts = {id(r): int(np.count_nonzero(r.table)) for r in pending}
    left = list(conditions)
    while True:
        rows, pending = _filter(rows, pending)
        rows, left, has_bound = _apply(rows, left, windows)
        if has_bound:
            continue
        if pending:
            best = min(pending, key=lambda r: counts[id(r)] / _n_bound(r, rows))
            rows = _window(_extend(rows, best, guard), best.names, windows)
            pending = [r for r in pending if r is not best]
            continue
        free = [name for name in windows if name not in rows.columns]
        if not free:
            return rows
        # unrestricted variables one at a time, because a condition may bind the next one
        rows = _cross(rows, free[0], windows[free[0]], guard)


def _n_bound(relation: Relation, rows: Rows) -> int:
    n = 1
    for name, size in zip(relation.names, relation.table.shape, strict=True):
        n *= size if name in rows.columns else 1
    return n


def _filter(rows: Rows, pending: list[Relation]) -> tuple[Rows, list[Relation]]:
    """Apply the relations whose variables are all bound."""
    left = []
    for r in pending:
        if all(name in rows.columns for name in r.names):
            rows = rows.keep(np.broadcast_to(r.table[tuple(rows.columns[name] for name in r.names)], (rows.n,)))
        else:
            left.append(r)
    return rows, left


def _apply(rows: Rows, conditions: list[Same | Differ], windows: Mapping[str, tuple[int, int]]
           ) -> tuple[Rows, list[Same | Differ], bool]:
    """Apply the conditions with both sides bound; an equality with one side bound binds the other."""
    left = []
    has_bound = False
    for condition in conditions:
        sides = (condition.left, condition.right)
        known = [rows.knows(side) for side in sides]
        if all(known):
            are_same = rows.value(sides[0]) == rows.value(sides[1])
            rows = rows.keep(are_same == isinstance(condition, Same))
        elif any(known) and isinstance(condition, Same):
            target = sides[0] if known[1] else sides[1]
            assert isinstance(target, Var)
            rows.columns[target.name] = rows.value(sides[1] if known[1] else sides[0]) - target.offset
            rows = _window(rows, (target.name,), windows)
            has_bound = True
        else:
            left.append(condition)
    return rows, left, has_bound


def _window(rows: Rows, names: Iterable[str], windows: Mapping[str, tuple[int, int]]) -> Rows:
    inside = np.ones(rows.n, dtype=bool)
    for name in names:
        low, high = windows[name]
        inside &= (rows.columns[name] >= low) & (rows.columns[name] < high)
    return rows.keep(inside)


def _extend(rows: Rows, r: Relation, guard: Guard) -> Rows:
    """One row for each way to bind the new variables of a relation."""
    bound = [k for k, name in enumerate(r.names) if name in rows.columns]
    new = [k for k, name in enumerate(r.names) if name not in rows.columns]
    shape = r.table.shape
    moved = r.table.transpose(*bound, *new)
    n_new = int(np.prod([shape[k] for k in new], dtype=np.int64))
    keys, rest = np.nonzero(moved.reshape(-1, n_new))
    wanted = np.zeros(rows.n, dtype=np.int64)
    for k in bound:
        wanted = wanted * shape[k] + rows.columns[r.names[k]]
    first, last = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
    row, place = ragged_ranges(first, last - first, guard)
    found = rows.take(row)
    for k, column in zip(new, np.unravel_index(rest[place], [shape[k] for k in new]), strict=True):
        found.columns[r.names[k]] = column.astype(np.int64)
    return found


def ragged_ranges(first: np.ndarray, counts: np.ndarray, guard: Guard = lambda n: None
                  ) -> tuple[np.ndarray, np.ndarray]:
    """The numbers first[k], ..., first[k] + counts[k] - 1 for each k, as two columns: k, and the number.

    >>> [a.tolist() for a in ragged_ranges(np.array([5, 0]), np.array([2, 1]))]
    [[0, 0, 1], [5, 6, 0]]
    """
    total = int(counts.sum())
    guard(total)
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(total) - np.repeat(counts.cumsum() - counts, counts) + first[owner]


def _cross(rows: Rows, name: str, window: tuple[int, int], guard: Guard) -> Rows:
    low, size = window[0], max(0, window[1] - window[0])
    guard(rows.n * size)
    found = rows.take(np.repeat(np.arange(rows.n), size))
    found.columns[name] = np.tile(np.arange(low, low + size, dtype=np.int64), rows.n)
    return found


# numbers stay within 64 bits
MAX_NUMBER = 2**62


def number_rows(*columns: np.ndarray) -> np.ndarray:
    """Number the rows: equal rows get equal numbers, without gaps, in the order of their values.

    >>> number_rows(np.array([7, 5, 7]), np.array([0.5, 2.0, 0.5])).tolist()
    [1, 0, 1]
    """
    found, n = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        number, n_values = _number(column)
        if n * n_values > MAX_NUMBER:
            found, n = _without_gaps(found, n)
            number, n_values = _without_gaps(number, n_values)
        found, n = found * n_values + number, n * n_values
    return _without_gaps(found, n)[0]


def _number(column: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers in the order of the values, and a bound of their count; integers are shifted to start at 0."""
    if not len(column):
        return column.astype(np.int64), 1
    if column.dtype.kind == "b":
        return column.astype(np.int64), 2
    if column.dtype.kind in "iu":
        low, high = int(column.min()), int(column.max())
        if high - low < MAX_NUMBER:
            return (column - column.dtype.type(low)).astype(np.int64), high - low + 1
    known, number = np.unique(column, return_inverse=True)
    return number, len(known)


def _without_gaps(numbers: np.ndarray, n: int) -> tuple[np.ndarray, int]:
    """The ranks of numbers below n, and how many there are; a small n needs no sorting."""
    if n > 4 * len(numbers):
        known, rank = np.unique(numbers, return_inverse=True)
        return rank, len(known)
    is_there = np.zeros(n, dtype=bool)
    is_there[numbers] = True
    ranks = np.cumsum(is_there) - 1
    return ranks[numbers], int(ranks[-1]) + 1 if n else 0
