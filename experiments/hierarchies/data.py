"""Read the data sets: features, labels and the tree of labels, from ARFF text.

    @ATTRIBUTE class hierarchical 01,01/01,01/01/03      the paths of the labels; the parent of 01/01 is 01
    0.15,?,-0.22,01/01/03@02/04                          features, ? is missing; then labels, which imply those above
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from logicmp import LogicMPError

from ..files import DataFiles

DATA_SETS = ("cellcycle_FUN", "eisen_FUN", "derisi_FUN", "ImCLEF07A", "ImCLEF07D")
FILES = DataFiles("the data of the experiment", (
    "the files come from github EGiunchiglia/C-HMCNN, folder HMC_data, commit e887855; put each data set as "
    "hmc/NAME/{train,valid,test}.arff into FOLDER and use --data FOLDER, or set LOGICMP_DATA"),
    Path(__file__).with_name("checksums.txt"), "hmc")
# share of the training items that are held out where a data set has no validation items
HELD_OUT = 5


@dataclass(frozen=True)
class Tree:
    """Labels by their paths, such as "01/01/03"."""

    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def parent(self) -> Tensor:
        """parent[c, p], bool, [labels, labels]."""
        at = {label: k for k, label in enumerate(self.labels)}
        found = torch.zeros(len(self), len(self), dtype=torch.bool)
        for label, k in at.items():
            if "/" in label:
                found[k, at[label.rpartition("/")[0]]] = True
        return found

    @cached_property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """Every pair of a label and one below it, itself included: (above, below)."""
        closed = torch.eye(len(self), dtype=torch.bool)
        for _ in range(max(label.count("/") for label in self.labels)):
            closed |= (closed.float() @ self.parent.float()) > 0
        below, above = closed.nonzero(as_tuple=True)
        return above, below

    @property
    def evidence(self) -> dict[str, Tensor]:
        """The observed predicates of the rules."""
        return {"parent": self.parent, "root": ~self.parent.any(1), "leaf": ~self.parent.any(0)}

    def highest(self, values: Tensor) -> Tensor:
        """The maximum over each label and those below it, [items, labels]."""
        return self.highest_of(values[:, self.pairs[1]])

    def highest_of(self, values: Tensor) -> Tensor:
        """The maximum by label of values for `pairs`, [items, pairs] to [items, labels]."""
        index = self.pairs[0].expand(values.shape)
        start = values.new_full((len(values), len(self)), -torch.inf)
        return start.scatter_reduce(1, index, values, "amax", include_self=False)


@dataclass(frozen=True)
class Items:
    """Features, [items, features], and labels, [items, labels], with all labels above them."""

    features: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class DataSet:
    """Items to train on and to measure on, scaled by the mean and the deviation of the former."""

    name: str
    tree: Tree
    train: Items
    test: Items


def read_tree(lines: Sequence[str]) -> Tree:
    """The labels of an ARFF header; some files list a label several times."""
    for line in lines:
        name, _, paths = line.partition("hierarchical")
        if paths and name.lower().startswith("@attribute"):
            return Tree(tuple(dict.fromkeys(paths.strip().split(","))))
    raise LogicMPError("the ARFF header has no line '@ATTRIBUTE class hierarchical'")


def read_items(lines: Sequence[str], tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Features, with NaN where they are missing, and labels of the lines after @DATA."""
    at = {label: k for k, label in enumerate(tree.labels)}
    above, below = (x.numpy() for x in tree.pairs)
    features, labels = [], []
    for line in _data_lines(lines):
        *numbers, paths = line.split(",")
        features.append([np.nan if x.strip() == "?" else float(x) for x in numbers])
        own = np.zeros(len(tree), dtype=bool)
        own[[at[path] for path in paths.strip().split("@")]] = True
        labels.append(own)
    found = np.array(labels)
    closed = np.zeros_like(found)
    np.logical_or.at(closed.T, above, found.T[below])
    return np.array(features, dtype=np.float64), closed


def _data_lines(lines: Sequence[str]) -> Iterator[str]:
    begin = next(k for k, line in enumerate(lines) if line.strip().lower() == "@data")
    for line in lines[begin + 1:]:
        content = line.partition("%")[0].strip()
        if content:
            yield content


@cache
def load_data(name: str, data: str | Path | None = None, is_held_out: bool = False) -> DataSet:
    """A data set: train and valid against test; or, to choose settings, train against valid.

    Without validation items, the last fifth of the training items with the same labels is held out.
    """
    names = [part for part in ("train", "valid", "test") if f"{name}/{part}.arff" in FILES.checksums]
    texts = {part: FILES.read(f"{name}/{part}.arff", data).decode().splitlines()
             for part in names if part != "test" or not is_held_out}
    tree = read_tree(texts["train"])
    parts = {part: read_items(lines, tree) for part, lines in texts.items()}
    if "valid" not in parts and is_held_out:
        features, labels = parts["train"]
        chosen = is_last(labels)
        parts = {"train": (features[~chosen], labels[~chosen]), "valid": (features[chosen], labels[chosen])}
    last = "valid" if is_held_out else "test"
    kept = [part for part in parts if part != last]
    features, labels = (np.concatenate([parts[part][k] for part in kept]) for k in (0, 1))
    return scaled(name, tree, (features, labels), parts[last])


def is_last(labels: np.ndarray) -> np.ndarray:
    """Whether an item is in the last fifth of those with its labels, in the order of the file.

    Items that are near each other in the file are alike, so a held-out item should have no neighbours in training.
    """
    _, group, counts = np.unique(labels, axis=0, return_inverse=True, return_counts=True)
    rank = np.empty_like(group)
    rank[np.argsort(group, kind="stable")] = np.concatenate([np.arange(n) for n in counts])
    return HELD_OUT * rank >= (HELD_OUT - 1) * counts[group]


def scaled(name: str, tree: Tree, train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> DataSet:
    """Fill missing features with the mean of the training items; scale to mean 0 and variance 1."""
    mean = np.nanmean(train[0], 0)
    filled = [np.where(np.isnan(features), mean, features) for features, _ in (train, test)]
    deviation = filled[0].std(0)
    deviation[deviation == 0] = 1.0
    first, second = (Items(torch.from_numpy((x - mean) / deviation).float(), torch.from_numpy(labels))
                     for x, (_, labels) in zip(filled, (train, test), strict=True))
    return DataSet(name, tree, first, second)
