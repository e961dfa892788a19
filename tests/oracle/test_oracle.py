"""The oracle against hand computation, combinatorics, and exact values of real files."""

import itertools
import json
import math
import re

import pytest
import torch

from logicmp import LogicMPError, load_theory, oracle, parse_theory
from logicmp.oracle.mean_field import elbo, expected_violations, mean_field_step
from logicmp.oracle.worlds import count_models, exact_marginals, log_partition

TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"

# name: (theory, sizes); small enough to enumerate
CASES = {
    "smokers": ("2 S(x) ^ F(x,y) => S(y)\n-0.7 S(x)", {"thing": 2}),
    "repeated variable": ("1.1 R(x,x) v !R(x,y) v A(y)", {"thing": 2}),
    "doubled literal": ("1.3 !R(x,y) v !R(x,y)", {"thing": 2}),
    "transitivity": (f"1.5 {TRANSITIVITY}", {"thing": 3}),
    "transitivity, single constant": (f"1.5 {TRANSITIVITY}", {"thing": 1}),
    "iff": ("1.2 A(x) <=> B(x) v A(y)", {"thing": 2}),
    "conjunction": ("0.7 A(x) ^ (B(x) v !A(y))", {"thing": 2}),
    "overlapping clauses": ("1.2 (A(x) v B(x)) ^ (A(x) v C(x))", {"thing": 2}),
    "exists": ("1.3 A(x) => EXIST y R(x,y)", {"thing": 2}),
    "not exists": ("1.3 B(x) => !(EXIST y (R(x,y) ^ B(y)))", {"thing": 2}),
    "nested quantifiers": ("1.1 EXIST x FORALL y (R(x,y) v A(y))", {"thing": 2}),
    "forall inside": ("0.9 A(x) <=> FORALL y R(x,y)", {"thing": 2}),
    "shadowed variable": ("0.9 A(x) v (EXIST x B(x)) v FORALL x C(x)", {"thing": 2}),
    "equality": ("A(t)\n0.9 A(x) ^ A(y) => x = y", {"t": 3}),
    "inequality": ("0.8 x != y ^ R(x,y) => A(x)", {"thing": 2}),
    "constants": ("t = {K, L}\nA(t)\nR(t, t)\n1.4 R(K, x) => A(L)", {}),
    "per constant": ("0.8 A(+x) ^ B(y) => R(x, y)", {"thing": 2}),
    "per constant, not in every clause": ("0.8 A(+x) ^ B(y)", {"thing": 2}),
    "symmetric": (f"symmetric C(t, t)\n1.4 {TRANSITIVITY}", {"t": 3}),
    "labels and offsets": ("label(k) in {O, B, I}\n2 label(i) in {O} => label(i+1) in {O, B}", {"k": 3}),
    "labels that meet": ("l(k) in {O, B, I}\nN(k, k)\n1 l(i) in {O, B} ^ l(j) in {B, I} => N(i, j)", {"k": 2}),
    "offset in one clause only": ("A(k)\nB(k)\n1.5 A(i) ^ B(i+1)", {"k": 3}),
    "offset below exists": ("A(k)\nB(k)\n1.5 A(i) => EXIST j (B(j+1) ^ A(j) ^ A(i-1))", {"k": 3}),
    "exactly one": ("f(a, b!)\nP(b)\n1.7 f(x,y) ^ f(z,y) => x = z v P(y)", {"a": 2, "b": 2}),
    "exactly one of one": ("f(a, b!)\nP(b)\n1.7 f(x,y) => P(y)", {"a": 2, "b": 1}),
    "at most one": ("g(a, b?)\nP(b)\n-1.2 g(x,y) ^ P(y)\n0.4 EXIST y g(x,y)", {"a": 2, "b": 2}),
    "no arguments": ("Rain\nWet(place)\n1.5 Rain => Wet(x)\n-1 Rain", {"place": 2}),
    "indivisible": ("1.2 [A(x) <=> B(x)]", {"thing": 2}),
    "several rules": ("1 A(x) => B(x)\n0.5 B(x) ^ R(x,y) => B(y)\n-0.3 R(x,x)", {"thing": 2}),
}


def case(name):
    text, sizes = CASES[name]
    theory = parse_theory(text)
    return theory, theory.with_sizes(sizes)


