"""All label sets of a multi-class predicate at once: one matrix product to read them, one to send messages back.

Room: plan -> **execute** -> layer.

    label(i) in {B, I}, label(i+1) in {I, E}      q [n, labels] @ [labels, 2 sets] gives the probability of every set

A rule over labels costs little, but a tagger has many: the number of calls costs more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..plan.steps import Read, Step
from .state import Call, Kept, Values


class LabelSets:
    """The sets of labels that the reads of one predicate name."""

    def __init__(self, sets: Iterable[frozenset[int]], n_labels: int):
        self.places = {labels: k for k, labels in enumerate(dict.fromkeys(sets))}
        self.members = [[float(label in labels) for label in range(n_labels)] for labels in self.places]
        self._kept = Kept()

    def matrix(self, like: Tensor) -> Tensor:
        """[sets, labels]: one for each label in the set."""
        return self._kept.get((like.device, like.dtype),
                              lambda: torch.tensor(self.members, dtype=like.dtype, device=like.device))

    def probability(self, read: Read, values: Values) -> Tensor:
        """The probability that a label is in the set of a read, [batch, n_1, ..., n_k]."""
        assert read.labels is not None
        key = ("label sets", read.predicate)
        if key not in values:
            q = values[read.predicate]
            # each set in a piece of memory of its own
            values[key] = (q @ self.matrix(q).mT).movedim(-1, 0).contiguous()
        return values[key][self.places[read.labels]]


def find_label_sets(steps: Sequence[Step], n_labels: dict[str, int]) -> dict[str, LabelSets]:
    """The label sets of every multi-class predicate that is read."""
    sets: dict[str, list[frozenset[int]]] = {}
    for step in steps:
        if isinstance(step, Read) and step.labels is not None:
            sets.setdefault(step.predicate, []).append(step.labels)
    return {name: LabelSets(found, n_labels[name]) for name, found in sets.items()}


@dataclass(frozen=True)
class Column:
    """The messages to one set of labels under one weight."""

    labels: frozenset[int]
    weight: int | None


def spread_over_labels(parts: Sequence[Tensor], mix: Tensor) -> Tensor:
    """The sum of weight * part, each at the labels of its set: [batch, ..., labels] from parts [batch, ...]."""
    x = torch.stack(list(parts), -1)
    # weights per item: one matrix for each item
    return x @ mix if mix.dim() == 2 else (x.unsqueeze(1).flatten(1, -2) @ mix).reshape(
        *x.shape[:-1], mix.shape[-1])


def weigh_labels(columns: Sequence[Column], sets: LabelSets, call: Call) -> Tensor:
    """[columns, labels], or [batch, columns, labels]: the weight of a column where its set has the label."""
    weights = [call.like.new_ones(()) if column.weight is None else call.weights[column.weight] for column in columns]
    # one weight for all items, or one for each item
    longest = ([weight for weight in weights if weight.dim()] or weights)[0]
    stacked = torch.stack([weight.expand_as(longest) for weight in weights], -1)
    return stacked.unsqueeze(-1) * sets.matrix(call.like)[[sets.places[column.labels] for column in columns]]
