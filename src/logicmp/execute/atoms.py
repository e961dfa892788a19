"""Atoms by process: each has the atoms that its rows read, numbered anew, and one process owns each atom.

Room: ground, plan -> **execute**.

    take       whole [batch, n_1, ..., n_k, ...], the same in all processes  ->  [batch, own places, ...]
    add_up     what the rows of each process add to its places               ->  the sum, wherever a place is
    whole      [batch, own places, ...]                                      ->  whole, the same in all processes

So an array of marginals has as many entries as the process has atoms. A value at a shared place is the same in all
processes that have it, and so is its gradient: `take` and `whole` are each other's derivative, and so are `add_up` and
`copy`. Predicates that a term without sparse literals reads, and dense ones with both orders or with values of
variables, stay whole in every process.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..facts.supports import Support, rows_type
from ..ground.engine import Shares
from ..ground.places import Places, find_places
from ..normalize.cubes import Cube, Literal, Product
from ..parse.theory import Argument, Predicate, Theory, Type
from ..plan.forms import Form, Grouped, Made, ReadAll, RowPlan


class Part:
    """The places of a value that one process has.

    Args:
        found: the places.
        shape: the dimensions of the places in all processes; their product is the number of places.
        width: values of one place, which lie together in the columns of rows.
        device: of the values.
    """

    def __init__(self, found: Places, shape: tuple[int, ...], width: int, device: torch.device):
        self.found, self.shape, self.width, self.shares = found, shape, width, found.shares
        self.n_shared = found.n_shared
        # entries of a place in a flat array: values, or labels
        self.per_place = width
        self.places, self.is_own = (torch.from_numpy(x).to(device) for x in (found.places, found.is_own))

    def __len__(self) -> int:
        return len(self.places)

    def add_flat(self, x: np.ndarray) -> np.ndarray:
        """Like `add_up`, in place, for a flat array [places * values or labels] and without gradients."""
        self.found.add_up(self._by_place(x))
        return x

    def keep_owned(self, x: np.ndarray) -> np.ndarray:
        """Set the values of shared places that others own to 0, in place, in an array as for `add_flat`."""
        shared = self.found.shared
        self._by_place(x)[shared[~self.found.is_own[shared]]] = 0
        return x

    def _by_place(self, x: np.ndarray) -> np.ndarray:
        """A view of a flat array with one line for each place: its values, or its labels."""
        return x.reshape(len(self), self.per_place)

    def add_up(self, x: Tensor, dim: int) -> Tensor:
        """Add up the values of shared places over all processes; dimension `dim` has places * width entries."""
        if not self.n_shared:
            return x
        table = x.reshape(*x.shape[:dim], len(self), self.width, *x.shape[dim + 1 :])
        return self._add_up(table, dim).reshape(x.shape)

    def _add_up(self, x: Tensor, dim: int) -> Tensor:
        found: Tensor = _AddUp.apply(self, dim, x)  # type: ignore[no-untyped-call]
        return found

    def copy(self, x: Tensor, dim: int) -> Tensor:
        """The same values, for use with the rows of this process: gradients are added up; `dim` has the places."""
        if not (self.n_shared and torch.is_grad_enabled() and x.requires_grad):
            return x
        found: Tensor = _Copy.apply(self, dim, x)  # type: ignore[no-untyped-call]
        return found

    def take(self, x: Tensor) -> Tensor:
        """The places of this process, of a tensor [batch, *shape, ...] that all processes have."""
        found: Tensor = _Take.apply(self, x)  # type: ignore[no-untyped-call]
        return found

    def whole(self, x: Tensor) -> Tensor:
        """The tensor [batch, *shape, ...] of all processes, from what each owns; [batch, places, ...] in."""
        found: Tensor = _Whole.apply(self, x)  # type: ignore[no-untyped-call]
        return found

    def owned(self, x: Tensor) -> Tensor:
        """Of [batch, places, ...], the places that count in this process."""
        return self.copy(x, 1)[:, self.is_own]

    def sum_shared(self, x: Tensor, dim: int) -> Tensor:
        """The sum over all processes, in a new tensor, without a record for gradients."""
        found = x.clone(memory_format=torch.contiguous_format)
        table = found.movedim(dim, 0)
        for piece in self.found.pieces():
            at, slots = (torch.from_numpy(column).to(x.device) for column in piece[:2])
            everywhere = table.new_zeros(piece[2], *table.shape[1:])
            everywhere[slots] = table[at]
            table[at] = self.shares.all_reduce(everywhere)[slots]
        return found

    def gather(self, x: Tensor) -> Tensor:
        """Like `whole`, without a record for gradients."""
        # no sums of 16 bits between processes
        everywhere = torch.zeros(len(x), self.found.n, *x.shape[2:], device=x.device,
                                 dtype=torch.promote_types(x.dtype, torch.float32))
        everywhere[:, self.places[self.is_own]] = x[:, self.is_own].to(everywhere.dtype)
        found: Tensor = self.shares.all_reduce(everywhere).to(x.dtype)
        return found.reshape(len(x), *self.shape, *x.shape[2:])


class _AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Part, dim: int, x: Tensor) -> Tensor:
        ctx.part, ctx.dim = part, dim
        return part.sum_shared(x, dim)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, ctx.part.copy(gradients[0], ctx.dim)


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Part, dim: int, x: Tensor) -> Tensor:
        ctx.part, ctx.dim = part, dim
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, ctx.part._add_up(gradients[0], ctx.dim)


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Part, x: Tensor) -> Tensor:
        ctx.part = part
        return x.flatten(1, len(part.shape))[:, part.places]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, ctx.part.whole(gradients[0])


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Part, x: Tensor) -> Tensor:
        ctx.part = part
        return part.gather(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, ctx.part.take(gradients[0])


def take_parts(rows: RowPlan, chosen: Mapping[str, tuple[tuple[int, ...], int]], shares: Shares,
               device: torch.device) -> dict[Hashable, Part]:
    """Number the places of a plan's values anew, those of this process only; the plan's columns are replaced.

    Args:
        chosen: by predicate, the dimensions of its places and the values of each place.
        shares: the processes.
        device: of the values.

    Returns:
        the part of this process by predicate, and by number of a value that is made of rows.
    """
    grouped = {k for value in rows.values if isinstance(value, Grouped) for k, _ in value.parts}
    made = {k: value for k, value in enumerate(rows.values) if isinstance(value, Made)}
    sizes: dict[Hashable, tuple[tuple[int, ...], int]] = {name: size for name, size in chosen.items()}  # noqa: C416
    sizes |= {k: ((value.n_places,), 1) for k, value in made.items() if k not in grouped}
    forms = {id(form): form for form in (*(value.form for value in made.values()),
                                         *(root.form for root in rows.roots))}
    parts: dict[Hashable, Part] = {}
    for key, (shape, width) in sizes.items():
        # each column once, with the forms that have it
        columns: dict[int, tuple[np.ndarray, list[tuple[Form | Made, int]]]] = {}
        for form in forms.values():
            for j, operand in enumerate(form.operands):
                value = rows.values[operand.value]
                if (value.predicate if isinstance(value, ReadAll) else operand.value) == key:
                    columns.setdefault(id(form.columns[j]), (form.columns[j], []))[1].append((form, j))
        if key in made:
            columns.setdefault(id(made[key].output), (made[key].output, []))[1].append((made[key], 0))
        found = find_places([column for column, _ in columns.values()], math.prod(shape), width, shares)
        numbers = found.numbers()
        while columns:
            # one after the other, so that each old one is released
            column, users = columns.pop(next(iter(columns)))
            new = numbers[column] if width == 1 else numbers[column // width] * np.int32(width) + column % width
            for user, j in users:
                if isinstance(user, Made):
                    user.output = new
                else:
                    user.columns = (*user.columns[:j], new, *user.columns[j + 1 :])
            del column
        if key in made:
            made[key].n_places = len(found)
        parts[key] = Part(found, shape, width, device)
    return parts


def divide_atoms(rows: RowPlan, flat: Theory, sizes: Mapping[str, int], supports: Mapping[str, Support],
                 shares: Shares, device: torch.device) -> tuple[dict[Hashable, Part], Theory]:
    """The parts of a plan, and the theory in which a divided predicate has one argument, the number of an atom.

    Args:
        rows: the plan; its columns are replaced.
        flat: the theory in which sparse predicates have the numbers of their values as arguments.
        sizes: the number of constants of each type.
        supports: the sparse predicates.
        shares: the processes.
        device: of the values.
    """
    whole = _read_whole(rows)
    chosen: dict[str, tuple[tuple[int, ...], int]] = {}
    for p in flat.predicates:
        support = supports.get(p.name)
        if support is not None:
            chosen[p.name] = (support.n_values // support.width,), support.width
        elif p.types and not p.symmetric and not p.functional and p.name not in whole:
            chosen[p.name] = tuple(sizes[t] for t in p.types), 1
    parts = take_parts(rows, chosen, shares, device)
    for p in flat.predicates:
        if p.name in parts and p.labels is not None:
            parts[p.name].per_place = len(p.labels)
    return parts, _flattened(flat, [name for name in chosen if name not in supports])


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


def _flattened(theory: Theory, names: Sequence[str]) -> Theory:
    return Theory((*theory.types, *(Type(rows_type(name)) for name in names)),
                  tuple(Predicate(p.name, (Argument(rows_type(p.name)),), p.labels, span=p.span) if p.name in names
                        else p for p in theory.predicates), theory.rules)