def shape(predicate, sizes):
    return [sizes[t] for t in predicate.types] + ([] if predicate.labels is None else [len(predicate.labels)])


def random_unary(theory, sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {p.name: torch.randn(shape(p, sizes), dtype=torch.float64, generator=generator) for p in theory.predicates}


def marginals(theory, logits):
    """Proper marginals from logits; a functional argument must be the last one."""
    found = {}
    for p in theory.predicates:
        x = logits[p.name]
        if p.symmetric:
            found[p.name] = torch.sigmoid((x + x.mT) / 2)
        elif p.may_be_none:
            found[p.name] = torch.softmax(torch.cat([x, torch.zeros_like(x[..., :1])], -1), -1)[..., :-1]
        elif p.is_categorical:
            found[p.name] = torch.softmax(x, -1)
        else:
            found[p.name] = torch.sigmoid(x)
    return found


def own_weights(theory):
    return [1.0 if rule.weight is None else rule.weight for rule in theory.rules]


def assert_same(got, want, tolerance=1e-10):
    assert got.keys() == want.keys()
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=tolerance, atol=tolerance)


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
def test_hard_rules_have_as_many_models_as_combinatorics_says(text, sizes, models):
    theory = parse_theory(text)
    assert count_models(theory, sizes) == models
    if models:
        assert log_partition(parse_theory(text.replace("-3", "0")), sizes=sizes) == pytest.approx(math.log(models))
    else:
        with pytest.raises(LogicMPError, match="no world satisfies"):
            log_partition(theory, sizes=sizes)


def test_empty_domain_makes_exists_false_and_forall_true():
    sizes = {"x": 2, "y": 0}
    assert count_models(parse_theory("A(x)\nB(y)\nA(x) => EXIST y B(y)."), sizes) == 1
    assert count_models(parse_theory("A(x)\nB(y)\nA(x) v FORALL y B(y)."), sizes) == 4


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


def test_none_has_logit_zero_and_a_symmetric_pair_the_mean_of_its_two_log_odds():
    unary = {"g": torch.tensor([0.3, -0.4]), "C": torch.tensor([[0.1, 0.5], [0.2, -1.0]])}
    expected = math.log(math.exp(0.3) + math.exp(-0.4) + 1)
    expected += sum(math.log(1 + math.exp(u)) for u in (0.1, 0.35, -1.0))
    theory = parse_theory("g(b?)\nsymmetric C(t, t)")
    assert log_partition(theory, unary, sizes={"b": 2, "t": 2}) == pytest.approx(expected)


# exact values of real files


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


def test_evidence_that_rules_values_out_leaves_the_others():
    evidence = {"l": torch.tensor([[0.0, math.nan, math.nan]]), "g": torch.tensor([0.0, 0.0])}
    got = exact_marginals(parse_theory("l(k) in {A, B, C}\ng(b?)"), evidence=evidence, sizes={"k": 1, "b": 2})
    assert got["l"].tolist() == [[0.0, 0.5, 0.5]]
    assert got["g"].tolist() == [0.0, 0.0]


def test_groundings_among_observed_atoms_count_but_their_unary_does_not():
    theory = parse_theory("A\nB\n2 A v B")
    evidence = {"A": torch.tensor(1.0), "B": torch.tensor(math.nan)}
    assert log_partition(theory, {"A": torch.tensor(5.0)}, evidence) == pytest.approx(2 + math.log(2))
    assert float(elbo(theory, {"A": torch.tensor(5.0)}, {"B": torch.tensor(0.5)}, evidence)) == pytest.approx(
        2 + math.log(2))


@pytest.mark.parametrize("text, evidence, message", [
    ("f(b!)", {"f": [1.0, 1.0]}, "no value is left for f"),
    ("f(b!)", {"f": [0.0, 0.0]}, "no value is left for f"),
    ("symmetric C(b, b)", {"C": [[math.nan, 1.0], [0.0, math.nan]]}, r"no value is left for C\(0, 1\)"),
    ("A(b)\nA(x).", {"A": [1.0, 0.0]}, "the evidence violates the hard rule"),
    ("A(b)\nB\nA(x) => B.\n!B.", {"A": [1.0, math.nan]}, "no world satisfies"),
    ("A(b)", {"A": [0.5, 0.0]}, "has the value 0.5"),
    ("A(b)", {"A": [0.0]}, r"shape \[1\]; expected \[2\]"),
    ("A(b)", {"B": [0.0]}, "names the predicate 'B'"),
])
def test_impossible_evidence_is_refused(text, evidence, message):
    with pytest.raises(LogicMPError, match=message):
        log_partition(parse_theory(text), evidence=evidence, sizes={"b": 2})


