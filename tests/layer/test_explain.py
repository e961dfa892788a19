"""`LogicMP.explain`: the pushes add up to the messages, the groundings to the pushes."""

import re
import warnings

import pytest
import torch

from logicmp import LogicMP, LogicMPError

SMOKERS = """
person = {Anna, Bob, Carl}
Smokes(person)
Friends(person, person)
1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
0.5 !Smokes(x)
0.3 Friends(x, y) <=> Friends(y, x)
"""
TAGS = """
label(token) in {O, B, I}
2 label(i) in {O} => label(i+1) in {O, B}
1 label(i) in {B} v label(i-1) in {I}
"""


def smokers():
    generator = torch.Generator().manual_seed(0)
    return {"Smokes": torch.randn(2, 3, generator=generator), "Friends": torch.randn(2, 3, 3, generator=generator)}


def test_pushes_and_unary_add_up_to_the_next_update():
    layer, unary = LogicMP(SMOKERS, iterations=3, schedule="paper"), smokers()
    pushes = layer.explain("Smokes(Bob)", unary, item=1)
    one_more = LogicMP(SMOKERS, iterations=4, schedule="paper")(unary)["Smokes"][1, 1].detach()
    assert float(unary["Smokes"][1, 1]) + sum(p.amount for p in pushes) == pytest.approx(float(one_more), abs=1e-5)
    assert abs(pushes[0].amount) == max(abs(p.amount) for p in pushes)


@pytest.mark.parametrize("rules, atom, unary", [
    (SMOKERS, "Smokes(Bob)", None),
    (SMOKERS, "Friends(Anna, Carl)", None),
    (TAGS, "label(1) = B", {"label": torch.linspace(-1, 1, 12).reshape(4, 3)}),
    ("symmetric C(t, t)\n0.2 C(a,b) ^ C(b,c) => C(a,c)", "C(0, 2)", {"C": torch.tensor(
        [[3.0, 2.0, -0.5], [2.0, 3.0, 2.0], [-0.5, 2.0, 3.0]])}),
])
def test_all_groundings_of_a_rule_add_up_to_its_push(rules, atom, unary):
    layer = LogicMP(rules, iterations=2)
    for push in layer.explain(atom, smokers() if unary is None else unary):
        assert sum(amount for amount, _ in push.groundings(1000)) == pytest.approx(push.amount, abs=1e-5)


@pytest.mark.parametrize("semantics", ["exact", "alchemy", "paper"])
@pytest.mark.parametrize("rule, atom", [
    ("Friends(x, y) => (Smokes(x) <=> Smokes(y))", "Smokes(Bob)"),
    ("Smokes(x) <=> Smokes(y)", "Smokes(Bob)"),
    ("(Smokes(x) ^ !Friends(y, x)) v (Smokes(y) ^ !Friends(x, y))", "Smokes(Anna)"),
    ("Friends(x, y) ^ Friends(y, z) => Friends(x, z)", "Friends(Bob, Bob)"),
    ("Friends(x, +y) <=> Smokes(y)", "Friends(Carl, Bob)"),
    ("(EXIST y Friends(x, y)) => Smokes(x)", "Smokes(Anna)"),
    ("Smokes(Anna) <=> Smokes(Bob)", "Smokes(Bob)"),
])
def test_each_grounding_is_listed_once_with_what_it_alone_would_push(rule, atom, semantics):
    declared, unary = SMOKERS.split("1.5")[0], {name: x[0] for name, x in smokers().items()}
    layer = LogicMP(f"{declared}\n0.7 {rule}", iterations=2, semantics=semantics, schedule="paper")
    (push,) = layer.explain(atom, unary)
    found = push.groundings(1000)
    assert sum(amount for amount, _ in found) == pytest.approx(push.amount, abs=1e-5)
    rows = [tuple(where.items()) for _, where in found]
    assert rows and len(set(rows)) == len(rows)
    if semantics != "exact":
        return
    # a rule about this grounding only, at the same marginals
    marginals = layer(unary)
    for amount, where in found:
        ground = rule.replace("+", "")
        for name, value in where.items():
            ground = re.sub(rf"\b{name}\b", value, ground)
        alone = LogicMP(f"{declared}\n0.7 {ground}", iterations=0, schedule="paper")
        (own,) = alone.explain(atom, {name: x.detach() for name, x in marginals.items()})
        assert amount == pytest.approx(own.amount, abs=1e-5), ground


def test_the_strongest_grounding_comes_first_with_its_constants():
    layer = LogicMP(SMOKERS, iterations=1, schedule="paper")
    friends = torch.full((3, 3), -4.0)
    friends[0, 1] = 4.0
    unary = {"Smokes": torch.tensor([4.0, 0.0, -4.0]), "Friends": friends}
    (push,) = [p for p in layer.explain("Smokes(Bob)", unary) if p.rule.startswith("1.5")]
    amount, where = push.groundings(1)[0]
    assert where == {"x": "Anna", "y": "Bob"}
    assert amount > 1


@pytest.mark.parametrize("atom, message", [
    ("Smoke(Bob)", "'Smoke(Bob)' names 'Smoke', which is not a predicate of the theory\nhint: did you mean 'Smokes'?"),
    ("Smokes(Dora)", "'Dora' in 'Smokes(Dora)' is not a person\nhint: name a constant, or an index below 3"),
    ("Smokes(Anna, Bob)", "'Smokes(Anna, Bob)' does not fit Smokes(person)"),
    ("!!", "'!!' is not an atom\nhint: write it as Friends(Anna, Bob), or label(2) = B-PER"),
])
def test_text_that_is_not_an_atom_is_rejected(atom, message):
    with pytest.raises(LogicMPError) as error:
        LogicMP(SMOKERS).explain(atom, smokers())
    assert str(error.value) == message


