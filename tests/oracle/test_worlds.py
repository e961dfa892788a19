"""Enumeration of worlds, compared with combinatorics, sums written out, and published values."""

import itertools
import json
import math
import re

import pytest
import torch
from oracle_cases import CASES, TRANSITIVITY, assert_same, case, random_unary, shape

from logicmp import LogicMPError, load_theory, oracle, parse_theory
from logicmp.oracle.mean_field import elbo
from logicmp.oracle.worlds import count_models, exact_marginals, log_partition

# counting


@pytest.mark.parametrize("n, models", [(1, 2), (3, 171), (4, 3994), (5, 154303)])
def test_transitivity_has_as_many_models_as_there_are_transitive_relations(n, models):
    assert count_models(parse_theory(f"{TRANSITIVITY}."), {"thing": n}) == models


@pytest.mark.parametrize("text, sizes, models", [
    # partial equivalence relations: the next Bell number
    (f"symmetric C(t, t)\n{TRANSITIVITY}.", {"t": 3}, 15),
    (f"symmetric C(t, t)\n{TRANSITIVITY}.", {"t": 4}, 52),
    # functions, injective functions, partial injective functions
    ("f(a, b!)", {"a": 3, "b": 4}, 64),
    ("f(a, b!)\nf(x,y) ^ f(z,y) => x = z.", {"a": 3, "b": 3}, 6),
    ("f(a, b?)\nf(x,y) ^ f(z,y) => x = z.", {"a": 3, "b": 3}, 34),
    ("f(a!, b)\nf(x,y) ^ f(x,z) => y = z.", {"a": 4, "b": 2}, 12),
    ("f(a!, b!)", {"a": 3, "b": 2}, 6),
    ("f(a?, b?)", {"a": 3, "b": 2}, 7),
    # words over A B C in which B follows every A but the last letter's
    ("l(k) in {A, B, C}\nl(i) in {A} => l(i+1) in {B}.", {"k": 3}, 17),
    ("l(k) in {A, B, C}\nl(i) in {A} => l(i+1) in {B}.", {"k": 1}, 3),
    ("P(x,y)\nEXIST y P(x,y).", {"x": 2, "y": 2}, 9),
    ("P(x,y)\nEXIST x FORALL y P(x,y).", {"x": 2, "y": 2}, 7),
    ("P(x,y)\nFORALL x EXIST y P(x,y).", {"x": 2, "y": 3}, 49),
    ("Q(x)\nP(y)\nQ(x) => EXIST y P(y).", {"x": 2, "y": 2}, 13),
    # i-1 keeps the first i out, j+1 the last j: with two constants A(1) => B(1) ^ A(0) is left
    ("A(k)\nB(k)\nA(i) => EXIST j (B(j+1) ^ A(i-1)).", {"k": 2}, 10),
    ("A(k)\nB(k)\nA(i) => EXIST j (B(j+1) ^ A(i-1)).", {"k": 1}, 4),
    # the i of the quantifier is another one: its offset does not keep out A(1)
    ("A(k)\nB(k)\nA(i) => EXIST i B(i+1).", {"k": 2}, 10),
    # no two neighbours: independent sets of a path of 4
    ("A(k)\n!(EXIST i (A(i) ^ A(i+1))).", {"k": 4}, 8),
    ("A(t)\nEXIST x A(x).\nA(x) ^ A(y) => x = y.", {"t": 4}, 4),
    ("A\nB\nA => B.", {}, 3),
    ("A\n!A.\nA.", {}, 0),
    # soft rules do not count
    ("A(t)\n-3 A(x)", {"t": 3}, 8),
])
def test_hard_rules_have_as_many_models_as_combinatorics_predicts(text, sizes, models):
    theory = parse_theory(text)
    assert count_models(theory, sizes) == models
    if models:
        assert log_partition(parse_theory(text.replace("-3", "0")), sizes=sizes) == pytest.approx(math.log(models))
    else:
        with pytest.raises(LogicMPError, match="no world satisfies"):
            log_partition(theory, sizes=sizes)


def test_log_partition_of_smokers_equals_a_sum_over_all_worlds_written_out():
    theory, sizes = case("smokers")
    unary = random_unary(theory, sizes)
    total = 0.0
    for bits in itertools.product((0, 1), repeat=6):
        s, f = bits[:2], (bits[2:4], bits[4:])
        score = sum(float(unary["S"][x]) * s[x] - 0.7 * s[x] for x in range(2))
        score += sum(float(unary["F"][x, y]) * f[x][y] for x in range(2) for y in range(2))
        score += 2 * sum(not (s[x] and f[x][y]) or s[y] for x in range(2) for y in range(2))
        total += math.exp(score)
    assert log_partition(theory, unary, sizes=sizes) == pytest.approx(math.log(total), abs=1e-10)


# published values of real files


def read_evidence(theory, text, closed_world):
    """A minimal .db: `P(A,B)`, `!P(A)`, `dom = {A, B}`."""
    constants, facts = {}, []
    for line in re.sub(r"//.*", "", text).splitlines():
        if (domain := re.fullmatch(r"\s*(\w+)\s*=\s*{(.*)}\s*", line)):
            constants.setdefault(domain[1], []).extend(c.strip() for c in domain[2].split(","))
        elif line.strip():
            sign, name, args = re.fullmatch(r"\s*(!?)(\w+)\((.*)\)\s*", line).groups()
            args = [arg.strip() for arg in args.split(",")]
            facts.append((not sign, name, args))
            for type_name, arg in zip(theory.predicate[name].types, args, strict=True):
                constants.setdefault(type_name, []).append(arg)
    theory = theory.with_constants({t: tuple(c) for t, c in constants.items()})
    evidence = {p.name: torch.full(shape(p, theory.sizes), 0.0 if p.name in closed_world else math.nan)
                for p in theory.predicates}
    for is_true, name, args in facts:
        types = theory.predicate[name].types
        evidence[name][tuple(theory.index(t, a) for t, a in zip(types, args, strict=True))] = float(is_true)
    return theory, evidence


