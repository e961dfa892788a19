"""Joins of sorted columns: the rows of a product of literals, counted before they are made.

Room: facts, normalize -> **ground** -> plan, execute.

    F(x,y) F(y,z) F(x,z)      rows (x, y, z), and for each literal the row of its own list: 4 bytes each

A closed join, as this one, is made in pieces: only the rows that the last literal keeps are stored.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..facts.supports import Support, make_keys, split_keys
from ..normalize.cubes import Const, Differ, Same, Term, Var
from .join import Guard, Rows, ragged_ranges

# rows of a closed join that are made at once
PIECE = 2**18


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows of a table as an engine of SQL reads them; `sql.py` writes the text.

    Attributes:
        table: its name; its columns are a0, a1, ... and place.
        columns: the values of a0, a1, ...
        places: the values of place; None for row numbers.
        expressions: for each variable of the pattern, its value in terms of the columns.
        where: conditions that every row satisfies.
    """

    table: str
    columns: tuple[np.ndarray, ...]
    places: np.ndarray | None
    expressions: tuple[str, ...]
    where: tuple[str, ...] = ()


@dataclass(eq=False)
class Pattern:
    """Bindings of some variables, each tuple once, with the place of each row in a list of values."""

    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    # the number of constants of each variable
    sizes: tuple[int, ...]
    # the value that each row reads; None where row k reads value k
    places: np.ndarray | None = None
    # the same rows in terms of a predicate's table; None for rows that were computed
    source: Selection | None = None
    # whether these are a share of the rows, and other processes have the others
    is_share: bool = False
    # by argument numbers; shared by all patterns of the same rows
    _indexes: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)
    _pointers: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> int:
        return len(self.columns[0])

    def column(self, name: str) -> np.ndarray:
        return self.columns[self.names.index(name)]

    def size(self, name: str) -> int:
        return self.sizes[self.names.index(name)]

    def take(self, rows: np.ndarray) -> Pattern:
        """The rows with these numbers."""
        places = rows.astype(np.int32) if self.places is None else self.places[rows]
        return Pattern(self.names, tuple(column[rows] for column in self.columns), self.sizes, places,
                       is_share=self.is_share)

    def renamed(self, names: tuple[str, ...]) -> Pattern:
        """The same rows with other names for the variables."""
        return Pattern(names, self.columns, self.sizes, self.places, self.source, self.is_share, self._indexes,
                       self._pointers)

    def index(self, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Rows in the order of some variables, and their keys in that order."""
        at = tuple(self.names.index(n) for n in names)
        if at not in self._indexes:
            if at:
                keys = make_keys([self.columns[k] for k in at], [self.sizes[k] for k in at])
            else:
                keys = np.zeros(self.n, dtype=np.int64)
            is_sorted = bool((keys[1:] >= keys[:-1]).all())
            order = np.arange(self.n) if is_sorted else sort_order(keys)
            self._indexes[at] = order, keys if is_sorted else keys[order]
        return self._indexes[at]

    def pointers(self, name: str) -> np.ndarray:
        """Where the rows of each constant of a variable begin, in the order of `index`."""
        at = (self.names.index(name),)
        if at not in self._pointers:
            self._pointers[at] = np.concatenate([[0], np.cumsum(self.degrees(name))])
        return self._pointers[at]

    def degrees(self, name: str) -> np.ndarray:
        """How many rows each constant of a variable has."""
        return np.bincount(self.column(name), minlength=self.size(name))


def sort_order(keys: np.ndarray) -> np.ndarray:
    """The rows in the order of their keys, equal ones in the order they have.

    >>> sort_order(np.array([3, 1, 3, 0])).tolist()
    [3, 1, 0, 2]
    """
    n = len(keys)
    if n and int(keys.max()) < 2**31 and n < 2**32:
        # sorting numbers is many times faster than sorting places
        packed = np.sort((keys.astype(np.int64) << 32) | np.arange(n))
        return packed & 0xFFFFFFFF
    return np.argsort(keys, kind="stable")


def select(support: Support, args: Sequence[Term], windows: Mapping[str, tuple[int, int]],
           conditions: Iterable[Same | Differ] = ()) -> Pattern:
    """The rows that one literal can read: constants selected, repeated variables and offsets resolved.

    Args:
        windows: the smallest and the last but one value of each variable.
        conditions: of variables that all are arguments of this literal.
    """
    keep: np.ndarray | None = None

    def require(mask: np.ndarray) -> None:
        nonlocal keep
        keep = mask if keep is None else keep & mask

    found: dict[str, np.ndarray] = {}
    sizes: dict[str, int] = {}
    for arg, column, size in zip(args, support.columns, support.sizes, strict=True):
        if isinstance(arg, Const):
            require(column == arg.index)
            continue
        value = column - np.int32(arg.offset) if arg.offset else column
        if arg.name in found:
            require(found[arg.name] == value)
            continue
        found[arg.name], sizes[arg.name] = value, size
        low, high = windows[arg.name]
        if arg.offset or low > 0 or high < size:
            require((value >= low) & (value < high))
    for condition in conditions:
        left, right = (found[t.name] + t.offset if isinstance(t, Var) else t.index
                       for t in (condition.left, condition.right))
        require(np.asarray((left == right) == isinstance(condition, Same)))
    names = tuple(found)
    if keep is None or bool(keep.all()):
        # a literal without variables has one row, if any
        columns = tuple(found[n] for n in names) or (np.zeros(len(support), dtype=np.int32),)
        return Pattern(names, columns, tuple(sizes[n] for n in names) or (1,), support.places,
                       is_share=support.is_share)
    rows = np.flatnonzero(keep).astype(np.int32)
    places = rows if support.places is None else support.places[rows]
    columns = tuple(found[n][rows] for n in names) or (np.zeros(len(rows), dtype=np.int32),)
    return Pattern(names, columns, tuple(sizes[n] for n in names) or (1,), places, is_share=support.is_share)


class Listed:
    """The atoms of a literal over a sparse predicate as a relation of `join`.

    Args:
        number: of the literal; rows keep the place of its atom under this number.
        pattern: the rows of the list that the literal can read; of a literal that is not negated, those where it can
            be true.
        can: by place, whether the literal can be true there.
        is_negated: a negated literal is true for all atoms outside the list, and binds no variables.
        keep_places: whether the places are needed, because the evidence does not decide all atoms.
    """

    def __init__(self, number: int, pattern: Pattern, can: np.ndarray, is_negated: bool, keep_places: bool):
        self.number, self.pattern, self.can, self.is_negated, self.keep_places = (
            number, pattern, can, is_negated, keep_places)
        self.names = pattern.names
        self.sizes = pattern.sizes[: len(self.names)]
        self.n = None if is_negated else pattern.n

    def filter(self, rows: Rows) -> Rows:
        order, keys = self.pattern.index(self.names)
        if not len(keys):
            place = np.full(rows.n, -1, dtype=np.int32)
        else:
            own = self._keys(rows, self.names)
            at = np.searchsorted(keys, own).clip(0, len(keys) - 1)
            place = np.where(keys[at] == own, self._places(order[at]), np.int32(-1))
        if self.keep_places:
            rows.places[self.number] = place
        return rows.keep(np.append(self.can, self.is_negated)[place])

    def ranges(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        shared = tuple(n for n in self.names if n in rows.columns)
        if not shared:
            return np.zeros(rows.n, dtype=np.int64), np.full(rows.n, self.pattern.n, dtype=np.int64)
        if len(shared) == 1:
            pointers, own = self.pattern.pointers(shared[0]), rows.columns[shared[0]]
            return pointers[own], pointers[own + 1] - pointers[own]
        keys, own = self.pattern.index(shared)[1], self._keys(rows, shared)
        first = np.searchsorted(keys, own, "left")
        return first, np.searchsorted(keys, own, "right") - first

    def bind(self, rows: Rows, tuples: np.ndarray) -> Rows:
        shared = tuple(n for n in self.names if n in rows.columns)
        row = self.pattern.index(shared)[0][tuples] if shared else tuples
        for name in self.names:
            if name not in shared:
                rows.columns[name] = self.pattern.column(name)[row]
        if self.keep_places:
            rows.places[self.number] = self._places(row)
        return rows

    def _keys(self, rows: Rows, names: tuple[str, ...]) -> np.ndarray:
        if not names:
            return np.zeros(rows.n, dtype=np.int64)
        return make_keys([rows.columns[n] for n in names], [self.pattern.size(n) for n in names])

    def _places(self, row: np.ndarray) -> np.ndarray:
        return row.astype(np.int32) if self.pattern.places is None else self.pattern.places[row]


@dataclass
class Joined:
    """The rows of a join: columns of variables, and the place that each row reads in each pattern."""

    n: int
    columns: dict[str, np.ndarray]
    places: dict[int, np.ndarray]
    # for how many rows each stands; None for one
    counts: np.ndarray | None = None

    def take(self, chosen: np.ndarray) -> Joined:
        return Joined(len(chosen), {name: x[chosen] for name, x in self.columns.items()},
                      {k: x[chosen] for k, x in self.places.items()})


class _Pile:
    """The rows of a join while it is made, in pieces.

    Each column grows in memory of its own, by doubling: what is not used yet takes none, and what was outgrown is
    returned at once. Pieces that are collected and joined at the end leave holes of their own size on the heap.
    """

    def __init__(self) -> None:
        self.n = 0
        self._only: Joined | None = None
        self._rooms: list[dict[Any, np.ndarray]] = [{}, {}]

    def add(self, piece: Joined) -> None:
        if self._only is None and not self.n:
            # one piece alone: no copies
            self._only, self.n = piece, piece.n
            return
        if self._only is not None:
            first, self._only, self.n = self._only, None, 0
            self._append(first)
        self._append(piece)

    def _append(self, piece: Joined) -> None:
        added: tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]] = piece.columns, piece.places
        for rooms, new in zip(self._rooms, added, strict=True):
            for key, x in new.items():
                if key not in rooms or self.n + piece.n > len(rooms[key]):
                    length = max(2 * (self.n + piece.n), PIECE)
                    room: np.ndarray = np.frombuffer(mmap.mmap(-1, length * x.itemsize), x.dtype)
                    room[: self.n] = rooms[key][: self.n] if key in rooms else ()
                    rooms[key] = room
                rooms[key][self.n : self.n + piece.n] = x
        self.n += piece.n

    def rows(self) -> Joined | None:
        """All rows; None if there are no pieces."""
        if self._only is not None or (not self._rooms[0] and not self._rooms[1]):
            return self._only or (Joined(self.n, {}, {}) if self.n else None)
        columns, places = ({key: room[: self.n] for key, room in rooms.items()} for rooms in self._rooms)
        return Joined(self.n, columns, places)


def estimate_rows(patterns: Sequence[Pattern]) -> float:
    """About how many rows a join has; exact for one pattern, and for two that share one variable."""
    order = join_order(patterns)
    first = patterns[order[0]]
    total, bound = float(first.n), {n: first.size(n) for n in first.names}
    for step, k in enumerate(order[1:]):
        p = patterns[k]
        shared = [n for n in p.names if n in bound]
        if step == 0 and len(shared) == 1:
            # floats, because two hubs can have more rows than an int64 counts
            total = float(first.degrees(shared[0]).astype(float) @ p.degrees(shared[0]))
        else:
            total *= p.n / math.prod(p.size(n) for n in shared)
        bound |= {n: p.size(n) for n in p.names}
    return total


def join_order(patterns: Sequence[Pattern]) -> list[int]:
    """The smallest pattern first; then those whose variables are bound, then those with the fewest rows for each."""
    left = list(range(len(patterns)))
    order = [min(left, key=lambda k: patterns[k].n)]
    left.remove(order[0])
    bound = set(patterns[order[0]].names)
    while left:
        best = min((not set(p.names) <= bound, bound.isdisjoint(p.names),
                    p.n / math.prod(p.size(n) for n in p.names if n in bound), k)
                   for k, p in ((k, patterns[k]) for k in left))[-1]
        order.append(best)
        left.remove(best)
        bound |= set(patterns[best].names)
    return order


def join_patterns(patterns: Sequence[Pattern], wanted: Iterable[int], keep: Iterable[str], guard: Guard,
                  conditions: Sequence[Differ] = ()) -> Joined:
    """All bindings that are in every pattern.

    Args:
        wanted: patterns whose places are needed.
        keep: variables whose columns are needed.
        guard: called with the number of rows so far.
        conditions: pairs of terms that differ in every row.
    """
    order, wanted_set, kept = join_order(patterns), set(wanted), set(keep)
    in_conditions = {t.name for d in conditions for t in (d.left, d.right) if isinstance(t, Var)}
    # the variables that are needed after each step
    needed = [kept | in_conditions | {n for k in order[step + 1 :] for n in patterns[k].names}
              for step in range(len(order))]
    done = _Pile()
    total = 0

    def finish(rows: Joined) -> None:
        nonlocal total
        for d in conditions:
            left, right = (rows.columns[t.name] + t.offset if isinstance(t, Var) else t.index
                           for t in (d.left, d.right))
            rows = rows.take(np.flatnonzero(left != right))
        total += rows.n
        guard(total)
        done.add(Joined(rows.n, {n: x for n, x in rows.columns.items() if n in kept}, rows.places))

    def extend(rows: Joined, step: int) -> None:
        if step == len(order):
            finish(rows)
            return
        k, p = order[step], patterns[order[step]]
        shared = tuple(n for n in p.names if n in rows.columns)
        at, keys = p.index(shared)
        own = make_keys([rows.columns[n] for n in shared], [p.size(n) for n in shared]) if shared else np.zeros(
            rows.n, dtype=np.int64)
        first = np.searchsorted(keys, own, "left")
        if len(shared) == len(p.names):
            inside = first.clip(0, max(len(keys) - 1, 0))
            hit = np.flatnonzero(keys[inside] == own) if len(keys) else np.zeros(0, dtype=np.int64)
            extend(_extended(rows.take(hit), p, k, at[inside[hit]], (), step), step + 1)  # noqa: F821
            return
        counts = np.searchsorted(keys, own, "right") - first
        ends = np.cumsum(counts)
        start = 0
        while start < rows.n:
            base = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, base + PIECE, "right")))
            guard(total + int(ends[stop - 1] - base) if step + 1 == len(order) and not conditions else total)
            row, place = ragged_ranges(first[start:stop], counts[start:stop])
            piece = rows.take(row + start)
            new = tuple(n for n in p.names if n not in shared)
            extend(_extended(piece, p, k, at[place], new, step), step + 1)  # noqa: F821
            start = stop

    def _extended(rows: Joined, p: Pattern, k: int, place: np.ndarray, new: tuple[str, ...], step: int) -> Joined:
        columns = {**rows.columns, **{n: p.column(n)[place] for n in new}}
        places = rows.places
        if k in wanted_set:
            places = {**places, k: (place if p.places is None else p.places[place]).astype(np.int32)}
        return Joined(rows.n, {n: x for n, x in columns.items() if n in needed[step]}, places)

    first = patterns[order[0]]
    guard(first.n if len(order) == 1 else 0)
    # one pattern alone: no copies
    columns = {n: c for n, c in zip(first.names, first.columns, strict=False) if n in needed[0]}
    places = {}
    if order[0] in wanted_set:
        places[order[0]] = np.arange(first.n, dtype=np.int32) if first.places is None else first.places
    extend(Joined(first.n, columns, places), 1)
    # a function that calls itself would keep the patterns until garbage is collected
    del extend
    empty = np.zeros(0, dtype=np.int32)
    return done.rows() or Joined(0, dict.fromkeys(kept, empty), dict.fromkeys(wanted_set, empty))


def project(columns: Sequence[np.ndarray], names: tuple[str, ...], sizes: tuple[int, ...],
            union: Callable[[np.ndarray], np.ndarray] = lambda keys: keys) -> tuple[Pattern, np.ndarray]:
    """The distinct tuples of some columns, and the number of each row's tuple among them.

    Args:
        union: from the distinct keys of these columns, those of all processes that have a share of the rows.
    """
    own, number = np.unique(make_keys(columns, sizes), return_inverse=True)
    keys, number = union(own), number.reshape(-1)
    if keys is not own:
        number = np.searchsorted(keys, own)[number]
    return Pattern(names, split_keys(keys, sizes), sizes), number.astype(np.int32)


def box(names: tuple[str, ...], windows: Sequence[tuple[int, int]], sizes: tuple[int, ...]) -> Pattern:
    """All bindings of some variables."""
    spans = [max(0, high - low) for low, high in windows]
    numbers = split_keys(np.arange(math.prod(spans), dtype=np.int64), spans)
    columns = tuple(column + np.int32(low) for column, (low, _) in zip(numbers, windows, strict=True))
    return Pattern(names, columns, sizes)
