"""The files with exact answers that others published: what was asked, and what must come out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logicmp import Marginals, infer, load_facts, load_theory


@dataclass(frozen=True)
class Published:
    """One case under one semantics."""

    name: str
    semantics: str
    marginals: dict[str, float]
    got: Marginals
    log_partition: float | None


def published(data: Path, method: str, **options: Any) -> Iterator[Published]:
    """Every case that has exact answers, answered by a method."""
    folders = [folder for folder in sorted((data / "mln").iterdir()) if (folder / "expected.json").is_file()]
    cases = [(folder, json.loads((folder / "expected.json").read_text())) for folder in folders]
    cases = [(folder, expected) for folder, expected in cases if expected["status"] == "exact"]
    assert len(cases) == 19
    for folder, expected in cases:
        theory = load_theory(folder / "model.mln", expected["grammar"])
        evidence = load_facts(folder / "evidence.db", theory)
        for semantics, key in (("exact", "marginals"), ("alchemy", "marginals_alchemy_cnf_split")):
            if key in expected:
                got = infer(theory, evidence, (folder / "query.txt").read_text(), method, semantics=semantics,
                            world="open", closed=expected["closed_world"], **options)
                yield Published(folder.name, semantics, expected[key], got,
                                expected["log_partition"] if semantics == "exact" else None)


class PublishedCases:
    """Tests that a method inherits together with its battery."""

    method: str
    tolerance: float

    def test_every_published_case_is_met(self, data: Path) -> None:
        for case in published(data, self.method):
            for atom, p in case.marginals.items():
                assert case.got[atom] == pytest.approx(p, abs=self.tolerance), f"{case.name}: {atom}, {case.semantics}"
