"""`logicmp explain`: what it prints, and its errors."""

from __future__ import annotations

import json

import pytest
from shell import Ended, Shell, write_links


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


def test_a_plan_is_drawn(shell: Shell) -> None:
    plain = shell("explain", "smoking.mln")
    assert shell("explain", "smoking.mln", "--graph", "plan.html") == plain
    page = (shell.folder / "plan.html").read_text(encoding="utf-8")
    assert "message to Cancer(a)" in page and "einsum" in page and "groundings" in page
    # one line each, so that the page need not scroll
    assert "<li>largest value" in page
    rule = "2 P(x) => Q(x)"
    assert "the plan needs the number" in shell("explain", "-", "--graph", "plan.html", stdin=rule).err


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
    (["--plan"], "the plan needs the number of constants of type 'person'\nhint: for example --size person=100"),
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


def test_explain_with_facts_shows_lists_of_rows(shell: Shell) -> None:
    write_links(shell)
    words = ("explain", "links.mln", "--plan", "-e", "links.db", "-q", "Smokes,Knows", "--candidates", "knows.db",
             "--outside", "skip", "--premises", "facts")
    status, out, err = shell(*words)
    assert (status, err) == (0, "")
    assert out == """\
1.5 Friends(x, y) ^ facts of Smokes(x) => Smokes(y)
  + Friends(x,y) facts of Smokes(x) !Smokes(y)

0.8 Friends(x, y) ^ Friends(y, z) => Knows(x, z) v !candidates of Knows(x, z)
  + Friends(x,y) Friends(y,z) !Knows(x,z) candidates of Knows(x,z)
  - Friends(x,x) Friends(x,x) !Knows(x,x) candidates of Knows(x,x)
  + Friends(x,x) !Knows(x,x) candidates of Knows(x,x)

atoms
  Friends             sparse: 1,100 true atoms of 1,212,201; all others are false
  Knows               sparse: 601 candidates of 1,212,201 atoms, 1 of them observed; all others are false
  Smokes              dense: all 1,101 atoms, 1 of them observed
  facts of Smokes     dense: all 1,101 atoms, all observed
  candidates of Knows sparse: 601 true atoms of 1,212,201; all others are false
rows of the rules over sparse predicates: 1,700 (11 kB)
heads outside the candidates
  line 5: 499 of 1,099 bindings of the premises have a Knows outside its candidates
  these groundings are dropped; --outside false makes their premises less probable

rules over sparse predicates, as lists of rows
%0 = facts of Smokes
%1 = Smokes
%2 = Knows
rule 1: +1 !%1 %0 over 1.1k rows
rule 2: +1 !%2 over 600 rows
1.7k rows
"""
    found = json.loads(shell(*words, "--format", "json").out)
    assert found["lists"]["lists"][-1] == "rule 2: +1 !%2 over 600 rows"
    assert (found["lists"]["rows"], found["supports"]["Knows"]["kind"]) == (1700, "sparse")


def test_explain_with_few_facts_shows_tensors(shell: Shell) -> None:
    shell.write("smoking.db", "Friends(Anna, Bob)\nSmokes(Anna)\n")
    status, out, err = shell("explain", "smoking.mln", "--plan", "-e", "smoking.db", "-q", "Smokes")
    assert (status, err) == (0, "")
    assert "\n  Friends      dense: all 4 atoms, all observed\n" in out
    assert "einsum" in out


def test_explain_with_facts_takes_no_sizes(shell: Shell) -> None:
    shell.write("smoking.db", "Smokes(Anna)\n")
    assert shell("explain", "smoking.mln", "-e", "smoking.db", "--size", "person=3") == Ended(
        1, "", "error: --size cannot be used with facts, which decide it\n")
    status, _, err = shell("explain", "smoking.mln", "-e", "smoking.db", "--candidates", "smoking.db")
    assert (status, err.splitlines()[0]) == (
        1, "error: Smokes has candidates, but it is closed: its atoms without a fact are false: query Smokes, open it "
        "with --open Smokes, or remove its candidates")
