"""The benchmarks run at small sizes; no test depends on a time."""

from __future__ import annotations

import doctest
import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import files, measure, methods, report
from benchmarks.__main__ import main
from benchmarks.baselines import EinsumPerImplication, paper_code, regex_facts, regex_rules, two_channels
from benchmarks.case import Case, Ratio, Task
from benchmarks.cases import CASES, load_data_set
from benchmarks.files import facts_text, theory_text
from logicmp import LogicMP, infer, oracle, parse_facts, parse_theory
from logicmp.execute.worlds import world_tensors
from logicmp.facts.world import build_world
from logicmp.inference.run import METHODS

# the einsum baseline must support constants, repeated variables, repeated literals, a variable only in the head
PREDICATES = "advisedBy(person, person)\nStudent(person)\nPhase(person, phase)\nHasWord(person, word)\n"
RULES = """
1.0 !advisedBy(p, s) v Student(s)
1.0 !Student(x) v Phase(x, Early) v advisedBy(x, y)

0.5 !advisedBy(a, a) v !advisedBy(a, a)
1.0 !advisedBy(a, b) v !advisedBy(b, c) v advisedBy(a, c)
1.0 !HasWord(p, +w) v !HasWord(q, +w) v !Phase(p, Early) v advisedBy(p, q)
1.0 Student(p) v Phase(q, f)
2.0 !Student(p)
"""
FACTS = "Student(Anna)\n!Student(Bob)\nPhase(Anna, Late)\nHasWord(Anna, Dog)\nHasWord(Bob, Cat)\nHasWord(Bob, Dog)\n"
QUERIES = "advisedBy(Anna, Bob)\n!advisedBy(Carl, Bob)\n"


@pytest.fixture
def data_sets(tmp_path: Path) -> Path:
    for name in ("uw_cse/ai", "cora/S1"):
        folder = tmp_path / "relational" / name
        folder.mkdir(parents=True)
        for file, text in (("predicates", PREDICATES), ("rules", RULES), ("facts", FACTS), ("queries", QUERIES)):
            (folder / file).write_text(text)
    return tmp_path


def command_in_this_process(folder: Path, world: str) -> str:
    theory = files.load_theory(folder)
    found = infer(theory, files.load_facts(folder, theory), "advisedBy", "mean-field", world=world, **files.MEAN_FIELD)
    return json.dumps({"marginals": [{"atom": atom, "probability": p} for atom, p in found.items()]})


