"""A stopped run resumes; a checkpoint of another run is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from logicmp import Learned, LogicMPError, learn, parse_facts, parse_theory
from logicmp.learning.minimize import LearningProgress

THEORY = parse_theory("t = {A, B, C, D}\nP(t)\nQ(t)\nP(x) => Q(x)\n(P(x))\nQ(x) ^ P(y) => P(x)")
FACTS = "P(A)\nP(B)\nQ(A)\nQ(C)"


def run(path: Path, facts: str = FACTS, **options: object) -> Learned:
    return learn(THEORY, [parse_facts(facts, THEORY)], checkpoint=path, tolerance=1e-8, **options)


def test_a_run_resumes_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    def stop(iteration: LearningProgress) -> None:
        if iteration.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(path, on_iteration=stop)
    # no partial file is left next to it
    assert [p.name for p in tmp_path.iterdir()] == ["run.safetensors"]
    seen: list[LearningProgress] = []
    resumed = run(path, on_iteration=seen.append)
    whole = run(tmp_path / "other.safetensors")
    assert seen[0].number == 3 and resumed.report.before == whole.report.before
    torch.testing.assert_close(torch.stack(resumed.weights), torch.stack(whole.weights), atol=1e-6, rtol=0)


def test_a_run_that_has_ended_stays_ended(tmp_path: Path) -> None:
    first = run(tmp_path / "run")
    again = run(tmp_path / "run")
    assert str(again) == str(first)


@pytest.mark.parametrize("facts, options, message", [
    (FACTS + "\nQ(D)", {}, "was written with other databases"),
    (FACTS, {"prior_std": 2.0}, "was written with prior_std=100.0, not 2.0"),
    (FACTS, {"query": ["Q"]}, r"was written with query=\[\], not \['Q'\]"),
])
def test_a_checkpoint_of_another_run_is_rejected(tmp_path: Path, facts: str, options: dict, message: str) -> None:
    run(tmp_path / "run", max_iterations=1)
    before = (tmp_path / "run").read_bytes()
    with pytest.raises(LogicMPError, match=message):
        run(tmp_path / "run", facts, **options)
    assert (tmp_path / "run").read_bytes() == before


def test_a_checkpoint_of_other_rules_is_rejected(tmp_path: Path) -> None:
    run(tmp_path / "run", max_iterations=1)
    with pytest.raises(LogicMPError, match="was written with other rules\nhint: give another file name"):
        learn(str(THEORY) + "P(x) v Q(x)", [parse_facts(FACTS, THEORY)], checkpoint=tmp_path / "run")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 something else", b"\x02\0\0\0\0\0\0\0{}"])
def test_another_kind_of_file_is_rejected_and_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run"
    path.write_bytes(data)
    with pytest.raises(LogicMPError, match=r"cannot read a checkpoint from|is not a checkpoint of `learn`"):
        run(path)
    assert path.read_bytes() == data


def test_a_checkpoint_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match=r"^cannot write a checkpoint to .*No such file or directory"):
        run(tmp_path / "none" / "run")
