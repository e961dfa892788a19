"""Find the groundings of a product that can be true, by joins over the atoms that the evidence leaves possible.

Room: ground.  Paper: Eq. 1, the groundings G_f.

    Friends(x,y) Smokes(x) !Smokes(y)      Friends closed with 3 facts: 3 rows (x, y) for any number of people

Each literal is a relation: a table of the atoms for which it can be true, or a list of them (patterns.py). Tables that
exclude no atom are skipped; the others are joined smallest first. The number of rows of each step is computed before
the rows are made, and they are made in pieces, each of which goes through all later steps before the next is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..normalize.cubes import Differ, Same, Term, Var

# called with the number of rows of a step before they are made; raises an error if they are too many
Guard = Callable[[int], None]
# rows that are made at once
PIECE = 2**20
# rows of a step of which later steps may keep few
MAX_STEP = 2**27


@dataclass
class Rows:
    """Bindings of some variables, one column per variable."""

    n: int = 1
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    # by literal over a list, the place of its atom in the list, -1 outside of it
    places: dict[int, np.ndarray] = field(default_factory=dict)

    def value(self, term: Term) -> np.ndarray:
        """The number of a term's constant in each row."""
        if isinstance(term, Var):
            return self.columns[term.name] + term.offset
        return np.full(self.n, term.index, dtype=np.int64)

    def take(self, chosen: np.ndarray) -> Rows:
        """The rows with these numbers."""
        return Rows(len(chosen), {name: column[chosen] for name, column in self.columns.items()},
                    {k: place[chosen] for k, place in self.places.items()})

    def keep(self, mask: np.ndarray) -> Rows:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def knows(self, term: Term) -> bool:
        return not isinstance(term, Var) or term.name in self.columns


class Relation(Protocol):
    """What a literal allows: it keeps some rows, and binds variables that are free in them."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def n(self) -> int | None:
        """The number of its tuples; None if it cannot bind variables."""

    def filter(self, rows: Rows) -> Rows:
        """The rows that it allows, whose columns have all its variables."""

    def ranges(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The first tuple that agrees with each row, and how many do; they are numbered one after the other."""

    def bind(self, rows: Rows, tuples: np.ndarray) -> Rows:
        """The rows with the new variables of these tuples, numbered as in `ranges`."""


class Table:
    """A relation as a table of truth over some variables, each an axis of all constants of its type."""

    def __init__(self, names: tuple[str, ...], table: np.ndarray):
        self.names, self.table, self.sizes = names, table, table.shape
        self.n = int(np.count_nonzero(table))
        self._entries: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}

    @property
    def is_full(self) -> bool:
        return self.n == self.table.size

    def filter(self, rows: Rows) -> Rows:
        return rows.keep(np.broadcast_to(self.table[tuple(rows.columns[name] for name in self.names)], (rows.n,)))

    def ranges(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        bound = tuple(k for k, name in enumerate(self.names) if name in rows.columns)
        keys = self._sorted(bound)[0]
        wanted = np.zeros(rows.n, dtype=np.int64)
        for k in bound:
            wanted = wanted * self.sizes[k] + rows.columns[self.names[k]]
        first = np.searchsorted(keys, wanted, "left")
        return first, np.searchsorted(keys, wanted, "right") - first

    def bind(self, rows: Rows, tuples: np.ndarray) -> Rows:
        bound = tuple(k for k, name in enumerate(self.names) if name in rows.columns)
        new = [k for k in range(len(self.names)) if k not in bound]
        rest = self._sorted(bound)[1][tuples]
        for k, column in zip(new, np.unravel_index(rest, [self.sizes[k] for k in new]), strict=True):
            rows.columns[self.names[k]] = column.astype(np.int64)
        return rows

    def _sorted(self, bound: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The true entries sorted by the bound axes, as two numbers: of these axes, and of the others."""
        if bound not in self._entries:
            new = [k for k in range(len(self.names)) if k not in bound]
            n_new = int(np.prod([self.sizes[k] for k in new], dtype=np.int64))
            keys, rest = np.nonzero(self.table.transpose(*bound, *new).reshape(-1, n_new))
            self._entries[bound] = keys, rest
        return self._entries[bound]


class _Window:
    """All values of one variable."""

    def __init__(self, name: str, window: tuple[int, int]):
        self.names, self.low, self.n = (name,), window[0], max(0, window[1] - window[0])
        self.sizes = (self.n,)

    def filter(self, rows: Rows) -> Rows:
        return rows

    def ranges(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(rows.n, dtype=np.int64), np.full(rows.n, self.n, dtype=np.int64)

    def bind(self, rows: Rows, tuples: np.ndarray) -> Rows:
        rows.columns[self.names[0]] = tuples + self.low
        return rows


def table_of(table: np.ndarray, args: tuple[Term, ...], sizes: Mapping[str, int]) -> Table:
    """The table of a literal over its variables: constants selected, repeated variables and offsets resolved.

    >>> table_of(np.eye(3, dtype=bool), (Var("x"), Var("x")), {"x": 3}).table
    array([ True,  True,  True])
    """
    names = tuple(dict.fromkeys(arg.name for arg in args if isinstance(arg, Var)))
    if len(names) == len(args) and not any(isinstance(arg, Var) and arg.offset for arg in args):
        return Table(names, table)
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
    return Table(names, np.broadcast_to(table[tuple(places)], shape) & inside)


def join(relations: Iterable[Relation], conditions: Sequence[Same | Differ], windows: Mapping[str, tuple[int, int]],
         guard: Guard) -> Iterator[Rows]:
    """All bindings of the variables, each within its window, that satisfy every relation and every condition.

    Args:
        guard: called with a number of rows that all satisfy everything, before they are made.
    """
    pending = [r for r in relations if not (isinstance(r, Table) and r.is_full)]
    return _join(Rows(), pending, list(conditions), windows, guard)


def _join(rows: Rows, pending: list[Relation], left: list[Same | Differ], windows: Mapping[str, tuple[int, int]],
          guard: Guard) -> Iterator[Rows]:
    has_bound = True
    while has_bound:
        rows, pending = _filter(rows, pending)
        rows, left, has_bound = _apply(rows, left, windows)
    binding = [r for r in pending if r.n is not None]
    free = [name for name in windows if name not in rows.columns]
    if not free:
        if rows.n:
            yield rows
        return
    # unrestricted variables one at a time, because a condition may bind the next one
    best = min(binding, key=lambda r: (r.n or 0) / _n_bound(r, rows)) if binding else _Window(free[0], windows[free[0]])
    rest = [r for r in pending if r is not best]
    first, counts = best.ranges(rows)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    if (not rest and not left and set(free) <= set(best.names)) or total > MAX_STEP:
        guard(total)
    for start in range(0, total, PIECE):
        if total <= PIECE:
            row, number = ragged_ranges(first, counts)
        else:
            at = np.arange(start, min(start + PIECE, total))
            row = np.searchsorted(ends, at, "right")
            number = at - (ends - counts)[row] + first[row]
        piece = _window(best.bind(rows.take(row), number), best.names, windows)
        yield from _join(piece, rest, left, windows, guard)


def _n_bound(relation: Relation, rows: Rows) -> int:
    n = 1
    for name, size in zip(relation.names, relation.sizes, strict=True):
        n *= size if name in rows.columns else 1
    return n


def _filter(rows: Rows, pending: list[Relation]) -> tuple[Rows, list[Relation]]:
    """Apply the relations whose variables are all bound."""
    left = []
    for r in pending:
        if all(name in rows.columns for name in r.names):
            rows = r.filter(rows)
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
