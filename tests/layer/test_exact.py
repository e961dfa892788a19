"""Exact inference in the layer against enumeration: marginals, log Z, best worlds, losses and their gradients."""

from __future__ import annotations

import math
import random
import warnings

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from logicmp import SPL, CostError, LogicMP, LogicMPError, decode, oracle, parse_theory
from logicmp.execute.exact_run import SHARPNESS, ExactRun
from logicmp.parse.theory import Predicate
from logicmp.testing.random_models import Model, models

TAGGER = ("label(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}.\n"
          "1.2 label(i) in {B} => label(i+1) in {I}\n-0.4 label(i) in {I}")
TREE = "*parent(node, node)\nL(node)\nparent(c, p) ^ L(c) => L(p)."
ONE_OF = "L(a)\nL(x) ^ L(y) => x = y.\n0.5 L(x)"
TRANSITIVE = "A(a)\nC(a,a)\n1 C(x,y) ^ C(y,z) => C(x,z)\nA(x) => A(x+1)."
DOUBLE = torch.float64


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def probabilities(predicate: Predicate, logits: Tensor) -> Tensor:
    """What the logits of one item mean."""
    if predicate.labels is not None:
        return logits.softmax(-1)
    if not predicate.functional:
        return logits.sigmoid()
    weights = (logits - logits.max()).exp()
    none = (-logits.max()).exp() if predicate.may_be_none else 0.0
    return weights / (weights.sum(predicate.functional, keepdim=True) + none)


def random_tree(n: int, seed: int = 0, depth: int = 6) -> Tensor:
    """A forest as a matrix: parent[c, p]."""
    rng = random.Random(seed)
    parent, height = torch.zeros(n, n, dtype=torch.bool), [0] * n
    for c in range(1, n):
        p = rng.randrange(c)
        if height[p] < depth - 1:
            parent[c, p], height[c] = True, height[p] + 1
    return parent


def solve(model: Model, batch_of_evidence: bool) -> tuple[dict[str, Tensor], float]:
    """Marginals and log Z of a model, by the layer."""
    layer = LogicMP(model.theory, method="exact", dtype=DOUBLE, sizes=model.sizes)
    if batch_of_evidence:
        # another item with other evidence: the plan may not use the evidence of the first
        unary = {name: torch.stack([x, x]) for name, x in model.unary.items()}
        evidence = {name: torch.stack([x, torch.full_like(x, torch.nan)]) for name, x in model.evidence.items()}
        log_z = layer.log_z(unary, evidence).detach()
        return {name: x[0] for name, x in layer(unary, evidence).items()}, float(log_z[0])
    return layer(model.unary, model.evidence), float(layer.log_z(model.unary, model.evidence).detach())


@pytest.mark.parametrize("batch_of_evidence", [False, True], ids=["shared", "per item"])
@given(model=models(max_ground=9))
@settings(max_examples=150, deadline=None)
def test_marginals_and_log_z_equal_enumeration(batch_of_evidence: bool, model: Model) -> None:
    try:
        want = oracle.exact_marginals(model.theory, model.unary, model.evidence, model.sizes)
    except LogicMPError:
        # no world satisfies the hard rules: the layer raises, too
        with pytest.raises(LogicMPError):
            solve(model, batch_of_evidence)
        return
    try:
        found, log_z = solve(model, batch_of_evidence)
    except LogicMPError:
        # without its evidence, the other item has no world, or is too wide
        assert batch_of_evidence
        return
    assert log_z == pytest.approx(oracle.log_partition(model.theory, model.unary, model.evidence, model.sizes),
                                  rel=1e-9, abs=1e-9)
    for name, logits in found.items():
        predicate = model.theory.predicate[name]
        torch.testing.assert_close(probabilities(predicate, logits), want[name], rtol=1e-9, atol=1e-9)


