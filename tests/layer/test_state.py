"""Saving and loading: rule text and weights, whole or not at all."""

from __future__ import annotations

import copy
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from logicmp import LogicMP, LogicMPError, Schedule, load_theory, parse_theory

TEXT = "word = {a, b, c}\nW(place, word)\nT(place)\n0.5 W(i, +w) => T(i)\n1.25 T(i) => T(i+1)\nT(i) v !T(i)."


def trained() -> LogicMP:
    """A layer whose weights are not those of its text."""
    layer = LogicMP(TEXT, iterations=3, damping=0.25, hard_weight=7.0)
    with torch.no_grad():
        layer.raw_weights[0].copy_(torch.tensor([1.0, -2.0, 0.125]))
        layer.raw_weights[1].fill_(-0.75)
    return layer


def inputs() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 4, generator=generator), {"W": torch.rand(2, 4, 3, generator=generator) > 0.5}


def same(one: LogicMP, other: LogicMP) -> bool:
    unary, evidence = inputs()
    return str(one.theory) == str(other.theory) and torch.equal(one(unary, evidence), other(unary, evidence))


# state_dict


def test_the_state_is_weights_and_text() -> None:
    state = trained().state_dict()
    assert set(state) == {"_extra_state", "raw_weights.0", "raw_weights.1", "raw_weights.2"}
    assert json.loads(bytes(state["_extra_state"].tolist())) == {
        "theory": str(trained().theory), "semantics": "exact", "reduce": "sum", "hard_weight": 7.0,
        "positive_weights": False}


def test_a_state_goes_through_torch_save_without_pickled_code() -> None:
    layer, file = trained(), io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = LogicMP(TEXT, iterations=3, damping=0.25, hard_weight=7.0)
    assert not same(other, layer)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert same(other, layer)


def test_the_state_of_a_model_contains_the_layer() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), LogicMP("C(a,b) ^ C(b,c) => C(a,c)"))
    other = copy.deepcopy(model)
    with torch.no_grad():
        model[1].raw_weights[0].fill_(3.0)
    other.load_state_dict(model.state_dict())
    x = torch.ones(4, 4)
    assert torch.equal(other(x), model(x))


def test_the_state_of_other_rules_is_rejected() -> None:
    with pytest.raises(LogicMPError) as caught:
        LogicMP("1 A(x) => B(x)").load_state_dict(LogicMP("1 B(x) => A(x)").state_dict())
    assert str(caught.value) == (
        "the saved state belongs to other rules:\n"
        "B(thing)\nA(thing)\n\n1 B(x) => A(x)\n\n"
        "hint: make the layer from these rules, or use LogicMP.load")


@pytest.mark.parametrize("options, shown", [
    ({"positive_weights": True}, ("positive_weights", "False", "True")),
    ({"hard_weight": 9.0}, ("hard_weight", "10.0", "9.0")),
    ({"semantics": "paper"}, ("semantics", "'exact'", "'paper'")),
    ({"reduce": "mean"}, ("reduce", "'sum'", "'mean'")),
])
def test_the_state_of_other_options_is_rejected(options: dict[str, Any], shown: tuple[str, str, str]) -> None:
    state, layer = LogicMP("2 A(x) => B(x)").state_dict(), LogicMP("2 A(x) => B(x)", **options)
    before = layer.weights[0].item()
    name, saved, own = shown
    with pytest.raises(LogicMPError) as caught:
        layer.load_state_dict(state)
    assert str(caught.value) == (f"the saved state belongs to a layer with {name}={saved}, this layer has "
                                 f"{name}={own}\nhint: make the layer with {name}={saved}")
    assert layer.weights[0].item() == before


def test_a_state_fits_a_layer_with_another_schedule() -> None:
    state = trained().state_dict()
    other = LogicMP(TEXT, iterations=7, hard_weight=7.0, max_elements=2**20)
    other.load_state_dict(state)
    assert other.weights[1].item() == -0.75


def test_the_state_of_version_0_2_has_rules_alone() -> None:
    state = trained().state_dict()
    state["_extra_state"] = torch.tensor(list(str(trained().theory).encode()), dtype=torch.uint8)
    other = LogicMP(TEXT, iterations=3, damping=0.25, hard_weight=7.0)
    other.load_state_dict(state)
    assert same(other, trained())


