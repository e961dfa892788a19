"""A hard "at most one" in any notation is a variable with values: the same answers, and soon."""

from __future__ import annotations

import random

import pytest

from logicmp import LogicMPError, RuleError, infer, parse_facts, parse_theory
from logicmp.execute.worlds import to_tensors
from logicmp.facts.world import build_world
from logicmp.ground.exclusive import find_at_most_one, find_some_value, merge_exclusive
from logicmp.inference import run
from logicmp.oracle import exact_marginals

DECLARED = "a = {1, 2, 3}\nb = {A, B, C}\nM(a, b)\nN(a, a)\nsymmetric S(a, a)\nT(a, b, a)\n"


@pytest.mark.parametrize("rule, found", [
    ("!M(x,y) v !M(x,z) v y = z.", ("M", 1)),
    ("M(x,y) ^ M(x,z) => y = z.", ("M", 1)),
    ("y != z => !(M(x,y) ^ M(x,z)).", ("M", 1)),
    ("!(M(x,z) ^ !(y = z) ^ M(x,y)).", ("M", 1)),
    ("!M(x,y) v !M(z,y) v x = z.", ("M", 0)),
    ("T(x,y,z) ^ T(x,u,z) => y = u.", ("T", 1)),
    # soft, or something else
    ("2 !M(x,y) v !M(x,z) v y = z", None),
    ("M(x,y) v !M(x,z) v y = z.", None),
    ("!M(x,y) v !M(x,z) v y != z.", None),
    ("!M(x,y) v !M(x,A) v y = A.", None),
    ("!M(x,y) v !M(u,z) v y = z.", None),
    ("!N(x,y) v !N(x,x) v y = x.", None),
    ("!N(x,y) v !N(y,x) v y = x.", None),
    ("!N(x,y) v !N(x,y+1) v y = x.", None),
    ("!T(x,y,x) v !T(x,z,x) v y = z.", None),
    ("!T(x,y,u) v !T(x,z,w) v y = z.", None),
    # S(x,y) and S(y,x) are one atom, with values in both directions
    ("!S(x,y) v !S(x,z) v y = z.", None),
    ("!M(x,y) v !M(x,z) v y = z v M(x,A).", None),
])
def test_the_rule_is_recognized_in_any_notation(rule: str, found: tuple[str, int] | None) -> None:
    theory = parse_theory(DECLARED + rule)
    assert find_at_most_one(theory.rules[0], theory) == found


@pytest.mark.parametrize("method", ["exact", "auto", "map"])
def test_the_answers_are_those_of_the_rule(method: str) -> None:
    rng = random.Random(0)
    for _ in range(6):
        weights = [round(rng.uniform(-2, 2), 2) for _ in range(4)]
        text = (f"a = {{1, 2}}\nb = {{A, B, C}}\nM(a, b)\nP(b)\n!M(x,y) v !M(x,z) v y = z.\n{weights[0]} M(x,y)\n"
                f"{weights[1]} M(x,y) => P(y)\n{weights[2]} M(1,A) v P(B)\n{weights[3]} EXIST y M(x,y)")
        facts = rng.choice(["", "M(1,A)", "!M(1,A)\n!M(1,B)", "0.9 M(1,A)\n0.3 M(2,B)", "M(1,A)\nM(2,A)\nP(B)"])
        found = infer(text, facts, "M, P", method)
        theory = parse_theory(text)
        world = build_world(parse_facts(facts, theory), ["M", "P"])
        # the oracle keeps the rule
        evidence = {name: to_tensors({name: values.astype(float)}, {})[name] for name, values in world.values.items()}
        evidence = {name: tensor.where(tensor >= 0, float("nan")) for name, tensor in evidence.items()}
        want = exact_marginals(theory, to_tensors(world.unary, {}), evidence)
        for atom, p in zip(found, found.probabilities.tolist(), strict=True):
            name, args = atom.rstrip(")").split("(")
            place = tuple(theory.index(t, c) for t, c in
                          zip(theory.predicate[name].types, args.split(","), strict=True))
            if method != "map":
                assert p == pytest.approx(want[name][place].item(), abs=1e-9), (text, facts, atom)
            else:
                # the best world is possible
                assert not (p == 1 and want[name][place].item() == 0), (text, facts, atom)


def test_evidence_that_violates_the_rule_is_an_error() -> None:
    with pytest.raises(RuleError, match=r"the evidence violates this hard rule where x = 1, y = [AB], z = [AB]"):
        infer(f"{DECLARED}M(x,y) ^ M(x,z) => y = z.", "M(1,A)\nM(1,B)", "M", "exact")


def test_of_a_matching_one_direction_becomes_values() -> None:
    theory = parse_theory("a = {1, 2}\nM(a, a)\nM(x,y) ^ M(x,z) => y = z.\nM(x,y) ^ M(z,y) => x = z.\n0 M(x, y)")
    merged = merge_exclusive(build_world(parse_facts("", theory), ["M"]))
    assert [str(rule) for rule in merged.theory.rules] == ["M(x, y) ^ M(z, y) => x = z.", "0 M(x, y)"]
    assert merged.warnings == ("line 3 allows at most one a in M: treated as M(a, a?)",)
    # 7 of 16 worlds are matchings, 2 of them have M(1,1)
    assert infer(theory, query="M", method="exact")["M(1,1)"] == pytest.approx(2 / 7)


