"""The experiment on hierarchies with data that is made up; of the real files only the headers are read."""

from __future__ import annotations

import doctest
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from generated_trees import LABELS, arff_text
from torch import Tensor, nn

from experiments.checkpoint import Checkpoint
from experiments.files import DataFiles
from experiments.hierarchies import __main__ as command
from experiments.hierarchies import data as files
from experiments.hierarchies import metrics, model
from experiments.hierarchies import run as runs
from experiments.hierarchies.data import Tree, is_last, load_data, read_items, read_tree
from experiments.hierarchies.figures import draw
from experiments.hierarchies.fused import FusedAdam
from experiments.hierarchies.methods import HEADS, ORDER
from experiments.hierarchies.metrics import average_precision, measure
from experiments.hierarchies.model import Models, Settings, Trainer, train
from experiments.hierarchies.results import as_table
from experiments.hierarchies.run import Experiment, has_one_path, make_models
from experiments.hierarchies.speed import measure_steps
from experiments.runs import load_results
from logicmp import LogicMPError
from logicmp.limits import Progress, silent

SMALL = Settings(units=24, rate=5e-3, epochs=6, batch=8, dropout=0.3)
# eisen_FUN has items with several paths and validation items, ImCLEF07D neither
NAMES = ("eisen_FUN", "ImCLEF07D")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data sets that are made up, in the places and with the names of the real ones."""
    folder = tmp_path_factory.mktemp("data")
    sums = []
    for name, parts in (("eisen_FUN", ("train", "valid", "test")), ("ImCLEF07D", ("train", "test"))):
        (folder / "hmc" / name).mkdir(parents=True)
        for seed, part in enumerate(parts):
            text = arff_text(160 if part == "train" else 60, seed, has_one_path=name == "ImCLEF07D")
            (folder / "hmc" / name / f"{part}.arff").write_text(text)
            sums.append(f"{hashlib.sha256(text.encode()).hexdigest()[:16]}  {name}/{part}.arff\n")
    (folder / "checksums.txt").write_text("".join(sums))
    return folder


@pytest.fixture
def made_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(files, "FILES", DataFiles("made up", "nowhere", folder / "checksums.txt", "hmc"))
    monkeypatch.setenv("LOGICMP_DATA", str(folder))
    monkeypatch.setattr(runs, "SETTINGS", dict.fromkeys(NAMES, SMALL))
    load_data.cache_clear()
    yield folder
    load_data.cache_clear()


@pytest.fixture
def tree() -> Tree:
    return Tree(tuple(dict.fromkeys(LABELS)))


def above_of(label: str) -> list[str]:
    """The label and those above it."""
    parts = label.split("/")
    return ["/".join(parts[:k]) for k in range(1, len(parts) + 1)]


def worlds_of(tree: Tree, is_path: bool) -> Tensor:
    """All sets of labels that the rules allow, or all paths to a leaf, [worlds, labels]."""
    found = []
    if is_path:
        for leaf in (label for label in tree.labels if not any(x.startswith(label + "/") for x in tree.labels)):
            found.append([label in above_of(leaf) for label in tree.labels])
    else:
        for number in range(2 ** len(tree)):
            world = {label for k, label in enumerate(tree.labels) if number >> k & 1}
            if all(set(above_of(label)) <= world for label in world):
                found.append([label in world for label in tree.labels])
    return torch.tensor(found)


# data


def test_labels_imply_those_above_and_missing_features_are_marked() -> None:
    lines = ["@attribute class hierarchical 2,1/1,1,2/1,1", "@DATA", "", "0.5,?,1/1@2 % one", "1,2,1"]
    tree = read_tree(lines)
    assert tree.labels == ("2", "1/1", "1", "2/1")
    features, labels = read_items(lines, tree)
    np.testing.assert_array_equal(features, [[0.5, np.nan], [1, 2]])
    assert labels.tolist() == [[True, True, True, False], [False, False, True, False]]


def test_a_header_without_labels_is_an_error() -> None:
    with pytest.raises(LogicMPError, match="@ATTRIBUTE class hierarchical"):
        read_tree(["@ATTRIBUTE a NUMERIC", "@DATA"])


def test_the_tree_has_every_label_below_every_label(tree: Tree) -> None:
    pairs = {(tree.labels[a], tree.labels[b]) for a, b in zip(*(x.tolist() for x in tree.pairs), strict=True)}
    assert pairs == {(a, b) for b in tree.labels for a in above_of(b)}
    assert [tree.labels[k] for k in tree.evidence["root"].nonzero().flatten().tolist()] == ["1", "2", "3"]


def test_training_items_are_scaled_and_test_items_with_them(made_up: Path) -> None:
    data = load_data("eisen_FUN", made_up)
    assert (len(data.train), len(data.test)) == (220, 60)
    torch.testing.assert_close(data.train.features.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(data.train.features.std(0, unbiased=False), torch.ones(6))
    assert float(data.test.features.mean(0).abs().max()) > 1e-3


def test_the_last_items_of_each_label_set_are_held_out() -> None:
    labels = np.array([[k in (0, 2, 4, 6, 7)] for k in range(11)])
    # five items are true, six are false: one of each is held out
    assert is_last(labels).nonzero()[0].tolist() == [7, 10]
    assert not is_last(np.eye(4, dtype=bool)).any()


@pytest.mark.parametrize(("name", "sizes"), [("eisen_FUN", (160, 60)), ("ImCLEF07D", (131, 29))])
def test_settings_are_chosen_without_the_test_file(
        made_up: Path, monkeypatch: pytest.MonkeyPatch, name: str, sizes: tuple[int, int]) -> None:
    read: list[str] = []

    def recorded(self: DataFiles, file: str, data: str | Path | None = None) -> bytes:
        read.append(file)
        return original(self, file, data)

    original = DataFiles.read
    monkeypatch.setattr(DataFiles, "read", recorded)
    data = load_data(name, made_up, True)
    assert (len(data.train), len(data.test)) == sizes
    assert read and not any("test" in file for file in read)


def test_one_path_is_a_property_of_the_items(made_up: Path) -> None:
    assert [has_one_path(load_data(name, made_up)) for name in NAMES] == [False, True]


@pytest.mark.parametrize(("name", "n_labels", "n_features"), [
    ("cellcycle_FUN", 499, 77), ("eisen_FUN", 461, 79), ("derisi_FUN", 499, 63), ("ImCLEF07A", 96, 80),
    ("ImCLEF07D", 46, 80)])
def test_the_real_headers_have_the_published_labels(name: str, n_labels: int, n_features: int) -> None:
    folder = os.environ.get("LOGICMP_DATA")
    if not folder or not (Path(folder) / "hmc").is_dir():
        pytest.skip("set LOGICMP_DATA to the folder that has hmc/ to read the real headers")
    lines = files.FILES.read(f"{name}/train.arff").decode().splitlines()
    assert len(read_tree(lines)) == n_labels
    assert sum(line.lower().startswith("@attribute") for line in lines) == n_features + 1


# measures


def slow_average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """For each threshold, recall gained times precision."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = scores >= threshold
        recall = truth[chosen].sum() / truth.sum()
        total += (recall - before) * truth[chosen].sum() / chosen.sum()
        before = recall
    return total


