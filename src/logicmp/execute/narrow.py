r"""Exact inference in waves over equal tables: log Z, marginals and the best world of a whole batch, differentiable.

Room: ground -> **execute** -> layer.  Paper: Eq. 1.

    up      m(s) = log sum_v exp(table(s, v) + messages)            log Z is what the roots are left with
    down    log p(s, v) = log p(v | s) + log p(s)                   no division: p(v | s) is known from the way up
    back    the gradient of marginals is a covariance, so it is one more way up and down, linear, with p(v | s) fixed

The batch is the last axis, so that every operation works on long rows. Forbidden cells have the log-weight
`NEVER`, which is finite: no infinity, and no NaN in a gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

from ..ground.elimination import Elimination, Group, strides

# log-weight of what is impossible: multiples of it are exact in float32, and nothing else comes near
NEVER = -(2.0**100)


def is_impossible(log_weight: Tensor) -> Tensor:
    """Whether a log-weight, or a sum of several, belongs to something impossible."""
    return log_weight < NEVER / 2


# below these logarithms, exp is zero here: results that are not normal numbers take up to 30 times as long
_LOWEST = {torch.float32: (-87.0, 2e-38), torch.float64: (-708.0, 4e-308)}


def _exp_(x: Tensor) -> Tensor:
    """exp in place, zero where the result would be below the smallest normal number."""
    lowest, smallest = _LOWEST[x.dtype]
    return torch.threshold_(x.clamp_min_(lowest).exp_(), smallest, 0.0)


def _max(x: Tensor, dim: int) -> Tensor:
    """The maximum along a dimension, which is kept; two slices are compared faster than they are reduced."""
    return torch.maximum(x.narrow(dim, 0, 1), x.narrow(dim, 1, 1)) if x.shape[dim] == 2 else x.amax(dim, keepdim=True)


def _sum(x: Tensor, dim: int, out: Tensor | None = None) -> Tensor:
    """The sum along a dimension, which is dropped."""
    return torch.add(x.select(dim, 0), x.select(dim, 1), out=out) if x.shape[dim] == 2 else torch.sum(x, dim, out=out)


def _log_sum(x: Tensor, dim: int) -> Tensor:
    """The log sum exp along a dimension, which is dropped; never NaN, and faster than torch's."""
    if x.shape[dim] == 1:
        return x.squeeze(dim)
    if x.shape[dim] == 2:
        return torch.logaddexp(x.select(dim, 0), x.select(dim, 1))
    top = x.amax(dim, keepdim=True)
    return _exp_(torch.sub(x, top)).sum(dim).log_().add_(top.squeeze(dim))


class _Tables:
    """The tables of one group, with the indices of its plan as tensors."""

    def __init__(self, group: Group, device: torch.device):
        def tensor(array: Any) -> Tensor:
            return torch.from_numpy(array).to(device)

        self.n, self.n_states, self.n_values = group.n, group.n_states, group.n_values
        self.rows = slice(group.row, group.row + self.n * self.n_values)
        self.messages = slice(group.message, group.message + self.n * self.n_states)
        self.cells = slice(group.cell, group.cell + self.n * self.n_states * self.n_values)
        self.n_kinds = group.n_kinds
        self.kind_cells = slice(group.kind_cell, group.kind_cell + group.n_kinds * self.n_states * self.n_values)
        self.kind = tensor(group.kind)
        self.to_values = None if group.to_values is None else tuple(map(tensor, group.to_values))
        self.to_cells = None if group.to_cells is None else tuple(map(tensor, group.to_cells))
        self.parent_rows = None if group.parent_rows is None else tensor(group.parent_rows)
        self.n_merged = 0
        if group.parent_cells is not None:
            self.n_merged = group.parent_cells.shape[1]
            self.parent_cells = tensor(group.parent_cells.reshape(-1))
        if self.to_cells is not None:
            # for each message that enters a cell, that cell
            indices, begins = self.to_cells
            ends = torch.cat([begins[1:], begins.new_tensor([len(indices)])])
            self.entered = self.cells.start + torch.repeat_interleave(
                torch.arange(len(begins), device=device), ends - begins)
        # to find a world: rows of values, the variables of the separator, and the stride of each
        self.variables = tensor(group.variables)
        self.separators = tensor(group.separators)
        self.strides = strides(group.shape)

    def table(self, cells: Tensor) -> Tensor:
        """The log-weights of the rules, [n or 1, states, values, 1]."""
        found = cells[self.kind_cells].view(self.n_kinds, self.n_states, self.n_values, 1)
        return found if self.n_kinds == 1 else found.index_select(0, self.kind)

    def states(self, x: Tensor) -> Tensor:
        """Rows of messages as [n, states, 1, batch]."""
        return x.view(self.n, self.n_states, 1, x.shape[-1])

    def values(self, x: Tensor) -> Tensor:
        """Rows of values as [n, 1, values, batch]."""
        return x.view(self.n, 1, self.n_values, x.shape[-1])

    def rows_of(self, x: Tensor) -> Tensor:
        """The group's part of rows of values, as [n, values, batch]."""
        return x[self.rows].view(self.n, self.n_values, x.shape[-1])

    def both(self, x: Tensor) -> Tensor:
        """Rows of cells as [n, states, values, batch]."""
        return x.view(self.n, self.n_states, self.n_values, x.shape[-1])


