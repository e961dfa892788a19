"""All terms of one sparse matrix as one product, and sets of labels read and written as one block.

Room: rows -> **execute** -> sparse.

    Link(x,y) ^ label(x)=A => label(y)=A, for six labels      one matrix, [nodes, items, 6 labels]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..plan.forms import Root
from .rows import Bilinear


def stack_items(xs: Sequence[Tensor]) -> Tensor:
    """Values [places, items or 1] as one tensor [places, items, values]."""
    if len(xs) == 1:
        return xs[0].unsqueeze(-1)
    width = max(x.shape[1] for x in xs)
    return torch.stack([x if x.shape[1] == width else x.expand(-1, width) for x in xs], -1)


class LabelBlock:
    """The labels of one predicate as one block, [places, items, labels], and the sets of them that forms read.

    Args:
        number: of the predicate, among those with labels.
        reads: the value that reads each set, and the set.
    """

    def __init__(self, number: int, reads: Sequence[tuple[int, frozenset[int]]], n_labels: int, device: torch.device):
        # the block among the values, which have numbers from 0
        self.key = -1 - number
        self.numbers = [k for k, _ in reads]
        self.sets = torch.zeros(n_labels, len(reads), dtype=torch.float64, device=device)
        for column, (_, labels) in enumerate(reads):
            self.sets[sorted(labels), column] = 1

    def read(self, x: Tensor, with_sets: bool) -> dict[int, Tensor]:
        """The block, and the sum of each set if asked for, from marginals [items, ..., labels]."""
        x = x.reshape(len(x), -1, len(self.sets))
        found = {self.key: x.movedim(0, 1)}
        if with_sets:
            found.update(zip(self.numbers, (x @ self.sets).movedim(0, 1).unbind(-1), strict=True))
        return found

    def spread(self, blocks: Sequence[Tensor], columns: Mapping[int, Tensor]) -> Tensor:
        """Messages to labels and sets as messages to labels, [items, places, labels]."""
        parts = list(blocks)
        if columns:
            # one to a set goes to all its labels
            stacked = stack_items(list(columns.values()))
            parts.append(stacked @ self.of(list(columns)).mT)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total.movedim(0, 1)

    def of(self, values: Sequence[int]) -> Tensor:
        """The sets of some values, [labels, values]."""
        return self.sets[:, [self.numbers.index(v) for v in values]]


class MatrixTerms:
    """All terms of one sparse matrix M in one direction, sum of w u M v: their derivatives by u, as (M V) C + (M 1) c.

    V has the distinct vectors v as its columns. C and c sum up the weights of the terms by u and v; the complement of a
    vector is 1 - v, and M 1 is made once.
    """

    def __init__(self, matrix: Bilinear, side: int, roots: Sequence[Root], blocks: Sequence[LabelBlock],
                 device: torch.device):
        self.matrix = matrix
        self.side = side
        pairs = [(root.form.operands[side], root.form.operands[1 - side]) for root in roots]
        self.own = list(dict.fromkeys(own.value for own, _ in pairs))
        self.other = list(dict.fromkeys(other.value for _, other in pairs))
        # sets of the labels of one predicate are read and written as all its labels
        self.own_block, self.other_block = (next((b for b in blocks if set(found) <= set(b.numbers)), None)
                                            for found in (self.own, self.other))
        self.rules = torch.tensor([root.rule for root in roots], device=device)
        place = [[self.other.index(other.value), self.own.index(own.value)] for own, other in pairs]
        self.rows, self.columns = torch.tensor(place, device=device).unbind(1)
        signed = [root.coefficient * (-1 if own.negated else 1) for root, (own, _) in zip(roots, pairs, strict=True)]
        is_one_minus = torch.tensor([other.negated for _, other in pairs], device=device)
        self.ones = torch.tensor(signed, dtype=torch.float64, device=device) * is_one_minus
        self.products = torch.tensor(signed, dtype=torch.float64, device=device) * (1 - 2 * is_one_minus.double())

    def mix(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """C, [items or 1, vectors v, vectors u], and (M 1) c, [places, items or 1, vectors u]: once per call.

        Args:
            weights: of all rules, [items or 1, rules].
        """
        seeds, n_items, n_own = weights[:, self.rules], len(weights), len(self.own)
        mix = weights.new_zeros(len(self.other) * n_own, n_items).index_add(
            0, self.rows * n_own + self.columns, (self.products * seeds).mT)
        sums = weights.new_zeros(n_own, n_items).index_add(0, self.columns, (self.ones * seeds).mT)
        mix, sums = mix.reshape(len(self.other), n_own, n_items).movedim(-1, 0), sums.mT
        if self.other_block is not None:
            mix = self.other_block.of(self.other) @ mix
        if self.own_block is not None:
            own = self.own_block.of(self.own).mT
            mix, sums = mix @ own, sums @ own
        return mix, self.matrix.sums[self.side].unsqueeze(-1) * sums

    def derivatives(self, values: Mapping[int, Tensor], mix: Tensor, ones: Tensor) -> dict[int, Tensor]:
        """The derivative by each value on this side; `mix` and `ones` are those of `self.mix`."""
        if self.other_block is not None:
            read = values[self.other_block.key]
        else:
            # [places, items, vectors]
            read = stack_items([values[v] for v in self.other])
        product = self.matrix.product(self.side, read.flatten(1)).reshape(-1, *read.shape[1:])
        if mix.shape[1:] == (1, 1):
            # one vector: no matrices of one column
            total = torch.addcmul(ones, product, mix[:, 0])
        elif len(mix) == 1 and product.shape[1] == 1:
            total = torch.addmm(ones[:, 0], product[:, 0], mix[0]).unsqueeze(1)
        elif len(mix) == 1:
            total = ones + product @ mix[0]
        else:
            total = ones + torch.einsum("pis,iso->pio", product.expand(-1, len(mix), -1), mix)
        if self.own_block is not None:
            return {self.own_block.key: total}
        return dict(zip(self.own, total.unbind(-1), strict=True))
