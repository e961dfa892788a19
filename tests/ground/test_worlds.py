"""Premises from facts and heads outside the candidates, judged by the oracle on rules that name both; reports."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from logicmp import LogicMPError, infer, parse_facts, parse_theory
from logicmp.ground import worlds
from logicmp.ground.worlds import count_outside, describe_supports
from logicmp.inference.run import find_world
from logicmp.oracle import mean_field_step

PEOPLE = [f"P{k}" for k in range(5)]
DECLARED = f"""
p = {{{', '.join(PEOPLE)}}}
F(p, p)
K(p, p)
S(p)
"""
# as the user writes it; with facts of K as KF, of S as SF; with candidates of K as KC
RULES = [
    ("0.7 K(x,y) ^ K(y,z) => K(x,z)", "0.7 KF(x,y) ^ KF(y,z) => K(x,z)", "0.7 K(x,y) ^ K(y,z) ^ KC(x,z) => K(x,z)"),
    ("0.5 F(x,y) ^ S(x) => K(y,x)", "0.5 F(x,y) ^ SF(x) => K(y,x)", "0.5 F(x,y) ^ S(x) ^ KC(y,x) => K(y,x)"),
    ("0.9 K(x,y) => S(x)", "0.9 KF(x,y) => S(x)", "0.9 K(x,y) => S(x)"),
    ("-0.4 K(x,y) v S(y)", "-0.4 K(x,y) v S(y)", "-0.4 KC(x,y) => K(x,y) v S(y)"),
    ("0.3 !K(x,y) v !S(x)", "0.3 !K(x,y) v !S(x)", "0.3 !K(x,y) v !S(x)"),
    ("0.6 S(x) => (EXIST y K(x,y))", "0.6 SF(x) => (EXIST y K(x,y))", "0.6 S(x) => (EXIST y K(x,y))"),
    ("0.8 K(x,y) <=> K(y,x)", "0.8 (KF(x,y) => K(y,x)) ^ (KF(y,x) => K(x,y))",
     "0.8 (K(x,y) ^ KC(y,x) => K(y,x)) ^ (K(y,x) ^ KC(x,y) => K(x,y))"),
]


def random_world(seed: int) -> tuple[str, str, set[tuple[str, str]], set[tuple[str, str]], set[str]]:
    """Facts, candidates, and then all candidates, true facts of K, and true facts of S."""
    rng = random.Random(seed)
    pairs = [(a, b) for a in PEOPLE for b in PEOPLE]
    true, listed = set(rng.sample(pairs, 4)), set(rng.sample(pairs, 9))
    smokers = set(rng.sample(PEOPLE, 2))
    lines = [f"F({a},{b})" for a, b in rng.sample(pairs, 8)] + [f"K({a},{b})" for a, b in sorted(true)]
    lines += [f"S({a})" for a in sorted(smokers)]
    return "\n".join(lines), "\n".join(f"K({a},{b})" for a, b in sorted(listed)), listed | true, true, smokers


def oracle_step(rules: list[str], facts: str, listed: set[tuple[str, str]], true: set[tuple[str, str]],
                smokers: set[str]) -> dict[str, float]:
    """One update of all atoms from 0.5, by loops over the groundings of rules that name facts and candidates."""
    theory = parse_theory(DECLARED + "KF(p, p)\nKC(p, p)\nSF(p)\n" + "\n".join(rules))
    n = len(PEOPLE)
    place = {name: k for k, name in enumerate(PEOPLE)}
    evidence = {name: torch.zeros(n, n, dtype=torch.float64) for name in ("F", "KF", "KC")}
    for args in parse_facts(facts, theory).tables["F"].args:
        evidence["F"][place[args[0]], place[args[1]]] = 1
    evidence["K"] = torch.zeros(n, n, dtype=torch.float64)
    evidence["S"] = torch.full((n,), torch.nan, dtype=torch.float64)
    evidence["SF"] = torch.zeros(n, dtype=torch.float64)
    for a, b in listed:
        evidence["KC"][place[a], place[b]] = 1
        evidence["K"][place[a], place[b]] = torch.nan
    for a, b in true:
        evidence["KF"][place[a], place[b]] = evidence["K"][place[a], place[b]] = 1
    for a in smokers:
        evidence["S"][place[a]] = evidence["SF"][place[a]] = 1
    q = {name: torch.full(x.shape, 0.5, dtype=torch.float64) for name, x in evidence.items()}
    found = mean_field_step(theory, None, q, evidence)
    answers = {f"K({a},{b})": float(found["K"][place[a], place[b]]) for a, b in listed}
    return answers | {f"S({a})": float(found["S"][place[a]]) for a in PEOPLE}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("premises, outside, column", [("all", "false", 0), ("facts", "false", 1), ("all", "skip", 2)])
def test_one_update_equals_the_oracle(seed: int, premises: str, outside: str, column: int) -> None:
    facts, candidates, listed, true, smokers = random_world(seed)
    for rules in ([rule] for rule in RULES):
        want = oracle_step([rule[column] for rule in rules], facts, listed, true, smokers)
        got = infer(DECLARED + "\n".join(rule[0] for rule in rules), facts, "K,S", "mean-field", candidates=candidates,
                    premises=premises, outside=outside, iterations=1, damping=0.0, tolerance=0.0)
        assert dict(got) == pytest.approx(want, rel=1e-9, abs=1e-12), rules


@pytest.mark.parametrize("seed", range(3))
def test_both_together_after_many_updates(seed: int) -> None:
    facts, candidates, listed, true, smokers = random_world(seed)
    more = "\n".join([facts, *(f"KF({a},{b})" for a, b in true), *(f"KC({a},{b})" for a, b in listed),
                      *(f"SF({a})" for a in smokers),
                      *(f"!K({a},{b})" for a in PEOPLE for b in PEOPLE if (a, b) not in listed)])
    both = ["0.7 KF(x,y) ^ KF(y,z) ^ KC(x,z) => K(x,z)", "0.5 F(x,y) ^ SF(x) ^ KC(y,x) => K(y,x)",
            "0.9 KF(x,y) => S(x)"]
    want = infer(DECLARED + "KF(p, p)\nKC(p, p)\nSF(p)\n" + "\n".join(both), more, "K,S", "mean-field",
                 correction="none")
    got = infer(DECLARED + "\n".join(rule[0] for rule in RULES[:3]), facts, "K,S", "mean-field", candidates=candidates,
                premises="facts", outside="skip", correction="none")
    assert dict(got) == pytest.approx({atom: want[atom] for atom in got}, rel=1e-6)
    assert set(got) == {atom for atom in want if atom.startswith("S") or want[atom] > 0}


def test_a_head_outside_lowers_its_premises_unless_it_is_skipped() -> None:
    text = "p = {A, B}\nS(p)\nK(p, p)\n2 S(x) => K(x,y)"
    lowered, kept = (infer(text, None, "S,K", "mean-field", candidates="K(A,A)\nK(A,B)\nK(B,B)", outside=outside)
                     for outside in ("false", "skip"))
    assert lowered["S(B)"] < 0.2 < kept["S(B)"]


def test_reach_applies_rules_to_facts_only() -> None:
    theory = parse_theory("F(p, p)\nK(p, p)\nS(p)\n1 S(x) ^ F(x,y) => K(x,y)\n1 K(x,y) ^ K(y,z) => K(x,z)")
    facts = parse_facts("F(A,B)\nF(B,C)\nF(C,D)\nS(A)\nK(A,B)\nK(B,C)", theory)
    rows = {}
    for premises in ("all", "facts"):
        world = find_world(facts, ["K", "S"], reach=2, premises=premises, dense_atoms=4)
        support = world.supports["K"]
        names = world.theory.type["p"].constants
        rows[premises] = {names[a] + names[b] for a, b in zip(*support.columns, strict=True)}
    # all four S can be true; with facts, S(A) alone
    assert rows == {"all": {"AB", "BC", "CD", "AC", "BD", "AD"}, "facts": {"AB", "BC", "AC"}}


def test_unknown_words() -> None:
    theory = parse_theory("S(p)")
    with pytest.raises(LogicMPError, match=r"^premises must be 'all' or 'facts', got 'fact'$"):
        find_world(parse_facts("S(A)", theory), premises="fact")
    with pytest.raises(LogicMPError, match=r"^outside must be 'false' or 'skip', got 'drop'$"):
        infer("1 S(A)", None, "S", outside="drop")


def test_supports_are_described() -> None:
    theory = parse_theory("F(p, p)\nK(p, p)\nsymmetric M(p, p)\nS(p)\n1 F(x,y) ^ S(x) => K(x,y)")
    facts = parse_facts("F(A,B)\nF(B,C)\nF(C,A)\nS(A)\nK(A,B)\nM(A,B)\nM(C,C)", theory)
    world = find_world(facts, ["K", "S"], dense_atoms=4, candidates=parse_facts("K(C,B)", facts.theory))
    worlds_of = {report.predicate: report for report in describe_supports(world)}
    assert {name: str(report) for name, report in worlds_of.items()} == {
        "F": "dense: all 9 atoms, all observed", "M": "dense: all 9 atoms, all observed",
        "K": "sparse: 2 candidates of 9 atoms, 1 of them observed; all others are false",
        "S": "dense: all 3 atoms, 1 of them observed"}
    assert worlds_of["K"].to_dict() == {
        "predicate": "K", "kind": "sparse", "atoms": 9, "listed": 2, "observed": 1, "is_closed": False,
        "meaning": "sparse: 2 candidates of 9 atoms, 1 of them observed; all others are false"}
    (report,) = count_outside(world)
    # F(A,B), F(B,C), F(C,A): K(A,B) is a fact, the others are outside
    assert str(report) == "line 5: 2 of 3 bindings of the premises have a K outside its candidates"
    assert (report.bindings, report.outside) == (3, 2)


def test_outside_is_counted_like_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    names = [f"N{k}" for k in range(9)]
    pairs = {(names[a], names[b]) for a, b in rng.integers(0, 9, (25, 2)).tolist()}
    given = {(names[a], names[b]) for a, b in rng.integers(0, 9, (15, 2)).tolist()}
    theory = parse_theory(f"p = {{{', '.join(names)}}}\nF(p, p)\nK(p, p)\n1 F(x,y) ^ F(y,z) ^ x != z => K(x,z)\n"
                          "1 K(x,y)")
    facts = parse_facts("\n".join(f"F({a},{b})" for a, b in sorted(pairs)), theory)
    world = find_world(facts, ["K"], dense_atoms=10**6, candidates=parse_facts(
        "\n".join(f"K({a},{b})" for a, b in sorted(given)), facts.theory))
    # the second rule has no premises
    (rule,) = count_outside(world)
    bindings = [(x, z) for x, y in pairs for y2, z in pairs if y == y2 and x != z]
    assert (rule.bindings, rule.outside) == (len(bindings), sum(pair not in given for pair in bindings))
    monkeypatch.setattr(worlds, "MAX_COUNTED", 10)
    assert str(count_outside(world)[0]) == (
        "line 4: more than 10 bindings of the premises; those whose K is outside its candidates were not counted")
