"""The rows of the table: what stands on top of the model in training, and what it predicts.

    mlp        labels on their own
    mlp+max    the same model; a label is as probable as the most probable one below it
    c-hmcnn    that maximum in training too, with the loss of its paper (MCM and MCLoss)
    mean-field the rule with weight 1 under mean field; BCE on its output
    exact      the hard rule under exact inference; trained by likelihood
    one-path   the same, with the rules that an item has exactly one path to a leaf
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from logicmp import LogicMP

from .data import Tree

TITLES = {"mlp": "MLP", "mlp+max": "MLP + max", "c-hmcnn": "C-HMCNN", "mean-field": "LogicMP, mean field",
          "exact": "LogicMP, exact", "one-path": "LogicMP, exact, one path"}
ORDER = tuple(TITLES)
# read from the model of another row, without a training of their own
READ_FROM = {"mlp+max": "mlp"}


class Head:
    """Every label on its own.

    Args:
        tree: the labels.
    """

    def __init__(self, tree: Tree):
        self.tree = tree

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of each item, divided by the number of labels."""
        return binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none").mean(1)

    def logits(self, logits: Tensor) -> Tensor:
        """The log-odds of all labels."""
        return logits

    def worlds(self, logits: Tensor) -> Tensor:
        """The predicted labels, bool."""
        return self.logits(logits) > 0


class Highest(Head):
    """C-HMCNN: a label is as probable as the most probable one below it (MCM); log-odds have the same order."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """MCLoss: below a label that an item has, only labels that it has count."""
        above, below = self.tree.pairs
        is_out = labels[:, above] & ~labels[:, below]
        return super().loss(self.tree.highest_of(logits[:, below].masked_fill(is_out, -torch.inf)), labels)

    def logits(self, logits: Tensor) -> Tensor:
        return self.tree.highest(logits)


class Ruled(Head):
    """A LogicMP layer, trained by BCE on its output.

    Args:
        tree: the labels.
        file: of the rules.
        **options: of the layer.
    """

    def __init__(self, tree: Tree, file: str, **options: Any):
        super().__init__(tree)
        # rules keep their weights: the models of several seeds are trained at once, with one layer
        self.layer = LogicMP(Path(__file__).with_name(file).read_text(), learn_weights=False, **options)
        self.evidence = {p.name: tree.evidence[p.name] for p in self.layer.theory.predicates if p.name != "Has"}

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().loss(self.logits(logits), labels)

    def logits(self, logits: Tensor) -> Tensor:
        return self.layer(logits, self.evidence)


class MeanField(Ruled):
    """A LogicMP layer with mean field. Its hierarchy is a list of pairs: a matrix of 499 labels takes twice as long."""

    def __init__(self, tree: Tree, file: str):
        super().__init__(tree, file, schedule="paper")
        self.evidence = {"parent": tree.parent.nonzero().T.contiguous()}


class Exact(Ruled):
    """A LogicMP layer with exact inference, trained by likelihood; predicts the most probable world."""

    def __init__(self, tree: Tree, file: str):
        super().__init__(tree, file, method="exact")

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.layer.loss(logits, labels, self.evidence) / len(self.tree)

    def worlds(self, logits: Tensor) -> Tensor:
        return self.layer.decode(logits, self.evidence)


HEADS: dict[str, Callable[[Tree], Head]] = {
    "mlp": Head, "mlp+max": Highest, "c-hmcnn": Highest,
    "mean-field": lambda tree: MeanField(tree, "weighted.mln"),
    "exact": lambda tree: Exact(tree, "hierarchy.mln"), "one-path": lambda tree: Exact(tree, "path.mln")}
