"""The clauses of a rule, and how the three semantics differ."""

import pytest
import torch
from oracle_cases import assert_same, case, marginals, random_unary

from logicmp import LogicMPError, oracle, parse_theory
from logicmp.oracle.mean_field import expected_violations, mean_field_step
from logicmp.oracle.worlds import exact_marginals, log_partition


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


def test_unknown_semantics_is_rejected():
    with pytest.raises(LogicMPError, match="unknown semantics 'fuzzy'"):
        log_partition(parse_theory("A\n2 A"), semantics="fuzzy")


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


def test_alchemy_does_not_split_a_formula_in_brackets():
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
