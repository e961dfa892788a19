"""Belief propagation: exact marginals on trees, approximate ones on loops, finite messages with hard rules."""

from __future__ import annotations

import json
import random
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logicmp import CostError, LogicMPError, RuleError, infer, load_facts, load_theory, parse_facts, parse_theory
from logicmp.execute.worlds import world_from_tensors
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.engine import ALONE, Grounding, Shares
from logicmp.ground.propagate import propagate
from logicmp.inference.bp.graph import build_graph
from logicmp.inference.bp.messages import Messages
from logicmp.inference.bp.method import BeliefPropagation
from logicmp.inference.method import Problem, Solution
from logicmp.inference.search import start
from logicmp.limits import Limits
from logicmp.parse.query import parse_queries
from logicmp.parse.syntax import children, free_variables
from logicmp.parse.theory import Rule
from logicmp.testing.method_battery import FACTS, SMOKERS, MethodBattery
from logicmp.testing.random_models import Model, models, random_model
from logicmp.testing.thread_shares import run_shares


class TestBeliefPropagation(MethodBattery):
    method, tolerance = "bp", 1e-6


def random_tree(rng: random.Random, n: int) -> str:
    """A theory whose factors form a tree: each rule joins one variable that is there with one or two new ones."""
    lines, rules = ["p = {A}"], []

    def add() -> str:
        name = f"V{len(lines)}"
        is_binary = rng.random() < 0.5
        lines.append(f"{name}(p)" if is_binary else f"{name}(p) in {{K, L, M}}")
        rules.append(f"{rng.uniform(-2, 2):.3f} {literal(name, is_binary)}")
        known.append((name, is_binary))
        return literal(*known[-1])

    def literal(name: str, is_binary: bool) -> str:
        labels = f" in {{{', '.join(rng.sample('KLM', rng.choice((1, 1, 2))))}}}"
        return rng.choice(("", "!")) + f"{name}(A)" + ("" if is_binary else labels)

    known: list[tuple[str, bool]] = []
    add()
    while len(known) < n:
        parts = [literal(*rng.choice(known)), add(), *([add()] if rng.random() < 0.3 else [])]
        rng.shuffle(parts)
        formula = parts[0]
        for part in parts[1:]:
            formula = f"({formula} {rng.choice(('v', '=>', '<=>', '^'))} {part})"
        # a hard rule that leaves the tree possible: the other rules cannot violate one disjunction
        rules.append(f"{' v '.join(parts)}." if rng.random() < 0.15 else f"{rng.uniform(-3, 3):.3f} {formula}")
    return "\n".join(lines + rules)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 25))
def test_a_tree_is_exact_and_so_is_its_partition_function(seed: int, n: int) -> None:
    theory = random_tree(random.Random(seed), n)
    names = ", ".join(p.name for p in parse_theory(theory).predicates)
    try:
        want = infer(theory, query=names, method="exact")
    except LogicMPError:
        return
    got = infer(theory, query=names, method="bp", damping=0.0, tolerance=1e-12)
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-6)
    assert want.log_partition is not None
    bethe = float(got.notes[-1].removeprefix("Bethe log Z = "))
    assert bethe == pytest.approx(want.log_partition, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("case", [
    "alarm_kreator_q1", "alarm_noisyor_q2", "alchemy_asthma", "hmm_pos_tags", "precedence_and_or", "rockit_minimal",
    "smoke_logicmp_owa", "smokers_pracmln_test", "tuffy_smoke", "tweety_conj_q1"])
def test_published_cases_without_a_loop_are_met_to_a_millionth(data: Path, case: str) -> None:
    folder = data / "mln" / case
    expected = json.loads((folder / "expected.json").read_text())
    theory = load_theory(folder / "model.mln", expected["grammar"])
    got = infer(theory, load_facts(folder / "evidence.db", theory), (folder / "query.txt").read_text(), "bp",
                world="open", closed=expected["closed_world"])
    for atom, p in expected["marginals"].items():
        assert got[atom] == pytest.approx(p, abs=1e-6), atom
    assert float(got.notes[-1].removeprefix("Bethe log Z = ")) == pytest.approx(expected["log_partition"], rel=1e-5)


def test_a_chain_needs_as_many_rounds_as_it_is_long() -> None:
    theory = "step = {1, ..., 30}\nS(step)\n2 S(1)\n1.5 S(x) <=> S(x+1)"
    got, want = (infer(theory, query="S", method=m, **o) for m, o in (("bp", {"damping": 0.0}), ("exact", {})))
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-9)
    assert got.notes[0] == "bp converged after 30 rounds, the last change was 0"


def test_a_long_clause_needs_no_table() -> None:
    people = ", ".join(f"P{i}" for i in range(60))
    theory = f"p = {{{people}}}\nS(p)\n0.1 S(x)\n3 EXIST x S(x)"
    got, want = (infer(theory, query="S, EXIST x S(x)", method=m) for m in ("bp", "exact"))
    np.testing.assert_allclose(got.probabilities[:60], want.probabilities[:60], atol=1e-9)


