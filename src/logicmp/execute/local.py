"""Atoms by process: each has the atoms that its rows read, numbered anew, and one process owns each atom.

Room: sparse, lists -> **execute** -> inference.

    rank 0 has rows over the atoms 0 to 5, rank 1 over 4 to 9
    messages      those to 4 and 5 are added up; no other value leaves its process
    statistics    an atom counts where it is owned: 0 to 5 in rank 0, 6 to 9 in rank 1; sums are added up

So an array of marginals has as many entries as the process has atoms. Predicates that a term without sparse literals
reads, and dense ones with both orders or with values of variables, stay whole in every process. For runs without
gradients; `infer` makes them, and the layer, which takes and returns whole tensors, does not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..facts.supports import Support, flat_theory, rows_type
from ..ground.engine import Grounding, Shares
from ..normalize.build import normalize_theory
from ..normalize.cubes import Cube, Literal, Product
from ..parse.theory import Argument, Predicate, Theory, Type
from ..plan.build import MAX_ELEMENTS
from ..plan.eliminate import build_rows
from ..plan.forms import Form, Grouped, Made, ReadAll, RowPlan
from .inputs import Inputs
from .lists import flat_inputs
from .mean_field import Run
from .sparse import SparseExecutor

# places that the processes compare at once
PIECE = 2**22


@dataclass(frozen=True, eq=False)
class Part:
    """The places of a value that one process has.

    Attributes:
        places: their numbers in all processes together, in order.
        own: which of them, by position, this process owns.
        shared: which of them other processes have, too.
        slots: the number of each shared one in the list of all shared places.
        n_shared: the length of that list, the same in all processes.
        width: values of one place, which lie together.
        shares: the processes.
    """

    places: np.ndarray
    own: np.ndarray
    shared: np.ndarray
    slots: np.ndarray
    n_shared: int
    width: int
    shares: Shares

    def add_up(self, x: np.ndarray, n_labels: int = 1) -> np.ndarray:
        """Add up the values of shared places over all processes, in place."""
        if self.n_shared:
            table = x.reshape(len(self.places), self.width * n_labels)
            all_shared = np.zeros((self.n_shared, table.shape[1]))
            all_shared[self.slots] = table[self.shared]
            table[self.shared] = self.shares.total(all_shared)[self.slots]
        return x

    def take(self, x: Tensor, n_dims: int) -> Tensor:
        """The places of this process, of a tensor [batch, places..., ...] with `n_dims` dimensions of places."""
        return x.flatten(1, n_dims)[:, torch.from_numpy(self.places)]

    def whole(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The tensor of all processes from what each owns; [places, ...] in, of this shape out."""
        found = np.zeros((math.prod(shape) // max(math.prod(x.shape[1:]), 1), *x.shape[1:]))
        found[self.places[self.own]] = x.numpy()[self.own]
        return torch.from_numpy(self.shares.total(found).reshape(tuple(shape))).to(x.dtype)


def find_part(columns: Sequence[np.ndarray], n: int, width: int, shares: Shares) -> Part:
    """The places that the rows of a process read.

    Args:
        columns: of the rows; places divided by `width`.
        n: the number of places in all processes.
        width: values of one variable, which are kept together.
        shares: the processes.
    """
    rank, size = shares.share.rank, shares.share.size
    is_read = np.zeros(n, dtype=bool)
    for column in columns:
        is_read[column if width == 1 else column // width] = True
    places, own, shared, slots, n_shared, n_places = [], [], [], [], 0, 0
    for start in range(0, n, PIECE):
        here = is_read[start : start + PIECE]
        last, first = shares.maxima(np.stack([np.where(here, rank, -1), np.where(here, size - 1 - rank, -1)]))
        first = size - 1 - first
        # the first process that reads a place owns it; those that nobody reads are divided
        owner = np.where(last < 0, (start + np.arange(len(here))) * size // n, first)
        is_shared = first < last
        at = np.flatnonzero(here | (owner == rank))
        places.append(start + at)
        own.append(n_places + np.flatnonzero(owner[at] == rank))
        shared.append(n_places + np.flatnonzero(is_shared[at]))
        slots.append((n_shared + np.cumsum(is_shared) - 1)[at[is_shared[at]]])
        n_places, n_shared = n_places + len(at), n_shared + int(is_shared.sum())
    none = np.zeros(0, dtype=np.int64)
    joined = [np.concatenate([none, *pieces]) for pieces in (places, own, shared, slots)]
    return Part(joined[0], joined[1], joined[2], joined[3], n_shared, width, shares)


def take_parts(rows: RowPlan, lengths: Mapping[str, tuple[int, int]], shares: Shares) -> dict[Hashable, Part]:
    """Number the places of a plan's values anew, those of this process only; the plan's columns are replaced.

    Args:
        lengths: by predicate, its variables and the values of each.
        shares: the processes.

    Returns:
        the part of this process by predicate, and by number of a value that is made of rows.
    """
    grouped = {k for value in rows.values if isinstance(value, Grouped) for k, _ in value.parts}
    made = {k: value for k, value in enumerate(rows.values) if isinstance(value, Made)}
    sizes: dict[Hashable, tuple[int, int]] = {name: size for name, size in lengths.items()}  # noqa: C416
    sizes |= {k: (value.n_places, 1) for k, value in made.items() if k not in grouped}
    forms = {id(form): form for form in (*(value.form for value in made.values()),
                                         *(root.form for root in rows.roots))}
    found: dict[Hashable, Part] = {}
    for key, (n, width) in sizes.items():
        # each column once, with the forms that have it
        columns: dict[int, tuple[np.ndarray, list[tuple[Form | Made, int]]]] = {}
        for form in forms.values():
            for j, operand in enumerate(form.operands):
                value = rows.values[operand.value]
                if (value.predicate if isinstance(value, ReadAll) else operand.value) == key:
                    columns.setdefault(id(form.columns[j]), (form.columns[j], []))[1].append((form, j))
        if key in made:
            columns.setdefault(id(made[key].output), (made[key].output, []))[1].append((made[key], 0))
        part = found[key] = find_part([column for column, _ in columns.values()], n, width, shares)
        number = np.zeros(n, dtype=np.int32)
        number[part.places] = np.arange(len(part.places), dtype=np.int32)
        while columns:
            # one after the other, so that each old one is released
            column, users = columns.pop(next(iter(columns)))
            new = number[column] if width == 1 else number[column // width] * np.int32(width) + column % width
            for user, j in users:
                if isinstance(user, Made):
                    user.output = new
                else:
                    user.columns = (*user.columns[:j], new, *user.columns[j + 1 :])
            del column
        if key in made:
            made[key].n_places = len(part.places)
    return found


class LocalRun(Run):
    """A run on the atoms of this process."""

    def __init__(self, executor: SparseExecutor, inputs: Inputs, weights: Sequence[Tensor],
                 shapes: Mapping[str, tuple[int, ...]]):
        super().__init__(executor, inputs, weights)
        self.parts, self._shapes = executor.parts, shapes

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def whole(self, logits: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: self.parts[name].whole(x[0], self.shapes[name]) if name in self.parts else x
                for name, x in logits.items()}

    def take(self, logits: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: self._take(name, x) for name, x in logits.items()}

    def _take(self, name: str, x: Tensor) -> Tensor:
        local = self.base[name]
        return self.parts[name].take(x, x.dim() - local.dim() + 1) if name in self.parts else x

    def outputs(self, logits: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: self.parts[name].whole(x, self.shapes[name][1:]) if name in self.parts else x
                for name, x in super().outputs(logits).items()}


def make_local_run(theory: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support],
                   unary: Mapping[str, Tensor], evidence: Mapping[str, Tensor], semantics: str,
                   weights: Sequence[Tensor], grounding: Grounding) -> LocalRun:
    """A run of rules on the rows and atoms of this process; arguments as for `read_rows`."""
    shares = grounding.shares
    true = [name for name in supports if name in evidence and evidence[name].dtype == torch.bool]
    inputs = flat_inputs(theory, sizes, supports, true, unary, evidence)
    observed = (*inputs.observed, *true)
    rows = build_rows(normalize_theory(theory, semantics, sizes), sizes, supports, observed, grounding=grounding,
                      lists_short=True)
    flat = flat_theory(theory, supports, true)
    whole = _read_whole(rows)
    chosen = [p for p in flat.predicates if p.name in supports or (
        p.types and not p.symmetric and not p.functional and p.name not in whole)]
    parts = take_parts(rows, {p.name: _length(p, p.name in supports, inputs.sizes) for p in chosen}, shares)
    flat = _flattened(flat, [p for p in chosen if p.name not in supports])
    own_sizes = {**inputs.sizes, **{rows_type(p.name): len(parts[p.name].places) for p in chosen}}

    def taken(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        n_dims = {p.name: 1 if p.name in supports else len(p.types) for p in chosen}
        return {name: parts[name].take(x, n_dims[name]) if name in parts else x for name, x in tensors.items()}

    local = replace(inputs, unary=taken(inputs.unary), evidence=taken(inputs.evidence),
                    observed=taken(inputs.observed), sizes=own_sizes, shares=shares,
                    owned={name: _owned(parts[name], x) for name, x in inputs.unary.items() if name in parts})
    shapes = {name: tuple(x.shape) for name, x in inputs.unary.items()}
    del inputs
    executor = SparseExecutor(rows, flat, own_sizes, {name: s for name, s in supports.items() if name not in parts},
                              observed, MAX_ELEMENTS, local.like.device, shares, parts)
    return LocalRun(executor, local, weights, shapes)


def _read_whole(rows: RowPlan) -> set[str]:
    """The predicates of terms that run as dense tensors."""
    def literals(cube: Cube) -> set[str]:
        found: set[str] = set()
        for f in cube.factors:
            if isinstance(f, Literal):
                found.add(f.predicate)
            elif isinstance(f, Product):
                found |= {name for _, inner in f.terms for name in literals(inner)}
        return found

    return {name for rule in rows.dense.rules for _, cube in rule.terms for name in literals(cube)}


def _length(predicate: Predicate, is_sparse: bool, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The variables of a predicate, and the values of each that rows tell apart."""
    shape = [sizes[t] for t in predicate.types]
    return (shape[0], math.prod(shape[1:])) if is_sparse else (math.prod(shape), 1)


def _flattened(theory: Theory, chosen: Sequence[Predicate]) -> Theory:
    """Some dense predicates with one argument, the number of an atom in this process."""
    names = {p.name for p in chosen}
    return Theory((*theory.types, *(Type(rows_type(name)) for name in names)),
                  tuple(Predicate(p.name, (Argument(rows_type(p.name)),), p.labels, span=p.span) if p.name in names
                        else p for p in theory.predicates), theory.rules)


def _owned(part: Part, like: Tensor) -> Any:
    """1 for each atom that counts in this process, [1, places, 1, ...]."""
    found = like.new_zeros(1, len(part.places))
    found[0, torch.from_numpy(part.own)] = 1.0
    return found
