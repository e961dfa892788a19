"""How far a reader has to walk: the files that a rule goes through, counted with a profiler.

A walk is the order in which functions of the package are first entered. Nouns (values that others pass around) and
services (errors, files, limits, warnings, progress) are not on the plot: nobody has to open them to follow a rule.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import dataclass

from fixtures_reader import ROOT

NOUNS = {"parse/syntax.py", "parse/theory.py", "parse/numerals.py", "facts/columns.py", "normalize/cubes.py",
         "ground/literals.py", "ground/network.py", "plan/steps.py", "execute/state.py", "execute/schedule.py",
         "inference/method.py"}
SERVICES = {"errors.py", "arguments.py", "files.py", "limits.py", "page.py", "normalize/budget.py", "execute/report.py",
            "show/progress.py"}
# runs in a process of its own
PROFILER = """
import contextlib, io, json, sys
from pathlib import Path
import logicmp
root = str(Path(logicmp.__file__).parent) + "/"
order = {}
def profile(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and code.co_name != "<module>":
        order.setdefault((code.co_filename.removeprefix(root), code.co_qualname))
def walk(run):
    sys.setprofile(profile)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run()
    finally:
        sys.setprofile(None)
    print(json.dumps([file for file, _ in order]))
"""
LAYER = """
import torch, logicmp.layer
logits = torch.randn(4, 4, requires_grad=True)
walk(lambda: logicmp.LogicMP("2 C(a,b) ^ C(b,c) => C(a,c)")(logits).sum().backward())
"""
COMMAND = """
from logicmp.cli.app import app
words = ["infer", "-i", "examples/smokers.mln", "-e", "examples/smokers.db", "-q", "Smokes"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    # once before, so that importing modules is not part of the walk
    app(words, standalone_mode=False)
walk(lambda: app(words, standalone_mode=False))
"""


@dataclass(frozen=True)
class Walk:
    """The files of a walk in order, without repetition of neighbours."""

    turns: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(self.turns))

    @property
    def n_room_changes(self) -> int:
        rooms = [file.split("/")[0] for file in self.turns]
        return sum(one != other for one, other in itertools.pairwise(rooms))


def walk(script: str, first: str) -> Walk:
    """The part of a walk that begins in the first file."""
    command = [sys.executable, "-c", PROFILER + script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    order = [file for file in json.loads(done.stdout) if file not in NOUNS | SERVICES]
    order = order[order.index(first) :]
    return Walk(tuple(file for k, file in enumerate(order) if k == 0 or order[k - 1] != file))


def test_a_rule_from_text_to_gradient() -> None:
    found = walk(LAYER, "layer.py")
    assert found.files == [
        "layer.py", "execute/solve.py", "parse/load.py", "parse/tokens.py", "parse/reader.py", "parse/resolve.py",
        "execute/plans.py", "execute/mean_field.py", "execute/inputs.py", "normalize/build.py", "normalize/expand.py",
        "normalize/meet.py", "plan/build.py", "plan/values.py", "plan/adjoint.py", "execute/dense.py",
        "execute/receive.py", "execute/operations.py", "execute/marginals.py", "execute/strength.py"]
    assert len(found.files) <= 20
    # to be made, and to be called
    assert found.turns.count("layer.py") <= 2
    assert found.n_room_changes <= 8


def test_a_query_from_files_to_answers() -> None:
    found = walk(COMMAND, "cli/infer.py")
    assert found.files == [
        "cli/infer.py", "parse/load.py", "parse/tokens.py", "parse/reader.py", "parse/resolve.py", "facts/db.py",
        "facts/collect.py", "parse/query.py", "inference/run.py", "facts/world.py", "ground/exclusive.py",
        "inference/auto.py", "inference/exact/method.py", "ground/build.py", "normalize/build.py",
        "normalize/expand.py", "ground/join.py", "inference/exact/structures.py", "inference/answers.py",
        "show/answers.py"]
    assert len(found.files) <= 20
