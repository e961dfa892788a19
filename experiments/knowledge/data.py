"""A knowledge graph: rules, facts to train on, and triples to validate and test.

    graph = load_graph(folder)
    graph.theory                       relations, entities and rules
    graph.triples["test"]              [n, 3]: head, relation, tail, as numbers

    rules.mln                          the relations, and rules without weights
    train.db, valid.db, test.db        ground facts, such as r17(E3, E52)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from logicmp import Evidence, Theory, parse_facts, parse_theory

from ..files import DataFiles

PARTS = ("train", "valid", "test")
FILES = DataFiles("FB15k-237", (
    "the triples are public: github thunlp/OpenKE, folder benchmarks/FB15K237; the rules: github "
    "rodrigo-castellano/NeSyGround, folder data/fb15k237. Write them as ground facts and rules, with relations r0 to "
    "r236 and entities E0 to E14540, into FOLDER/kg/fb15k-237 and use --data FOLDER, or set LOGICMP_DATA"),
    Path(__file__).with_name("checksums.txt"), "kg/fb15k-237")


@dataclass(frozen=True)
class Graph:
    """Facts and rules over one set of entities."""

    name: str
    # of the training triples, for the theory with the entities of all parts
    facts: Evidence
    # by part, int64 [n, 3]
    triples: Mapping[str, np.ndarray]

    @property
    def theory(self) -> Theory:
        return self.facts.theory

    @property
    def relations(self) -> list[str]:
        return [p.name for p in self.theory.predicates]

    @cached_property
    def n_entities(self) -> int:
        return self.theory.sizes[self.theory.types[0].name]

    @cached_property
    def known(self) -> np.ndarray:
        """The triples of all parts, which filtered ranks leave out."""
        return np.concatenate([self.triples[part] for part in PARTS])


def load_graph(data: str | Path | None = None) -> Graph:
    """Read and check the files of FB15k-237."""
    texts = {part: FILES.read(f"{part}.db", data).decode() for part in PARTS}
    return build_graph("fb15k-237", FILES.read("rules.mln", data).decode(), texts)


def build_graph(name: str, rules: str, texts: Mapping[str, str]) -> Graph:
    """Build a graph from the text of its files."""
    theory = parse_theory(rules, f"{name}/rules.mln")
    # entities that occur in one part only are entities of all
    for part in PARTS:
        theory = parse_facts(texts[part], theory, f"{name}/{part}.db").theory
    facts = {part: parse_facts(texts[part], theory, f"{name}/{part}.db") for part in PARTS}
    return Graph(name, facts["train"], {part: _triples(found) for part, found in facts.items()})


def _triples(facts: Evidence) -> np.ndarray:
    number = facts.theory.indices(facts.theory.types[0].name)
    parts = [np.zeros((0, 3), dtype=np.int64)]
    for k, predicate in enumerate(facts.theory.predicates):
        if predicate.name in facts.tables:
            head, tail = (c.indices(number) for c in facts.tables[predicate.name].columns)
            parts.append(np.stack([head, np.full(len(head), k), tail], 1))
    return np.concatenate(parts)
