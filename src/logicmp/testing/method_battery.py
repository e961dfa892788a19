"""Tests that every method inherits: all atoms are answered, evidence stays, hard rules are satisfied, seeds reproduce.

Room: inference, oracle, random_models -> **method_battery**.

    class TestGibbs(MethodBattery):
        method, tolerance = "gibbs", 0.02
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from .. import oracle
from ..errors import LogicMPError
from ..execute.worlds import world_from_tensors
from ..inference.answers import Marginals, as_probability
from ..inference.method import Problem, Status
from ..inference.run import infer, method_class
from .random_models import random_model

SMOKERS = """\
person = {Anna, Bob, Carl}
Smokes(person)
Cancer(person)
Friends(person, person)

1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
FACTS = "Friends(Anna, Bob)\nFriends(Bob, Carl)\nSmokes(Anna)\n!Cancer(Bob)"

# name: theory, evidence, query, probabilities in closed form
CASES: dict[str, tuple[str, str, str, dict[str, float]]] = {
    "one atom": ("p = {A}\nS(p)\n1 S(x)", "", "S", {"S(A)": 1 / (1 + np.exp(-1))}),
    "no arguments": ("Rain\nWet\n1 Rain\n0 Wet", "", "Rain, Wet", {"Rain": 1 / (1 + np.exp(-1)), "Wet": 0.5}),
    "no evidence": ("p = {A, B}\nS(p)\nT(p)\n1 S(x)", "", "T", {"T(A)": 0.5, "T(B)": 0.5}),
    "soft evidence": ("p = {A, B}\nS(p)\n0 S(x)", "0.8 S(A)", "S", {"S(A)": 0.8, "S(B)": 0.5}),
    "unobserved in a closed predicate": ("p = {A, B}\nS(p)\nT(p)\n2 S(x) => T(x)", "?S(A)\n!T(A)\nT(B)", "S(x)",
                                      {"S(A)": 1 / (1 + np.exp(2)), "S(B)": 0.5}),
    "labels": ("p = {A, B}\nmood(p) in {Glad, Sad, Calm}\n1 mood(x) in {Glad}\n0 mood(x) in {Sad}", "mood(B) = Sad",
               "mood", {"mood(A) = Glad": np.e / (2 + np.e), "mood(A) = Sad": 1 / (2 + np.e), "mood(B) = Sad": 1.0,
                        "mood(B) = Calm": 0.0}),
    "a value for each": ("p = {A, B}\nlives(p, p!)\n2 lives(x, x)", "", "lives",
                         {"lives(A,A)": np.exp(2) / (1 + np.exp(2)), "lives(A,B)": 1 / (1 + np.exp(2))}),
    "at most one": ("p = {A, B}\nlives(p, p?)\n0 lives(x, x)", "", "lives", {"lives(A,A)": 1 / 3, "lives(B,A)": 1 / 3}),
}