def test_a_quantified_part_is_one_factor() -> None:
    # as loose hard features, part, F(A,B), F(A,C) would be a loop
    theory = "p = {A, B, C}\nF(p, p)\nS(p)\n0.4 F(x, y)\n1 S(x)\n2 (EXIST y F(x, y)) => S(x)"
    got, want = (infer(theory, query="S, F", method=m) for m in ("bp", "exact"))
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-7)
    network = build_network(build_world(parse_facts("", parse_theory(theory))))
    graph, _ = build_graph(network, propagate(network))
    assert (graph.products.head_var >= 0).sum() == 3
    assert len(network.cards) - network.n_own == 3


def test_a_formula_over_the_variables_of_a_factor_is_exact_on_a_tree() -> None:
    theory = "p = {A}\nS(p)\nT(p)\nU(p)\n0.5 S(x)\n2 S(x) => T(x)\n-1 T(x) <=> U(x)"
    got, want = (infer(theory, query="S(x) ^ T(x), T(x) v !U(x), U(x), !T(x)", method=m) for m in ("bp", "exact"))
    np.testing.assert_allclose(got.probabilities, want.probabilities, atol=1e-7)


@pytest.mark.parametrize("query", [
    "Smokes(x) ^ Smokes(y)", "EXIST x (Smokes(x) ^ Cancer(x))", "Smokes(x) => Cancer(x)"])
def test_querying_a_formula_changes_no_atom(query: str) -> None:
    facts = "Friends(Anna, Bob)\nFriends(Bob, Carl)\nFriends(Carl, Anna)"
    alone = infer(SMOKERS, facts, "Smokes, Cancer", method="bp")
    both = infer(SMOKERS, facts, f"Smokes, Cancer, {query}", method="bp")
    np.testing.assert_allclose(both.log_odds[:6], alone.log_odds, atol=1e-6)


def test_a_loop_is_an_approximation_that_converges() -> None:
    facts = "Friends(Anna, Bob)\nFriends(Bob, Carl)\nFriends(Carl, Anna)"
    got, want = (infer(SMOKERS, facts, "Smokes, Cancer", method=m) for m in ("bp", "exact"))
    assert "bp converged after" in got.notes[0]
    assert 1e-6 < np.abs(got.probabilities - want.probabilities).max() < 0.05


def test_only_atoms_that_hard_rules_decide_are_certain() -> None:
    theory = "p = {A, B}\nS(p)\nT(p)\nS(A).\nS(x) => T(x).\n800 T(B)"
    got = infer(theory, query="S, T", method="bp")
    assert (got["S(A)"], got["T(A)"]) == (1.0, 1.0)
    assert 0.99 < got["T(B)"] < 1
    assert got["S(B)"] == pytest.approx(0.5)


def test_hard_rules_outweigh_any_weight() -> None:
    got = infer("p = {A}\nS(p)\nT(p)\n5000 S(x)\n-4000 T(x)\nS(x) => T(x).", query="S, T", method="bp")
    # both or neither, 1000 apart: beyond the smallest float
    assert got.log_odds == pytest.approx([708.4, 708.4], abs=0.1)


def test_a_contradiction_names_its_rules() -> None:
    with pytest.raises(LogicMPError) as caught:
        infer("p = {A}\nS(p)\nT(p)\nS(x).\n!S(x) v T(x).\n!T(x).", query="S", method="bp")
    assert str(caught.value) == """\
no world satisfies the hard rules and the evidence; these cannot all be satisfied:
  S(x).
  !S(x) v T(x).
  !T(x).
hint: give one of them a weight, or correct the evidence"""


@pytest.mark.parametrize("method", ["bp", "lifted-bp"])
@pytest.mark.parametrize("text", [
    "p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\nS(x) v !T(x).\n!S(x) v !T(x).",
    # three people, two holes
    "p = {A, B, C}\nh = {H, I}\nAt(p, h!)\nAt(x,z) ^ At(y,z) => x = y."])
def test_messages_that_converge_without_a_world_are_no_answer(text: str, method: str) -> None:
    with pytest.raises(LogicMPError, match="no world satisfies the hard rules and the evidence"):
        infer(text, method=method)


def test_a_contradiction_without_a_sat_solver_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysat", None)
    monkeypatch.setattr(start, "find_spec", lambda name: None)
    assert infer("p = {A}\nS(p)\nT(p)\nS(x) v T(x).", method="bp")["S(A)"] == pytest.approx(2 / 3)


def test_a_run_that_does_not_converge_says_so() -> None:
    got = infer(SMOKERS, FACTS, "Smokes, Cancer", method="bp", iterations=2)
    assert got.status == "iterations"
    assert got.notes[0].startswith("bp did not converge in 2 rounds: a message still changed by ")


@pytest.mark.parametrize("method", ["bp", "lifted-bp"])
def test_a_run_stops_at_its_time_with_what_it_has(method: str) -> None:
    theory = parse_theory(SMOKERS)
    evidence = parse_facts(FACTS, theory)
    got = infer(theory, evidence, "Smokes, Cancer", method=method, limits=Limits(5, now=count().__next__))
    assert got.status == "time"
    assert got.notes[-2].startswith(f"{method} was stopped after 5 s and 1 rounds of messages, the last change was 0")
    assert got["Smokes(Carl)"] != 0.5


