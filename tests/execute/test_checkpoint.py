"""A long run in a file: it resumes with another number of processes, to the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logicmp import LogicMPError, Marginals, infer
from logicmp.execute import checkpoint
from logicmp.testing.thread_shares import run_shares

RULES = "F(p, p)\nS(p)\n0.9 F(x,y) ^ S(x) => S(y)\n-0.2 S(x)\n0.4 F(x,y) ^ F(y,z) ^ S(x) => S(z)"
# more than a million pairs, so that F is a list
FACTS = "\n".join(f"F(P{k}, P{(7 * k + 3) % 1100})" for k in range(1100)) + "\nS(P0)\n!S(P5)"


class Interrupted(Exception):
    pass


def run(path: Path | None, n: int = 1, stop_at: int | None = None, **options: Any) -> list[Marginals]:
    def progress(what: str, done: int, total: int) -> None:
        if what == "mean field" and done == stop_at:
            raise Interrupted

    given: dict[str, Any] = {"correction": "none", "damping": 0.8, "progress": progress,
                             "checkpoint": None if path is None else str(path), **options}
    if n == 1:
        return [infer(RULES, FACTS, "S", "mean-field", **given)]
    return run_shares(n, lambda shares: infer(RULES, FACTS, "S", "mean-field", shares=shares, **given))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "PAUSE", 0.0)


def test_a_run_resumes_to_the_same_answer(tmp_path: Path) -> None:
    (want,) = run(None)
    path = tmp_path / "run.safetensors"
    with pytest.raises(Interrupted):
        run(path, 2, stop_at=9)
    for n in (3, 1):
        kept = path.read_bytes()
        found = run(path, n)
        for got in found:
            assert dict(got) == pytest.approx(dict(want), rel=0, abs=1e-12)
            assert got.solution.notes[-1] == "resumed after 8 iterations"
            assert got.status == want.status
        path.write_bytes(kept)


def test_more_damping_is_part_of_the_state(tmp_path: Path) -> None:
    options: dict[str, Any] = {"iterations": 6, "damping": 0.5}
    (want,) = run(None, **options)
    seen: list[int] = []

    def progress(what: str, done: int, total: int) -> None:
        seen.append(done)
        # in the third attempt
        if seen.count(3) == 3:
            raise Interrupted

    path = tmp_path / "run.safetensors"
    with pytest.raises(Interrupted):
        infer(RULES, FACTS, "S", "mean-field", correction="none", checkpoint=str(path), progress=progress, **options)
    (got,) = run(path, **options)
    assert dict(got) == pytest.approx(dict(want), rel=0, abs=1e-12)
    assert got.notes[-1] == want.notes[-1]


def test_a_checkpoint_of_another_run(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run(path)
    for n in (1, 2):
        with pytest.raises(LogicMPError, match=r"belongs to a run with other rules|first process cannot read"):
            run(path, n, hard_weight=9.0)


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run(path)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(LogicMPError, match="cannot read the checkpoint"):
        run(path)


def test_several_runs_have_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match="one run until convergence"):
        run(tmp_path / "x", restarts=2)
