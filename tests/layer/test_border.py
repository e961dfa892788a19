"""What a user reads when something wrong is handed to the layer: the exact text."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from logicmp import CostError, LogicMP, LogicMPError

SMOKERS = "1.4 Smokes(x) ^ Friends(x,y) => Smokes(y)"
NAMED = f"person = {{Anna, Bob, Carl}}\nSmokes(person)\nFriends(person, person)\n{SMOKERS}"
TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
CHAIN = "label(token) in {O, B, I}\n2 label(i) in {O} => label(i+1) in {O, B}"
TWO_TYPES = "R(t, u)\nP(t)\n1 P(x) => R(x,y)"
CLOSED = "*F(t, t)\nS(t)\n1 S(x) ^ F(x,y) => S(y)"
CONSTANTS = "A(t)\n1 A(K) => A(L)"
FRIENDS = {"Friends": torch.zeros(3, 3)}

OF_VALUES = "\nhint: 1 is true, 0 false, NaN unobserved; pass probabilities as log-odds in unary"
OF_NUMBERS = "\nhint: check the model's output; use mask for padding, evidence for observed atoms"

# theory, arguments of the call, the error
CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a wrong shape": (
        SMOKERS, {"unary": {"Friends": torch.zeros(32, 50, 40)}},
        "the tensor of Friends has shape [32, 50, 40]; expected [batch..., 50, 50], because Friends(thing, thing) and "
        "Friends has 50 of thing"),
    "a shape outside the listed constants": (
        NAMED, {"unary": {"Friends": torch.zeros(32, 4, 4)}},
        "the tensor of Friends has shape [32, 4, 4]; expected [batch..., 3, 3], because Friends(person, person) and "
        "person has 3 constants"),
    "too few dimensions": (
        SMOKERS, {"unary": {"Friends": torch.zeros(5)}},
        "unary['Friends'] has shape [5]; expected [batch..., thing, thing], because Friends(thing, thing)"),
    "a wrong number of labels": (
        CHAIN, {"unary": torch.zeros(2, 7, 4)},
        "the tensor of label has shape [2, 7, 4]; expected [batch..., 7, 3], because label(token) in {O, B, I} and "
        "label has 7 of token"),
    "two tensors that disagree": (
        SMOKERS, {"unary": {"Friends": torch.zeros(5, 5), "Smokes": torch.zeros(4)}},
        "the tensor of Smokes has shape [4]; expected [batch..., 5], because Smokes(thing) and Friends has 5 of thing"),
    "a misspelt predicate": (
        SMOKERS, {"unary": {"Freinds": torch.zeros(5, 5)}},
        "unary names 'Freinds', which is not a predicate of the theory\nhint: did you mean 'Friends'?"),
    "an unknown predicate": (
        SMOKERS, {"unary": {"X": torch.zeros(5, 5)}},
        "unary names 'X', which is not a predicate of the theory\nhint: declared predicates: Friends, Smokes"),
    "a misspelt predicate in the evidence": (
        SMOKERS, {"unary": FRIENDS, "evidence": {"Smoke": torch.zeros(3)}},
        "evidence names 'Smoke', which is not a predicate of the theory\nhint: did you mean 'Smokes'?"),
    "a list": (
        SMOKERS, {"unary": {"Friends": [[1.0]]}}, "unary['Friends'] is a list; expected a torch tensor"),
    "integers": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3, dtype=torch.long)},
        "unary['C'] has dtype torch.int64; log-odds are floating point\nhint: call .float() on it"),
    "NaN": (
        TRANSITIVITY, {"unary": torch.full((3, 3), math.nan)},
        f"unary['C'] has values that are NaN or infinite{OF_NUMBERS}"),
    "infinity": (
        TRANSITIVITY, {"unary": torch.full((3, 3), -math.inf)},
        f"unary['C'] has values that are NaN or infinite{OF_NUMBERS}"),
    "nothing": (
        SMOKERS, {"unary": {}}, "unary is empty\nhint: give log-odds for one of: Smokes, Friends"),
    "evidence that is a belief": (
        SMOKERS, {"unary": FRIENDS, "evidence": {"Smokes": torch.tensor([0.5, 1, 0])}},
        f"evidence['Smokes'] has values other than 0, 1 and NaN{OF_VALUES}"),
    "evidence that is a count": (
        SMOKERS, {"unary": FRIENDS, "evidence": {"Smokes": torch.tensor([1, 2, 0])}},
        f"evidence['Smokes'] has values other than 0, 1 and NaN{OF_VALUES}"),
    "evidence outside the domain": (
        NAMED, {"unary": FRIENDS, "evidence": {"Smokes": torch.tensor([1.0, 1, 0, 0])}},
        "the tensor of Smokes has shape [4]; expected [batch..., 3], because Smokes(person) and person has 3 "
        "constants"),
    "evidence of another size": (
        SMOKERS, {"unary": FRIENDS, "evidence": {"Smokes": torch.tensor([1.0, 1, 0, 0])}},
        "the tensor of Friends has shape [3, 3]; expected [batch..., 4, 4], because Friends(thing, thing) and "
        "Smokes has 4 of thing"),
    "evidence as one tensor": (
        SMOKERS, {"unary": FRIENDS, "evidence": torch.zeros(3)},
        "evidence is a Tensor; expected a dict of torch tensors"),
    "a mask of the wrong size": (
        TRANSITIVITY, {"unary": torch.zeros(2, 3, 3), "mask": torch.ones(2, 4)},
        "mask['thing'] has shape [2, 4]; expected [2, 3], one entry for each thing"),
    "a mask of another batch": (
        TRANSITIVITY, {"unary": torch.zeros(2, 3, 3), "mask": torch.ones(5, 3)},
        "mask['thing'] has shape [5, 3]; expected [2, 3], one entry for each thing"),
    "a mask for an unknown type": (
        SMOKERS, {"unary": FRIENDS, "mask": {"thign": torch.ones(3)}},
        "mask names 'thign', which is not a type of the theory\nhint: did you mean 'thing'?"),
    "one mask for two types": (
        TWO_TYPES, {"unary": {"R": torch.zeros(3, 2)}, "mask": torch.ones(3)},
        "mask is one tensor, but the theory has 2 types\nhint: pass a dict by type: t, u"),
    "a mask that is a list": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": [1, 1, 0]},
        "mask is a list; expected a dict of torch tensors"),
    "a list in a mask": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": {"thing": [1, 1, 0]}},
        "mask['thing'] is a list; expected a torch tensor"),
    "one tensor for several predicates": (
        SMOKERS, {"unary": torch.zeros(3, 3)},
        "unary is one tensor, but the theory has 2 predicates without evidence: Smokes, Friends\n"
        "hint: pass a dict: {'Smokes': ..., 'Friends': ...}"),
    "two batches": (
        SMOKERS, {"unary": {"Friends": torch.zeros(4, 3, 3), "Smokes": torch.zeros(2, 3)}},
        "the tensor of Smokes has batch dimensions [2], that of Friends has [4]\n"
        "hint: all tensors have the same batch dimensions, or none"),
    "a closed world without evidence": (
        CLOSED, {"unary": {"S": torch.zeros(3)}},
        "F is closed world (*) and needs evidence\nhint: pass evidence={'F': a bool tensor}"),
    "a type of unknown size": (
        TWO_TYPES, {"unary": {"P": torch.zeros(3)}},
        "no tensor shows how many of u there are, or there are none\n"
        "hint: give a tensor for a predicate over u, with at least one entity"),
    "no entity at all": (
        TRANSITIVITY, {"unary": torch.zeros(2, 0, 0)},
        "no tensor shows how many of thing there are, or there are none\n"
        "hint: give a tensor for a predicate over thing, with at least one entity"),
    "fewer entities than the rules name": (
        CONSTANTS, {"unary": torch.zeros(1)}, "the tensors have 1 of t, but the theory names 2: K, L"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_with(name: str) -> None:
    text, arguments, expected = CALLS[name]
    layer = LogicMP(text)
    for method in (layer, layer.trace):
        with pytest.raises(LogicMPError) as caught:
            method(**arguments)
        assert str(caught.value) == expected


OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    (TRANSITIVITY, {"semantics": "exakt"}, "unknown semantics 'exakt'\nhint: available: exact, paper, alchemy"),
    (TRANSITIVITY, {"reduce": "max"}, "unknown reduce 'max'\nhint: available: sum, mean"),
    (TRANSITIVITY, {"iterations": -1}, "iterations must be a whole number and at least 0, got -1"),
    (TRANSITIVITY, {"iterations": 2.5}, "iterations must be a whole number and at least 0, got 2.5"),
    (TRANSITIVITY, {"damping": 1.0}, "damping must be at least 0 and below 1, got 1"),
    (TRANSITIVITY, {"tolerance": -1}, "tolerance must be at least 0 and finite, got -1"),
    (TRANSITIVITY, {"sizes": {"x": 3}},
     "sizes names the type 'x', which the theory does not have\nhint: declared types: thing"),
    (NAMED, {"sizes": {"person": 4}}, "type 'person' has 3 constants, but its size is given as 4"),
    ("0.5 A(+x) => B(x)", {},
     "the rule '0.5 A(+x) => B(x)' has one weight per constant, but its constants are not declared\n"
     "hint: declare them in the theory, or pass sizes"),
    ("-1 A(x) => B(x)", {"positive_weights": True},
     "the rule '-1 A(x) => B(x)' has weight -1, but positive_weights is set"),
]


@pytest.mark.parametrize("text, options, expected", OPTIONS)
def test_a_layer_with(text: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        LogicMP(text, **options)
    assert str(caught.value) == expected


def test_a_layer_from_wrong_text_shows_the_text() -> None:
    with pytest.raises(LogicMPError) as caught:
        LogicMP("Smokes(person)\n2 Smoks(x) => Smokes(x)")
    assert str(caught.value) == (
        "predicate 'Smoks' is used but not declared\n"
        " --> <text>:2:3\n"
        "2 | 2 Smoks(x) => Smokes(x)\n"
        "  |   ^^^^^\n"
        "hint: did you mean 'Smokes'?")


def test_a_call_over_the_memory_limit_is_rejected_with_numbers() -> None:
    layer = LogicMP("R(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))", max_elements=100)
    with pytest.raises(CostError) as caught:
        layer({"R": torch.zeros(9, 9)})
    assert str(caught.value) == (
        "this rule needs a value of 729 elements, 2.92kB in float32 (limit 100 elements)\n"
        " --> <text>:1:1\n"
        "1 | R(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))\n"
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: split the rule into rules with fewer variables each, or raise max_elements")


def test_a_rule_that_costs_too_much_fails_when_the_layer_is_made() -> None:
    rule = "R(a,b) ^ Q(a,c) ^ R(b,c) => EXIST d (R(a,d) ^ Q(b,d) ^ R(c,d))"
    with pytest.raises(CostError, match="this rule needs a value of 729 elements"):
        LogicMP(rule, sizes={"thing": 9}, max_elements=100)
    with pytest.raises(CostError, match="this rule needs a value of 729 elements"):
        LogicMP("t = {A, B, C, D, E, F, G, H, I}\nR(t, t)\nQ(t, t)\n" + rule, max_elements=100)


def test_one_tensor_may_have_evidence_for_some_of_its_atoms() -> None:
    layer = LogicMP(TRANSITIVITY)
    logits, observed = torch.zeros(3, 3), torch.full((3, 3), float("nan"))
    observed[0, 1] = 1.0
    got = layer(logits, evidence={"C": observed})
    assert torch.equal(got, layer({"C": logits}, evidence={"C": observed})["C"])
    assert got[0, 1] == 50


def test_a_rejected_call_leaves_the_layer_usable() -> None:
    layer = LogicMP(TRANSITIVITY)
    want = layer(torch.ones(3, 3))
    with pytest.raises(LogicMPError):
        layer(torch.ones(3, 4))
    assert torch.equal(layer(torch.ones(3, 3)), want)