@pytest.mark.parametrize("data", [b"{", b"{}", b"\xff", b'{"theory": 3}'])
def test_a_damaged_state_is_rejected(data: bytes) -> None:
    state = {**trained().state_dict(), "_extra_state": torch.tensor(list(data), dtype=torch.uint8)}
    with pytest.raises(LogicMPError):
        trained().load_state_dict(state)


# files


def test_numbers_of_numpy_are_saved_as_numbers(tmp_path: Path) -> None:
    layer = LogicMP("2 A(x) => B(x)", iterations=np.int64(3), hard_weight=np.float32(4), sizes={"thing": np.int64(2)})
    layer.save(tmp_path / "layer")
    assert LogicMP.load(tmp_path / "layer").options == layer.options


def test_a_saved_layer_comes_back_with_its_options(tmp_path: Path) -> None:
    layer = trained()
    layer.save(tmp_path / "layer.safetensors")
    other = LogicMP.load(tmp_path / "layer.safetensors")
    assert same(other, layer)
    assert other.options == layer.options
    assert [w.requires_grad for w in other.raw_weights] == [True, True, False]
    assert [p.name for p in tmp_path.iterdir()] == ["layer.safetensors"]


def test_a_file_of_version_0_1_runs_the_papers_loop(tmp_path: Path) -> None:
    options = {"iterations": 3, "damping": 0.25, "tolerance": 0.0, "learn_weights": True, "semantics": "exact",
               "reduce": "sum", "hard_weight": 7.0, "positive_weights": False, "sizes": {}, "max_elements": 2**28}
    weights = {name: weight.detach() for name, weight in trained().named_parameters()}
    save_file(weights, tmp_path / "old", {"theory": TEXT, "options": json.dumps(options)})
    layer = LogicMP.load(tmp_path / "old")
    assert layer.options.schedule == Schedule(iterations=3, damping=0.25)
    want = LogicMP(TEXT, 3, 0.25, hard_weight=7.0, schedule="paper")
    want.load_state_dict(trained().state_dict())
    assert same(layer, want)


def test_a_file_contains_only_tensors_and_text(tmp_path: Path) -> None:
    trained().save(tmp_path / "layer.safetensors")
    assert set(load_file(tmp_path / "layer.safetensors")) == {"raw_weights.0", "raw_weights.1", "raw_weights.2"}


def test_the_dtype_is_saved(tmp_path: Path) -> None:
    layer = trained().double()
    with torch.no_grad():
        layer.raw_weights[1].fill_(0.1)
    layer.save(tmp_path / "layer")
    other = LogicMP.load(tmp_path / "layer")
    assert other.raw_weights[1].dtype == torch.float64
    assert other.raw_weights[1].item() == 0.1


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    with pytest.raises(LogicMPError) as caught:
        LogicMP.load(path)
    assert str(caught.value).startswith(f"cannot read a layer from {str(path)!r}: No such file or directory")


@pytest.mark.parametrize("keep", [0, 4, 40, 200])
def test_a_file_that_was_cut_is_an_error(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.safetensors"
    trained().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(LogicMPError) as caught:
        LogicMP.load(path)
    assert str(caught.value).startswith(f"cannot read a layer from {str(path)!r}: ")


def test_a_file_of_other_bytes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "noise.safetensors"
    path.write_bytes(b"PK\x03\x04 this is no layer " * 50)
    with pytest.raises(LogicMPError, match=r"^cannot read a layer from "):
        LogicMP.load(path)


def test_a_file_of_something_else_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(LogicMPError) as caught:
        LogicMP.load(path)
    assert str(caught.value) == f"{str(path)!r} is not a saved layer: it contains no theory"


@pytest.mark.parametrize("weights", [
    {},
    {"raw_weights.0": torch.zeros(3), "raw_weights.1": torch.zeros(())},
    {"raw_weights.0": torch.zeros(2), "raw_weights.1": torch.zeros(()), "raw_weights.2": torch.zeros(())},
], ids=["none", "one missing", "a wrong shape"])
def test_a_file_with_other_weights_than_its_rules_need_is_an_error(tmp_path: Path,
                                                                  weights: dict[str, torch.Tensor]) -> None:
    path = tmp_path / "layer.safetensors"
    save_file(weights, path, {"theory": TEXT, "options": "{}"})
    with pytest.raises(LogicMPError) as caught:
        LogicMP.load(path)
    assert str(caught.value).startswith(f"the weights in {str(path)!r} are not those of its rules: ")


@pytest.mark.parametrize("options", ["{", "[]", '{"speed": 3}'])
def test_a_file_with_invalid_options_is_an_error(tmp_path: Path, options: str) -> None:
    path = tmp_path / "layer.safetensors"
    save_file({}, path, {"theory": TEXT, "options": options})
    with pytest.raises(LogicMPError) as caught:
        LogicMP.load(path)
    assert str(caught.value).startswith(f"{str(path)!r} is not a saved layer: ")


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "layer.safetensors"
    first = trained()
    first.save(path)
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(LogicMPError, match=r"^cannot write a layer to .*No space left on device"):
        LogicMP(TEXT).save(path)
    assert path.read_bytes() == before
    assert same(LogicMP.load(path), first)
    # nothing half-written stays behind
    assert [p.name for p in tmp_path.iterdir()] == ["layer.safetensors"]


def test_saving_into_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match=r"^cannot write a layer to .*No such file or directory"):
        trained().save(tmp_path / "none" / "layer")