def test_too_many_worlds_are_refused_with_the_numbers():
    with pytest.raises(LogicMPError, match=r"9 connected ground variables .* have 512 worlds \(limit 100\)"):
        log_partition(parse_theory(TRANSITIVITY), sizes={"thing": 3}, max_worlds=100)
    # unconnected variables are enumerated one by one
    assert log_partition(parse_theory("A(t)"), sizes={"t": 500}, max_worlds=100) == pytest.approx(500 * math.log(2))


# mean field by hand


def test_one_variable_with_a_unit_rule_becomes_the_sigmoid_of_the_sum():
    got = mean_field_step(parse_theory("A\n1.5 A"), {"A": 0.4}, {"A": 0.1})["A"]
    assert float(got) == pytest.approx(1 / (1 + math.exp(-1.9)))


def test_smokers_step_equals_the_formula_by_hand():
    theory, sizes = parse_theory("2 S(x) ^ F(x,y) => S(y)"), {"thing": 2}
    unary = random_unary(theory, sizes)
    q = marginals(theory, random_unary(theory, sizes, seed=1))
    s, f = q["S"], q["F"]
    # with x = y the rule is a tautology: no message
    want_s = torch.stack([unary["S"][0] + 2 * f[1, 0] * s[1] - 2 * f[0, 1] * (1 - s[1]),
                          unary["S"][1] + 2 * f[0, 1] * s[0] - 2 * f[1, 0] * (1 - s[0])])
    want_f = unary["F"].clone()
    want_f[0, 1] -= 2 * s[0] * (1 - s[1])
    want_f[1, 0] -= 2 * s[1] * (1 - s[0])
    assert_same(mean_field_step(theory, unary, q, sizes=sizes), {"S": want_s.sigmoid(), "F": want_f.sigmoid()})


def test_paper_step_of_transitivity_is_three_einsums():
    theory, sizes = case("transitivity")
    unary = random_unary(theory, sizes)
    q = marginals(theory, random_unary(theory, sizes, seed=1))
    c = q["C"]
    messages = (torch.einsum("ab,bc->ac", c, c) - torch.einsum("bc,ac->ab", c, 1 - c)
                - torch.einsum("ab,ac->bc", c, 1 - c))
    got = mean_field_step(theory, unary, q, sizes=sizes, semantics="paper")
    assert_same(got, {"C": torch.sigmoid(unary["C"] + 1.5 * messages)})
    violated = expected_violations(theory, q, sizes=sizes, semantics="paper")
    torch.testing.assert_close(violated, torch.einsum("ab,bc,ac->", c, c, 1 - c)[None])


def test_multi_class_step_equals_the_theorem():
    theory = parse_theory("l(k) in {O, B, I}\n2 l(i) in {O} => l(i+1) in {O, B}")
    unary = random_unary(theory, {"k": 2})
    q = marginals(theory, random_unary(theory, {"k": 2}, seed=1))
    energy = unary["l"].clone()
    # 1 - Q(O, B) of the second to the labels B and I of the first, Q(O) of the first to O and B of the second
    energy[0, 1:] += 2 * (1 - q["l"][1, :2].sum())
    energy[1, :2] += 2 * q["l"][0, 0]
    for semantics in oracle.SEMANTICS:
        got = mean_field_step(theory, unary, q, sizes={"k": 2}, semantics=semantics)
        assert_same(got, {"l": torch.softmax(energy, -1)})


