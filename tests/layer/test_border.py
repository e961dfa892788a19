"""What a user reads when something wrong is handed to the layer: the exact text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
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
OF_ARRAYS = "\nhint: torch.as_tensor converts arrays and lists"
OF_MASKS = ("expected True or 1 for an entity that exists, False or 0 for padding\n"
            "hint: an additive mask (0 exists, -1e4 is padding) becomes one by `mask == 0`, a key_padding_mask (True "
            "is padding) by `~mask`")
OF_LABELS = ("\nhint: make one value true and the others false, NaN is unobserved; or give labels by index, [batch..., "
             "n], -1 for unobserved")
OF_INDICES = "\nhint: -1 marks an unobserved entity: labels.masked_fill(labels == -100, -1)"
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
        SMOKERS, {"unary": {"Friends": [[1.0]]}}, f"unary['Friends'] is a list; expected a torch tensor{OF_ARRAYS}"),
    "an array": (
        TRANSITIVITY, {"unary": np.zeros((3, 3))},
        "unary is a ndarray; expected a torch tensor or a dict of torch tensors" + OF_ARRAYS),
    "no logits": (
        SMOKERS, {"unary": None}, f"unary is None; expected a torch tensor or a dict of torch tensors{OF_ARRAYS}"),
    "a number in place of a name": (
        SMOKERS, {"unary": {1: torch.zeros(3, 3)}},
        "unary names 1, which is not a predicate of the theory\nhint: declared predicates: Friends, Smokes"),
    "a sparse tensor without entries": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3).to_sparse()},
        "unary['C'] is a sparse tensor without entries: none of its atoms can be true\n"
        "hint: give the atoms that can be true as entries, or call .to_dense() on it"),
    "a nested tensor": (
        TRANSITIVITY, {"unary": torch.nested.nested_tensor([torch.zeros(3, 3), torch.zeros(2, 3)],
                                                             layout=torch.jagged)},
        "unary['C'] is a nested tensor; expected a dense one\n"
        "hint: pad it with torch.nested.to_padded_tensor, and give a mask"),
    "a tensor without values": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3, device="meta")},
        "unary['C'] is on the meta device, where tensors have no values\n"
        "hint: move the model and its inputs to a real device: .to_empty(device='cpu'), then load weights"),
    "complex numbers": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3, dtype=torch.complex64)},
        "unary['C'] has dtype torch.complex64; log-odds are floating point\nhint: call .float() on it"),
    "numbers of eight bits": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3).to(torch.float8_e4m3fn)},
        "unary['C'] has dtype torch.float8_e4m3fn; log-odds are floating point\nhint: call .float() on it"),
    "two dtypes": (
        SMOKERS, {"unary": {"Friends": torch.zeros(3, 3), "Smokes": torch.zeros(3, dtype=torch.float64)}},
        "unary['Smokes'] has dtype torch.float64, the tensor before it torch.float32\n"
        "hint: all log-odds have one dtype: convert with .float() or .to(dtype)"),
    "evidence on another device": (
        SMOKERS, {"unary": FRIENDS, "evidence": {"Smokes": torch.zeros(3, device="meta")}},
        "evidence['Smokes'] is on the meta device, where tensors have no values\n"
        "hint: move the model and its inputs to a real device: .to_empty(device='cpu'), then load weights"),
    "evidence with a gradient": (
        SMOKERS, {"unary": FRIENDS, "evidence": {"Smokes": torch.ones(3, requires_grad=True)}},
        "evidence['Smokes'] requires a gradient, but it is data: it is true or false, and has no gradient\n"
        "hint: call .detach() on it; pass predictions as log-odds in unary"),
    "complex evidence": (
        SMOKERS, {"unary": FRIENDS, "evidence": {"Smokes": torch.ones(3, dtype=torch.complex64)}},
        "evidence['Smokes'] has dtype torch.complex64; expected bool, floating point or integers"),
    "an additive mask": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": torch.tensor([0.0, 0.0, -1e4])},
        f"mask['thing'] has the value -10000; {OF_MASKS}"),
    "a soft mask": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": torch.tensor([1.0, 1.0, 0.5])},
        f"mask['thing'] has the value 0.5; {OF_MASKS}"),
    "a mask of counts": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": torch.tensor([1, 2, 0])},
        f"mask['thing'] has the value 2; {OF_MASKS}"),
    "NaN in a mask": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": torch.tensor([1.0, math.nan, 0])},
        f"mask['thing'] has the value nan; {OF_MASKS}"),
    "a mask with a gradient": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": torch.ones(3, requires_grad=True)},
        "mask['thing'] requires a gradient, but it is data: it is true or false, and has no gradient\n"
        "hint: call .detach() on it; pass predictions as log-odds in unary"),
    "two labels at once": (
        CHAIN, {"unary": {"label": torch.zeros(2, 2, 3)},
                "evidence": {"label": torch.tensor([[False, True, False], [True] * 3])}},
        f"evidence['label'] makes 3 values true at index [0, 1]; expected one, because label(token) in {{O, B, I}}"
        f"{OF_LABELS}"),
    "no label": (
        CHAIN, {"unary": torch.zeros(2, 3), "evidence": {"label": torch.tensor([[0.0, math.nan, 0], [0, 0, 0]])}},
        f"evidence['label'] makes no values true at index [1]; expected one, because label(token) in {{O, B, I}}"
        f"{OF_LABELS}"),
    "two values of a function": (
        "Boss(person, person?)\n1 Boss(x,y) => !Boss(y,x)",
        {"unary": torch.zeros(3, 3), "evidence": {"Boss": torch.ones(3, 3)}},
        "evidence['Boss'] makes 3 values true at index [0]; expected at most one, because Boss(person, person?)\n"
        "hint: make one value true and the others false, NaN is unobserved"),
    "labels that do not exist": (
        CHAIN, {"unary": torch.zeros(2, 3), "evidence": {"label": torch.tensor([3, -1])}},
        f"evidence['label'] has labels outside 0 to 2, because label(token) in {{O, B, I}}{OF_INDICES}"),
    "labels of another convention": (
        CHAIN, {"unary": torch.zeros(2, 3), "evidence": {"label": torch.tensor([0, -100])}},
        f"evidence['label'] has labels outside 0 to 2, because label(token) in {{O, B, I}}{OF_INDICES}"),
    "one-hot integers": (
        CHAIN, {"unary": torch.zeros(3, 3), "evidence": {"label": torch.eye(3, dtype=torch.long)}},
        "evidence['label'] has integers, which are labels by index, and shape [3, 3]; expected [batch..., token] with "
        "the batch dimensions of unary, []\n"
        "hint: for one value per label call .bool() on it, or .float() with NaN for unobserved ones"),
    "evidence that contradicts its mirror": (
        f"symmetric C(t, t)\n{TRANSITIVITY}",
        {"unary": torch.zeros(2, 2), "evidence": {"C": torch.tensor([[math.nan, 1], [0, math.nan]])}},
        "evidence['C'] makes an atom true in one order and false in the other, but symmetric C(t, t)\n"
        "hint: the tensor of a symmetric predicate equals its transpose; NaN is unobserved"),
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
        f"mask is a list; expected a torch tensor or a dict of torch tensors{OF_ARRAYS}"),
    "a list in a mask": (
        TRANSITIVITY, {"unary": torch.zeros(3, 3), "mask": {"thing": [1, 1, 0]}},
        f"mask['thing'] is a list; expected a torch tensor{OF_ARRAYS}"),
    "one tensor for several predicates": (
        SMOKERS, {"unary": torch.zeros(3, 3)},
        "unary is one tensor, but the theory has 2 predicates without evidence: Smokes, Friends\n"
        "hint: pass a dict: {'Smokes': ..., 'Friends': ...}"),
    "evidence that is missing": (
        "*first(t)\nlabel(t) in {O, I}\n1 first(i) => label(i) = O", {"unary": torch.zeros(3, 2)},
        "evidence is missing: *first in the theory\nhint: pass evidence={'first': ...}"),
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
    (TRANSITIVITY, {"iterations": 2.5}, "iterations is 2.5; expected a whole number or None"),
    (TRANSITIVITY, {"damping": 1.0}, "damping must be at least 0 and below 1, got 1"),
    (TRANSITIVITY, {"tolerance": -1}, "tolerance must be at least 0 and finite, got -1"),
    (None, {}, "theory is None; expected a Theory or text\nhint: load_theory(path) reads rules from a file, "
     "parse_theory(text) from text"),
    (TRANSITIVITY.encode(), {}, "theory is a bytes; expected a Theory or text\nhint: call .decode() on it"),
    *((TRANSITIVITY, {"hard_weight": w}, f"hard_weight must be above 0 and finite, got {w}")
      for w in (-3, 0, math.nan, math.inf)),
    (TRANSITIVITY, {"dtype": torch.int64},
     "dtype must be floating point, for example torch.float32, got torch.int64"),
    (TRANSITIVITY, {"max_elements": 0}, "max_elements must be at least 1, got 0"),
    (TRANSITIVITY, {"sizes": {"thing": 0}}, "sizes['thing'] must be at least 1, got 0"),
    (TRANSITIVITY, {"sizes": {"thing": 2.5}}, "sizes['thing'] is 2.5; expected a whole number"),
    (TRANSITIVITY, {"learn_weights": 1}, "learn_weights is 1; expected True or False"),
    *((f"{w} A(x) => B(x)", {"dtype": dtype},
       f"the weight {w} is too large: mean field adds weights up (limit {limit} in {dtype})\n"
       f" --> <text>:1:1\n1 | {w} A(x) => B(x)\n  | {'^' * (len(w) + 13)}\n"
       "hint: remove the weight and end the rule with a full stop to make it hard")
      for w, dtype, limit in (("1e+308", torch.float32, "1e+09"), ("1e+38", torch.float32, "1e+09"),
                              ("-1e+38", torch.float64, "1e+09"), ("70000", torch.float16, "65504"))),
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


def test_sizes_that_the_input_does_not_have_are_rejected() -> None:
    with pytest.raises(LogicMPError) as caught:
        LogicMP(SMOKERS, sizes={"thing": 5})({"Friends": torch.zeros(3, 3)})
    assert str(caught.value) == ("the tensor of Friends has shape [3, 3]; expected [batch..., 5, 5], because "
                                 "Friends(thing, thing) and the layer was made with sizes={'thing': 5}")


def test_weights_on_another_device_are_rejected() -> None:
    with pytest.raises(LogicMPError) as caught:
        LogicMP(TRANSITIVITY).to("meta")(torch.zeros(3, 3))
    assert str(caught.value) == ("the layer's weights are on meta, log-odds on cpu\n"
                                 "hint: call .to('cpu') on the layer")


@pytest.mark.parametrize("mask", [torch.tensor([True, True, False]), torch.tensor([1, 1, 0]),
                                  torch.tensor([1.0, 1.0, 0.0]), torch.tensor([[1.0, 1.0, 0.0]])])
def test_masks_of_zeros_and_ones_mean_the_same_in_every_dtype(mask: torch.Tensor) -> None:
    layer, logits = LogicMP(TRANSITIVITY), torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(0))
    alone = layer(logits[:, :2, :2])
    torch.testing.assert_close(layer(logits, mask=mask)[:, :2, :2], alone)


def test_labels_by_index_are_the_same_as_one_value_for_each_label() -> None:
    layer, logits = LogicMP(CHAIN), torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[0, -1, 2, 1], [-1, -1, -1, 1]])
    one_hot = torch.eye(3)[labels.clamp_min(0)].masked_fill(labels.unsqueeze(-1) < 0, torch.nan)
    for dtype in (torch.long, torch.int32, torch.int8):
        got = layer(logits, evidence={"label": labels.to(dtype)})
        assert torch.equal(got, layer(logits, evidence={"label": one_hot}))
    assert got[0, 0].tolist() == [50, -50, -50]
    # one row for the whole batch
    row = layer(logits, evidence={"label": labels[0]})
    assert torch.equal(row, layer(logits, evidence={"label": one_hot[0]}))


def test_rows_of_padding_need_no_label() -> None:
    layer, logits = LogicMP(CHAIN), torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[[True, False, False], [False, True, False], [False, False, False]]])
    for given in (labels, labels.float()):
        layer({"label": logits}, evidence={"label": given}, mask=torch.tensor([[True, True, False]]))
    with pytest.raises(LogicMPError, match=r"makes no values true at index \[0, 2\]"):
        layer({"label": logits}, evidence={"label": labels})


def test_symmetric_evidence_is_completed_by_its_mirror() -> None:
    layer = LogicMP(f"symmetric C(t, t)\n{TRANSITIVITY}")
    logits, half = torch.zeros(3, 3), torch.full((3, 3), math.nan)
    half[0, 1] = 1.0
    both = half.clone()
    both[1, 0] = 1.0
    assert torch.equal(layer(logits, evidence={"C": half}), layer(logits, evidence={"C": both}))


def test_an_overflow_is_an_error_and_not_a_number() -> None:
    layer = LogicMP(TRANSITIVITY, dtype=torch.float16)
    with torch.no_grad():
        layer.raw_weights[0].fill_(6e4)
    logits = torch.ones(8, 8, dtype=torch.float16)
    with pytest.raises(LogicMPError) as caught:
        layer(logits)
    assert str(caught.value) == (
        "the logits of C are NaN or infinite after mean field in torch.float16\n"
        "hint: check that the weights of the rules are finite and small; in torch.float16 use torch.bfloat16 or "
        'torch.float32, or reduce="mean"')
    with torch.no_grad():
        layer.raw_weights[0].fill_(math.nan)
    for call in (layer, layer.theory_loss, layer.trace):
        with pytest.raises(LogicMPError, match="are NaN or infinite after mean field"):
            call(logits)


def test_expected_violations_that_overflow_are_an_error() -> None:
    with pytest.raises(LogicMPError, match="expected violations are NaN or infinite after mean field"):
        LogicMP(TRANSITIVITY).violations(torch.zeros(100, 100, dtype=torch.float16))


@pytest.mark.parametrize("weight", [1e-6, 0.5, 50.0, 200.0, 1e4])
def test_positive_weights_start_as_they_are_written(weight: float) -> None:
    layer = LogicMP(f"{weight} A(x) => B(x)", positive_weights=True)
    assert layer.weights[0].item() == pytest.approx(weight, rel=1e-5)


def test_an_item_that_the_batch_does_not_have_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="item must be below the number of items, 2, got 2"):
        LogicMP(TRANSITIVITY).explain("C(0, 1)", torch.zeros(2, 3, 3), item=2)


@pytest.mark.parametrize("method", ["mean-field", "exact"])
def test_the_logits_of_padding_can_be_anything(method: str) -> None:
    layer = LogicMP("0.7 C(a, b) => C(b, a)", method=method)
    logits = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    exists = mask[:, :, None] & mask[:, None]
    padded = logits.detach().masked_fill(~exists, float("nan"))
    padded[1, 3, 3] = -torch.inf
    padded.requires_grad_()
    expected, found = (layer(x, mask=mask)[exists] for x in (logits, padded))
    assert torch.equal(found, expected)
    expected.pow(2).sum().backward()
    found.pow(2).sum().backward()
    assert logits.grad is not None and padded.grad is not None
    assert torch.equal(padded.grad, logits.grad * exists)
    with pytest.raises(LogicMPError, match="NaN or infinite"):
        layer(padded)
