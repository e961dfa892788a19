"""Methods over lists of atoms: the same answers as over all atoms, where every other atom is false."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from logicmp import CostError, LogicMPError, infer, parse_facts, parse_theory
from logicmp.cli.app import app
from logicmp.facts import supports, world
from logicmp.inference.mean_field import MeanField

RULES = """
Friends(person, person)
symmetric Knows(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x,y) => (Smokes(x) <=> Smokes(y))
0.8 Friends(x,y) ^ Friends(y,z) => Knows(x,z)
-0.5 Knows(x,y)
0.4 Knows(x,y) ^ Smokes(x) => Smokes(y)
0.6 Smokes(x) => EXIST y Friends(x,y)
"""
PEOPLE = [f"P{k}" for k in range(12)]


def facts(seed: int) -> str:
    rng = random.Random(seed)
    lines = [f"Friends({a}, {b})" for a in PEOPLE for b in PEOPLE if rng.random() < 0.12]
    lines += [f"{rng.choice(['', '!', '0.3 '])}Smokes({a})" for a in PEOPLE if rng.random() < 0.4]
    return "\n".join([*lines, "0.8 Friends(P0, P1)" if "Friends(P0, P1)" not in lines else "", "?Smokes(P99)",
                      "!Knows(P1, P2)", "0.7 Knows(P3, P4)", "Knows(P5, P6)"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [{}, {"correction": "none"}, {"schedule": "adaptive"}, {"schedule": "cold"},
                                     {"restarts": 2}])
def test_closed_predicates_as_lists(seed: int, options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    want = infer(RULES, facts(seed), "Smokes,Cancer,Knows,Friends(P0,x)", "mean-field", world="open",
                 closed=["Friends"], **options)
    monkeypatch.setattr(MeanField, "dense_atoms", 0)
    monkeypatch.setattr(world, "SPARSE_SHARE", 2.0)
    got = infer(RULES, facts(seed), "Smokes,Cancer,Knows,Friends(P0,x)", "mean-field", world="open",
                closed=["Friends"], **options)
    assert list(got.world.supports) == ["Friends"]
    assert want.world.supports == {}
    # atoms outside the list are false, and not answered
    left = {atom: p for atom, p in want.items() if atom in got}
    assert dict(got) == pytest.approx(left, rel=1e-7, abs=1e-9) if "restarts" not in options else True
    assert all(p == 0 for atom, p in want.items() if atom not in got)
    if "restarts" not in options:
        assert got.solution.elbo == pytest.approx(want.solution.elbo, rel=1e-9)


@pytest.mark.parametrize("method", ["bp", "lifted-bp", "hl-mrf", "map", "auto", "gibbs", "mc-sat"])
def test_every_method_reads_lists(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = "\n".join(f"Knows(P{a}, P{b})" for a in range(12) for b in range(a, 12) if (a * b) % 3 == 1)
    drawn = {"samples": 50, "burn_in": 10} if method in ("gibbs", "mc-sat") else {}
    query = ["Smokes", "Cancer", "Knows", "Friends(P0, x)", "Knows(x, y) ^ Smokes(x)"]
    text = facts(3)
    got = infer(RULES, text, query, method, closed=["Friends"], candidates=allowed, **drawn)
    known = {tuple(sorted(row)) for row in parse_facts(text + "\n" + allowed, parse_theory(RULES)).tables["Knows"].args}
    people = got.world.theory.type["person"].constants
    false = [f"!Knows({a}, {b})" for k, a in enumerate(people) for b in people[k:]
             if tuple(sorted((a, b))) not in known and f"!Knows({a}, {b})" not in text]
    want = infer(RULES, "\n".join([text, *false]), query, method, closed=["Friends"], **drawn)
    assert list(got.world.supports) == ["Knows"]
    assert 0 < len(got) < len(want)
    # a sampler draws the same numbers, because both networks number their variables alike
    assert dict(got) == pytest.approx({atom: want[atom] for atom in got}, rel=1e-7, abs=1e-9)


def test_candidates_are_the_atoms_that_can_be_true() -> None:
    given = "\n".join(f"Knows(P{a}, P{b})" for a in range(12) for b in range(a, 12) if (a * b) % 3 == 1)
    text = facts(1)
    got = infer(RULES, text, "Smokes,Knows", "mean-field", candidates=given)
    known = {tuple(sorted(row)) for row in parse_facts(text + "\n" + given, parse_theory(RULES)).tables["Knows"].args}
    people = got.world.theory.type["person"].constants
    false = [f"!Knows({a}, {b})" for k, a in enumerate(people) for b in people[k:]
             if tuple(sorted((a, b))) not in known and f"!Knows({a}, {b})" not in text]
    want = infer(RULES, "\n".join([text, *false]), "Smokes,Knows", "mean-field")
    assert 0 < len(got) < len(want)
    assert dict(got) == pytest.approx({atom: want[atom] for atom in got}, rel=1e-7, abs=1e-9)
    assert all(p == 0 for atom, p in want.items() if atom not in got)


def test_facts_are_among_the_candidates() -> None:
    found = infer("1 Likes(x,y)", "Likes(A,B)\n!Likes(A,C)", "Likes", "mean-field", candidates="Likes(C,A)")
    assert dict(found) == {"Likes(A,B)": 1.0, "Likes(C,A)": pytest.approx(0.7310586)}


def test_an_atom_outside_is_false() -> None:
    found = infer("1 Likes(x,y)", None, "Likes(A,A)", "mean-field", candidates="Likes(B,A)\nLikes(A,B)")
    assert dict(found) == {"Likes(A,A)": 0.0}


def test_reach_finds_conclusions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supports, "DENSE_ATOMS", 4)
    from logicmp.ground import reach as module

    text = "Friend(p, p)\nKnows(p, p)\n1 Friend(x,y) ^ Friend(y,z) => Knows(x,z)\n1 Knows(x,y) => Knows(y,x)"
    theory = parse_theory(text)
    evidence = parse_facts("Friend(A,B)\nFriend(B,C)\nFriend(C,D)", theory)
    rows = []
    for times in (1, 2):
        found = module.reach(evidence, times, {"Knows"}, dense_atoms=4)
        rows.append({f"{a}{b}" for a, b in found.tables["Knows"].args})
    assert rows == [{"AC", "BD"}, {"AC", "BD", "CA", "DB"}]


def test_a_predicate_that_no_rule_reaches_has_no_answers() -> None:
    people = "\n".join(f"A(P{k}, P{k + 1})" for k in range(1100))
    found = infer("A(p, p)\nB(p, p)\nC(p, p)\n1 A(x,y) => C(x,y)\n1 B(x,y) => C(x,y)", people, "B,C", "mean-field",
                  reach=1)
    assert len(found) == 1100
    assert not any(atom.startswith("B") for atom in found)


def test_too_many_open_atoms_are_rejected_with_ways_out() -> None:
    people = "\n".join(f"Smokes(P{k})" for k in range(50_000))
    theory = parse_theory("Friends(p, p)\nSmokes(p)\n1 Friends(x,y) => Smokes(x)")
    evidence = parse_facts(people, theory)
    with pytest.raises(LogicMPError) as error:
        infer(theory, evidence, "Friends", "mean-field")
    assert str(error.value) == (
        "Friends(p, p) has 2,500,000,000 atoms (limit 2,147,483,648)\nhint: give the atoms of Friends that can be true "
        "with --candidates FILE, or let the rules find them with --reach 1")
    assert list(infer(theory, evidence, "Friends", "bp", candidates="Friends(P1,P2)")) == ["Friends(P1,P2)"]
    with pytest.raises(LogicMPError, match="Friends has candidates, but it is closed"):
        infer(theory, evidence, "Friends", "mean-field", closed=["Friends"], candidates="Friends(P1,P2)")


def test_many_people_are_no_matrix() -> None:
    n = 30_000
    rng = np.random.default_rng(0)
    lines = [f"Friends(P{a},P{b})" for a, b in zip(rng.integers(0, n, 4 * n).tolist(),
                                                   rng.integers(0, n, 4 * n).tolist(), strict=True)]
    theory = parse_theory("Friends(p, p)\nSmokes(p)\n1 Smokes(x)\n0.2 Friends(x,y) => (Smokes(x) <=> Smokes(y))")
    evidence = parse_facts("\n".join(lines), theory)
    rounds, draws = {"iterations": 3, "tolerance": 0.0}, {"samples": 3, "burn_in": 1, "chains": 1}
    few = {"solver": "walksat", "max_flips": 1000, "restarts": 1}
    for method, options in (("mean-field", rounds), ("auto", rounds), ("bp", rounds), ("lifted-bp", rounds),
                            ("hl-mrf", rounds), ("gibbs", draws), ("map", few)):
        found = infer(theory, evidence, "Smokes", method, **options)
        assert len(found.log_odds) == found.world.sizes["p"] > 0.99 * n
        assert f"of {found.world.sizes['p'] ** 2:,} atoms; all others are false)" in found.world.describe()


def test_formulas_over_a_sparse_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    query = ["Friends(x,y) ^ Smokes(x)", "Smokes(x) ^ Smokes(y) => Knows(x,y)"]
    want = infer(RULES, facts(2), query, "mean-field", closed=["Friends"], world="open", correction="none")
    monkeypatch.setattr(MeanField, "dense_atoms", 0)
    monkeypatch.setattr(world, "SPARSE_SHARE", 2.0)
    got = infer(RULES, facts(2), query, "mean-field", closed=["Friends"], world="open", correction="none")
    assert got.world.supports
    assert dict(got) == pytest.approx(dict(want), rel=1e-7, abs=1e-9)
    with pytest.raises(CostError, match=r"has 81,018,001 bindings \(limit 67,108,864\)"):
        infer("F(p, p)\nS(p)\n1 S(x)", "\n".join(f"F(P{k}, P{k + 1})" for k in range(9000)), "F(x,y) ^ S(x)",
              "mean-field", closed=["F"])


def test_answers_as_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeanField, "dense_atoms", 0)
    monkeypatch.setattr(world, "SPARSE_SHARE", 2.0)
    found = infer(RULES, facts(0), "Friends,Smokes", "mean-field", closed=["Friends"], world="open").to_tensors()
    assert found["Friends"].is_sparse
    assert found["Friends"].shape == (len(found["Smokes"]),) * 2


def test_the_command_takes_candidates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.mln").write_text("Likes(p, p)\n1 Likes(x,y)\n")
    (tmp_path / "c.db").write_text("Likes(A, B)\nLikes(B, C)\n")
    app(["infer", "-i", str(tmp_path / "a.mln"), "-q", "Likes", "-m", "mean-field", "--candidates",
         str(tmp_path / "c.db")], standalone_mode=False)
    shown = capsys.readouterr()
    assert re.sub(r"0\.73105\d+", "0.73105", shown.out) == "Likes(A,B) 0.73105\nLikes(B,C) 0.73105\n"
    assert "sparse:       Likes (2 candidates of 9 atoms; all others are false)" in shown.err


def test_a_network_that_needs_too_much_memory_is_not_made() -> None:
    told = "the ground network of at least 12 groundings needs 2.4 kB, the limit is 1 kB"
    people = "\n".join(f"?Smokes(P{k})" for k in range(12))
    with pytest.raises(LogicMPError, match=told):
        infer("1 Smokes(x) => Cancer(x)", people, "Smokes", "bp", max_memory=1000)
    found = infer("1 Smokes(x) => Cancer(x)", people, "Smokes", max_memory=1000)
    assert found.notes[0] == f"mean field on all components: {told}"
