"""Predicates given by networks: the layer equals networks called by hand and the plain layer, values and gradients."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from logicmp import LogicMP, LogicMPError

RULES = """
Smokes(person)
Friends(person, person)
home(person) in {North, South, East}
Lives(person, town)
1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
0.5 Friends(x, y) => (home(x) in {North} <=> home(y) in {North})
0.7 Lives(x, t) ^ Lives(y, t) => Friends(x, y)
"""
DOUBLE = torch.float64


class Pairs(nn.Module):
    """A network of two entities, as people write it: features side by side."""

    def __init__(self, n_first: int, n_second: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_first + n_second, 8), nn.ELU(), nn.Linear(8, 1))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = self.layers(torch.cat([x, y], -1))
        return found


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {"Smokes": nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 1)).double(),
            "Friends": Pairs(4, 4).double(), "home": nn.Linear(4, 3).double(), "Lives": Pairs(4, 2).double()}


def features(*batch: int, n: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return (torch.randn(*batch, n, 4, dtype=DOUBLE, generator=generator),
            torch.randn(*batch, 3, 2, dtype=DOUBLE, generator=generator))


def by_hand(nets: dict[str, nn.Module], person: Tensor, town: Tensor) -> dict[str, Tensor]:
    """Every network on every choice of entities, one after the other; without batch."""
    one, pair = nets["Smokes"], nets["Friends"]
    return {"Smokes": torch.stack([one(x)[0] for x in person]),
            "Friends": torch.stack([torch.stack([pair(x, y)[0] for y in person]) for x in person]),
            "home": torch.stack([nets["home"](x) for x in person]),
            "Lives": torch.stack([torch.stack([nets["Lives"](x, t)[0] for t in town]) for x in person])}


def gradients(module: nn.Module, outputs: dict[str, Tensor]) -> list[Tensor]:
    sum((x.to_dense() if x.layout != torch.strided else x).square().sum() for x in outputs.values()).backward()
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]


def test_outputs_and_gradients_equal_those_of_networks_called_by_hand() -> None:
    person, town = features()
    layer = LogicMP(RULES, predicates=networks(), dtype=DOUBLE)
    found = layer({"person": person, "town": town})
    plain, nets = LogicMP(RULES, dtype=DOUBLE), nn.ModuleDict(networks())
    want = plain(by_hand(dict(nets.items()), person, town))
    assert found.keys() == want.keys()
    for name in want:
        torch.testing.assert_close(found[name], want[name])
    both = nn.ModuleList([nets, plain])
    got, expected = gradients(layer, found), gradients(both, want)
    assert len(got) == len(expected) and any(bool(g.abs().max() > 1e-6) for g in got)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_batch_is_its_items() -> None:
    person, town = features(2, 3)
    layer = LogicMP(RULES, predicates=networks(), dtype=DOUBLE)
    mask = {"person": torch.ones(2, 3, 5).bool()}
    mask["person"][1, 2, 3:] = False
    found = layer({"person": person, "town": town}, mask=mask)
    alone = layer({"person": person[1, 2, :3], "town": town[1, 2]})
    torch.testing.assert_close(found["Friends"][1, 2, :3, :3], alone["Friends"])
    torch.testing.assert_close(found["home"][1, 2, :3], alone["home"])
    # towns that all items share
    shared = layer({"person": person, "town": town[0, 0]})
    torch.testing.assert_close(shared["Lives"][0, 0], found["Lives"][0, 0])


def test_candidates_are_evaluated_and_no_other_pairs() -> None:
    person, town = features(n=6)
    nets = networks()
    seen: list[tuple[int, ...]] = []
    nets["Friends"].register_forward_hook(lambda module, inputs, output: seen.append(tuple(inputs[0].shape)))
    # in no order, and one pair twice
    pairs = torch.tensor([[3, 0, 1, 0, 5, 3], [1, 1, 2, 2, 0, 1]])
    layer = LogicMP(RULES, predicates=nets, dtype=DOUBLE)
    given = {"person": person, "town": town, "Friends": pairs}
    found = layer(given)
    assert seen == [(5, 4)]
    assert found["Friends"].layout == torch.sparse_coo and found["Friends"].indices().shape == (2, 5)
    # the oracle: all pairs, and evidence that every pair but the candidates is false
    known = torch.zeros(6, 6, dtype=DOUBLE)
    known[pairs[0], pairs[1]] = torch.nan
    dense = LogicMP(RULES, predicates=networks(), dtype=DOUBLE)
    want = dense({"person": person, "town": town}, {"Friends": known})
    rows, columns = found["Friends"].indices()
    torch.testing.assert_close(found["Friends"].values(), want["Friends"][rows, columns])
    for name in ("Smokes", "home", "Lives"):
        torch.testing.assert_close(found[name], want[name])
    want["Friends"] = want["Friends"][rows, columns]
    for one, other in zip(gradients(layer, found), gradients(dense, want), strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_given_or_observed_is_not_evaluated() -> None:
    person, town = features()
    nets = networks()
    nets["Friends"].register_forward_pre_hook(lambda *_: pytest.fail("the network was called"))
    layer, plain = LogicMP(RULES, predicates=nets, dtype=DOUBLE), LogicMP(RULES, dtype=DOUBLE)
    logits = by_hand(networks(), person, town)
    rest = {name: x for name, x in logits.items() if name != "Friends"}
    friends = torch.rand(5, 5) > 0.5
    for evidence in (friends, friends.nonzero().T):
        found = layer({"person": person, "town": town}, {"Friends": evidence})
        torch.testing.assert_close(found, plain(rest, {"Friends": evidence}))
    found = layer({"person": person, "town": town, "Friends": logits["Friends"]})
    torch.testing.assert_close(found, plain(logits))
    # logits of all predicates, as for violations: no features are needed
    torch.testing.assert_close(layer.violations(found), plain.violations(found))


CHAIN = "word(token) in {A, B, C}\nword(i) in {A} => word(i+1) in {B}.\nStart(token)\n1 Start(i) => word(i) in {A}"


def test_every_method_takes_features() -> None:
    torch.manual_seed(1)
    nets: dict[str, nn.Module] = {"word": nn.Linear(4, 3), "Start": nn.Linear(4, 1)}
    layer, plain = LogicMP(CHAIN, method="exact", predicates=nets), LogicMP(CHAIN, method="exact")
    x = torch.randn(2, 4, 4)
    logits = {"word": nets["word"](x), "Start": nets["Start"](x).squeeze(-1)}
    given = {"token": x}
    labels = {"word": torch.tensor([[0, 1, 2, -1], [2, 2, 0, 1]])}
    torch.testing.assert_close(layer(given), plain(logits))
    torch.testing.assert_close(layer.loss(given, labels), plain.loss(logits, labels))
    torch.testing.assert_close(layer.log_z(given), plain.log_z(logits))
    torch.testing.assert_close(layer.decode(given), plain.decode(logits))
    torch.testing.assert_close(layer.theory_loss(given), plain.theory_loss(logits))
    torch.testing.assert_close(layer.elbo(given, logits), plain.elbo(logits, logits))
    torch.testing.assert_close(layer.run(given), plain.run(logits))
    assert str(layer.report(given)) == str(plain.report(logits))
    assert str(layer.exact(given)) == str(plain.exact(logits))
    mean_field = LogicMP(CHAIN, predicates=nets)
    pushes = LogicMP(CHAIN).explain("word(1) = B", {k: v[0] for k, v in logits.items()})
    assert [str(p) for p in mean_field.explain("word(1) = B", {"token": x[0]})] == [str(p) for p in pushes]


def test_one_step_trains_all_networks_and_weights() -> None:
    person, town = features()
    layer = LogicMP(RULES, predicates=networks(), dtype=DOUBLE)
    before = copy.deepcopy(layer.state_dict())
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    sum(x.square().sum() for x in layer({"person": person, "town": town}).values()).backward()
    optimizer.step()
    changed = {name.split(".")[1] for name, x in layer.state_dict().items() if not torch.equal(x, before[name])}
    assert changed == {"Smokes", "Friends", "home", "Lives", "0", "1", "2"}


def test_modules_are_children_of_the_layer(tmp_path: Path) -> None:
    person, _ = features()
    shared = Pairs(4, 4)
    layer = LogicMP("Likes(person, person)\nKnows(person, person)\n2 Likes(x, y) => Knows(x, y)",
                    predicates={"Likes": shared, "Knows": shared})
    # a network that two predicates share is trained once
    assert len(list(layer.parameters())) == 1 + len(list(shared.parameters()))
    assert layer.to(DOUBLE).networks is not None and next(shared.parameters()).dtype == DOUBLE
    want = layer({"person": person})
    other = LogicMP(str(layer.theory), predicates=dict.fromkeys(("Likes", "Knows"), Pairs(4, 4))).to(DOUBLE)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other({"person": person}), want)
    layer.save(tmp_path / "layer.safetensors")
    fresh = Pairs(4, 4).double()
    again = LogicMP.load(tmp_path / "layer.safetensors", predicates={"Likes": fresh, "Knows": fresh})
    torch.testing.assert_close(again({"person": person}), want)
    layer.save_pretrained(tmp_path / "folder")
    assert "predicates={'Likes': ..., 'Knows': ...}" in (tmp_path / "folder/README.md").read_text()
    fresh = Pairs(4, 4).double()
    again = LogicMP.from_pretrained(tmp_path / "folder", predicates={"Likes": fresh, "Knows": fresh})
    torch.testing.assert_close(again({"person": person}), want)
    for given, message in ((None, "has networks for Likes, Knows, but predicates is not given"),
                           ({"Likes": fresh}, "has networks for Likes, Knows, but predicates has Likes"),
                           ({"Likes": Pairs(3, 3), "Knows": fresh}, "are not those of predicates")):
        with pytest.raises(LogicMPError, match=message):
            LogicMP.load(tmp_path / "layer.safetensors", predicates=given)


def test_autocast_runs_through_the_networks() -> None:
    person, town = (x.float() for x in features(2))
    layer = LogicMP(RULES, predicates={name: net.float() for name, net in networks().items()})
    want = layer({"person": person, "town": town})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer({"person": person, "town": town})
    for name, x in want.items():
        torch.testing.assert_close(found[name].float(), x, atol=0.1, rtol=0.1)


class Wrong(nn.Module):
    def forward(self, *given: Tensor) -> Any:
        return given[0].sum(), given[0]


ONE = "P(t)\n1 P(x)"
WRONG: list[tuple[str, dict[str, Any], Any, str]] = [
    (ONE, {"Q": nn.Linear(2, 1)}, None, "predicates names 'Q', which is not a predicate of the theory"),
    (ONE, {"P": nn.Sequential(nn.Linear(2, 1), nn.Sigmoid())}, None,
     "predicates['P'] ends with Sigmoid, but the layer takes log-odds\nhint: remove Sigmoid; the layer's output has "
     "log-odds, too: call .sigmoid() on it"),
    ("*P(t)\n1 P(x)", {"P": nn.Linear(2, 1)}, None, "P is closed world (*), but predicates has a network for it"),
    ("A\n1 A", {"A": nn.Linear(2, 1)}, None, "A has no arguments, so its network has no input"),
    ("P(P)\n1 P(x)", {"P": nn.Linear(2, 1)}, None,
     "'P' is a type and a predicate: the layer could not tell features from log-odds"),
    ("type(t)\n1 type(x)", {"type": nn.Linear(2, 1)}, None,
     "a network cannot belong to 'type': torch modules have an attribute of this name"),
    (ONE, {"P": nn.Linear(2, 1)}, torch.zeros(3, 2), "unary is one tensor, but the layer has networks\n"
     "hint: pass a dict: {'t': features}"),
    (ONE, {"P": nn.Linear(2, 1)}, {"s": torch.zeros(3, 2)},
     "unary names 's', which is neither a type nor a predicate of the theory"),
    (ONE + "\nQ(s)\n1 Q(y)", {"P": nn.Linear(2, 1)}, {"s": torch.zeros(3, 2)},
     "unary has features of 's', but no network reads them\nhint: give features of: t"),
    (ONE + "\nQ(s)\n1 Q(y)", {"P": nn.Linear(2, 1)}, {"Q": torch.zeros(3)},
     "the network of P(t) needs features of t\nhint: pass unary={'t': a tensor [batch..., n, features]}"),
    (ONE, {"P": nn.Linear(2, 1)}, {"t": torch.zeros(3)},
     "unary['t'] has shape [3]; expected [batch..., n, features], because 't' is a type"),
    (ONE, {"P": nn.Linear(2, 3)}, {"t": torch.zeros(4, 2)},
     "the network of P returned shape [4, 3]; expected shape [4], because P(t)"),
    (ONE, {"P": Wrong()}, {"t": torch.zeros(4, 2)}, "the network of P returned a tuple; expected shape [4]"),
    ("F(t, t)\n1 F(x, y)", {"F": Pairs(2, 2)}, {"t": torch.zeros(4, 2), "F": torch.tensor([[0, 4], [1, 2]])},
     "unary['F'] names entity 4 of t in column 1, but there are 4"),
    ("F(t, t)\n1 F(x, y)", {"F": Pairs(2, 2)}, {"t": torch.zeros(4, 2), "F": torch.tensor([0, 4])},
     "unary['F'] has integers, which list candidates, and shape [2]; expected [2, n], because F(t, t)"),
    ("F(t, t)\n1 F(x, y)", {"F": Pairs(2, 2)}, {"t": torch.zeros(2, 4, 2), "F": torch.tensor([[0], [1]])},
     "candidates of F and features with batch dimensions cannot be combined"),
]


@pytest.mark.parametrize("rules, nets, given, message", WRONG, ids=[row[3][:60] for row in WRONG])
def test_what_cannot_be_right_is_named(rules: str, nets: dict[str, Any], given: Any, message: str) -> None:
    with pytest.raises(LogicMPError) as error:
        LogicMP(rules, predicates=nets)(given)
    assert str(error.value).startswith(message)


def test_a_function_is_not_a_network() -> None:
    with pytest.raises(LogicMPError, match=r"predicates\['P'\] is a"):
        LogicMP(ONE, predicates={"P": lambda x: x})  # type: ignore[dict-item]