def test_pushes_have_the_limits_of_the_last_iteration() -> None:
    layer = LogicMP("C(a,b) ^ C(b,c) => C(a,c)", iterations=60, dtype=torch.float64)
    logits = noisy_clusters().double()
    out = layer(logits)
    for a, b in ((0, 1), (3, 7), (20, 41)):
        total = sum(push.amount for push in layer.explain(f"C({a}, {b})", logits))
        assert float(logits[a, b]) + total == pytest.approx(float(out[a, b]), abs=0.02)


# reports


def noisy_clusters() -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    cluster = torch.randint(6, (48,), generator=generator)
    noise = torch.randn(48, 48, generator=generator)
    return 3.0 * (cluster[:, None] == cluster) - 1.5 + 1.2 * (noise + noise.T) / 2**0.5


def test_a_report_tells_a_collapse_and_an_oscillation() -> None:
    logits, rule = noisy_clusters(), "C(a,b) ^ C(b,c) => C(a,c)"
    paper = LogicMP(rule, schedule="paper").report(logits)
    assert paper.collapsed == ("C",) and paper.status == "oscillating" and paper.change > 0.5
    assert paper.advice == ("nearly all atoms of C ended on one side: use schedule='adaptive', or smaller weights",
                            "the run oscillates: raise damping, for example damping=0.5")
    adaptive = LogicMP(rule, schedule="adaptive").report(logits)
    assert adaptive.collapsed == ()
    assert adaptive.rules[0].after < 0.2 * adaptive.rules[0].before
    assert 0 < adaptive.moved["C"] < paper.moved["C"]
    assert str(adaptive).splitlines()[0] == " violations before       after     push  support   rule"


def test_a_report_of_a_converged_run_has_no_advice() -> None:
    layer = LogicMP("1 S(x) => T(x)", schedule="paper", iterations=40, damping=0.5, dtype=torch.float64)
    unary = {"S": torch.tensor([2.0, -1.0]).double(), "T": torch.tensor([0.1, 0.2]).double()}
    report = layer.report(unary, evidence={"S": torch.tensor([True, False])})
    assert (report.status, report.advice, report.moved) == ("converged", (), {"T": 0.0})
    # violated where S is true and T is not
    assert report.rules[0].before == pytest.approx(1 - torch.sigmoid(torch.tensor(0.1)).item(), abs=1e-6)
    assert report.rules[0].after == pytest.approx(1 - torch.sigmoid(torch.tensor(1.1)).item(), abs=1e-6)
    assert report.rules[0].push == pytest.approx((1 / 2) ** 0.5, abs=1e-6)


def test_a_report_tells_a_rule_that_the_logits_do_not_support() -> None:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(3, (120,), generator=generator)
    logits = 2.0 * torch.nn.functional.one_hot(labels, 3) + torch.randn(120, 3, generator=generator)
    same = labels[:, None] == labels
    rules = "label(node) in {A, B, C}\n*Link(node, node)\n*Noise(node, node)\n" + "".join(
        f"1 {link}(a,b) ^ label(a) = {x} => label(b) = {x}\n" for link in ("Link", "Noise") for x in "ABC")
    draw = torch.rand(120, 120, generator=generator)
    report = LogicMP(rules).report({"label": logits}, {"Link": same & (draw < 0.1), "Noise": draw.T < 0.03})
    assert all(rule.support > 5 * rule.error for rule in report.rules[:3])
    assert all(abs(rule.support) < 3 * rule.error for rule in report.rules[3:])
    assert any(text.startswith("the logits do not support this rule") and "Noise" in text for text in report.advice)
    assert not any("support" in text and "Link" in text for text in report.advice)


def test_a_collapse_is_said_once() -> None:
    logits, layer = noisy_clusters(), LogicMP("C(a,b) ^ C(b,c) => C(a,c)", schedule="paper")
    with pytest.warns(UserWarning, match="pushed all atoms of C to one side") as said:
        layer(logits)
        layer(logits)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LogicMP("C(a,b) ^ C(b,c) => C(a,c)")(logits)


def test_a_weight_below_zero_after_training_is_said_once() -> None:
    layer = LogicMP("1 S(x) => T(x)\n-1 S(x)")
    with torch.no_grad():
        layer.raw_weights[0].fill_(-0.5)
    with pytest.warns(UserWarning, match=r"drove the weight of '1 S\(x\) => T\(x\)' to -0.5") as said:
        layer.eval().train().eval()
    assert len(said) == 1


def test_a_trace_has_temperatures_and_pushes() -> None:
    layer = LogicMP("C(a,b) ^ C(b,c) => C(a,c)", schedule="adaptive")
    trace = layer.trace(torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(0)))
    assert trace.temperature.shape == trace.push.shape == (16, 2)
    assert (trace.temperature[0] == 1).all() and (trace.temperature[1:] < 1).all()
    assert (trace.push[0] == 0).all() and (trace.push[-1] > trace.push[1]).all()
    torch.testing.assert_close(trace.marginals[-1]["C"], trace.logits["C"].sigmoid())