@pytest.mark.parametrize("seed", range(8))
def test_average_precision_equals_its_definition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    # few different scores: many ties
    scores, truth = draw.integers(0, 4 if seed % 2 else 1000, 60).astype(float), draw.random(60) < 0.2
    assert average_precision(scores, truth) == pytest.approx(slow_average_precision(scores, truth), abs=1e-12)
    assert average_precision(scores.reshape(6, 10), truth.reshape(6, 10)) == average_precision(scores, truth)


def test_measures_of_a_small_case() -> None:
    parent = torch.tensor([[False, False], [True, False]])
    logits = torch.tensor([[2.0, 1.0], [-1.0, 1.0], [0.5, 0.5]])
    truth = torch.tensor([[True, True], [True, True], [True, False]])
    found = measure(logits, logits > 0, truth, parent)
    assert (found["exact_match"], found["incoherent"], found["violated"]) == (33.33, 0.333, 0.333)
    expected = -torch.where(truth, logits.sigmoid(), 1 - logits.sigmoid()).log().mean()
    assert found["log_loss"] == pytest.approx(float(expected), abs=1e-5)


def test_examples_in_docstrings_run() -> None:
    assert doctest.testmod(metrics).failed == 0


# rows


def slow_losses(tree: Tree, logits: Tensor, labels: Tensor) -> list[float]:
    """MCLoss of each item by its definition, with probabilities."""
    found = []
    for h, y in zip(logits.sigmoid().tolist(), labels.tolist(), strict=True):
        total = 0.0
        for k, label in enumerate(tree.labels):
            below = [j for j, other in enumerate(tree.labels) if label in above_of(other)]
            p = max(y[j] * h[j] for j in below) if y[k] else max(h[j] for j in below)
            total -= np.log(p if y[k] else 1 - p)
        found.append(total / len(tree))
    return found