def _bag(rows: Tensor, bags: tuple[Tensor, ...]) -> Tensor:
    """The sum of some rows for each bag."""
    return embedding_bag(bags[0], rows, bags[1], mode="sum")


class Waves:
    """An elimination as tensors, ready to run on one device.

    Args:
        plan: the elimination.
        device: where the tensors are.
    """

    def __init__(self, plan: Elimination, device: torch.device):
        self.plan = plan
        self.groups = [_Tables(group, device) for group in plan.groups]
        self.at, self.weight = (torch.from_numpy(array).to(device) for array in (plan.at, plan.weight))
        self.coefficient = torch.from_numpy(plan.coefficient).to(device)
        self.barrier: Tensor | None = None
        if len(plan.forbidden):
            barrier = torch.zeros(plan.n_kind_cells, dtype=torch.float64)
            barrier[torch.from_numpy(plan.forbidden)] = NEVER
            self.barrier = barrier.to(device)
        self.all = self._all_tables(device)

    def _all_tables(self, device: torch.device) -> dict[str, Tensor]:
        """The tables of all groups in one: to look up the cells of a world takes a few long operations.

        For each table its variable, its first row and its first cell; for each place of a separator, [places, tables],
        the variable and how many cells apart its values are. Tables with fewer places have strides of 0.
        """
        n_places = max((len(group.strides) for group in self.groups), default=0)
        found: dict[str, list[Tensor]] = {name: [torch.zeros(0, dtype=torch.long, device=device)] for name in (
            "variables", "row", "cell")}
        places = [(torch.zeros(n_places, 0, dtype=torch.long, device=device),) * 2]
        for group in self.groups:
            each = torch.arange(group.n, device=device)
            found["variables"].append(group.variables)
            found["row"].append(group.rows.start + group.n_values * each)
            found["cell"].append(group.kind_cells.start + group.n_states * group.n_values * group.kind)
            separators, strides = (torch.zeros(n_places, group.n, dtype=torch.long, device=device) for _ in range(2))
            for k, stride in enumerate(group.strides):
                separators[k], strides[k] = group.separators[:, k], stride * group.n_values
            places.append((separators, strides))
        columns = {name: torch.cat(parts).unsqueeze(1) for name, parts in found.items()}
        columns["variables"] = columns["variables"].squeeze(1)
        separators, strides = (torch.cat([part[k] for part in places], 1) for k in (0, 1))
        return {**columns, "separators": separators, "strides": strides.unsqueeze(2)}

    def tables(self, weights: Tensor) -> Tensor:
        """The log-weights of all tables, one after the other, from one number for each weight of the network."""
        entries = weights.index_select(0, self.weight) * self.coefficient.to(weights.dtype)
        found = weights.new_zeros(self.plan.n_kind_cells).index_add(0, self.at, entries)
        return found if self.barrier is None else found + self.barrier.to(weights.dtype)

    def log_z(self, potentials: Tensor, tables: Tensor) -> Tensor:
        """The logarithm of the sum over all worlds, [batch].

        Args:
            potentials: log-weights of the values of all variables, [rows, batch].
            tables: from `tables`.
        """
        found: Tensor = _LogZ.apply(potentials, tables, self)  # type: ignore[no-untyped-call]
        return found

    def marginals(self, potentials: Tensor, tables: Tensor) -> tuple[Tensor, Tensor]:
        """The log-probability of each value of each variable, [rows, batch], and log Z without gradient, [batch]."""
        found: tuple[Tensor, Tensor] = _Marginals.apply(potentials, tables, self)  # type: ignore[no-untyped-call]
        return found

    # the passes

    def up(self, potentials: Tensor, tables: Tensor, keep: bool) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
        """From the leaves to the roots.

        Args:
            potentials, tables: as for `log_z`.
            keep: whether the log-weights of the cells are needed later.

        Returns:
            The log-weights of all cells with the messages from below, the probability of each cell given its state, the
            logarithm of what each table sums to by state, and log Z. Without `keep` the first two are one tensor.
        """
        n_batch = potentials.shape[1]
        cells = potentials.new_empty(self.plan.n_cells, n_batch)
        shares = torch.empty_like(cells) if keep else cells
        messages = potentials.new_empty(self.plan.n_messages, n_batch)
        total = potentials.new_zeros(n_batch)
        sums = []
        for group in self.groups:
            x = self._enter(group, potentials, tables, messages, group.both(cells[group.cells]))
            share = group.both(shares[group.cells])
            top = _max(x, 2)
            summed = _sum(_exp_(torch.sub(x, top, out=share)), 2).unsqueeze(2)
            share /= summed
            summed.log_().add_(top)
            total += _pass_on(summed, messages[group.messages])
            sums.append(summed)
        return cells, shares, sums, total

    def _enter(self, group: _Tables, potentials: Tensor, tables: Tensor, messages: Tensor, out: Tensor) -> Tensor:
        """Fill the tables of a group: potentials, weights and messages."""
        own = group.values(potentials[group.rows])
        if group.to_values is not None:
            own = own + group.values(_bag(messages, group.to_values))
        torch.add(own, group.table(tables), out=out)
        if group.to_cells is not None:
            out += group.both(_bag(messages, group.to_cells))
        return out

    def probabilities(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """From the roots to the leaves: the probability of all values, and of all cells (in place of the shares)."""
        values = shares.new_empty(self.plan.n_rows, shares.shape[1])
        for group in reversed(self.groups):
            own = group.both(shares[group.cells])
            if group.parent_rows is not None:
                own *= group.states(values.index_select(0, group.parent_rows))
            elif group.n_merged:
                own *= _sum(self._merged(shares, group), 1).unsqueeze(2)
            _sum(own, 1, group.rows_of(values))
        return values, shares

    def _merged(self, cells: Tensor, group: _Tables) -> Tensor:
        """The cells of the parents' tables for each state, [n, r, states, batch]."""
        return cells.index_select(0, group.parent_cells).view(group.n, group.n_merged, group.n_states, -1)

    def down(self, cells: Tensor, sums: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The same in logarithms, precise for small probabilities: of all values, all states, and all cells."""
        n_batch = cells.shape[1]
        values, states = (cells.new_empty(n, n_batch) for n in (self.plan.n_rows, self.plan.n_messages))
        for group, summed in zip(reversed(self.groups), reversed(sums), strict=True):
            own = group.both(cells[group.cells])
            own -= summed
            if group.parent_rows is not None:
                own += group.states(torch.index_select(values, 0, group.parent_rows, out=states[group.messages]))
            elif group.n_merged:
                above = group.states(states[group.messages])
                above.copy_(_log_sum(self._merged(cells, group), 1).unsqueeze(2))
                own += above
            group.rows_of(values).copy_(_log_sum(own, 1))
        return values, states, cells

    def back(self, slope: Tensor, shares: Tensor, values: Tensor, states: Tensor, cells: Tensor
             ) -> tuple[Tensor, Tensor]:
        """The gradient by potentials and by cells, given that by the log-probabilities of the values.

        With f = sum of slope / p of the values that a world has, less its mean, the gradient by a cell's log-weight is
        E[f; the cell]. On the way up, `carried` is that of f's part below; on the way down, the rest is added.

        Args:
            slope: the gradient by `values`.
            shares: from `up`.
            values, states, cells: from `down`.
        """
        carried = torch.empty_like(states)
        gradient = torch.empty_like(cells)
        # nothing is a share of something impossible
        values = values.clamp_min(NEVER / 2)
        means = _exp_(values.clone())
        for group in self.groups:
            own = group.values(slope[group.rows])
            own = torch.addcmul(own, group.values(means[group.rows]), own.sum(2, keepdim=True), value=-1)
            if group.to_values is not None:
                own += group.values(_bag(carried, group.to_values))
            out = group.both(gradient[group.cells])
            _exp_(torch.sub(group.both(cells[group.cells]), group.values(values[group.rows]), out=out)).mul_(own)
            if group.to_cells is not None:
                indices, begins = group.to_cells
                above = states.index_select(0, indices).clamp_min_(NEVER / 2)
                entered = _exp_(cells.index_select(0, group.entered) - above)
                entered *= carried.index_select(0, indices)
                out += group.both(_bag(entered, (torch.arange(len(indices), device=begins.device), begins)))
            _sum(out, 2, carried[group.messages].view(group.n, group.n_states, -1))
        by_row = torch.empty_like(slope)
        for group in reversed(self.groups):
            out = group.both(gradient[group.cells])
            rest: Tensor | None = None
            if group.parent_rows is not None:
                rest = by_row.index_select(0, group.parent_rows)
            elif group.n_merged:
                rest = _sum(self._merged(gradient, group), 1).flatten(0, 1)
            if rest is not None:
                rest -= carried[group.messages]
                out.addcmul_(group.both(shares[group.cells]), group.states(rest))
            _sum(out, 1, group.rows_of(by_row))
        return by_row, gradient

    def by_table(self, each: Tensor) -> Tensor:
        """The gradient by the tables of weights, which several members of a group share, from that by cells."""
        found = each.new_zeros(self.plan.n_kind_cells)
        for group in self.groups:
            own = each[group.cells].view(group.n, -1)
            shared = found[group.kind_cells].view(group.n_kinds, -1)
            if group.n_kinds == 1:
                torch.sum(own, 0, keepdim=True, out=shared)
            else:
                shared.index_add_(0, group.kind, own)
        return found

    # the best world

    @torch.no_grad()
    def best(self, potentials: Tensor, tables: Tensor) -> tuple[Tensor, Tensor]:
        """The values of all variables in a world of the largest weight, [variables, batch], and its logarithm."""
        n_batch = potentials.shape[1]
        messages = potentials.new_empty(self.plan.n_messages, n_batch)
        total = potentials.new_zeros(n_batch)
        chosen = []
        for group in self.groups:
            x = potentials.new_empty(group.n, group.n_states, group.n_values, n_batch)
            largest, at = self._enter(group, potentials, tables, messages, x).max(2, keepdim=True)
            total += _pass_on(largest, messages[group.messages])
            chosen.append(at.squeeze(2))
        world = torch.zeros(len(self.plan.network.cards), n_batch, dtype=torch.long, device=potentials.device)
        for group, at in zip(reversed(self.groups), reversed(chosen), strict=True):
            world[group.variables] = at.gather(1, self._state(group, world).unsqueeze(1)).squeeze(1)
        return world, total

    def _state(self, group: _Tables, world: Tensor) -> Tensor:
        """The cell of each separator in a world, [n, batch]."""
        found = world.new_zeros(group.n, world.shape[1])
        for k, stride in enumerate(group.strides):
            found = found + stride * world[group.separators[:, k]]
        return found

    def score(self, potentials: Tensor, tables: Tensor, world: Tensor) -> Tensor:
        """The log-weight of given worlds, [batch].

        Args:
            potentials, tables: as for `log_z`.
            world: the value of each variable, [variables, batch].
        """
        value = world.index_select(0, self.all["variables"])
        at = self.all["cell"] + value
        for separator, stride in zip(self.all["separators"], self.all["strides"], strict=True):
            at = torch.addcmul(at, stride, world.index_select(0, separator))
        return potentials.gather(0, self.all["row"] + value).sum(0) + tables.take(at).sum(0)


def _pass_on(summed: Tensor, messages: Tensor) -> Tensor:
    """Write messages whose largest entry is 0, and return what was taken off, summed over the group, [batch]."""
    top = _max(summed, 1)
    torch.sub(summed, top, out=messages.view(summed.shape))
    return top.sum((0, 1, 2))


class Pick:
    """Some rows of a tensor, by index; the way back adds up the rows that were taken more than once.

    Args:
        index: which rows, in order.
        n: how many rows there are.
    """

    def __init__(self, index: Tensor, n: int):
        self.index = index
        self.order = index.argsort(stable=True)
        self.begins = torch.searchsorted(index[self.order], torch.arange(n, device=index.device))

    def __call__(self, rows: Tensor) -> Tensor:
        found: Tensor = _Pick.apply(rows, self)  # type: ignore[no-untyped-call]
        return found


class _Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, pick: Pick) -> Tensor:
        ctx.pick = pick
        return rows.index_select(0, pick.index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return _bag(slope.contiguous(), (ctx.pick.order, ctx.pick.begins)), None


class _LogZ(torch.autograd.Function):
    """log Z; its gradient, the marginals, is computed on the way back."""

    @staticmethod
    def forward(ctx: Any, potentials: Tensor, tables: Tensor, waves: Waves) -> Tensor:
        _, shares, _, total = waves.up(potentials, tables, keep=False)
        ctx.save_for_backward(shares)
        ctx.waves = waves
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor | None, None]:
        values, cells = ctx.waves.probabilities(ctx.saved_tensors[0].clone())
        by_table = ctx.waves.by_table(cells @ slope) if ctx.needs_input_grad[1] else None
        return values.mul_(slope), by_table, None


class _Marginals(torch.autograd.Function):
    """The log-probabilities of all values, and whether each item has a possible world: log Z, without gradient."""

    @staticmethod
    def forward(ctx: Any, potentials: Tensor, tables: Tensor, waves: Waves) -> tuple[Tensor, Tensor]:
        cells, shares, sums, total = waves.up(potentials, tables, keep=True)
        values, states, cells = waves.down(cells, sums)
        ctx.save_for_backward(shares, values, states, cells)
        ctx.mark_non_differentiable(total)
        ctx.waves = waves
        return values, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor, Tensor | None, None]:
        by_row, gradient = ctx.waves.back(slope, *ctx.saved_tensors)
        return by_row, ctx.waves.by_table(gradient.sum(1)) if ctx.needs_input_grad[1] else None, None