def test_evidence_never_changes():
    theory, sizes = case("smokers")
    evidence = {"F": torch.tensor([[1.0, 0.0], [math.nan, 1.0]])}
    q = marginals(theory, random_unary(theory, sizes))
    for semantics in oracle.SEMANTICS:
        got = mean_field_step(theory, None, q, evidence, sizes, semantics)
        assert got["F"].flatten()[[0, 1, 3]].tolist() == [1.0, 0.0, 1.0]
        assert 0 < got["F"][1, 0] < 1
    # what q says of an observed atom is not read
    moved = {**q, "F": torch.where(evidence["F"].isnan(), q["F"], 1 - evidence["F"])}
    assert_same(mean_field_step(theory, None, moved, evidence, sizes),
                mean_field_step(theory, None, q, evidence, sizes))


def test_what_q_says_of_an_excluded_value_is_not_read():
    theory = parse_theory("l(k) in {A, B, C}\n1 l(i) in {B}")
    evidence = {"l": torch.tensor([[0.0, math.nan, math.nan]])}
    q = {"l": torch.tensor([[0.5, 0.3, 0.2]])}
    assert float(expected_violations(theory, q, evidence, {"k": 1})) == pytest.approx(0.2)
    got = mean_field_step(theory, None, q, evidence, {"k": 1})["l"]
    assert_same({"l": got}, {"l": torch.softmax(torch.tensor([[-math.inf, 1.0, 0.0]], dtype=torch.float64), -1)})


def test_hard_rule_acts_with_its_finite_weight():
    theory = parse_theory("A\nB\nA <=> B.")
    q = {"A": torch.tensor(0.9), "B": torch.tensor(0.5)}
    for semantics in oracle.SEMANTICS:
        got = mean_field_step(theory, None, q, hard_weight=3.0, semantics=semantics)
        # two clauses, each with the whole weight: what is hard is not divided
        assert float(got["B"]) == pytest.approx(1 / (1 + math.exp(-3 * 0.9 + 3 * 0.1)))


# mean field in general


@pytest.mark.parametrize("semantics", oracle.SEMANTICS)
@pytest.mark.parametrize("name", CASES)
def test_message_is_minus_weight_times_the_derivative_of_the_violations(name, semantics):
    theory, sizes = case(name)
    unary = random_unary(theory, sizes)
    q = {p: x.requires_grad_() for p, x in marginals(theory, random_unary(theory, sizes, seed=1)).items()}
    violations = expected_violations(theory, q, sizes=sizes, semantics=semantics)
    weighted = sum(w * v for w, v in zip(own_weights(theory), violations, strict=True))
    slopes = torch.autograd.grad(weighted, list(q.values()), allow_unused=True, materialize_grads=True)
    energy = {}
    for predicate, slope in zip(q, slopes, strict=True):
        if theory.predicate[predicate].symmetric:
            # one variable behind two entries: its derivative is the sum of theirs; the diagonal has one entry
            slope = (slope + slope.mT) * (1 - torch.eye(len(slope)) / 2)
        energy[predicate] = unary[predicate] - slope
    assert_same(mean_field_step(theory, unary, q, sizes=sizes, semantics=semantics), marginals(theory, energy))


@pytest.mark.parametrize("name", CASES)
def test_elbo_is_below_log_partition(name):
    theory, sizes = case(name)
    for seed in range(3):
        unary = random_unary(theory, sizes, seed)
        for semantics in ("exact", "alchemy"):
            bound = log_partition(theory, unary, sizes=sizes, semantics=semantics)
            q = marginals(theory, random_unary(theory, sizes, seed + 10))
            assert float(elbo(theory, unary, q, sizes=sizes, semantics=semantics)) <= bound + 1e-10


@pytest.mark.parametrize("seen", [1.0, 0.0])
@pytest.mark.parametrize("name", sorted(CASES.keys() - {"exactly one of one"}))
def test_elbo_is_below_log_partition_given_evidence(name, seen):
    theory, sizes = case(name)
    unary, evidence = random_unary(theory, sizes), {}
    for predicate, tensor in unary.items():
        evidence[predicate] = torch.full_like(tensor, math.nan)
        evidence[predicate].view(-1)[0] = seen
    q = mean_field_step(theory, unary, marginals(theory, unary), evidence, sizes)
    for predicate, tensor in q.items():
        assert float(tensor.flatten()[0]) == seen, predicate
    bound = log_partition(theory, unary, evidence, sizes)
    assert float(elbo(theory, unary, q, evidence, sizes)) <= bound + 1e-10