def test_every_case_runs_and_two_runs_can_be_compared(data_sets, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "SAMPLE_SECONDS", 0.0)
    # starting Python takes seconds, so only the test below does it
    monkeypatch.setattr(files, "run_command", command_in_this_process)
    file = tmp_path / "run.json"
    assert main(["run", "--n", "8", "--repeat", "1", "--data", str(data_sets), "--json", str(file)]) == 0
    table = capsys.readouterr().out
    run = json.loads(file.read_text())
    assert run["failed"] == []
    assert {result["case"] for result in run["results"]} == set(CASES)
    for result in run["results"]:
        assert result["case"] in table
        assert all(side["median"] > 0 for side in result["sides"].values())
        assert all(ratio["value"] > 0 for ratio in result["ratios"])
        # targets apply only at the default sizes
        assert result["case"] in ("open-world", "evidence") or all(r["met"] is None for r in result["ratios"])
    assert {"commit", "torch", "threads"} <= set(run["machine"])

    assert main(["compare", str(file), str(file)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "| case | setting | measured | old | new | change |"
    n_sides = sum(len(result["sides"]) for result in run["results"])
    assert sum(line.endswith("| same |") for line in shown) == n_sides


def test_the_command_line_gives_the_answers_of_the_library(data_sets):
    folder = data_sets / "relational/uw_cse/ai"
    got, want = files.run_command(folder, "open"), command_in_this_process(folder, "open")
    for one, other in zip(*(json.loads(text)["marginals"] for text in (got, want)), strict=True):
        assert one["atom"] == other["atom"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-9)


def test_compare_reports_faster_slower_less_new_and_missing():
    def run(measures: str, **sides: float) -> dict:
        return {"machine": {"commit": "a"}, "results": [{
            "case": "c", "setting": "s", "measures": measures,
            "sides": {name: {"median": value} for name, value in sides.items()}}]}

    shown = report.compare(run("time", one=0.002, two=0.001, three=0.001),
                           run("time", one=0.001, two=0.0015, four=0.001))
    assert "| c | s | one | 2 ms | 1 ms | 50% faster |" in shown
    assert "| c | s | two | 1 ms | 1.5 ms | 50% slower |" in shown
    assert "| c | s | four | - | 1 ms | new |" in shown
    assert "| c | s | three | | | only in old |" in shown
    assert "25% less" in report.compare(run("memory", one=4e6), run("memory", one=3e6))


def test_a_case_that_differs_from_its_baseline_is_not_timed():
    def never() -> None:
        raise AssertionError("timed")

    task = Task("s", {"a": never, "b": never}, lambda: 1e-3, (Ratio("a", "b"),))
    with pytest.raises(report.Disagreement, match=r"c, s: results differ from the baseline by 0\.001"):
        report.run_task(Case("c", "", (), lambda n, options: iter([task])), task, 1)


def test_a_case_without_its_data_is_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("LOGICMP_DATA", raising=False)
    assert main(["run", "open-world", "--repeat", "1"]) == 0
    assert "LOGICMP_DATA" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("arguments, message", [
    (["run", "forwards"], "unknown case 'forwards'"),
    (["run", "--repeat", "0"], "at least 1"),
    (["compare", "no.json", "no.json"], "cannot read 'no.json'"),
    (["methods", "--methods", "exakt"], "unknown method 'exakt'"),
    (["methods", "--data", "no-such-folder"], "no case with exact answers in"),
])
def test_wrong_input_is_an_error_without_a_traceback(arguments, message, capsys):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


MODEL = """
*Boss(person, person)
Happy(person)
Rich(person)
0.8 Boss(x, y) ^ Happy(x) => Happy(y)
1.2 Rich(x) <=> Happy(x)
-0.5 Rich(x)
"""
KNOWN = "Boss(Anna, Bob)\nBoss(Bob, Carl)\nRich(Anna)\n"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Two cases: one with answers from the oracle, one without answers."""
    facts = parse_facts(KNOWN, parse_theory(MODEL))
    unary, evidence = world_tensors(build_world(facts, world="open", closed=["Boss"]))
    marginals = oracle.exact_marginals(facts.theory, unary, {k: v.double() for k, v in evidence.items()})
    people = facts.theory.type["person"].constants
    expected = {"status": "exact", "grammar": "standard", "closed_world": ["Boss"], "marginals": {
        f"{name}({person})": float(p) for name in ("Happy", "Rich")
        for person, p in zip(people, marginals[name], strict=True)}}
    for case, about in (("office", expected), ("unsolved", {"status": "no exact values"})):
        folder = tmp_path / "mln" / case
        folder.mkdir(parents=True)
        for file, text in (("model.mln", MODEL), ("evidence.db", KNOWN), ("query.txt", "Happy\nRich\n"),
                           ("expected.json", json.dumps(about))):
            (folder / file).write_text(text)
    return tmp_path


def test_every_method_is_compared_with_published_answers(published, tmp_path, capsys):
    file = tmp_path / "methods.json"
    assert main(["methods", "--data", str(published), "--json", str(file)]) == 0
    head, _, office, total = capsys.readouterr().out.splitlines()
    assert [cell.split(":")[0] for cell in head.split(" | ")[1::3]] == list(METHODS)
    assert office.startswith("| office | ") and total.startswith("| all | ")
    found = json.loads(file.read_text())["cases"]["office"]
    assert found["exact"]["max"] < 1e-9 and found["auto"]["max"] < 1e-9
    assert 1e-3 < found["mean-field"]["mean"] < found["mean-field"]["max"] < 0.2
    assert len(found["mean-field"]["errors"]) == 6


def test_methods_without_data_names_the_missing_option(monkeypatch, capsys):
    monkeypatch.delenv("LOGICMP_DATA", raising=False)
    assert main(["methods"]) == 1
    assert "LOGICMP_DATA" in capsys.readouterr().err


def test_a_method_that_rejects_a_case_is_shown_with_its_message():
    theory = parse_theory("day = {Monday}\nRain(day)\nRain(x).\n!Rain(x).")
    case = methods.PublishedCase("weather", theory, parse_facts("", theory), "Rain", (), {"Rain(Monday)": 0.5})
    shown = methods.as_markdown(methods.run_methods([case], ["exact"]), ["exact"]).splitlines()
    assert shown[2].startswith("| weather | rejected | | ")
    assert shown[5].startswith("exact rejected weather: no world satisfies the hard rules")


def test_a_method_is_stopped_at_its_time_limit(published, capsys):
    assert main(["methods", "--data", str(published), "--methods", "mean-field", "--seconds-limit", "0"]) == 0
    shown = capsys.readouterr().out
    assert "| office | stopped | | " in shown
    assert "mean-field stopped office: after 0 s, grounding 1 of 3" in shown


def test_list_names_every_case(capsys):
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CASES)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_listing_of_the_paper_equals_the_layer_with_its_semantics(batch):
    x = torch.randn(batch, 6, 6, dtype=torch.float64)
    layer = LogicMP("0.3 C(a,b) ^ C(b,c) => C(a,c)", 4, semantics="paper", schedule="paper").double()
    torch.testing.assert_close(layer(x), paper_code(two_channels(x), 0.3, 4)[..., 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("latent", [None, ["advisedBy"], ["Student", "Phase"]])
def test_one_einsum_per_implication_equals_the_layer_after_one_iteration(data_sets, latent):
    data = load_data_set(data_sets / "relational/cora/S1")
    assert data.sizes == {"person": 3, "phase": 2, "word": 2}
    assert data.queries == ("advisedBy",)
    chosen = latent or list(data.evidence)
    unary = {name: torch.randn(tensor.shape, dtype=torch.float64) for name, tensor in data.evidence.items()
             if name in chosen}
    evidence = {name: tensor.bool() for name, tensor in data.evidence.items() if name not in chosen}
    q = {name: torch.sigmoid(unary[name]) if name in chosen else data.evidence[name] for name in data.evidence}
    messages = EinsumPerImplication(data.theory, data.sizes, latent).messages(q)
    out = LogicMP(data.theory, 1, semantics="paper", schedule="paper").double()(unary, evidence=evidence)
    assert set(messages) == set(chosen)
    for name in chosen:
        torch.testing.assert_close(out[name], unary[name] + messages[name], rtol=1e-9, atol=1e-9)


def test_regular_expressions_find_what_the_parsers_find():
    theory = parse_theory(theory_text(40))
    assert [weight for weight, _ in regex_rules(theory_text(40))] == [rule.weight for rule in theory.rules]
    tables = parse_facts(facts_text(300), theory).tables
    assert {name: [args for _, args in rows] for name, rows in regex_facts(facts_text(300)).items()} \
        == {name: table.args for name, table in tables.items()}


def test_peak_memory_includes_temporary_tensors():
    x = torch.zeros(1 << 20)

    def run() -> torch.Tensor:
        # two tensors of 4 MB at once, one of them temporary
        return (x + 1).mul(2)

    assert measure.peak_memory(run) == pytest.approx(2 * 4 * (1 << 20), rel=1e-4)


@pytest.mark.parametrize("module", [measure, methods, report])
def test_examples_in_docstrings_are_correct(module):
    assert doctest.testmod(module).failed == 0