def test_values_differ_where_rules_leave_no_room_for_none() -> None:
    theory = parse_theory("person = {A1, A2}\nP(person!)\nR(person?)\nR(x) v P(x).")
    unary = {"P": torch.tensor([1.5, -0.3], dtype=DOUBLE), "R": torch.tensor([-0.7, -0.4], dtype=DOUBLE)}
    want = oracle.exact_marginals(theory, unary, {}, {"person": 2})
    assert float(want["R"].sum()) == pytest.approx(1.0) and float(want["R"].max()) < 0.9
    found = LogicMP(theory, method="exact", dtype=DOUBLE)(unary)
    for name, logits in found.items():
        torch.testing.assert_close(probabilities(theory.predicate[name], logits), want[name], rtol=1e-9, atol=1e-9)


@given(model=models(max_ground=9))
@settings(max_examples=100, deadline=None)
def test_the_best_world_equals_enumeration(model: Model) -> None:
    layer = LogicMP(model.theory, method="exact", dtype=DOUBLE)
    try:
        _, want = oracle.best_world(model.theory, model.unary, model.evidence, model.sizes)
    except LogicMPError:
        with pytest.raises(LogicMPError):
            layer.decode(model.unary, model.evidence)
        return
    found = layer.decode(model.unary, model.evidence)
    assert isinstance(found, dict) and found.keys() == model.unary.keys()
    # random logits have no ties
    for name, value in found.items():
        labels = model.theory.predicate[name].labels
        world = value.double() if labels is None else torch.nn.functional.one_hot(value, len(labels)).double()
        torch.testing.assert_close(world, want[name])


@pytest.mark.parametrize("rules, shape, evidence", [
    (TAGGER, (2, 5, 3), None), (TREE, (2, 7), {"parent": random_tree(7)}), (ONE_OF, (2, 5), None),
    (ONE_OF + "\nEXIST x L(x).", (2, 5), None), ("1 L(x) ^ L(x+1) => L(x+2)\n-0.7 L(x) v L(x+3)", (2, 8), None),
    ("P(a, b!)\n1 P(x, y) => P(x+1, y)", (2, 3, 4), None), ("P(a, b?)\n1 P(x, y) => P(x+1, y)", (2, 3, 3), None)],
    ids=["tagger", "tree", "at most one", "one", "wide chain", "functional", "functional or none"])
def test_gradients_of_the_output_and_of_the_loss(rules: str, shape: tuple[int, ...],
                                                 evidence: dict[str, Tensor] | None) -> None:
    layer = LogicMP(rules, method="exact", dtype=DOUBLE)
    unary = randn(*shape).requires_grad_()
    weights = [w for w in layer.parameters() if w.requires_grad]
    world = layer.decode(unary, evidence)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, evidence), (unary, *weights))
    assert torch.autograd.gradcheck(lambda x, *_: layer.loss(x, world, evidence), (unary, *weights))
    assert torch.autograd.gradcheck(lambda x, *_: layer.log_z(x, evidence), (unary, *weights))


def test_gradients_equal_those_of_enumeration() -> None:
    theory = parse_theory(TAGGER)
    layer = LogicMP(theory, method="exact", dtype=DOUBLE)
    unary = randn(4, 3).requires_grad_()
    (slope,) = torch.autograd.grad(layer.log_z(unary), unary)
    want = oracle.exact_marginals(theory, {"label": unary.detach()}, None, {"token": 4})["label"]
    torch.testing.assert_close(slope, want, rtol=1e-9, atol=1e-12)


# masks


def padded(lengths: list[int], n: int) -> Tensor:
    return torch.arange(n) < torch.tensor(lengths).unsqueeze(1)