def test_elbo_reaches_log_partition_where_variables_are_independent():
    theory = parse_theory("A(t)\n1.2 A(x)\nl(t) in {X, Y}\n-0.5 l(i) in {Y}\ng(t, b?)\n0.7 g(x, y)")
    sizes = {"t": 2, "b": 2}
    unary = random_unary(theory, sizes)
    q = mean_field_step(theory, unary, marginals(theory, unary), sizes=sizes)
    assert float(elbo(theory, unary, q, sizes=sizes)) == pytest.approx(log_partition(theory, unary, sizes=sizes))
    assert_same(q, exact_marginals(theory, unary, sizes=sizes))


@pytest.mark.parametrize("semantics", ["exact", "alchemy"])
@pytest.mark.parametrize("name", CASES)
def test_fixed_point_exists_and_is_stationary_for_the_elbo(name, semantics):
    theory, sizes = case(name)
    unary = random_unary(theory, sizes)
    q = marginals(theory, unary)
    for _ in range(60):
        step = mean_field_step(theory, unary, q, sizes=sizes, semantics=semantics)
        change = max(float((step[p] - q[p]).abs().max()) for p in q)
        # damping, because synchronous updates may cycle
        q = {p: (step[p] + q[p]) / 2 for p in q}
        if change < 1e-7:
            break
    assert change < 1e-7
    logits = {}
    for p in theory.predicates:
        x = q[p.name]
        if p.may_be_none:
            x = torch.log(x) - torch.log(1 - x.sum(-1, keepdim=True))
        else:
            x = torch.log(x) if p.is_categorical else torch.logit(x)
        logits[p.name] = x.requires_grad_()
    value = elbo(theory, unary, marginals(theory, logits), sizes=sizes, semantics=semantics)
    for slope in torch.autograd.grad(value, list(logits.values())):
        assert float(slope.abs().max()) < 1e-6


def test_step_is_differentiable_in_unary_marginals_and_weights():
    theory, sizes = parse_theory("0.8 A(+x) ^ R(x, y) => A(y)\nEXIST x R(x, y)"), {"thing": 2}
    unary = random_unary(theory, sizes)
    q = marginals(theory, random_unary(theory, sizes, seed=1))
    weights = [torch.tensor([0.8, -0.3], dtype=torch.float64), torch.tensor(1.1, dtype=torch.float64)]

    for semantics in oracle.SEMANTICS:
        def step(a, r, qa, qr, w0, w1, semantics=semantics):
            got = mean_field_step(theory, {"A": a, "R": r}, {"A": qa, "R": qr}, sizes=sizes, semantics=semantics,
                                  weights=[w0, w1])
            return got["A"], got["R"]

        inputs = [x.clone().requires_grad_() for x in (unary["A"], unary["R"], q["A"], q["R"], *weights)]
        assert torch.autograd.gradcheck(step, inputs)


# weights


def test_weight_per_constant_is_one_rule_per_constant():
    plus = parse_theory("t = {K, L}\nA(t)\nB(t)\n1 A(+x) ^ B(y)")
    apart = parse_theory("t = {K, L}\nA(t)\nB(t)\n0.8 A(K) ^ B(y)\n-0.3 A(L) ^ B(y)")
    unary = random_unary(plus, plus.sizes)
    q = marginals(plus, random_unary(plus, plus.sizes, seed=1))
    weights = [torch.tensor([0.8, -0.3], dtype=torch.float64)]
    for semantics in ("exact", "paper", "alchemy"):
        got = mean_field_step(plus, unary, q, semantics=semantics, weights=weights)
        # a clause without x is grounded for every x, as the two rules do
        assert_same(got, mean_field_step(apart, unary, q, semantics=semantics))
        assert log_partition(plus, unary, semantics=semantics, weights=weights) == pytest.approx(
            log_partition(apart, unary, semantics=semantics))
    # without weights of its own every constant has the rule's
    assert log_partition(plus) == log_partition(plus, weights=[torch.ones(2)]) == log_partition(plus, weights=[None])


def test_rule_without_weight_has_weight_one():
    assert log_partition(parse_theory("A\nA => A\n(A)")) == pytest.approx(1 + math.log(1 + math.e))


