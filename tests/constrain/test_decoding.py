"""Decoding: answers that satisfy the rules, and no better one by enumeration."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logicmp import SPL, CostError, LogicMP, LogicMPError, RuleError, decode, oracle
from logicmp.constrain.cnf import as_constraints
from logicmp.constrain.decoding import _count_by_grounding, count_violations
from logicmp.testing.random_models import random_model
from logicmp.testing.random_theories import ALL

CASES = st.randoms(use_true_random=False)
TRANSITIVITY = "C(a,b) ^ C(b,c) => C(a,c)"
EQUIVALENCE = f"C(a,a).\nC(a,b) => C(b,a)\n{TRANSITIVITY}"
LABELS = "label(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}"


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(CASES, st.sampled_from(["ilp", "maxsat"]))
@settings(max_examples=40, deadline=None)
def test_the_answer_is_the_most_probable_one_that_satisfies_the_rules(rng: random.Random, method: str) -> None:
    model = random_model(rng, max_ground=8, max_atoms=3, features=ALL - {"negative"})
    try:
        want = SPL(model.theory).predict(model.unary, model.evidence)
    except LogicMPError:
        with pytest.raises(LogicMPError):
            decode(model.theory, model.unary, model.evidence, method)
        return
    found = decode(model.theory, model.unary, model.evidence, method)
    assert int(found.violated_after.sum()) == 0 and found.optimal
    # random logits: no two worlds have equal weight
    assert all(torch.equal(found.values[name], want[name]) for name in found.values)


@given(CASES)
@settings(max_examples=30, deadline=None)
def test_both_counts_of_violations_equal_enumeration(rng: random.Random) -> None:
    model = random_model(rng, max_ground=8, max_atoms=3, features=ALL - {"negative", "multiclass"})
    theory = as_constraints(model.theory)
    answer = decode(theory, model.unary, method="threshold").values
    want = oracle.expected_violations(theory, {name: x.double() for name, x in answer.items()})
    want = torch.stack([torch.as_tensor(x).sum() for x in want]).round().long()
    assert torch.equal(count_violations(LogicMP(theory), [answer])[0], want)
    assert torch.equal(_count_by_grounding(theory, answer), want)


@pytest.mark.parametrize("method", ["ilp", "maxsat"])
def test_each_item_of_a_batch_is_decoded_with_its_own_evidence(method: str) -> None:
    logits, evidence = randn(2, 2, 3, 3), torch.full((2, 2, 3, 3), torch.nan)
    evidence[0, 1, 0, 1] = evidence[0, 1, 1, 2] = 1
    found = decode(TRANSITIVITY, {"C": logits}, {"C": evidence}, method)
    assert found.values["C"].shape == (2, 2, 3, 3) and found.violated_before.shape == (2, 2, 1)
    assert bool(found.values["C"][0, 1, 0, 2])
    for i, j in ((0, 0), (0, 1), (1, 1)):
        alone = decode(TRANSITIVITY, {"C": logits[i, j]}, {"C": evidence[i, j]}, method)
        assert torch.equal(found.values["C"][i, j], alone.values["C"])


def test_a_threshold_takes_each_atom_on_its_own() -> None:
    logits = randn(4, 3)
    found = decode(LABELS, logits, method="threshold")
    assert torch.equal(found.values["label"], logits.argmax(-1))
    assert torch.equal(found.violated_before, found.violated_after)
    assert found.optimal == (int(found.violated_after.sum()) == 0)


def test_observed_predicates_are_not_part_of_the_answer() -> None:
    text = f"{LABELS}\n*List(token, token)\nList(i,j) ^ label(i) in {{B}} => label(j) in {{B}}"
    found = decode(text, {"label": randn(3, 3)}, {"List": torch.ones(3, 3).bool()})
    assert set(found.values) == {"label"} and int(found.violated_after.sum()) == 0


@pytest.mark.parametrize("method", ["ilp", "maxsat"])
def test_rules_that_no_answer_satisfies_are_named(method: str) -> None:
    message = r"no world satisfies the hard rules and the evidence(.|\n)*\n  A v B\.\n  A => D\.\n  B => D\.\nhint"
    with pytest.raises(LogicMPError, match=message):
        decode("A v B\nA => D\nB => D", {"A": torch.ones(())}, {"D": torch.tensor(False)}, method)


def test_evidence_that_violates_a_rule_is_rejected_with_the_rule() -> None:
    with pytest.raises(RuleError, match="A => B"):
        decode("A => B\nA v D", {"D": torch.zeros(())}, {"A": torch.tensor(True), "B": torch.tensor(False)})


def test_too_many_groundings_point_to_clustering() -> None:
    with pytest.raises(CostError, match=r"C\(a,b\) \^ C\(b,c\)(.|\n)*use clustering"):
        decode(TRANSITIVITY, randn(256, 256))


# RC2 ignores an interrupt before its first call or between two calls, so it is sent repeatedly
@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.05, 0.1])
def test_a_time_limit_stops_maxsat(seconds: float) -> None:
    with pytest.raises(CostError, match=rf"maxsat has no answer after {seconds:g} s(.|\n)*use clustering"):
        decode(TRANSITIVITY, randn(24, 24), method="maxsat", max_seconds=seconds)


def test_an_empty_batch_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="the batch is empty"):
        decode(TRANSITIVITY, randn(0, 3, 3))


def test_an_unknown_method_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="available methods: threshold, ilp, maxsat, exact, clustering"):
        decode(TRANSITIVITY, randn(3, 3), method="guess")


@pytest.mark.parametrize("method, module", [("ilp", "scipy"), ("maxsat", "pysat")])
def test_the_error_without_its_package_names_the_extra(method: str, module: str,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LogicMPError, match=r"logicmp\[map\]"):
        decode("A => B", {"A": torch.ones(()), "B": -torch.ones(())}, method=method)


def test_every_method_runs_without_numba() -> None:
    code = ("import sys; sys.modules['numba'] = None\n"
            "import torch; from logicmp import decode\n"
            "logits = torch.tensor([[1.0, 2.0, -1.0], [2.0, 1.0, 2.0], [-1.0, 2.0, 1.0]])\n"
            "for method in ('threshold', 'ilp', 'maxsat', 'clustering'):\n"
            "    print(decode('C(a,b) ^ C(b,c) => C(a,c)', logits, method=method).method)\n")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("threshold\nilp\nmaxsat\nclustering\n", "")


# equivalence relations


def is_equivalence(relation: torch.Tensor) -> bool:
    r = relation.int()
    return bool(relation.diagonal().all()) and torch.equal(r, r.T) and not bool(((r @ r > 0) & ~relation).any())


@pytest.mark.parametrize("declaration", ["", "symmetric C(thing, thing)\n"])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_clustering_gives_an_equivalence_relation(declaration: str, n: int) -> None:
    found = decode(declaration + EQUIVALENCE, randn(2, n, n), method="clustering")
    assert all(is_equivalence(relation) for relation in found.values["C"])
    assert int(found.violated_after.sum()) == 0


def test_clustering_equals_ilp_where_it_is_proven() -> None:
    logits = randn(5, 5, seed=4)
    cluster, ilp = (decode(EQUIVALENCE, logits, method=method) for method in ("clustering", "ilp"))
    assert cluster.optimal and torch.equal(cluster.values["C"], ilp.values["C"])
    assert int(cluster.violated_before.sum()) > 0


def test_clustering_keeps_the_evidence_or_raises() -> None:
    evidence = torch.full((4, 4), torch.nan)
    evidence[0, 3], evidence[1, 2] = 1, 0
    found = decode(EQUIVALENCE, {"C": 3 - randn(4, 4).abs()}, {"C": evidence}, "clustering").values["C"]
    assert bool(found[0, 3]) and not bool(found[2, 1])
    evidence[0, 0] = 0
    with pytest.raises(LogicMPError, match="no equivalence relation was found that agrees with the evidence of C"):
        decode(TRANSITIVITY, {"C": randn(4, 4)}, {"C": evidence}, "clustering")


def test_clustering_rejects_a_rule_that_an_equivalence_relation_violates() -> None:
    with pytest.raises(RuleError, match=r"violates this rule \(groundings: 3\)(.|\n)*!C\(a,a\)(.|\n)*ilp or maxsat"):
        decode(f"{TRANSITIVITY}\n!C(a,a)", randn(3, 3), method="clustering")


def test_clustering_rejects_other_predicates() -> None:
    with pytest.raises(LogicMPError, match=r"one unobserved predicate over pairs(.|\n)*ilp or maxsat"):
        decode("C(a,b) => S(a)", {"C": randn(3, 3), "S": randn(3)}, method="clustering")


def test_an_answer_prints_its_violations() -> None:
    assert str(decode("A => B", {"A": torch.tensor(2.0), "B": torch.tensor(-1.0)}, method="threshold")) == (
        "threshold: 1 grounding violated before, 1 after; not proven to be the best answer")


@pytest.mark.usefixtures("without_numba")
@pytest.mark.parametrize("method", ["ilp", "maxsat"])
def test_decoding_needs_no_numba(method: str) -> None:
    decoded = decode("A => B", {"A": torch.tensor(2.0), "B": torch.tensor(-1.0)}, method=method)
    assert decoded.optimal
    assert {name: bool(value) for name, value in decoded.values.items()} == {"A": True, "B": True}


def test_exact_decodes_a_batch_of_chains_like_the_solver() -> None:
    theory = "label(token) in {O, B, I}\nlabel(i) in {O} => label(i+1) in {O, B}."
    logits = torch.randn(6, 5, 3, generator=torch.Generator().manual_seed(0))
    evidence = {"label": torch.full((5, 3), torch.nan)}
    evidence["label"][0, 0] = 1
    one, other = (decode(theory, logits, evidence, method=method) for method in ("exact", "ilp"))
    assert torch.equal(one.values["label"], other.values["label"])
    assert one.optimal and not bool(one.violated_after.any()) and bool(one.violated_before.any())


def test_exact_rejects_wide_rules_with_a_way_out() -> None:
    with pytest.raises(CostError, match="too wide"):
        decode("C(a,b) ^ C(b,c) => C(a,c).", torch.randn(9, 9), method="exact")


def test_facts_in_the_theory_are_evidence() -> None:
    theory = "t = {A, B, C}\n*parent(t, t)\nL(t)\nparent(x, y) ^ L(x) => L(y).\nparent(B, A)."
    decoded = decode(theory, {"L": torch.tensor([-1.0, 2.0, -1.0])})
    assert decoded.values["L"].tolist() == [True, True, False]


def test_clustering_returns_the_cluster_of_each_element() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 6, 6, generator=generator)
    found = decode("symmetric C(t, t)\nC(a,b) ^ C(b,c) => C(a,c).", {"C": logits + logits.mT}, method="clustering")
    clusters = found.clusters["C"]
    together = found.values["C"] | torch.eye(6, dtype=torch.bool)
    assert torch.equal(clusters[..., None] == clusters[..., None, :], together)
    assert int(clusters[..., 0].max()) == 0
    assert all(row == sorted(set(row)) for row in (list(dict.fromkeys(x)) for x in clusters.reshape(-1, 6).tolist()))
    assert decode("C(a,b) ^ C(b,c) => C(a,c).", {"C": logits[0, 0]}, method="threshold").clusters == {}


# masks


@pytest.mark.parametrize("method", ["threshold", "ilp", "maxsat", "exact"])
def test_a_masked_item_is_decoded_like_the_item_alone(method: str) -> None:
    logits, lengths = randn(3, 5, 3, seed=4), [5, 3, 1]
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    together = decode(LABELS, logits, method=method, mask=mask)
    assert together.values["label"].shape == (3, 5)
    for k, n in enumerate(lengths):
        alone = decode(LABELS, logits[k, :n], method=method)
        assert torch.equal(together.values["label"][k, :n], alone.values["label"])
        assert not together.values["label"][k, n:].any()
        assert torch.equal(together.violated_before[k], alone.violated_before)
        assert torch.equal(together.violated_after[k], alone.violated_after)


@pytest.mark.parametrize("method", ["ilp", "clustering"])
def test_masked_pairs_are_decoded_like_the_item_alone(method: str) -> None:
    logits, mask = randn(2, 5, 5, seed=2), torch.tensor([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]])
    known = torch.full((5, 5), torch.nan)
    known[1, 3] = 1.0
    together = decode(EQUIVALENCE, {"C": logits}, {"C": known}, method, mask=mask)
    for k in range(2):
        at = mask[k].nonzero()[:, 0]
        alone = decode(EQUIVALENCE, {"C": logits[k][at][:, at]}, {"C": known[at][:, at]}, method)
        assert torch.equal(together.values["C"][k][at][:, at], alone.values["C"])
        assert int(together.values["C"][k].sum()) == int(alone.values["C"].sum())


def test_masks_that_change_what_the_rules_say_are_rejected() -> None:
    logits = randn(2, 4, 3)
    with pytest.raises(LogicMPError) as error:
        decode(LABELS, logits, mask=torch.tensor([[1, 1, 1, 1], [1, 0, 1, 1]]))
    assert str(error.value) == ("mask of token has a gap in item 1, but a rule has neighbours such as i+1\nhint: put "
                                "padding before or after the entities; or use LogicMP(rules, method='exact').decode")
    with pytest.raises(LogicMPError, match="mask leaves no token in item 1\nhint: remove the item"):
        decode(LABELS, logits, mask=torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]]))
    with pytest.raises(LogicMPError, match="mask removes thing Anna or another one that the rules name, in item 0"):
        decode("C(Anna, x) v C(x, Anna)", randn(3, 3), mask=torch.tensor([0, 1, 1]))


def test_evidence_can_be_integer_labels() -> None:
    known = torch.tensor([-1, 2, -1])
    found = decode(LABELS, randn(3, 3), {"label": known}, mask=torch.tensor([1, 1, 1])).values["label"]
    assert found[1] == 2 and int(found[0]) in (1, 2)