def test_padding_changes_nothing() -> None:
    layer = LogicMP(TAGGER, method="exact", dtype=DOUBLE)
    lengths = [6, 3, 1, 5]
    unary, mask = randn(4, 6, 3), padded(lengths, 6)
    out, best = layer(unary, mask=mask), layer.decode(unary, mask=mask)
    labels = best.clone()
    labels[0, 0] = -1
    loss = layer.loss(unary, labels, mask=mask)
    for k, n in enumerate(lengths):
        torch.testing.assert_close(out[k, :n], layer(unary[k, :n]))
        torch.testing.assert_close(out[k, n:], unary[k, n:])
        assert torch.equal(best[k, :n], layer.decode(unary[k, :n]))
        assert not best[k, n:].any()
        torch.testing.assert_close(loss[k], layer.loss(unary[k, :n], labels[k, :n]))


def test_a_mask_inside_a_chain_cuts_it() -> None:
    layer = LogicMP(TAGGER, method="exact", dtype=DOUBLE)
    unary = randn(7, 3)
    mask = torch.tensor([True, True, False, True, True, True, True])
    out = layer(unary, mask=mask)
    torch.testing.assert_close(out[:2], layer(unary[:2]))
    torch.testing.assert_close(out[3:], layer(unary[3:]))


def test_a_mask_over_the_values_of_a_functional_argument() -> None:
    layer = LogicMP("P(a, b!)\n1 P(x, y) => P(x+1, y)", method="exact", dtype=DOUBLE)
    unary = randn(2, 3, 4)
    mask = {"b": torch.tensor([[True, True, True, False], [True, True, False, False]])}
    with pytest.raises(CostError, match="mask"):
        layer(unary, mask=mask)
    # a rule in which each entity has an unobserved atom of its own
    layer = LogicMP("P(a, b!)\nQ(b)\n1 P(x, y) ^ P(x+1, y) => Q(y)", method="exact", dtype=DOUBLE)
    both = {"P": unary, "Q": randn(2, 4, seed=1)}
    out = layer(both, mask=mask)
    for k, n in enumerate([3, 2]):
        want = layer({"P": unary[k, :, :n], "Q": both["Q"][k, :n]})
        torch.testing.assert_close(out["Q"][k, :n], want["Q"])
        torch.testing.assert_close(out["P"][k, :, :n], want["P"])


@pytest.mark.parametrize("rules, words", [
    ("P(a)\n1 EXIST x P(x)", "quantifier"), ("*R(a, a)\nP(a)\n1 !R(x, y) => P(x)", "grounding of y"),
    ("a = {A, B, C}\nP(a)\n1 P(x) => P(A)", "constant")])
def test_a_mask_that_tables_cannot_express_is_an_error(rules: str, words: str) -> None:
    layer = LogicMP(rules, method="exact")
    evidence = {"R": torch.zeros(3, 3, dtype=torch.bool)} if "R" in rules else None
    unary, mask = {"P": randn(2, 3, dtype=torch.float32)}, {"a": padded([3, 2], 3)}
    with pytest.raises(CostError, match=words) as error:
        layer(unary, evidence, mask=mask)
    assert str(error.value.hint).startswith("call the layer with items of one size, without mask; or use method='mean-"
                                            "field'")
    if words == "constant":
        with pytest.raises(LogicMPError, match="mask removes a A or another one that the rules name, in item 1"):
            layer.decode(unary, evidence, mask=mask)
        return
    # solvers leave the padding out
    found = layer.decode(unary, evidence, mask=mask)["P"]
    shorter = {name: x[:2, :2] for name, x in (evidence or {}).items()}
    assert torch.equal(found[1, :2], layer.decode({"P": unary["P"][1, :2]}, shorter)["P"]) and not found[1, 2]


# hard rules


def test_the_output_is_coherent_and_finite_in_float32() -> None:
    parent = random_tree(200)
    layer = LogicMP(TREE, method="exact")
    unary = (30 * randn(16, 200, dtype=torch.float32)).requires_grad_()
    out = layer(unary, {"parent": parent})
    child, above = parent.nonzero().T
    assert bool((out[:, child].sigmoid() <= out[:, above].sigmoid() + 1e-6).all())
    loss = binary_cross_entropy_with_logits(out, torch.ones_like(out))
    loss.backward()
    assert math.isfinite(float(loss.detach())) and unary.grad is not None and bool(unary.grad.isfinite().all())