class MethodBattery:
    """Tests of one method: inherit, and define the method and its tolerance."""

    method: str
    # largest accepted error for independent atoms, where every method should be right
    tolerance: float
    options: Mapping[str, Any] = MappingProxyType({})
    # by case, the expected answers of a method that does not give probabilities
    answers: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    # whether the answers are zeros and ones: those of one world
    is_world: bool = False
    # of a run on SMOKERS with the default limits
    status: Status = Status.CONVERGED

    def infer(self, theory: str, evidence: str = "", query: Any = None, **options: Any) -> Marginals:
        return infer(theory, evidence, query, method=self.method, **{**self.options, **options})

    @pytest.mark.parametrize("case", list(CASES))
    def test_independent_atoms_have_their_own_probability(self, case: str) -> None:
        theory, facts, query, want = CASES[case]
        got = self.infer(theory, facts, query)
        for atom, p in self.answers.get(case, want).items():
            if self.is_world:
                # of equally probable values either is right
                assert got[atom] in ({1} if p > 0.5 else {0} if p < 0.3 else {0, 1}), atom
            else:
                assert got[atom] == pytest.approx(p, abs=self.tolerance), atom

    def test_evidence_comes_back_as_zero_and_one(self) -> None:
        got = self.infer(SMOKERS, FACTS, ["Smokes", "Cancer", "Friends"])
        assert (got["Smokes(Anna)"], got["Cancer(Bob)"], got["Friends(Anna,Bob)"]) == (1.0, 0.0, 1.0)

    def test_an_undecided_atom_is_strictly_between_zero_and_one(self) -> None:
        # log-odds of 800: 1 in every precision
        got = self.infer("p = {A, B}\nS(p)\n800 S(x)", "", "S")
        assert 0.99 < got["S(A)"] <= 1
        assert (got["S(A)"] == 1) == self.is_world

    def test_every_queried_atom_is_answered(self) -> None:
        got = self.infer(SMOKERS, FACTS, "Cancer, Smokes(x), Friends(x, Bob), Friends(x, x)")
        assert list(got) == ["Cancer(Anna)", "Cancer(Bob)", "Cancer(Carl)", "Smokes(Anna)", "Smokes(Bob)",
                             "Smokes(Carl)", "Friends(Anna,Bob)", "Friends(Bob,Bob)", "Friends(Carl,Bob)",
                             "Friends(Anna,Anna)", "Friends(Carl,Carl)"]

    def test_the_values_of_a_variable_sum_to_one(self) -> None:
        got = self.infer("p = {A, B, C}\nlives(p, p!)\n1 lives(x, y) ^ lives(y, z) => lives(x, z)", "", "lives")
        p = got.to_tensors()["lives"].numpy()
        assert p.sum(1) == pytest.approx(np.ones(3), abs=1e-6)

    def test_a_hard_conjunction_is_certain(self) -> None:
        got = self.infer("p = {A}\nS(p)\nT(p)\nS(x) ^ T(x).", "", "S, T")
        assert got["S(A)"] > 0.99
        assert got["T(A)"] > 0.99

    def test_candidates_are_the_atoms_that_can_be_true(self) -> None:
        allowed = "Friends(Anna, Carl)\nFriends(Bob, Anna)\nFriends(Carl, Bob)"
        query = ["Smokes", "Friends", "Friends(x, y) ^ Smokes(y)"]
        got = self.infer(SMOKERS, FACTS, query, candidates=allowed)
        people = ("Anna", "Bob", "Carl")
        false = [f"!Friends({a}, {b})" for a in people for b in people if f"Friends({a}, {b})" not in allowed + FACTS]
        want = self.infer(SMOKERS, "\n".join([FACTS, *false]), query)
        assert list(got.world.supports) == ["Friends"]
        # other atoms are false, and not answered
        assert {atom for atom in want if atom not in got} == {text[1:].replace(", ", ",") for text in false}
        assert dict(got) == pytest.approx({atom: want[atom] for atom in got}, abs=max(1e-6, 2 * self.tolerance))

    def test_the_same_seed_gives_the_same_answer(self) -> None:
        one, two = (self.infer(SMOKERS, FACTS, "Smokes, Cancer", seed=3) for _ in range(2))
        assert one.log_odds.tolist() == two.log_odds.tolist()

    def test_the_status_says_why_it_stopped(self) -> None:
        assert self.infer(SMOKERS, FACTS, "Smokes, Cancer").status is self.status

    def test_a_run_without_time_is_rejected(self) -> None:
        # while grounding, or before the first step
        with pytest.raises(LogicMPError, match=r"the time limit of 0 s.*(\n.*)?max_seconds"):
            self.infer(SMOKERS, FACTS, "Smokes, Cancer", max_seconds=0)

    def test_a_theory_that_is_all_evidence_is_answered(self) -> None:
        got = self.infer("p = {A}\nS(p)\n1 S(x)", "S(A)", "S, !S(x)")
        assert dict(got) == {"S(A)": 1.0, "!S(A)": 0.0}

    def test_an_unknown_option_is_rejected_with_the_known_ones(self) -> None:
        with pytest.raises(LogicMPError, match=f"method '{self.method}' has no option 'speed'"):
            self.infer(SMOKERS, FACTS, "Smokes", speed=3)


CONTRADICTION = "p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\nS(x) v !T(x).\n!S(x) v !T(x)."


