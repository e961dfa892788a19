"""The data sets, as the authors' released code reads them.

    split = load_split("uw_cse/ai", folder)
    split.world          everything that is not a fact is unknown (open world)
    split.queries        where the queries stand in the tensors, and which of them are true

Observed are the facts, `!` means observed false. A type has the constants of facts, queries and rules. All weights are
1; `+w` is read as a plain variable.
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
FILES = DataFiles("the data sets are", (
    "the files are public: github wead-hsu/logicmp, folder relational_graphs/data, commit e489f3c; put them into "
    "FOLDER/relational and give --data FOLDER, or set LOGICMP_DATA"),
    Path(__file__).with_name("checksums.txt"), "relational")


@dataclass(frozen=True)
class Queries:
    """The queries of one predicate: an index for each argument, and the truth."""

    places: tuple[Tensor, ...]
    truth: np.ndarray


@dataclass(frozen=True)
class Split:
    """One split: what is known, and what is asked."""

    name: str
    world: World
    queries: Mapping[str, Queries]

    @property
    def theory(self) -> Theory:
        return self.world.theory

    @property
    def truth(self) -> np.ndarray:
        """The truth of all queries, predicates pooled."""
        return np.concatenate([queries.truth for queries in self.queries.values()])

    def pick(self, log_odds: Mapping[str, Tensor]) -> Tensor:
        """The log-odds of all queries, in the order of `truth`."""
        return torch.cat([log_odds[name][queries.places] for name, queries in self.queries.items()])

    def closed(self) -> World:
        """The same facts in Alchemy's world: a predicate with facts is closed, unless it is asked for."""
        return replace(self.world, values={
            name: np.where(values == -1, 0, values) if (values != -1).any() and name not in self.queries else values
            for name, values in self.world.values.items()})


def split_names(data_set: str) -> list[str]:
    return [f"{data_set}/{split}" for split in SPLITS[data_set]]


def others(name: str) -> list[str]:
    """The other splits of a data set: the only ones that may be looked at to choose anything for this one."""
    return [other for other in split_names(name.split("/")[0]) if other != name]


def load_split(name: str, data: str | Path | None = None) -> Split:
    """Read and check the four files of a split."""
    data_set, _, split = name.partition("/")
    if data_set not in SPLITS or split not in SPLITS[data_set]:
        known = ", ".join(n for d in SPLITS for n in split_names(d))
        raise LogicMPError(f"there is no split {name!r}", f"splits: {known}")
    texts = {part: FILES.read(f"{name}/{part}", data).decode() for part in PARTS}
    return build_split(name, **texts)


def build_split(name: str, predicates: str, rules: str, facts: str, queries: str) -> Split:
    """A split from the texts of its four files."""
    theory = parse_theory(f"{predicates}\n{rules.replace('+', '')}", name, "standard")
    asked = parse_facts(queries, parse_facts(facts, theory, f"{name}/facts").theory, f"{name}/queries")
    world = build_world(parse_facts(facts, asked.theory, f"{name}/facts"), world="open")
    found = {}
    for predicate, table in asked.tables.items():
        index = [{c: i for i, c in enumerate(world.theory.type[t].constants)} for t in table.predicate.types]
        places = tuple(torch.tensor([index[k][row[k]] for row in table.args]) for k in range(len(index)))
        found[predicate] = Queries(places, np.array(table.values))
    return Split(name, world, found)