@pytest.mark.parametrize("weights, message", [
    ([1.0, 2.0], "2 weights are given for 1 rules"), ([torch.ones(2)], r"shape \[2\]; expected \[\]")])
def test_wrong_weights_are_refused(weights, message):
    with pytest.raises(LogicMPError, match=message):
        log_partition(parse_theory("A\n2 A"), weights=weights)


# the three semantics


def test_alchemy_halves_the_weight_of_an_equivalence():
    theory, sizes = parse_theory("1.2 A(x) <=> B(x)"), {"thing": 2}
    halved = parse_theory("0.6 A(x) => B(x)\n0.6 B(x) => A(x)")
    unary = random_unary(theory, sizes)
    exact, alchemy = (log_partition(theory, unary, sizes=sizes, semantics=s) for s in ("exact", "alchemy"))
    assert alchemy == pytest.approx(log_partition(halved, unary, sizes=sizes))
    assert abs(exact - alchemy) > 0.1
    got = exact_marginals(theory, unary, sizes=sizes, semantics="alchemy")
    assert_same(got, exact_marginals(halved, unary, sizes=sizes))
    assert float((got["A"] - exact_marginals(theory, unary, sizes=sizes)["A"]).abs().max()) > 0.01


def test_alchemy_does_not_split_what_stands_in_brackets():
    assert log_partition(parse_theory("A\nB\n1.2 [A <=> B]"), semantics="alchemy") == pytest.approx(
        log_partition(parse_theory("A\nB\n1.2 A <=> B")))


@pytest.mark.parametrize("name", ["smokers", "repeated variable", "transitivity", "inequality", "labels and offsets"])
def test_alchemy_coincides_with_exact_on_clauses(name):
    theory, sizes = case(name)
    unary = random_unary(theory, sizes)
    q = marginals(theory, random_unary(theory, sizes, seed=1))
    assert log_partition(theory, unary, sizes=sizes, semantics="alchemy") == pytest.approx(
        log_partition(theory, unary, sizes=sizes))
    assert_same(mean_field_step(theory, unary, q, sizes=sizes, semantics="alchemy"),
                mean_field_step(theory, unary, q, sizes=sizes))


def test_paper_coincides_with_exact_on_a_clause_whose_atoms_cannot_meet():
    theory, sizes = parse_theory("P(a)\nR(a, b)\nQ(b)\n1.3 P(x) ^ R(x,y) => Q(y)"), {"a": 2, "b": 3}
    unary = random_unary(theory, sizes)
    q = marginals(theory, random_unary(theory, sizes, seed=1))
    assert_same(mean_field_step(theory, unary, q, sizes=sizes, semantics="paper"),
                mean_field_step(theory, unary, q, sizes=sizes))
    torch.testing.assert_close(expected_violations(theory, q, sizes=sizes, semantics="paper"),
                               expected_violations(theory, q, sizes=sizes))


def test_paper_counts_tautologies_of_transitivity_as_violations():
    theory, sizes = case("transitivity")
    q = marginals(theory, random_unary(theory, sizes))
    exact, paper = (expected_violations(theory, q, sizes=sizes, semantics=s) for s in ("exact", "paper"))
    c = q["C"]
    with_a_tautology = sum(c[a, b] * c[b, d] * (1 - c[a, d]) for a in range(3) for b in range(3) for d in range(3)
                           if a == b or b == d)
    torch.testing.assert_close(paper - exact, with_a_tautology[None])
    moved = (mean_field_step(theory, None, q, sizes=sizes, semantics=s)["C"] for s in ("exact", "paper"))
    assert float((next(moved) - next(moved)).abs().max()) > 0.01


def test_paper_double_counts_overlapping_clauses_and_exact_does_not():
    theory = parse_theory("A\nB\nC\n1 (A v B) ^ (A v C)")
    q = {name: torch.tensor(p) for name, p in (("A", 0.3), ("B", 0.2), ("C", 0.6))}
    assert float(expected_violations(theory, q)) == pytest.approx(0.7 * (1 - 0.2 * 0.6))
    assert float(expected_violations(theory, q, semantics="paper")) == pytest.approx(0.7 * 0.8 + 0.7 * 0.4)
    assert float(expected_violations(theory, q, semantics="alchemy")) == pytest.approx(0.7 * (0.8 + 0.4) / 2)