def test_an_atom_that_a_hard_rule_decides_is_certain() -> None:
    layer = LogicMP("A\nB\nA.\nA => B.", method="exact")
    out = layer({"A": torch.zeros(()), "B": torch.tensor(-3.0)})
    assert float(out["A"]) == float(out["B"]) == 50


def test_contradictions_are_errors_that_name_the_item() -> None:
    layer = LogicMP("A\nB\nA => B.", method="exact")
    unary = {"A": torch.zeros(3), "B": torch.zeros(3)}
    nan = math.nan
    with pytest.raises(LogicMPError, match="this hard rule is violated by the evidence of item 1"):
        layer(unary, {"A": torch.tensor([1.0, 1.0, nan]), "B": torch.tensor([nan, 0.0, nan])})
    with pytest.raises(LogicMPError, match="labels of item 2"):
        layer.loss(unary, {"A": torch.tensor([1, 1, 1]).bool(), "B": torch.tensor([1, 1, 0]).bool()})


# losses and worlds


def test_the_loss_is_the_probability_of_the_labels() -> None:
    theory = parse_theory(TAGGER)
    layer = LogicMP(theory, method="exact", dtype=DOUBLE)
    unary = randn(4, 3)
    labels = torch.tensor([1, 2, 0, 1])
    score = oracle.log_partition(theory, None, {"label": torch.eye(3, dtype=DOUBLE)[labels]}, {"token": 4})
    score += float(unary[torch.arange(4), labels].sum())
    log_z = oracle.log_partition(theory, {"label": unary}, None, {"token": 4})
    assert float(layer.loss(unary, labels).detach()) == pytest.approx(log_z - score, abs=1e-9)


def test_missing_labels_are_summed_out() -> None:
    layer = LogicMP(TAGGER, method="exact", dtype=DOUBLE)
    unary = randn(4, 3)
    labels = torch.tensor([1, -1, 0, -1])
    # O is not followed by I
    possible = [-layer.loss(unary, torch.tensor([1, a, 0, b])) for a in range(3) for b in range(2)]
    torch.testing.assert_close(-layer.loss(unary, labels), torch.logsumexp(torch.stack(possible), 0))


def test_the_best_world_equals_that_of_the_solvers() -> None:
    parent = random_tree(30)
    unary = randn(3, 30)
    found = LogicMP(TREE, method="exact").decode(unary, {"parent": parent})
    assert isinstance(found, Tensor)
    want = decode(parse_theory(TREE), {"L": unary}, {"parent": parent}).values["L"]
    assert torch.equal(found, want)


def test_evidence_with_a_batch_and_logits_without() -> None:
    layer = LogicMP(TAGGER, method="exact", dtype=DOUBLE)
    evidence = torch.full((2, 4, 3), math.nan, dtype=DOUBLE)
    evidence[1, 0, 2] = 1
    out = layer({"label": randn(4, 3)}, {"label": evidence})["label"]
    for k in range(2):
        torch.testing.assert_close(out[k], layer({"label": randn(4, 3)}, {"label": evidence[k]})["label"])


def test_labels_in_words_that_help() -> None:
    layer = LogicMP(TAGGER, method="exact")
    with pytest.raises(LogicMPError, match="the label 3; expected 0 to 2"):
        layer.loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 3]))
    with pytest.raises(LogicMPError, match=r"shape \[3\]; expected \[4, 3\]"):
        layer.loss(torch.zeros(4, 3), torch.zeros(3).bool())
    with pytest.raises(LogicMPError, match="not an unobserved predicate"):
        layer.loss(torch.zeros(4, 3), {"tag": torch.zeros(4).long()})


# methods