def test_the_loss_and_the_output_of_c_hmcnn_equal_their_definitions(tree: Tree) -> None:
    head, generator = HEADS["c-hmcnn"](tree), torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(6, len(tree), generator=generator, dtype=torch.float64)
    worlds = worlds_of(tree, False)
    labels = worlds[torch.randint(len(worlds), (6,), generator=generator)]
    torch.testing.assert_close(head.loss(logits, labels), torch.tensor(slow_losses(tree, logits, labels)).double())
    highest = [[max(row[j] for j, other in enumerate(tree.labels) if label in above_of(other)) for label in tree.labels]
               for row in logits.tolist()]
    assert head.logits(logits).tolist() == highest


@pytest.mark.parametrize(("row", "is_path"), [("exact", False), ("one-path", True)])
def test_exact_rows_equal_the_sum_over_all_worlds(tree: Tree, row: str, is_path: bool) -> None:
    head, worlds = HEADS[row](tree), worlds_of(tree, is_path)
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(5, len(tree), generator=generator, dtype=torch.float64, requires_grad=True)
    scores = logits @ worlds.double().T
    p = scores.softmax(1)
    labels = worlds[torch.randint(len(worlds), (5,), generator=generator)]
    expected = scores.logsumexp(1) - (logits * labels).sum(1)
    torch.testing.assert_close(head.loss(logits, labels), expected / len(tree), atol=1e-9, rtol=1e-9)
    got, want = (torch.autograd.grad(loss.sum(), logits, retain_graph=True)[0] for loss in (
        head.loss(logits, labels), expected / len(tree)))
    torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(head.logits(logits).sigmoid(), p @ worlds.double(), atol=1e-9, rtol=1e-9)
    assert torch.equal(head.worlds(logits.detach()), worlds[p.argmax(1)])


# the model


def autograd_model(models: Models, k: int) -> nn.Sequential:
    """The model of one seed, written with torch's layers."""
    found = nn.Sequential()
    for weight, bias in zip(models.weights, models.biases, strict=True):
        layer = nn.Linear(*weight.shape[1:])
        layer.load_state_dict({"weight": weight[k].T, "bias": bias[k, 0]})
        found.extend([layer, nn.ReLU()])
    return found[:-1]


def test_gradients_equal_those_of_autograd() -> None:
    torch.manual_seed(0)
    models = Models((7, 5, 6, 3), 0.0, [3, 4])
    x, slope = torch.randn(2, 4, 7), torch.randn(2, 4, 3)
    logits = models(x, is_training=True)
    models.backward(slope)
    for k in range(2):
        plain = autograd_model(models, k)
        torch.testing.assert_close(logits[k], plain(x[k]))
        plain(x[k]).backward(slope[k])
        for layer, weight, bias in zip(plain[::2], models.weights, models.biases, strict=True):
            torch.testing.assert_close(weight.grad[k], layer.weight.grad.T)
            torch.testing.assert_close(bias.grad[k, 0], layer.bias.grad)


