"""The benchmark of trained layers: its worlds, training, stored cells and table, at tiny sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import train_through
from benchmarks.__main__ import main
from benchmarks.train_through import NONE, Case, draw_worlds, make_layer, score, train

TINY = Case(n=10, k=3, spread=0.3, worlds=4, batch=2, steps=40, rate=1e-2)


def test_worlds_are_clusters_and_differ_by_seed() -> None:
    points, truth = draw_worlds(TINY, 3, 0)
    assert points.shape == (3, 10, 8) and truth.shape == (3, 10, 10)
    # transitive: two steps through one cluster stay in it
    assert ((truth.float() @ truth.float() > 0) == truth).all()
    assert torch.equal(points, draw_worlds(TINY, 3, 0)[0]) and not torch.equal(points, draw_worlds(TINY, 3, 1)[0])


@pytest.mark.parametrize("schedule", [NONE, "paper", "adaptive"])
def test_a_model_learns_and_so_does_the_weight(schedule: str) -> None:
    layer = make_layer(schedule, 0.1)
    model = train(TINY, layer, 0)
    assert score(TINY, model, layer, 0) > 0.5
    assert layer is None or (layer.weights[0] > 0 and layer.weights[0].item() != pytest.approx(0.1))


def test_only_the_layer_differs_between_cells() -> None:
    """A layer whose weight stays almost zero gives the model that is trained without one."""
    alone = train(TINY, None, 5)
    layer = make_layer("paper", 1e-9)
    assert layer is not None
    layer.requires_grad_(False)
    for name, parameter in train(TINY, layer, 5).state_dict().items():
        torch.testing.assert_close(parameter, alone.state_dict()[name], rtol=1e-3, atol=1e-4)


def test_steps_before_the_layer_train_the_model_alone() -> None:
    layer = make_layer("paper", 0.3)
    assert layer is not None
    model = train(replace(TINY, steps_before=40, steps=0), layer, 5)
    assert layer.weights[0].item() == pytest.approx(0.3)
    for name, parameter in train(TINY, None, 5).state_dict().items():
        assert torch.equal(model.state_dict()[name], parameter)


def test_a_run_resumes_and_repeats_cells_of_other_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(train_through, "CASES", {"tiny": TINY})
    path = tmp_path / "cells.json"
    command = ["train-through", "--seeds", "1", "--weights", "0.3", "--json", str(path), "--schedules"]
    assert main([*command, "paper"]) == 0
    assert [line.rsplit(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "tiny, no layer, weight 0, seed 100", "tiny, paper, weight 0.3, seed 100"]
    # a score that no run gives shows whether a cell was computed again
    stored = json.loads(path.read_text())
    for cell in stored["cells"].values():
        cell.update(f1=7.0, weight=0.25)
    path.write_text(json.dumps(stored))
    assert main([*command, "paper"]) == 0
    said = capsys.readouterr()
    assert said.err == "" and said.out == (
        "| training data | starting weight | no layer | paper | paper, weight after |\n"
        "|---|--:|--:|--:|--:|\n| tiny | 0.3 | 7.000 | 7.000 | 0.25 |\n")
    stored["cells"]["tiny, paper, weight 0.3, seed 100"]["made_with"]["schedule"] = "Schedule(iterations=1)"
    path.write_text(json.dumps(stored))
    assert main([*command, "paper"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("tiny, paper, weight 0.3, seed 100: 0.") and "| 7.000 | 0." in said.out


@pytest.mark.parametrize("arguments, message", [
    (["--schedules", "warm"], "unknown schedule 'warm'"),
    (["--cases", "nothing"], "no case is chosen"),
    (["--seeds", "0"], "--seeds must be at least 1"),
    (["--weights", "0"], "--weights must be above 0"),
])
def test_a_wrong_argument_is_an_error(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train-through", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text("[]")
    assert main(["train-through", "--json", str(path)]) == 1
    assert "has no cells" in capsys.readouterr().err and path.read_text() == "[]"