def test_auto_is_exact_where_it_is_narrow_and_mean_field_elsewhere() -> None:
    unary = {"A": randn(2, 7), "C": randn(2, 7, 7, seed=1)}
    auto, exact = (LogicMP(TRANSITIVE, method=m, dtype=DOUBLE) for m in ("auto", "exact"))
    out, rest = auto(unary), LogicMP(TRANSITIVE, dtype=DOUBLE)(unary)
    torch.testing.assert_close(out["C"], rest["C"])
    alone = LogicMP("A(a)\nA(x) => A(x+1).", method="exact", dtype=DOUBLE)(unary["A"])
    torch.testing.assert_close(out["A"], alone)
    assert str(auto.exact(unary)).startswith("exact on 1 of 2 components: 7 variables in 4 waves")
    with pytest.raises(CostError, match=r"1 of 2 components are too wide.* 49 unobserved variables") as error:
        exact(unary)
    assert "method='auto'" in str(error.value)
    # solvers find the best world of what is too wide
    best = exact.decode(unary)
    assert torch.equal(best["A"], LogicMP("A(a)\nA(x) => A(x+1).", method="exact", dtype=DOUBLE).decode(unary["A"]))
    with pytest.raises(CostError, match="binary cross-entropy"):
        exact.loss(unary, {"A": torch.ones(2, 7).bool()})


def test_auto_gives_up_before_it_grounds_too_much() -> None:
    layer = LogicMP("1 C(x,y) ^ C(y,z) => C(x,z)", method="auto", dtype=DOUBLE)
    unary = randn(80, 80)
    torch.testing.assert_close(layer(unary), LogicMP("1 C(x,y) ^ C(y,z) => C(x,z)", dtype=DOUBLE)(unary))
    before = str(layer.exact(unary))
    assert before.startswith("mean field on all components: the evidence leaves at least")
    # a larger input is not tried
    assert str(layer.exact(randn(90, 90))) == before
    assert str(layer.exact(randn(2, 2))).startswith("exact on")


# chains of different strength: the first item repeats its labels, the second alternates
PLAIN = ("label(token) in {A, B, C}\nlabel(i) in {A} => label(i+1) in {A, B}\n"
         "label(i) in {B} => label(i+1) in {B, C}\nlabel(i) in {C} => label(i+1) in {C, A}")


def test_auto_finds_the_strength_of_rules_without_weights_by_the_logits_of_each_item() -> None:
    theory = parse_theory(PLAIN)
    layer = LogicMP(theory, method="auto", dtype=DOUBLE)
    unary = torch.stack([torch.eye(3, dtype=DOUBLE)[[0, 0, 0, 1, 1]], torch.eye(3, dtype=DOUBLE)[[0, 2, 1, 0, 2]]]) * 3
    unary = (unary + 0.3 * randn(2, 5, 3)).requires_grad_()
    strength = layer._run(unary, None, None).strength(layer.options.schedule)
    assert strength[0] > 1 > strength[1]
    out = layer(unary)
    for k, temperature in enumerate((strength / SHARPNESS).tolist()):
        weights = [torch.tensor(SHARPNESS, dtype=DOUBLE)] * 3
        want = oracle.exact_marginals(theory, {"label": unary[k].detach() / temperature}, None, {"token": 5},
                                      weights=weights)["label"]
        torch.testing.assert_close((out[k].detach() / temperature).softmax(-1), want, rtol=1e-7, atol=1e-9)
    # the strength itself has no gradient
    (slope,) = torch.autograd.grad(out[0].logsumexp(-1).sum(), unary)
    fixed = ExactRun(layer.exact(unary).parts, layer._run(unary, None, None).inputs, layer.weights).sharpened(strength)
    (want,) = torch.autograd.grad(fixed.logits()["label"][0].logsumexp(-1).sum(), unary)
    torch.testing.assert_close(slope, want)
    assert str(layer.report(unary)).startswith("exact")
    # as they are: under method "exact", under a schedule that does not calibrate, and where a rule has a weight
    exact = LogicMP(theory, method="exact", dtype=DOUBLE)(unary)
    torch.testing.assert_close(LogicMP(theory, method="auto", schedule="paper", dtype=DOUBLE)(unary), exact)
    weighted = LogicMP(PLAIN.replace("label(i) in {A} =>", "1 label(i) in {A} =>"), method="auto", dtype=DOUBLE)
    torch.testing.assert_close(weighted(unary), exact)


