"""`infer` itself: what it reads, what it rejects, and one clock for all parts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logicmp import CostError, LogicMPError, infer, load_facts, load_theory, parse_facts, parse_theory
from logicmp.errors import LimitError
from logicmp.inference.bp.method import BeliefPropagation
from logicmp.inference.method import Status
from logicmp.limits import Limits
from logicmp.testing.method_battery import FACTS, SMOKERS


def test_a_predicate_in_a_formula_is_queried_and_so_left_open() -> None:
    got = infer(SMOKERS, FACTS, "Smokes(x) => Cancer(x)")
    assert {name for name, why in got.world.closed.items() if why} == {"Friends"}
    assert 0 < got["Smokes(Anna) => Cancer(Anna)"] < 1


def test_without_a_query_every_open_predicate_is_answered() -> None:
    assert list(infer(SMOKERS, "Friends(Anna, Bob)\nSmokes(Carl)")) == [f"Cancer({p})" for p in ("Anna", "Bob", "Carl")]


def test_theory_and_evidence_may_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "rules.mln").write_text(SMOKERS)
    (tmp_path / "one.db").write_text("Friends(Anna, Bob)")
    (tmp_path / "two.db").write_text("Smokes(Anna)")
    theory = load_theory(tmp_path / "rules.mln")
    evidence = load_facts([tmp_path / "one.db", tmp_path / "two.db"], theory)
    assert infer(theory, evidence, "Smokes")["Smokes(Anna)"] == 1


def test_evidence_of_another_theory_is_rejected() -> None:
    other = parse_theory("p = {A}\nS(p)\n1 S(x)")
    with pytest.raises(LogicMPError) as caught:
        infer(SMOKERS, parse_facts("S(A)", other))
    assert str(caught.value) == ("the evidence was read for another theory\nhint: read it with "
                                 "load_facts(path, theory)")


@pytest.mark.parametrize("options, message", [
    ({"method": "exakt"}, "unknown method 'exakt'\nhint: did you mean 'exact'?"),
    ({"method": "vote"}, "unknown method 'vote'\nhint: available methods: auto, bp, exact, gibbs, hl-mrf, lifted-bp, "
     "map, mc-sat, mean-field"),
    ({"method": "bp", "speed": 3}, "method 'bp' has no option 'speed'\nhint: available options: damping, iterations, "
     "tolerance"),
    ({"method": BeliefPropagation(), "damping": 0.5}, "option 'damping' is given, but `method` is an object with its "
     "options set\nhint: set it there: BeliefPropagation(damping=...)"),
    ({"limits": Limits(), "max_seconds": 3}, "max_seconds, max_groundings and max_memory are part of limits\nhint: "
     "pass either these or limits"),
    ({"semantics": "fuzzy"}, "unknown semantics 'fuzzy'\nhint: available semantics: exact, paper, alchemy"),
    ({"method": "exact", "semantics": "paper"},
     "semantics 'paper' treats equal atoms of a grounding as independent, which no ground network can do\nhint: use "
     "semantics 'exact' or 'alchemy', or method mean-field"),
])
def test_a_wrong_choice_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        infer(SMOKERS, FACTS, "Smokes", **options)
    assert str(caught.value) == message


def test_the_function_has_its_name_however_rooms_are_imported() -> None:
    import logicmp.inference.exact.method
    import logicmp.normalize.cubes as cubes

    assert logicmp.infer is infer
    assert cubes.__name__ == "logicmp.normalize.cubes"


# nothing to answer


@pytest.mark.parametrize("theory, facts, options, message", [
    (SMOKERS, "Smokes(Anna)\nCancer(Anna)\nFriends(Anna, Bob)", {},
     "every predicate is closed: Smokes, Cancer, Friends (they have facts)\nhint: name a query: query=\"Smokes\", or "
     "-q Smokes on the command line"),
    ("p = {A}\n*S(p)\nT(p)\n1 S(x) => T(x)", "T(A)", {},
     "every predicate is closed: S (declared with *); T (it has facts)\nhint: name a query: query=\"T\", or -q T on "
     "the command line"),
    ("p = {A}\nS(p)\n1 S(x)", "", {"query": []},
     "the query is empty\nhint: name a query: query=\"S\", or -q S on the command line"),
    ("p = {A}", "", {}, "the theory has no predicates"),
])
def test_nothing_to_answer_is_an_error_that_names_the_query(theory: str, facts: str, options: dict[str, Any],
                                                            message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        infer(theory, facts, **options)
    assert str(caught.value) == f"there is nothing to answer: {message}"


# limits


class Time:
    """Seconds that pass only when a method reports progress."""

    def __init__(self, step: float):
        self.seconds, self.step = 0.0, step

    def __call__(self) -> float:
        return self.seconds

    def pass_by(self, what: str, done: int, total: int) -> None:
        self.seconds += self.step


def test_restarts_share_one_clock() -> None:
    time = Time(0.01)
    got = infer(SMOKERS, FACTS, "Smokes", method="mean-field", restarts=1000, progress=time.pass_by,
                limits=Limits(1, now=time))
    assert time.seconds == pytest.approx(1, abs=0.011)
    assert got.status is Status.TIME
    n_runs = int(got.notes[-1].removeprefix("the best of ").removesuffix(" of 1000 runs"))
    assert 1 < n_runs < 100


def test_retries_with_more_damping_share_one_clock() -> None:
    time = Time(0.01)
    got = infer(SMOKERS, FACTS, "Smokes", method="mean-field", iterations=10, damping=0.9, tolerance=1e-12,
                progress=time.pass_by, limits=Limits(0.15, now=time))
    assert time.seconds == pytest.approx(0.15, abs=0.011)
    assert got.status is Status.TIME
    assert [note.split(" in ")[0].split(" after ")[0] for note in got.notes] == [
        "mean field did not converge", "mean field was stopped"]


def test_grounding_counts_as_time() -> None:
    time = Time(1.0)
    with pytest.raises(LimitError, match="the time limit of 1 s was reached while grounding"):
        infer(SMOKERS, FACTS, "Smokes", method="bp", progress=time.pass_by, limits=Limits(1, now=time))
    time = Time(1.0)
    got = infer(SMOKERS, FACTS, "Smokes", method="bp", progress=time.pass_by, limits=Limits(4, now=time))
    assert got.notes[0].startswith("bp was stopped after 4 s and 1 rounds of messages")


@pytest.mark.parametrize("seconds", [7, 9])
def test_auto_leaves_half_of_the_time_to_mean_field(seconds: float) -> None:
    # three rules are grounded in 3 s; of what is left exact inference has 2 s and 3 s, and its three kinds of
    # components take 1 s each
    theory = ("p = {A, B, C}\nS(p)\nT(p)\nU(p)\nV(p)\nR\n1 S(x) => T(x)\n1 U(A) ^ U(B) => U(C)\n"
              "1 V(A) ^ V(B) ^ V(C) => R")
    time = Time(1.0)
    got = infer(theory, query="S, U", progress=time.pass_by, limits=Limits(seconds, now=time))
    assert got.status is (Status.TIME if seconds == 7 else Status.EXACT)
    assert got.notes[0] == ("mean field on all components: 2 of 3 kinds of components were summed in 2 s"
                            if seconds == 7 else "exact on 5 of 5 components")
    assert time.seconds == (7 if seconds == 7 else 6)


def test_groundings_are_limited_in_every_method() -> None:
    for method in ("exact", "bp", "lifted-bp", "hl-mrf", "gibbs", "mc-sat", "map"):
        with pytest.raises(CostError, match=r"groundings of this rule open(, after .*)? \(limit 1\)"):
            infer(SMOKERS, FACTS, "Smokes, Cancer", method=method, max_groundings=1)


def test_a_limit_of_the_wrong_kind_is_rejected() -> None:
    with pytest.raises(LogicMPError, match="max_seconds must be at least 0, got -1"):
        infer(SMOKERS, FACTS, "Smokes", max_seconds=-1)
