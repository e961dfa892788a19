"""The scripts in examples/ run, each with the library that it is for."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from fixtures_reader import ROOT


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_citations_correct_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    # importing torch-geometric takes seconds: this is the graph without it
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    citations = load_example("citations")
    data = citations.make_graph(600)
    assert set(data.x.unique().tolist()) == {0.0, 1.0}
    same = (data.y[data.edge_index[0]] == data.y[data.edge_index[1]]).float().mean()
    assert 0.6 < same < 0.75
    assert int(data.train_mask.sum()) == 120
    (alone, _), (ruled, model) = (citations.train(data, rules, steps=40) for rules in (None, citations.RULES))
    assert ruled > alone + 0.15
    assert all(torch.isfinite(weight) and weight > 0 for weight in model.rules.weights)


def run_example(name: str, folder: Path) -> str:
    """What a script prints, in a process and a folder of its own."""
    assert len((ROOT / f"examples/{name}.py").read_text(encoding="utf-8").splitlines()) < 40
    done = subprocess.run([sys.executable, ROOT / f"examples/{name}.py"], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_transformer_is_trained_under_bio_rules(tmp_path: Path) -> None:
    printed = run_example("trainer", tmp_path)
    before, after = map(int, re.findall(r"(\d+) of 120 sentences valid", printed))
    assert before < after == 120


def test_a_lightning_module_is_trained_with_its_rules(tmp_path: Path) -> None:
    assert run_example("lightning_module", tmp_path).endswith("more than 9 of 10 pairs right: True\n")


def test_nodes_of_torch_geometric_are_corrected_along_links(tmp_path: Path) -> None:
    alone, ruled = map(float, re.findall(r"right: (0\.\d+)", run_example("geometric", tmp_path)))
    assert ruled > alone + 0.1


def test_two_processes_train_one_layer_with_mixed_precision(tmp_path: Path) -> None:
    one, other = run_example("distributed", tmp_path).splitlines()
    assert one == other and one.startswith("all right: True, weight ")
