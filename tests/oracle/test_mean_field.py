"""Mean field by hand, and its relation to violations, ELBO and log Z."""

import math

import pytest
import torch
from oracle_cases import CASES, assert_same, case, marginals, own_weights, random_unary

from logicmp import oracle, parse_theory
from logicmp.oracle.mean_field import elbo, expected_violations, mean_field_step
from logicmp.oracle.worlds import exact_marginals, log_partition

# by hand


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
    # the marginals of observed atoms are ignored
    moved = {**q, "F": torch.where(evidence["F"].isnan(), q["F"], 1 - evidence["F"])}
    assert_same(mean_field_step(theory, None, moved, evidence, sizes),
                mean_field_step(theory, None, q, evidence, sizes))


def test_hard_rule_acts_with_its_finite_weight():
    theory = parse_theory("A\nB\nA <=> B.")
    q = {"A": torch.tensor(0.9), "B": torch.tensor(0.5)}
    for semantics in oracle.SEMANTICS:
        got = mean_field_step(theory, None, q, hard_weight=3.0, semantics=semantics)
        # two clauses, each with the whole weight: the weight of a hard rule is not divided
        assert float(got["B"]) == pytest.approx(1 / (1 + math.exp(-3 * 0.9 + 3 * 0.1)))


# in general


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
