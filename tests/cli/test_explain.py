"""`logicmp explain`: what it prints, and its errors."""

from __future__ import annotations

import json

import pytest
from shell import Ended, Shell


def test_explain_shows_the_products(shell: Shell) -> None:
    assert shell("explain", "smoking.mln") == Ended(0, """\
1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
  + Smokes(x) Friends(x,y) !Smokes(y) [x!=y]

Smokes(x) <=> Cancer(x).
  + Smokes(x) !Cancer(x)
  + !Smokes(x) Cancer(x)
""", "")


def test_explain_in_another_semantics_from_standard_input(shell: Shell) -> None:
    rule = "2 Smokes(x) ^ Friends(x, y) => Smokes(y)"
    assert shell("explain", "-", "--semantics", "paper", stdin=rule) == Ended(0, """\
2 Smokes(x) ^ Friends(x, y) => Smokes(y)
  + Smokes(x) Friends(x,y) !Smokes(y)
""", "")


def test_explain_as_json(shell: Shell) -> None:
    status, out, err = shell("explain", "smoking.mln", "--format", "json", "--semantics", "alchemy")
    assert (status, err) == (0, "")
    assert json.loads(out) == {"semantics": "alchemy", "rules": [
        {"rule": "1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)", "line": 7, "clauses": 1, "terms": [
            {"sign": 1, "product": "Smokes(x) Friends(x,y) !Smokes(y) [x!=y]",
             "variables": {"x": "person", "y": "person"}}]},
        {"rule": "Smokes(x) <=> Cancer(x).", "line": 8, "clauses": 1, "terms": [
            {"sign": 1, "product": "Smokes(x) !Cancer(x)", "variables": {"x": "person"}},
            {"sign": 1, "product": "Cancer(x) !Smokes(x)", "variables": {"x": "person"}}]},
    ]}


def test_rule_that_costs_too_much_cannot_be_explained(shell: Shell) -> None:
    rule = "1 " + " <=> ".join(f"P({name})" for name in "abcdefghijkl")
    assert shell("explain", "-", stdin=rule) == Ended(1, "", f"""\
error: this rule needs more than 512 products
 --> <stdin>:1:1
1 | {rule}
  | {'^' * len(rule)}
hint: split it into smaller rules, or raise max_cubes
""")


@pytest.mark.parametrize("words, message", [
    (["--size", "person"], "--size must be TYPE=N, got 'person'\nhint: for example --size person=1000"),
    (["--plan", "--observed", "Smoke"], "--observed: there is no predicate 'Smoke'\nhint: did you mean 'Smokes'?"),
    (["--size", "persn=10"],
     "sizes names the type 'persn', which the theory does not have\nhint: did you mean 'person'?"),
    (["--plan"], "--plan needs the number of constants of type 'person'\nhint: for example --size person=100"),
])
def test_wrong_options_are_errors(shell: Shell, words: list[str], message: str) -> None:
    shell.write("open.mln", "Smokes(person)\n1 Smokes(x)")
    assert shell("explain", "open.mln", *words) == Ended(1, "", f"error: {message}\n")


def test_explain_shows_the_plan_for_the_sizes_given(shell: Shell) -> None:
    shell.write("open.mln", "Smokes(person)\n1 Smokes(x) => Smokes(y)")
    out = shell("explain", "open.mln", "--plan", "--size", "person=1000").out
    assert "\ngroundings 1M; " in out
    plan = json.loads(shell("explain", "open.mln", "--plan", "--size", "person=10", "--format", "json").out)["plan"]
    assert plan["cost"]["groundings"] == 100
