"""The programs that the page shows compute what the page shows."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logicmp import infer
from logicmp.serve.examples import EXAMPLES
from logicmp.serve.programs import python_program, shell_commands

DEFAULTS: dict[str, Any] = {"facts": "", "query": "", "method": "auto", "semantics": "exact", "iterations": 6,
                            "damping": 0.5, "temperature": 1.0, "seed": 0}
LAYER: dict[str, Any] = {"method": "layer", "iterations": 4, "damping": 0.25, "temperature": 0.5}


def ask(example: Any = EXAMPLES[0], **options: Any) -> dict[str, Any]:
    return {**DEFAULTS, "rules": example.rules, "facts": example.facts, "query": example.query, **options}


def run(program: str) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "<program>", "exec"), {})
    return out.getvalue().splitlines()


@pytest.mark.parametrize("options", [{}, LAYER, {"method": "bp", "semantics": "alchemy", "seed": 3}], ids=str)
def test_the_python_program_prints_the_answers(options: dict[str, Any]) -> None:
    asked = ask(**options)
    method = {"layer": "mean-field"}.get(asked["method"], asked["method"])
    more = {"iterations": 4, "damping": 0.25, "tolerance": 0.0, "correction": "none", "temperature": 0.5} \
        if asked["method"] == "layer" else {}
    expected = infer(asked["rules"], asked["facts"], asked["query"], method, semantics=asked["semantics"],
                     seed=asked["seed"], **more)
    assert run(python_program(asked)) == [f"{p:.4f}  {atom}" for atom, p in expected.items()]


@pytest.mark.parametrize("rules", ['P(t)\n1 P("a\\"b")', "P(t)\n1 P(A) // \"\"\"", "P(t)\r\n1 P(A)", "P(t)\n1 P(A)\\\n",
                                   "P(t)\n1 P(A) // \u2028 \x07"], ids=repr)
def test_any_text_reads_back_as_itself(rules: str) -> None:
    program = python_program({**DEFAULTS, "rules": rules})
    found: dict[str, Any] = {}
    exec(program.partition("\nfound =")[0], found)
    assert found["RULES"] in (rules, f"{rules}\n")


def test_the_commands_survive_bash_and_print_the_answers(tmp_path: Path) -> None:
    asked = ask(**LAYER, query="Smokes, Cancer(x) ^ !Smokes(x)")
    asked["rules"] = f"// $HOME `touch proof` 'quoted'\n// \nEND\n{asked['rules']}".replace("\nEND\n", "\n//END\n")
    (tmp_path / "bin").mkdir()
    logicmp = tmp_path / "bin/logicmp"
    logicmp.write_text(f"#!/bin/sh\nexec {sys.executable} -m logicmp \"$@\"\n")
    logicmp.chmod(0o755)
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "-c", shell_commands(asked)], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    printed = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    expected = infer(asked["rules"], asked["facts"], asked["query"], "mean-field", iterations=4, damping=0.25,
                     tolerance=0.0, correction="none", temperature=0.5)
    assert {atom: float(p) for atom, p in printed.items()} == pytest.approx(dict(expected), abs=1e-5)
    assert (tmp_path / "rules.mln").read_text() == asked["rules"] and not (tmp_path / "proof").exists()


def test_the_mark_of_an_end_is_no_line_of_the_text() -> None:
    assert "<<'END2'\n" in shell_commands({**DEFAULTS, "rules": "END\nEND1\n"})