def test_padding_does_not_change_the_strength_of_rules_without_weights() -> None:
    layer = LogicMP(PLAIN, method="auto", dtype=DOUBLE)
    unary, mask = randn(2, 6, 3), padded([4, 6], 6)
    out = layer(unary, mask=mask)
    torch.testing.assert_close(out[0, :4], layer(unary[0, :4]))
    torch.testing.assert_close(out[1], layer(unary[1]))


def test_the_report_counts_violations_exactly() -> None:
    rules = "2 L(x) => L(x+1)\nL(x) => L(x+2)."
    unary = torch.stack([randn(5), randn(5, seed=1)])
    report = LogicMP(rules, method="exact", dtype=DOUBLE).report(unary)
    # the slope of log Z by the weight is the expected count of satisfied groundings
    theory = parse_theory(rules)
    slope = sum(oracle.log_partition(theory, {"L": x}, None, {"thing": 5}, weights=[2 + 1e-6, None])
                - oracle.log_partition(theory, {"L": x}, None, {"thing": 5}, weights=[2 - 1e-6, None])
                for x in unary) / 2e-6
    assert report.rules[0].after == pytest.approx(2 * 4 - slope, abs=1e-5)
    assert report.rules[1].after == 0
    assert all(rule.push is rule.support is rule.error is None for rule in report.rules)
    assert str(report).startswith("exact on 1 of 1 components: 5 variables")
    assert "exact" in str(LogicMP(TRANSITIVE, method="auto").report({"A": torch.zeros(7), "C": torch.zeros(7, 7)}))


def test_a_hard_rule_under_mean_field_warns_once() -> None:
    layer = LogicMP("A(x) => A(x+1).")
    with pytest.warns(UserWarning, match=r"rule 'A\(x\) => A\(x\+1\)\.' is hard.*hard_weight=10.*method='exact'"):
        layer(torch.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(torch.zeros(3))
        LogicMP("A(x) => A(x+1).", method="exact")(torch.zeros(3))
        LogicMP("2 A(x) => A(x+1)")(torch.zeros(3))


def test_observed_predicates_that_differ_by_item() -> None:
    layer = LogicMP(TREE, method="exact", dtype=DOUBLE)
    parent = torch.stack([random_tree(6, 0), random_tree(6, 1), random_tree(6, 0)])
    unary = randn(3, 6)
    out, best = layer(unary, {"parent": parent}), layer.decode(unary, {"parent": parent})
    assert str(layer.exact(unary, {"parent": parent})).startswith("items 0, 2: exact on")
    loss = layer.loss(unary, best, {"parent": parent})
    for k in range(3):
        torch.testing.assert_close(out[k], layer(unary[k], {"parent": parent[k]}))
        torch.testing.assert_close(loss[k], layer.loss(unary[k], best[k], {"parent": parent[k]}))
        assert torch.equal(best[k], layer.decode(unary[k], {"parent": parent[k]}))


def test_evidence_changed_in_place_is_noticed() -> None:
    layer = LogicMP(TREE, method="exact", dtype=DOUBLE)
    parent, unary = random_tree(6), randn(6)
    before = layer(unary, {"parent": parent})
    parent.zero_()
    after = layer(unary, {"parent": parent})
    torch.testing.assert_close(after, unary)
    assert not torch.allclose(before, after)


def test_a_saved_layer_keeps_its_method(tmp_path: object) -> None:
    layer = LogicMP(TAGGER, method="exact")
    layer.save(f"{tmp_path}/layer.safetensors")
    assert LogicMP.load(f"{tmp_path}/layer.safetensors").options.method == "exact"


def test_unknown_methods_and_impossible_options() -> None:
    with pytest.raises(LogicMPError, match="unknown method 'gibbs'"):
        LogicMP(TAGGER, method="gibbs")
    with pytest.raises(LogicMPError, match="needs reduce='sum'"):
        LogicMP(TAGGER, method="exact", reduce="mean")
    with pytest.raises(LogicMPError, match="semantics 'paper'"):
        LogicMP(TAGGER, method="exact", semantics="paper")(torch.zeros(4, 3))


def test_half_precision_is_computed_in_single() -> None:
    layer = LogicMP(TAGGER, method="exact")
    unary = randn(4, 3, dtype=torch.float32)
    out = layer(unary.bfloat16())
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), layer(unary.bfloat16().float()), rtol=0.02, atol=0.02)


