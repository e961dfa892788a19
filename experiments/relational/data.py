"""The data sets, as the authors' released code reads them.

    split = load_split("uw_cse/ai", folder)
    split.world          every atom without a fact is unobserved (open world)
    split.queries        the places of the queries in the tensors, and which of them are true

The facts are the evidence; `!` marks a false atom. A type has the constants of facts, queries and rules. All weights
are 1; `+w` is read as a plain variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from logicmp import LogicMPError, Theory, parse_facts, parse_theory
from logicmp.facts.world import World, build_world

from ..files import DataFiles

SPLITS = {
    "smoke": ("all",),
    "kinship": ("S1", "S2", "S3", "S4", "S5"),
    "uw_cse": ("ai", "graphics", "language", "systems", "theory"),
    "cora": ("S1", "S2", "S3", "S4", "S5"),
}
PARTS = ("predicates", "facts", "queries", "rules")
FILES = DataFiles("relational data", (
    "the files are public: github wead-hsu/logicmp, folder relational_graphs/data, commit e489f3c; put them into "
    "FOLDER/relational and use --data FOLDER, or set LOGICMP_DATA"),
    Path(__file__).with_name("checksums.txt"), "relational")


@dataclass(frozen=True)
class Queries:
    """The queries of one predicate: an index for each argument, and their truth values."""

    places: tuple[Tensor, ...]
    truth: np.ndarray


@dataclass(frozen=True)
class Split:
    """Evidence and queries of one split."""

    name: str
    world: World
    queries: Mapping[str, Queries]

    @property
    def theory(self) -> Theory:
        return self.world.theory

    @property
    def truth(self) -> np.ndarray:
        """The truth values of all queries, predicates pooled."""
        return np.concatenate([queries.truth for queries in self.queries.values()])

    def pick(self, log_odds: Mapping[str, Tensor]) -> Tensor:
        """The log-odds of all queries, in the order of `truth`."""
        return torch.cat([log_odds[name][queries.places] for name, queries in self.queries.items()])

    def closed(self) -> World:
        """The same facts in Alchemy's world: a predicate with facts is closed, unless it is queried."""
        return replace(self.world, values={
            name: np.where(values == -1, 0, values) if (values != -1).any() and name not in self.queries else values
            for name, values in self.world.values.items()})


def split_names(dataset: str) -> list[str]:
    return [f"{dataset}/{split}" for split in SPLITS[dataset]]


def others(name: str) -> list[str]:
    """The other splits of a data set. Settings of this split may depend on them only."""
    return [other for other in split_names(name.split("/")[0]) if other != name]


def load_split(name: str, data: str | Path | None = None) -> Split:
    """Read and check the four files of a split."""
    dataset, _, split = name.partition("/")
    if dataset not in SPLITS or split not in SPLITS[dataset]:
        raise LogicMPError(f"unknown split {name!r}", f"splits: {', '.join(n for d in SPLITS for n in split_names(d))}")
    texts = {part: FILES.read(f"{name}/{part}", data).decode() for part in PARTS}
    return build_split(name, **texts)


def build_split(name: str, predicates: str, rules: str, facts: str, queries: str) -> Split:
    """Build a split from the text of its four files."""
    theory = parse_theory(f"{predicates}\n{rules.replace('+', '')}", name, "standard")
    queried = parse_facts(queries, parse_facts(facts, theory, f"{name}/facts").theory, f"{name}/queries")
    world = build_world(parse_facts(facts, queried.theory, f"{name}/facts"), world="open")
    found = {}
    for predicate, table in queried.tables.items():
        index = [{c: i for i, c in enumerate(world.theory.type[t].constants)} for t in table.predicate.types]
        places = tuple(torch.tensor([index[k][row[k]] for row in table.args]) for k in range(len(index)))
        found[predicate] = Queries(places, np.array(table.values))
    return Split(name, world, found)