# copies


def test_pickle_gives_the_same_layer() -> None:
    layer = trained()
    layer(*inputs())
    other = pickle.loads(pickle.dumps(layer))
    assert same(other, layer)


def test_a_deep_copy_has_weights_of_its_own() -> None:
    layer = trained()
    other = copy.deepcopy(layer)
    assert same(other, layer)
    with torch.no_grad():
        other.raw_weights[1].fill_(5.0)
    assert not same(other, layer)


def test_the_dtype_of_the_output_is_that_of_the_input() -> None:
    layer = trained()
    unary, evidence = inputs()
    want = layer(unary, evidence)
    assert want.dtype == torch.float32
    double = copy.deepcopy(layer).double()
    assert all(w.dtype == torch.float64 for w in double.parameters())
    assert double(unary.double(), evidence).dtype == torch.float64
    torch.testing.assert_close(double(unary.double(), evidence).float(), want)
    half = copy.deepcopy(layer).to(torch.bfloat16)
    assert half(unary.bfloat16(), evidence).dtype == torch.bfloat16
    torch.testing.assert_close(half(unary.bfloat16(), evidence).float(), want, rtol=0.1, atol=0.1)
    # the weights follow the input
    assert layer(unary.double(), evidence).dtype == torch.float64


def test_plans_are_kept_by_size() -> None:
    layer = LogicMP("C(a,b) ^ C(b,c) => C(a,c)")
    for n in (3, 4, 3):
        layer(torch.zeros(n, n))
    assert layer.executor({"thing": 3}) is layer.executor({"thing": 3})
    assert layer.executor({"thing": 3}) is not layer.executor({"thing": 4})


@pytest.mark.parametrize("rules, reduce", [
    ("C(a,b) ^ C(b,c) => C(a,c)", "sum"), ("C(a,b) ^ C(b,c) => C(a,c)", "mean"),
    ("C(a,b) => C(b,a)\nEXIST b C(a,b) ^ a != b", "sum")])
def test_sizes_near_each_other_share_a_plan_where_it_does_not_depend_on_them(rules: str, reduce: str) -> None:
    torch.manual_seed(0)
    layer = LogicMP(rules, reduce=reduce)
    for n in range(32, 48):
        logits = torch.randn(n, n).requires_grad_()
        other = LogicMP(rules, reduce=reduce)
        found, expected = layer(logits), other(logits)
        torch.testing.assert_close(found, expected)
        slopes = [torch.autograd.grad(result.sum(), logits)[0] for result in (found, expected)]
        torch.testing.assert_close(*slopes)
    # 32 to 35, ..., 44 to 47
    assert len(layer._solver.plans.known) == (4 if reduce == "sum" else 16)


def test_a_layer_does_not_keep_plans_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logicmp.execute.plans.MAX_PLANS", 3)
    layer = LogicMP("C(a,b) ^ C(b,c) => C(a,c)")
    for n in range(2, 8):
        layer(torch.zeros(n, n))
    assert len(layer._solver.plans.known) == 3
    first = layer.executor({"thing": 7})
    assert first is layer.executor({"thing": 7})


def test_a_layer_prints_what_it_is() -> None:
    layer = LogicMP("C(a,b) ^ C(b,c) => C(a,c)", schedule="paper")
    assert repr(layer).startswith("LogicMP(\n  1 rules, Schedule(iterations=5)")


# folders


