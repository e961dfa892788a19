"""`logicmp check`: what it prints, and its errors."""

from __future__ import annotations

import json

from shell import LINKS, SMOKING, Ended, Shell, write_links


def test_check_says_what_it_read(shell: Shell) -> None:
    assert shell("check", "smoking.mln") == Ended(0, """\
smoking.mln: 1 type, 4 predicates, 2 rules, 2 warnings

types
  person       2 constants: Anna, Bob

predicates
  Smokes(person)
  Friends(person, person)
  Cancer(person)
  Rain

rules
     7: 1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
     8: Smokes(x) <=> Cancer(x).

warnings
  line 5: predicate Rain is in no rule
  line 7: a weighted implication also lowers its premise: an atom there becomes less likely where the conclusion is \
unlikely
""", "")


def test_check_reads_the_facts_too(shell: Shell) -> None:
    shell.write("open.mln", "Works(person, firm)\n*Big(firm)\n1 Works(x, y) v Big(y)")
    shell.write("open.db", "\n".join(f"Works(P{k}, Acme)" for k in range(8)) + "\n!Big(Acme)\nBig(Bolt)\n!Big(Acme)")
    assert shell("check", "open.mln", "-e", "open.db") == Ended(0, """\
open.mln: 2 types, 2 predicates, 1 rule, 1 warning

types
  person       8 constants: P0, P1, P2, P3, P4, P5, ...   (open: facts may add constants)
  firm         2 constants: Acme, Bolt   (open: facts may add constants)

predicates
  Works(person, firm)
  *Big(firm)

rules
     3: 1 Works(x, y) v Big(y)

facts: 10
  Works        8
  Big          2
  atoms without a fact: false if their predicate has facts and is not queried (see infer --world), else
  unobserved, with prior probability 0.5 (see infer --prior)

atoms
  Works        dense: all 16 atoms, all observed
  Big          dense: all 2 atoms, all observed

warnings
  open.db: 1 fact of Big is given again, first on line 11
""", "")


def test_check_as_json(shell: Shell) -> None:
    shell.write("smoking.db", "Smokes(Anna)\n!Friends(Bob, Anna)\n")
    status, out, err = shell("check", "smoking.mln", "--evidence", "smoking.db", "--format", "json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "types": {"person": {"constants": ["Anna", "Bob"], "closed": True}},
        "predicates": {"Smokes": "Smokes(person)", "Friends": "Friends(person, person)", "Cancer": "Cancer(person)",
                       "Rain": "Rain"},
        "rules": [
            {"line": 7, "rule": "1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)", "weight": 1.5, "hard": False,
             "variables": {"x": "person", "y": "person"}},
            {"line": 8, "rule": "Smokes(x) <=> Cancer(x).", "weight": None, "hard": True,
             "variables": {"x": "person"}},
        ],
        "facts": {"Smokes": 1, "Friends": 1},
        "supports": {name: {
            "predicate": name, "kind": "dense", "atoms": atoms, "listed": atoms, "observed": observed,
            "is_closed": observed > 0, "meaning": f"dense: all {atoms} atoms, {what} observed"}
            for name, atoms, observed, what in (("Smokes", 2, 2, "all"), ("Friends", 4, 4, "all"),
                                                ("Cancer", 2, 0, "0 of them"), ("Rain", 1, 0, "0 of them"))},
        "rows": None,
        "outside": [],
        "warnings": [
            "line 5: predicate Rain is in no rule",
            "line 7: a weighted implication also lowers its premise: an atom there becomes less likely "
            "where the conclusion is unlikely",
        ],
    }
    assert json.loads(shell("check", "smoking.mln", "--format", "json").out)["facts"] is None


def test_check_tells_what_atoms_without_a_fact_count_as_where_others_are_soft(shell: Shell) -> None:
    shell.write("smoking.db", "0.9 Smokes(Anna)\nFriends(Bob, Anna)\n")
    assert json.loads(shell("check", "smoking.mln", "-e", "smoking.db", "--format", "json").out)["warnings"][-1] == (
        "if queried, Smokes: 1 of 2 atoms have no fact, prior probability 0.5; set another prior (--prior Smokes=0.1), "
        "or make them false (-cw Smokes)")