@pytest.mark.parametrize("text, expected", [
    ("A(x) ^ B(x) => C(x)", ["!A(x) v !B(x) v C(x)"]),
    ("A(x) <=> B(x)", ["!A(x) v B(x)", "!B(x) v A(x)"]),
    # a clause keeps what was written, also twice, also a tautology
    ("A(x) v A(x) v !A(x)", ["A(x) v A(x) v !A(x)"]),
    # otherwise duplicates and tautologies go
    ("(A(x) v A(x)) ^ (A(x) v B(x)) ^ (B(x) v A(x)) ^ (A(x) v !A(x))", ["A(x)", "A(x) v B(x)"]),
    ("!(A(x) <=> B(x))", ["A(x) v B(x)", "!B(x) v !A(x)"]),
    ("A(x) <=> A(x)", []),
    ("A(+x) ^ A(x)", ["A(x)"]),
    ("A(x) ^ B(y) v C(x)", ["A(x) v C(x)", "B(y) v C(x)"]),
    ("A(x) => EXIST y R(x,y)", ["!A(x) v EXIST y.1 (R(x, y.1))"]),
    ("(EXIST y R(x,y)) => A(x)", ["!R(x, y.1) v A(x)"]),
    ("(FORALL y R(x,y)) ^ FORALL y R(y,x)", ["R(x, y.1)", "R(y.2, x)"]),
    ("A(x) v EXIST x FORALL y R(x,y)", ["A(x) v EXIST x.1 (FORALL y.2 (R(x.1, y.2)))"]),
    ("!(x = y) ^ R(x,y)", ["x != y", "R(x, y)"]),
    ("[A(x) ^ B(x)]", ["A(x) ^ B(x)"]),
    ("[FORALL y R(x,y)]", ["FORALL y (R(x, y))"]),
    ("[A(x) => B(x)]", ["!A(x) v B(x)"]),
])
def test_formula_becomes_these_clauses(text, expected):
    rule = parse_theory(f"1 {text}").rules[0]
    got = oracle.clauses(rule, "alchemy")
    assert [" v ".join(map(str, clause.literals)) for clause in got] == expected
    assert all(clause.share == 1 / len(expected) for clause in got)
    assert [clause.literals for clause in oracle.clauses(rule, "paper")] == [clause.literals for clause in got]


def test_exists_is_one_factor_of_a_clause_in_the_paper_semantics():
    theory, sizes = parse_theory("1.3 R(x,x) => EXIST y (R(x,y) ^ A(y))"), {"thing": 2}
    q = marginals(theory, random_unary(theory, sizes))
    r, a = q["R"], q["A"]
    none = torch.stack([(1 - r[x, 0] * a[0]) * (1 - r[x, 1] * a[1]) for x in range(2)])
    paper = expected_violations(theory, q, sizes=sizes, semantics="paper")
    torch.testing.assert_close(paper, (r.diagonal() * none).sum()[None])
    # where R(x,x) is true, R(x,y) ^ A(y) at y = x is A(x)
    exact = sum(r[x, x] * (1 - a[x]) * (1 - r[x, 1 - x] * a[1 - x]) for x in range(2))
    torch.testing.assert_close(expected_violations(theory, q, sizes=sizes), exact[None])


def test_clause_is_grounded_over_its_own_variables():
    # A(x) has 2 groundings, B(y) has 3, each with half the weight
    theory = parse_theory("P(a)\nQ(b)\n1 P(x) ^ Q(y)")
    q = {"P": torch.tensor([0.1, 0.2]), "Q": torch.tensor([0.3, 0.4, 0.5])}
    sizes = {"a": 2, "b": 3}
    assert float(expected_violations(theory, q, sizes=sizes, semantics="alchemy")) == pytest.approx((1.7 + 1.8) / 2)
    assert float(expected_violations(theory, q, sizes=sizes, semantics="paper")) == pytest.approx(1.7 + 1.8)


def test_unknown_semantics_is_refused():
    with pytest.raises(LogicMPError, match="unknown semantics 'fuzzy'"):
        log_partition(parse_theory("A\n2 A"), semantics="fuzzy")
