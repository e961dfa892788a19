"""What every sampling method must do besides the battery of all methods: agree with enumeration, stop in time, repeat.

    class TestGibbs(SamplingBattery):
        method, tolerance = "gibbs", 0.01
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from method_battery import FACTS, SMOKERS, MethodBattery
from published import published

from logicmp import LogicMPError, infer
from logicmp.execute import reference
from logicmp.ground import World
from logicmp.infer import METHODS
from logicmp.infer.base import Problem, as_probability
from logicmp.testing import random_model

CONTRADICTION = "p = {A}\nS(p)\nT(p)\nS(x) v T(x).\n!S(x) v T(x).\nS(x) v !T(x).\n!S(x) v !T(x)."


class SamplingBattery(MethodBattery):
    # seeds of random theories
    seeds = range(100, 130)

    @pytest.mark.parametrize("seed", seeds)
    def test_marginals_of_a_random_theory_are_those_of_the_enumeration(self, seed: int) -> None:
        model = random_model(random.Random(seed), max_ground=8)
        problem = Problem(World.from_tensors(model.theory, model.unary, model.evidence))
        try:
            want = reference.exact_marginals(model.theory, model.unary, model.evidence, model.sizes)
        except LogicMPError:
            with pytest.raises(LogicMPError, match=r"no world obeys|breaks this hard rule"):
                METHODS[self.method]().solve(problem)
            return
        got = METHODS[self.method]().solve(problem)
        for name, marginals in want.items():
            np.testing.assert_allclose(as_probability(got.log_odds[name]), marginals.numpy(), atol=self.tolerance)

    def test_every_published_case_is_met(self, data: Path) -> None:
        for case in published(data, self.method):
            for atom, p in case.marginals.items():
                assert case.got[atom] == pytest.approx(p, abs=self.tolerance), f"{case.name}: {atom}, {case.semantics}"

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

    def test_a_run_without_time_stops_with_what_it_has_and_says_so(self) -> None:
        got = self.infer(SMOKERS, FACTS, "Smokes", max_seconds=0)
        assert got.notes[0] == f"{self.method} was stopped after 0 s"
        assert 0 < got["Smokes(Bob)"] < 1

    def test_an_error_that_is_not_reached_is_told(self) -> None:
        notes = self.infer(SMOKERS, FACTS, "Smokes", samples=500, error=1e-5).notes
        assert any(note.startswith("the standard error is still up to ") for note in notes)

    def test_another_seed_gives_another_answer_within_the_error(self) -> None:
        one, two = (self.infer(SMOKERS, FACTS, "Smokes, Cancer", seed=seed) for seed in (1, 2))
        assert one.log_odds.tolist() != two.log_odds.tolist()
        assert one.probabilities == pytest.approx(two.probabilities, abs=2 * self.tolerance)

    def test_a_contradiction_that_propagation_does_not_see_is_proven(self) -> None:
        with pytest.raises(LogicMPError, match="no world obeys the hard rules and the evidence") as caught:
            self.infer(CONTRADICTION, "", "S", max_flips=1000)
        assert "S(x) v T(x)." in str(caught.value)

    def test_a_contradiction_without_a_sat_solver_is_not_claimed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "pysat", None)
        with pytest.raises(LogicMPError, match=r"found no world that obeys the hard rules in 1,000 flips"):
            self.infer(CONTRADICTION, "", "S", max_flips=1000)

    def test_without_numba_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "numba", None)
        with pytest.raises(LogicMPError) as caught:
            self.infer(SMOKERS, FACTS, "Smokes")
        assert str(caught.value) == (f"method '{self.method}' needs numba, which is not installed\nhint: pip install "
                                     '"logicmp[sampling]"')

    @pytest.mark.parametrize("options", [{"chains": 0}, {"samples": 0}, {"burn_in": -1}])
    def test_a_number_that_cannot_be_is_refused(self, options: dict[str, int]) -> None:
        ((name, value),) = options.items()
        with pytest.raises(LogicMPError, match=f"{name}={value} cannot be"):
            self.infer(SMOKERS, FACTS, "Smokes", **options)