def test_evidence_and_masks_with_bfloat16() -> None:
    layer = LogicMP("label(t) in {O, B, I}\n*first(t)\n"
                    "label(i+1) = I => label(i) in {B, I}.\nfirst(i) => label(i) != I.", method="exact")
    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    mask = torch.tensor([[1] * 5, [1] * 3 + [0] * 2])
    for first in (torch.arange(5) == 0, torch.stack([torch.arange(5) == 0, torch.arange(5) == 1])):
        out = layer(logits, {"first": first}, mask)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out.float(), layer(logits.float(), {"first": first}, mask), rtol=0.02, atol=0.02)
        assert layer.decode(logits, {"first": first}, mask).equal(layer.decode(logits.float(), {"first": first}, mask))


def test_a_first_call_in_inference_mode_leaves_a_layer_that_trains() -> None:
    layer = LogicMP(TAGGER, method="exact")
    unary = randn(4, 3, dtype=torch.float32).requires_grad_()
    with torch.inference_mode():
        layer(unary)
    layer(unary).sum().backward()
    assert unary.grad is not None


# facts in the theory

STATED = "label = {Animal, Dog, Cat}\n*parent(label, label)\nL(label)\nparent(c, p) ^ L(c) => L(p)."


@pytest.mark.parametrize("method", ["mean-field", "exact"])
@pytest.mark.filterwarnings("ignore:the rule")
def test_facts_in_the_theory_are_evidence(method: str, tmp_path: object) -> None:
    layer = LogicMP(STATED + "\nparent(Dog, Animal).\nparent(Cat, Animal).", method=method)
    parent = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0]]).bool()
    unary = randn(2, 3, dtype=torch.float32)
    want = LogicMP(STATED, method=method)(unary, {"parent": parent})
    torch.testing.assert_close(layer(unary), want)
    # evidence of the call comes first
    free = {"parent": torch.zeros(3, 3).bool()}
    torch.testing.assert_close(layer(unary, free), unary)
    assert len(layer.weights) == 1
    layer.save(f"{tmp_path}/layer.safetensors")
    torch.testing.assert_close(LogicMP.load(f"{tmp_path}/layer.safetensors")(unary), want)
    assert "parent(Dog, Animal)." in bytes(layer.get_extra_state().tolist()).decode()


def test_labels_are_integers_for_atoms_as_well() -> None:
    layer = LogicMP("A(x) => A(x+1).", method="exact")
    unary = torch.randn(2, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(3))
    labels = torch.tensor([[0, 1, -100, 1], [0, -1, 0, 1]])
    floats = torch.where(labels < 0, torch.nan, labels.double())
    torch.testing.assert_close(layer.loss(unary, labels), layer.loss(unary, floats))
    torch.testing.assert_close(SPL("A(x) => A(x+1).").loss(unary, labels), layer.loss(unary, floats))
    with pytest.raises(LogicMPError, match="values other than 0, 1 and NaN"):
        layer.loss(unary, labels + 2)