def test_check_reads_standard_input(shell: Shell) -> None:
    from_file, from_stdin = shell("check", "smoking.mln"), shell("check", "-", stdin=SMOKING)
    assert from_stdin == from_file._replace(out=from_file.out.replace("smoking.mln", "-"))


def test_check_takes_the_grammar(shell: Shell) -> None:
    shell.write("prac.mln", "P(t)\n1 P(x)")
    assert '  1 P("x")\n' not in shell("check", "prac.mln").out
    assert '1 P("x")\n' in shell("check", "prac.mln", "--grammar", "prac").out


def test_check_of_a_rule_that_costs_too_much_is_a_warning(shell: Shell) -> None:
    shell.write("parity.mln", "P(t)\n1 " + " <=> ".join(f"P({name})" for name in "abcdefghijkl"))
    status, out, err = shell("check", "parity.mln")
    assert (status, err) == (0, "")
    assert out.endswith("\nwarnings\n  line 2: this rule needs more than 512 products: "
                        "split it into smaller rules, or raise max_cubes\n")


def test_wrong_facts(shell: Shell) -> None:
    shell.write("smoking.db", "Smokes(Anna)\nSmokes(Carl)\n")
    assert shell("check", "smoking.mln", "-e", "smoking.db") == Ended(1, "", """\
error: 'Carl' is not a constant of type 'person', whose constants are listed
 --> smoking.db:2:1
2 | Smokes(Carl)
  | ^^^^^^^^^^^^
hint: declared constants: Anna, Bob
""")


def test_check_describes_lists_and_heads_outside_them(shell: Shell) -> None:
    write_links(shell)
    words = ("check", "links.mln", "-e", "links.db", "-q", "Smokes,Knows", "--candidates", "knows.db")
    status, out, err = shell(*words)
    assert (status, err) == (0, "")
    assert out[out.index("\natoms\n") :] == """
atoms
  Friends      sparse: 1,100 true atoms of 1,212,201; all others are false
  Knows        sparse: 601 candidates of 1,212,201 atoms, 1 of them observed; all others are false
  Smokes       dense: all 1,101 atoms, 1 of them observed
rows of the rules over sparse predicates: 1,700 (11 kB)
heads outside the candidates
  line 5: 499 of 1,099 bindings of the premises have a Knows outside its candidates
  such a head is false, and the rule makes its premises less probable; --outside skip drops these groundings

warnings
  lines 4, 5: a weighted implication also lowers its premise: an atom there becomes less likely where the conclusion \
is unlikely
"""
    skipped = shell(*words, "--outside", "skip", "--premises", "facts").out
    assert "  facts of Smokes     dense: all 1,101 atoms, all observed\n" in skipped
    assert "  these groundings are dropped; --outside false makes their premises less probable\n" in skipped
    found = json.loads(shell(*words, "--format", "json").out)
    assert (found["supports"]["Knows"]["listed"], found["rows"]["rows"]) == (601, 1700)
    assert found["outside"] == [{"line": 5, "rule": "0.8 Friends(x, y) ^ Friends(y, z) => Knows(x, z)",
                                 "predicate": "Knows", "bindings": 1099, "outside": 499}]


def test_check_warns_of_options_that_infer_would_reject(shell: Shell) -> None:
    write_links(shell)
    out = shell("check", "links.mln", "-e", "links.db", "--candidates", "knows.db").out
    assert out.endswith("  infer with these options: Knows has candidates, but it is closed: its atoms without a fact "
                        "are false: query Knows, open it with --open Knows, or remove its candidates\n")


def test_check_reads_tables(shell: Shell) -> None:
    shell.write("links.mln", LINKS)
    shell.write("friends.csv", "a,b\nAnna,Bob\nBob,Carl\n")
    assert "\n  Friends      dense: all 9 atoms, all observed\n" in shell(
        "check", "links.mln", "-e", "Friends=friends.csv").out
