"""The scripts in examples/ run; the citation graph is corrected, in torch-geometric's format or without it."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from fixtures_reader import ROOT


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_citations_correct_topics() -> None:
    citations = load_example("citations")
    data = citations.make_graph(600)
    assert set(data.x.unique().tolist()) == {0.0, 1.0}
    same = (data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).float().mean()
    assert 0.6 < same < 0.75
    assert int(data.train_mask.sum()) == 120
    (alone, _), (ruled, model) = (citations.train(data, rules, steps=40) for rules in (None, citations.RULES))
    assert ruled > alone + 0.15
    assert all(torch.isfinite(weight) and weight > 0 for weight in model.rules.weights)


def test_citations_come_in_the_format_of_torch_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the package installed, the graph is its `Data`; here a class of that name stands for it."""
    class Data(SimpleNamespace):
        pass

    module: Any = ModuleType("torch_geometric.data")
    module.Data = Data
    monkeypatch.setitem(sys.modules, "torch_geometric", ModuleType("torch_geometric"))
    monkeypatch.setitem(sys.modules, "torch_geometric.data", module)
    data = load_example("citations").make_graph(60)
    assert type(data) is Data
    assert (data.edge_index.dtype, data.edge_index.shape[0]) == (torch.int64, 2)
    assert data.x.shape[0] == len(data.y) == len(data.train_mask) == len(data.test_mask) == 60