@pytest.mark.parametrize("method", ["bp", "lifted-bp"])
def test_no_rounds_give_no_answers(method: str) -> None:
    with pytest.raises(CostError, match=f"method '{method}' stopped before its first step") as caught:
        infer(SMOKERS, FACTS, "Smokes", method=method, iterations=0)
    assert caught.value.hint == "set iterations to at least 1"


def test_a_damping_that_keeps_every_message_is_rejected() -> None:
    with pytest.raises(LogicMPError, match=r"damping must be at least 0 and below 1, got 1\.0$"):
        infer(SMOKERS, FACTS, "Smokes", method="bp", damping=1.0)


def test_progress_is_told_round_by_round() -> None:
    told: list[tuple[str, int, int]] = []
    infer(SMOKERS, FACTS, "Smokes", method="bp", progress=lambda *step: told.append(step))
    assert ("bp", 1, 1000) in told




@settings(max_examples=40, deadline=None)
@given(model=models(max_ground=12))
def test_compiled_loops_send_the_same_messages(model: Model) -> None:
    problem = Problem(world_from_tensors(model.theory, model.unary, model.evidence))
    try:
        network = problem.network()
        graph, _ = build_graph(network, propagate(network))
    except LogicMPError:
        assume(False)
    plain = Messages(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("logicmp.inference.bp.messages.COMPILED", 0)
        compiled = Messages(graph)
    assert compiled.workers is not None
    for _ in range(4):
        one, other = plain.beliefs(), compiled.beliefs()
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-7)
        plain.update(one, 0.2)
        compiled.update(other, 0.2)
    assert compiled.log_partition() == pytest.approx(plain.log_partition(), rel=1e-8, abs=1e-6)


def test_messages_that_oscillate_are_damped_more() -> None:
    # everybody disagrees with everybody: undamped messages change their sign in every round
    theory = f"p = {{{', '.join(f'P{i}' for i in range(8))}}}\nS(p)\n0.3 S(x)\n-1.5 x != y => (S(x) <=> S(y))"
    got = infer(theory, query="S", method="bp", damping=0.0)
    assert got.status == "converged"
    assert "because messages oscillated" in got.notes[0]
    assert got.probabilities == pytest.approx(infer(theory, query="S", method="bp", damping=0.9).probabilities)


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_several_processes_equal_one(first: int) -> None:
    """Each has the features of its own variables; beliefs, changes and the Bethe approximation are those of one."""
    n_checked = n_saved = 0
    for seed in range(first, first + 20):
        model = random_model(random.Random(seed))

        def rounds(shares: Shares, model: Model = model) -> tuple[list[np.ndarray], tuple[int, int]]:
            network = Problem(world_from_tensors(model.theory, model.unary, model.evidence)).network(share=shares.share)
            graph, _ = build_graph(network, propagate(network, shares), shares=shares)
            messages, found = Messages(graph, shares), [shares.total(np.array([graph.n_factors, graph.n_edges]))]
            for _ in range(5):
                belief = messages.beliefs()
                found += [messages.whole(belief), np.array([messages.update(belief, 0.3)])]
            return [*found, np.array([messages.log_partition()])], (len(messages.graph.cards), network.n_features)

        try:
            want, n_all = rounds(ALONE)
        except LogicMPError:
            with pytest.raises(LogicMPError, match=r"no world satisfies|violates this hard rule|excludes every value"):
                run_shares(2, rounds)
            continue
        for got, n_own in run_shares(2 + seed % 2, rounds):
            for x, y in zip(got, want, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
            n_saved += n_own < n_all
        n_checked += 1
    assert n_checked >= 10
    assert n_saved >= 10


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_queried_formulas_of_several_processes_equal_those_of_one(first: int) -> None:
    """Rules are asked as formulas: some are read from a table, maybe of another process, others are not."""
    n_read = 0
    for seed in range(first, first + 20):
        model = random_model(random.Random(seed))
        queries = []
        for rule in model.theory.rules:
            for formula in (rule.formula, *children(rule.formula)):
                # a variable that is in equations only has no type
                with suppress(RuleError):
                    queries += parse_queries(str(formula), model.theory) if free_variables(formula) else []
        rules = tuple(query.as_rule() for query in queries)

        def solve(shares: Shares, model: Model = model, rules: tuple[Rule, ...] = rules) -> Solution:
            world = world_from_tensors(model.theory, model.unary, model.evidence)
            problem = Problem(world, rules, grounding=Grounding(shares=shares))
            return BeliefPropagation(iterations=5).solve(problem)

        try:
            want = solve(ALONE)
        except LogicMPError:
            continue
        for got in run_shares(2 + seed % 3, solve):
            assert got.notes == want.notes
            for name, x in want.log_odds.items():
                np.testing.assert_allclose(got.log_odds[name], x, rtol=1e-9, atol=1e-9)
            for one, other in zip(got.formulas, want.formulas, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        n_read += len(want.formulas)
    assert n_read >= 10
