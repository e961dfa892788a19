"""`LogicMP.explain`: the pushes add up to the messages, the groundings to the pushes."""

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


def test_the_strongest_grounding_comes_first_with_its_constants():
    layer = LogicMP(SMOKERS, iterations=1)
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
def test_an_atom_that_is_none_is_refused(atom, message):
    with pytest.raises(LogicMPError) as error:
        LogicMP(SMOKERS).explain(atom, smokers())
    assert str(error.value) == message
