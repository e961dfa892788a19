"""What is imported when: heavy packages only for what needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(code: str, folder: Path, *words: str) -> str:
    """The output of a Python program of its own."""
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_imports_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
import logicmp
assert "infer" in dir(logicmp)
print([name for name in ("torch", "numpy", "opt_einsum", "lark", "typer") if name in sys.modules])
"""
    assert run(code, tmp_path) == "[]\n"


# lifted-bp is bp on a smaller graph
@pytest.mark.parametrize("method", ["bp", "lifted-bp", "gibbs", "mc-sat", "map", "hl-mrf"])
def test_a_method_without_tensors_runs_without_torch(tmp_path: Path, method: str) -> None:
    (tmp_path / "model.mln").write_text("person = {Anna, Bob}\nSmokes(person)\nCancer(person)\n"
                                        "1.5 Smokes(x) => Cancer(x)\n2 Cancer(x)\nCancer(Anna) v Cancer(Bob).\n")
    (tmp_path / "facts.db").write_text("Smokes(Anna)\n")
    code = """
import sys
sys.modules["torch"] = None
from logicmp.cli.app import main
main()
"""
    out = run(code, tmp_path, "infer", "-i", "model.mln", "-e", "facts.db", "-q", "Cancer, Cancer(x) ^ Smokes(x)", "-m",
              method)
    answers = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert list(answers) == ["Cancer(Anna)", "Cancer(Bob)", "Cancer(Anna) ^ Smokes(Anna)", "Cancer(Bob) ^ Smokes(Bob)"]
    assert float(answers["Cancer(Anna)"]) > 0.9