def test_dropout_keeps_its_share_and_the_gradient_follows() -> None:
    torch.manual_seed(0)
    models = Models((3, 400, 2), 0.7, [5])
    x = torch.randn(1, 50, 3)
    models(x, is_training=True)
    # the same random numbers again
    kept = Models((3, 400, 2), 0.7, [5])._draw(torch.empty(1, 50, 400)) / 0.3
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.3])
    assert float((kept > 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    models.backward(torch.ones(1, 50, 2))
    weights = [w.detach().clone().requires_grad_() for w in models.weights]
    hidden = torch.baddbmm(models.biases[0], x, weights[0]).relu() * kept
    torch.baddbmm(models.biases[1], hidden, weights[1]).sum().backward()
    for ours, theirs in zip(models.weights, weights, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_fused_step_equals_torch(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_data("eisen_FUN", made_up)
    trained = []
    for largest in (0, SMALL.batch):
        monkeypatch.setattr(model, "MAX_FUSED", largest)
        models = make_models(data, SMALL, [0, 1])
        trainer = Trainer(models, HEADS["exact"](data.tree), data, SMALL)
        assert isinstance(trainer.optimizer, FusedAdam) == (largest > 0)
        start = [p.clone() for p in models.parameters]
        for chosen in trainer.order().split(SMALL.batch, 1)[:10]:
            trainer.step(chosen)
        trained.append([p - before for p, before in zip(models.parameters, start, strict=True)])
    for one, other in zip(*trained, strict=True):
        # Adam divides by the size of the gradient: rounding of tiny ones shows
        assert float((one - other).norm() / one.norm()) < 1e-3


def test_bfloat16_products_come_near() -> None:
    rng = torch.Generator().manual_seed(0)
    x, slope = torch.randn(1, 16, 40, generator=rng), torch.randn(1, 16, 3, generator=rng)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        models = Models((40, 30, 30, 3), 0.0, [0], dtype)
        logits = models(x, is_training=True)
        models.backward(slope)
        assert logits.dtype == models.weights[0].dtype == torch.float32
        found.append([logits, *(w.grad for w in models.weights)])
    for one, other in zip(*found, strict=True):
        assert 0 < float((one - other).norm() / one.norm()) < 0.1


def test_seeds_trained_together_equal_those_trained_alone(made_up: Path) -> None:
    data = load_data("eisen_FUN", made_up)
    both = make_models(data, SMALL, [0, 1])
    train(both, HEADS["exact"](data.tree), data, replace(SMALL, epochs=2), Checkpoint())
    for k in range(2):
        alone = make_models(data, SMALL, [k])
        train(alone, HEADS["exact"](data.tree), data, replace(SMALL, epochs=2), Checkpoint())
        for one, other in zip(alone.parameters, both.parameters, strict=True):
            torch.testing.assert_close(one[0], other[k], atol=1e-4, rtol=1e-3)


def test_an_interrupted_run_ends_where_it_would_have_ended(made_up: Path, tmp_path: Path) -> None:
    data = load_data("eisen_FUN", made_up)

    def trained(checkpoint: Checkpoint, progress: Progress = silent) -> tuple[list[float], Tensor]:
        models = make_models(data, SMALL, [0])
        losses = train(models, HEADS["mlp"](data.tree), data, SMALL, checkpoint, {"seeds": [0]}, progress)
        return losses, models(data.test.features.unsqueeze(0))

    def stop(what: str, done: int, total: int | None) -> None:
        if done == 3:
            raise KeyboardInterrupt

    whole = trained(Checkpoint())
    with pytest.raises(KeyboardInterrupt):
        trained(Checkpoint(tmp_path / "a.pt", every=0.0), stop)
    assert len(torch.load(tmp_path / "a.pt", weights_only=True)["losses"]) == 3
    losses, logits = trained(Checkpoint(tmp_path / "a.pt"))
    assert losses == whole[0]
    assert torch.equal(logits, whole[1])


# everything


@pytest.fixture
def experiment(made_up: Path, tmp_path: Path) -> Experiment:
    return Experiment(results=tmp_path / "results")


def test_every_row_learns_and_is_stored(
        experiment: Experiment, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    experiment.run(NAMES, ORDER, [0])
    found = {(r.split, r.method): r for r in load_results(experiment.results)}
    assert set(found) == {(name, row) for name in NAMES for row in ORDER if (name, row) != ("eisen_FUN", "one-path")}
    share = {name: float(load_data(name).test.labels.float().mean()) for name in NAMES}
    for (name, row), result in found.items():
        # scores without meaning get the share of true labels
        assert result.values["auprc"] > 1.8 * share[name], result
        if row in ("mlp+max", "c-hmcnn", "exact", "one-path"):
            assert result.values["incoherent"] == result.values["violated"] == 0, result
    assert found["eisen_FUN", "mlp"].values["incoherent"] > 0
    assert found["ImCLEF07D", "one-path"].values["exact_match"] > found["ImCLEF07D", "mlp"].values["exact_match"]
    text = as_table(list(found.values()))
    assert text.count("LogicMP, exact, one path") == 1
    assert "| C-HMCNN |" in text
    assert draw(list(found.values()), tmp_path / "a.png").stat().st_size > 5000
    # nothing is run again
    capsys.readouterr()
    experiment.run(NAMES, ORDER, [0])
    assert capsys.readouterr().out == ""


def test_seeds_of_a_group_are_stored_one_by_one(experiment: Experiment) -> None:
    replace(experiment, tried={"epochs": 1}).run(["eisen_FUN"], ["mlp"], [0])
    replace(experiment, tried={"epochs": 1}, together=3).run(["eisen_FUN"], ["mlp", "mlp+max"], range(4))
    found = load_results(experiment.results)
    assert [(r.method, r.seed, r.variant) for r in found] == [
        (row, seed, "epochs=1") for row in ("mlp", "mlp+max") for seed in range(4)]
    assert len({r.values["log_loss"] for r in found if r.method == "mlp"}) == 4
    text = as_table(found)
    assert "eisen_FUN epochs=1 (C-HMCNN" in text and text.splitlines()[4].endswith("| 4 |")


def test_a_run_measured_on_its_way_equals_shorter_runs(experiment: Experiment, tmp_path: Path) -> None:
    replace(experiment, tried={"epochs": 3}, stops=(1, 2), is_held_out=True).run(["eisen_FUN"], ["mlp"], [0])
    on_the_way = {r.key: r.values for r in load_results(experiment.results)}
    for epochs in (1, 2, 3):
        alone = replace(experiment, results=tmp_path / "alone", tried={"epochs": epochs}, is_held_out=True)
        alone.run(["eisen_FUN"], ["mlp"], [0])
    assert on_the_way == {r.key: r.values for r in load_results(tmp_path / "alone")}
    assert len(on_the_way) == 6


def test_a_world_of_one_path_is_a_path(made_up: Path) -> None:
    data = load_data("ImCLEF07D")
    paths = {tuple(world) for world in worlds_of(data.tree, True).tolist()}
    logits = make_models(data, SMALL, [0])(data.test.features.unsqueeze(0))[0]
    assert {tuple(world) for world in HEADS["one-path"](data.tree).worlds(5 * logits).tolist()} <= paths


def test_commands(made_up: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = ["--results", str(tmp_path), "--threads", "1"]
    run = ["run", "--set", "ImCLEF07D", "--method", "exact", "--epochs", "2", "--held-out", *results]
    assert command.main(run) == 0
    assert "ImCLEF07D exact seed 0 held-out epochs=2: auprc" in capsys.readouterr().out
    assert [r["settings"]["epochs"] for r in json.loads((tmp_path / "hmc.json").read_text())] == [2]
    assert command.main(["speed", "--set", "ImCLEF07D", *results]) == 0
    assert command.main(["run", "--set", "ImCLEF07D", "--method", "mlp", *results]) == 0
    capsys.readouterr()
    assert command.main(["table", *results]) == 0
    row = capsys.readouterr().out.splitlines()[4]
    assert row.startswith("| MLP | 0.") and row.split(" | ")[-2] != "-"
    assert command.main(["figure", "--out", str(tmp_path / "a.png"), *results]) == 0
    assert (tmp_path / "a.png").exists()


def test_steps_of_all_rows_are_measured(made_up: Path) -> None:
    found = measure_steps(load_data("ImCLEF07D"), SMALL, repeat=3)
    assert list(found) == [row for row in ORDER if row != "mlp+max"]
    assert all(ms > 0 for ms in found.values())