def atoms_of(theory, tensors):
    return {f"{p.name}({','.join(args)})": float(tensors[p.name][tuple(map(theory.index, p.types, args))])
            for p in theory.predicates for args in itertools.product(*(theory.type[t].constants for t in p.types))}


def mln_cases(data):
    for folder in sorted((data / "mln").iterdir()):
        if folder.is_dir():
            expected = json.loads((folder / "expected.json").read_text())
            if expected["status"] == "exact":
                theory = load_theory(folder / "model.mln", expected["grammar"])
                yield folder.name, expected, *read_evidence(
                    theory, (folder / "evidence.db").read_text(), expected["closed_world"])


def test_exact_values_of_real_files_are_reproduced(data):
    compared, too_big = [], []
    for name, expected, theory, evidence in mln_cases(data):
        try:
            got = log_partition(theory, evidence=evidence, max_worlds=2**18)
        except LogicMPError as error:
            assert "limit" in str(error), f"{name}: {error}"
            too_big.append(name)
            continue
        assert got == pytest.approx(expected["log_partition"], abs=1e-6), name
        atoms = atoms_of(theory, exact_marginals(theory, evidence=evidence, max_worlds=2**18))
        assert {a: atoms[a] for a in expected["marginals"]} == pytest.approx(expected["marginals"], abs=1e-6), name
        compared.append(name)
    # 30 connected variables
    assert too_big == ["friendsmoker_forclift"]
    assert len(compared) == 18


def test_alchemy_values_of_real_files_are_reproduced(data):
    compared = []
    for name, expected, theory, evidence in mln_cases(data):
        if (split := expected.get("marginals_alchemy_cnf_split")) is not None:
            atoms = atoms_of(theory, exact_marginals(theory, evidence=evidence, semantics="alchemy"))
            assert {a: atoms[a] for a in split} == pytest.approx(split, abs=1e-6), name
            compared.append(name)
    assert compared == ["smokers_pracmln_test"]


# enumeration agrees with itself


@pytest.mark.parametrize("semantics", oracle.SEMANTICS)
@pytest.mark.parametrize("name", CASES)
def test_marginal_is_the_share_of_the_worlds_that_have_the_atom(name, semantics):
    theory, sizes = case(name)
    whole = log_partition(theory, sizes=sizes, semantics=semantics)
    for predicate, tensor in exact_marginals(theory, sizes=sizes, semantics=semantics).items():
        # first and last entry
        for place in {0, tensor.numel() - 1}:
            evidence = torch.full_like(tensor, math.nan)
            evidence.view(-1)[place] = 1.0
            part = log_partition(theory, evidence={predicate: evidence}, sizes=sizes, semantics=semantics)
            assert float(tensor.flatten()[place]) == pytest.approx(math.exp(part - whole), abs=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_marginal_is_the_derivative_of_log_partition(name):
    theory, sizes = case(name)
    unary, step = random_unary(theory, sizes), 1e-5
    for predicate, tensor in exact_marginals(theory, unary, sizes=sizes).items():
        values = []
        for sign in (1, -1):
            moved = {p: u.clone() for p, u in unary.items()}
            moved[predicate].view(-1)[-1] += sign * step
            values.append(log_partition(theory, moved, sizes=sizes))
        assert float(tensor.flatten()[-1]) == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-7)


def test_chunks_do_not_change_the_result(monkeypatch):
    theory, sizes = case("labels that meet")
    unary = random_unary(theory, sizes)
    whole, atoms = log_partition(theory, unary, sizes=sizes), exact_marginals(theory, unary, sizes=sizes)
    monkeypatch.setattr("logicmp.oracle.worlds.CHUNK", 5)
    assert log_partition(theory, unary, sizes=sizes) == pytest.approx(whole, abs=1e-12)
    assert_same(exact_marginals(theory, unary, sizes=sizes), atoms)


def test_groundings_of_observed_atoms_count_but_their_unary_does_not():
    theory = parse_theory("A\nB\n2 A v B")
    evidence = {"A": torch.tensor(1.0), "B": torch.tensor(math.nan)}
    assert log_partition(theory, {"A": torch.tensor(5.0)}, evidence) == pytest.approx(2 + math.log(2))
    assert float(elbo(theory, {"A": torch.tensor(5.0)}, {"B": torch.tensor(0.5)}, evidence)) == pytest.approx(
        2 + math.log(2))


def test_too_many_worlds_are_rejected_with_the_numbers():
    with pytest.raises(LogicMPError, match=r"9 connected ground variables .* have 512 worlds \(limit 100\)"):
        log_partition(parse_theory(TRANSITIVITY), sizes={"thing": 3}, max_worlds=100)
    # unconnected variables are enumerated one by one
    assert log_partition(parse_theory("A(t)"), sizes={"t": 500}, max_worlds=100) == pytest.approx(500 * math.log(2))
