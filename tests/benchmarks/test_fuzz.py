"""The fuzzer repeats itself and stores what fails; a few hundred of its inputs run with every test."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fuzz
from benchmarks.__main__ import main

TEXTS = fuzz.real_texts(None)


@pytest.mark.parametrize("stage, count", [("plan", 200), ("infer", 40), ("sparse", 40)])
def test_no_input_fails(stage: str, count: int, tmp_path: Path) -> None:
    lines: list[str] = []
    failed = fuzz.fuzz(stage, seed=0, first=0, count=count, seconds=60, failures=tmp_path, texts=TEXTS,
                       say=lines.append)
    assert failed == 0, lines
    assert lines[-1].startswith(f"{stage}: inputs 0 to ")
    # some are accepted, some rejected: the inputs are neither all valid nor all broken
    accepted, rejected = (int(n) for n in re.findall(r"(\d+) (?:accepted|rejected)", lines[-1]))
    assert accepted > 2 and rejected > 2


@pytest.mark.parametrize("stage", list(fuzz.STAGES))
def test_an_input_depends_only_on_seed_stage_and_number(stage: str) -> None:
    make = fuzz.STAGES[stage][0]
    one, two, other = (make(random.Random(f"{seed} {stage} 5"), TEXTS) for seed in (1, 1, 2))
    assert one == two
    assert one != other
    assert json.loads(json.dumps(one)) == one


def test_a_failure_is_stored_and_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    def run(case: dict[str, Any]) -> None:
        if case["semantics"] == "paper":
            raise KeyError("x52")

    monkeypatch.setitem(fuzz.STAGES, "plan", (fuzz.make_plan, run))
    assert main(["fuzz", "plan", "--count", "20", "--seed", "3", "--failures", str(tmp_path)]) == 1
    stored = sorted(tmp_path.iterdir())
    assert capsys.readouterr().err.count("FAILED") == len(stored) > 0
    assert "KeyError: 'x52'" in json.loads(stored[0].read_text())["error"]
    with pytest.raises(KeyError):
        main(["fuzz", "--replay", str(stored[0])])
    # once it is fixed
    monkeypatch.setitem(fuzz.STAGES, "plan", (fuzz.make_plan, lambda case: None))
    assert main(["fuzz", "--replay", str(stored[0])]) == 0
    assert capsys.readouterr().out == "accepted\n"


def test_an_input_that_runs_for_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(case: dict[str, Any]) -> None:
        start = time.process_time()
        while time.process_time() - start < 10:
            pass

    monkeypatch.setitem(fuzz.STAGES, "plan", (fuzz.make_plan, run))
    with pytest.raises(fuzz.TimeLimitError, match=r"more than 0\.2 s"):
        fuzz.run_case("plan", {}, seconds=0.2)


def test_a_wrong_answer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"text": "p = {A}\nS(p)\n1 S(x)", "facts": "", "method": "exact", "world": "open"}
    assert fuzz.run_case("infer", case) is None
    infer = fuzz.infer
    monkeypatch.setattr(fuzz, "infer", lambda theory, *rest, **options: infer("p = {A}\nS(p)\n1.1 S(x)", "", *rest[1:]))
    with pytest.raises(AssertionError, match="S differs from the enumeration"):
        fuzz.run_case("infer", case)


def test_an_unknown_stage_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["fuzz", "parse"])
    assert stopped.value.code == 2
    assert "unknown stage 'parse'; available: plan, infer, layer" in capsys.readouterr().err