class SamplingBattery(MethodBattery):
    """Tests of one sampling method, with its error and its diagnosis."""

    # seeds of random theories
    seeds = range(100, 130)

    @pytest.mark.parametrize("seed", seeds)
    def test_marginals_of_a_random_theory_are_those_of_the_enumeration(self, seed: int) -> None:
        model = random_model(random.Random(seed), max_ground=8)
        problem = Problem(world_from_tensors(model.theory, model.unary, model.evidence))
        try:
            want = oracle.exact_marginals(model.theory, model.unary, model.evidence, model.sizes)
        except LogicMPError:
            with pytest.raises(LogicMPError, match=r"no world satisfies|violates this hard rule"):
                method_class(self.method)().solve(problem)
            return
        got = method_class(self.method)().solve(problem)
        for name, marginals in want.items():
            np.testing.assert_allclose(as_probability(got.log_odds[name]), marginals.numpy(), atol=self.tolerance)

    def test_a_formula_has_its_probability(self) -> None:
        queries = ["Smokes(x) => Cancer(x)", "Smokes(Bob) ^ !Smokes(Carl)", "EXIST x (Smokes(x) ^ !Cancer(x))"]
        got, want = (infer(SMOKERS, "Friends(Anna, Bob)\nFriends(Bob, Carl)", queries, method=m)
                     for m in (self.method, "exact"))
        assert got.probabilities == pytest.approx(want.probabilities, abs=self.tolerance)

    def test_the_diagnosis_is_in_the_notes(self) -> None:
        notes = self.infer(SMOKERS, FACTS, "Smokes", chains=3).notes
        assert notes[0].startswith("3 chains of ")
        assert notes[1].startswith("R-hat at most 1.0")
        assert "effective samples at least" in notes[1]

    def test_every_chain_makes_a_step_before_it_looks_at_the_clock(self) -> None:
        got = self.infer("p = {A, B}\nS(p)\n1 S(x)", "", "S", max_seconds=0)
        assert got.notes[0] == f"{self.method} was stopped after 0 s"
        assert got.status is Status.TIME
        assert 0 <= got["S(A)"] <= 1

    def test_an_error_that_is_not_reached_is_told(self) -> None:
        # 500 fill twenty batches, 600 twelve of twice the size
        for samples in (500, 600):
            got = self.infer(SMOKERS, FACTS, "Smokes", samples=samples, error=1e-5)
            assert got.status is Status.ITERATIONS
            assert any(note.startswith("the standard error is still up to ") for note in got.notes)

    def test_another_seed_gives_another_answer_within_the_error(self) -> None:
        one, two = (self.infer(SMOKERS, FACTS, "Smokes, Cancer", seed=seed) for seed in (1, 2))
        assert one.log_odds.tolist() != two.log_odds.tolist()
        assert one.probabilities == pytest.approx(two.probabilities, abs=2 * self.tolerance)

    def test_a_contradiction_that_propagation_does_not_see_is_proven(self) -> None:
        with pytest.raises(LogicMPError, match="no world satisfies the hard rules and the evidence") as caught:
            self.infer(CONTRADICTION, "", "S", max_flips=1000)
        assert "S(x) v T(x)." in str(caught.value)

    def test_a_contradiction_without_a_sat_solver_is_not_claimed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "pysat", None)
        with pytest.raises(LogicMPError, match=r"found no world that satisfies the hard rules in 1,000 flips"):
            self.infer(CONTRADICTION, "", "S", max_flips=1000)

    def test_without_numba_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "numba", None)
        with pytest.raises(LogicMPError) as caught:
            self.infer(SMOKERS, FACTS, "Smokes")
        assert str(caught.value) == (f"method '{self.method}' needs numba, which is not installed\nhint: pip install "
                                     '"logicmp[sampling]"')

    @pytest.mark.parametrize("name, least", [("chains", 1), ("samples", 1), ("burn_in", 0)])
    def test_a_number_below_the_least_is_rejected(self, name: str, least: int) -> None:
        with pytest.raises(LogicMPError, match=f"^{name} must be at least {least}, got {least - 1}$"):
            self.infer(SMOKERS, FACTS, "Smokes", **{name: least - 1})