def test_a_folder_holds_weights_rules_and_a_card(tmp_path: Path) -> None:
    layer = trained()
    layer.save_pretrained(tmp_path / "new/rules", figures={"F1": 0.9071, "data": "CoNLL|2003"})
    folder = tmp_path / "new/rules"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "model.safetensors", "rules.mln"]
    assert same(LogicMP.from_pretrained(folder), layer)
    rules = load_theory(folder / "rules.mln").rules
    # one weight for each constant cannot be one number
    assert [(rule.weight, rule.is_hard) for rule in rules] == [(0.5, False), (-0.75, False), (None, True)]
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: logicmp\n") and "# rules\n" in card
    assert "| one per constant | `W(i, +w) => T(i)` |\n| -0.75 | `T(i) => T(i+1)` |" in card
    assert "| hard | `T(i) v !T(i)` |" in card and "| `hard_weight` | `7.0` |" in card
    assert "| F1 | 0.9071 |\n| data | CoNLL\\|2003 |" in card


def test_a_folder_is_written_again(tmp_path: Path) -> None:
    trained().save_pretrained(tmp_path)
    other = LogicMP("2 A(x) => B(x)")
    other.save_pretrained(tmp_path)
    again = LogicMP.from_pretrained(tmp_path)
    assert str(again.theory) == str(other.theory)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "model.safetensors", "rules.mln"}


def test_facts_and_rules_without_weights_come_back(tmp_path: Path) -> None:
    text = "l = {Dog, Cat}\n*is(l, l)\nHas(l)\nHas(x) ^ is(x, y) => Has(y)\nis(Dog, Cat).\n-0.333333333 Has(x)"
    layer = LogicMP(text)
    layer.save_pretrained(tmp_path / "pets")
    again, logits = LogicMP.from_pretrained(tmp_path / "pets"), torch.randn(2)
    assert torch.equal(again(logits), layer(logits)) and again.source == parse_theory(str(layer.source))
    assert "with all declarations and 1 facts" in (tmp_path / "pets/README.md").read_text()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(LogicMPError) as caught:
        trained().save_pretrained(tmp_path)
    assert str(caught.value) == (f"the folder {str(tmp_path)!r} has other files: config.json\nhint: save the layer to "
                                 f"a folder of its own, for example {str(tmp_path / 'logicmp')!r}")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    LogicMP("2 A(x) => B(x)").save_pretrained(tmp_path / "old")
    before = {path: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    monkeypatch.setattr("os.fsync", fail)
    for name in ("old", "new"):
        with pytest.raises(LogicMPError, match=r"cannot write a layer to .*: No space left on device"):
            trained().save_pretrained(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert {path: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


def test_a_folder_that_is_not_complete_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "layer"
    with pytest.raises(LogicMPError, match=r"there is no folder .*layer'\nhint: save_pretrained writes such a folder"):
        LogicMP.from_pretrained(folder)
    trained().save_pretrained(folder)
    rules = (folder / "rules.mln").read_text()
    (folder / "rules.mln").write_text(rules.replace("-0.75", "-0.5"))
    with pytest.raises(LogicMPError, match=r"the rules in .*rules.mln' are not those of the saved weights: the file "
                                           r"was changed\nhint: LogicMP\(load_theory\("):
        LogicMP.from_pretrained(folder)
    (folder / "rules.mln").write_text("1 A(")
    with pytest.raises(LogicMPError, match=r"rules\.mln:1:"):
        LogicMP.from_pretrained(folder)
    (folder / "rules.mln").unlink()
    with pytest.raises(LogicMPError, match=r"has no rules.mln\nhint: write it again with save_pretrained"):
        LogicMP.from_pretrained(folder)
    (folder / "rules.mln").write_text(rules)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(LogicMPError, match="its checksum is wrong, so the file is damaged"):
        LogicMP.from_pretrained(folder)
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LogicMPError, match="cannot read a layer from"):
        LogicMP.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(LogicMPError, match=r"has no model\.safetensors"):
        LogicMP.from_pretrained(folder)


def test_facts_survive_the_meta_device() -> None:
    """Libraries make a model there and load its weights afterwards."""
    text = "l = {Dog, Cat}\n*is(l, l)\nHas(l)\n2 Has(x) ^ is(x, y) => Has(y)\nis(Dog, Cat)."
    layer, logits = LogicMP(text), torch.randn(2)
    with torch.device("meta"):
        other = LogicMP(text)
    assert other.raw_weights[0].is_meta
    other.load_state_dict(layer.state_dict(), assign=True)
    assert torch.equal(other(logits), layer(logits))