# 1,990,000 groundings in cliques of 200 atoms: each of these methods ran for minutes
@pytest.mark.parametrize("method", [
    "auto", "exact", "bp", "lifted-bp", "mean-field", "map",
    pytest.param("gibbs", marks=pytest.mark.slow), pytest.param("mc-sat", marks=pytest.mark.slow)])
def test_many_values_are_answered_soon(method: str) -> None:
    text = "a = {1, ..., 50}\nb = {1, ..., 200}\nM(a,b)\n!M(x,y) v !M(x,z) v y = z.\n0.5 M(x,y)"
    found = infer(text, "", "M", method)
    assert "line 4 allows at most one b in M: treated as M(a, b?)" in found.notes
    p = found.probabilities.reshape(50, 200)
    want = 1 / (200 + 2.718281828459045**-0.5)
    if method == "map":
        assert p.sum(1).tolist() == [1] * 50
    else:
        assert abs(p - want).max() < (0.05 if method in ("gibbs", "mc-sat") else 1e-6)


@pytest.mark.parametrize("rule, found", [
    ("EXIST y M(x,y).", "M"),
    ("EXIST x M(x,y).", None),
    ("EXIST y M(1,y).", None),
    ("EXIST x,y M(x,y).", None),
    ("EXIST y (M(x,y) ^ M(x,A)).", None),
    ("2 EXIST y M(x,y)", None),
])
def test_a_required_value_is_recognized(rule: str, found: str | None) -> None:
    theory = parse_theory("a = {1, 2}\nb = {A, B}\nM(a, b?)\n" + rule)
    assert find_some_value(theory.rules[0], theory) == found


MATCHING = """a = {1, 2, 3}
b = {A, B, C, D}
M(a, b)
P(b)
M(x,y) ^ M(x,z) => y = z.
0.7 M(x,y)
1.1 M(x,y) => P(y)
0.6 M(1,A) v P(B)
"""


@pytest.mark.parametrize("seed", range(4))
def test_listed_atoms_have_the_answers_of_the_rule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    rules = ("M(x,y) ^ M(z,y) => x = z.\n", "EXIST y M(x,y).\n")
    text = MATCHING + "".join(rule for rule in rules if rng.random() < 0.5)
    listed = [f"M({i},{j})" for i in (1, 2, 3) for j in "ABCD" if rng.random() < 0.6 or j == "ABC"[i - 1]]
    facts = "\n".join(f"{rng.uniform(0.1, 0.9):.2f} {atom}" for atom in listed if rng.random() < 0.5)
    samplers = {"gibbs": {"samples": 500}, "mc-sat": {"samples": 500}} if seed == 0 else {}
    methods = {"exact": {}, "bp": {}, "mean-field": {}, "map": {}, "hl-mrf": {}, **samplers}
    found = {method: infer(text, facts, "M, P", method, candidates="\n".join(listed), **options)
             for method, options in methods.items()}
    assert "line 5 allows at most one b in M: treated as M(a, b?)" in found["exact"].notes
    # the slow way: every pair of atoms is a grounding
    monkeypatch.setattr(run, "merge_exclusive", lambda world: world)
    want, best = (infer(text, facts, "M, P", method, candidates="\n".join(listed)) for method in ("exact", "map"))
    assert list(found["exact"]) == list(want)
    assert abs(found["exact"].probabilities - want.probabilities).max() < 1e-9
    assert found["exact"].log_partition == pytest.approx(want.log_partition)
    # there may be several best worlds
    assert [note.split("; ")[0] for note in found["map"].solution.notes] == [
        note.split("; ")[0] for note in best.solution.notes]
    for method in samplers:
        assert abs(found[method].probabilities - want.probabilities).max() < 0.1, method
    # degrees of truth of one group add up to at most one, which pairs do not say
    degrees = found["hl-mrf"]
    for i in (1, 2, 3):
        assert sum(p for atom, p in degrees.items() if atom.startswith(f"M({i},")) < 1.001


def test_a_value_that_the_list_lacks_is_an_error() -> None:
    with pytest.raises(LogicMPError, match=r"no world satisfies|violates this hard rule"):
        infer(MATCHING + "EXIST y M(x,y).", "", "M", "exact", candidates="M(1,A)\nM(2,A)")


def test_a_list_with_one_long_row_stays_a_list() -> None:
    theory = parse_theory("M(a, b)\nM(x,y) ^ M(x,z) => y = z.\n1 M(x,y)")
    many = [f"M(0,{k})" for k in range(3000)] + [f"M({k},0)" for k in range(1, 3000)]
    evidence = parse_facts("", theory)
    candidates = parse_facts("\n".join(many), theory)
    world = build_world(evidence, ["M"], candidates=candidates)
    assert merge_exclusive(world) is world
