"""Install the built wheel in an empty environment of every Python, and say which extras have wheels there.

    python .ci/wheels.py dist/logicmp-0.2.0-py3-none-any.whl python3.11 python3.12 ...

A Python that is not installed is named, and its extras are looked up all the same. Exits with 1 if a Python that is
installed cannot install or run the wheel.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# those of logicmp[all]
EXTRAS = PROJECT["optional-dependencies"]["all"][0].removeprefix("logicmp[").removesuffix("]").split(",")
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", str(ROOT / "constraints.txt"))
LAYER = "import torch, logicmp; print(logicmp.LogicMP('2 C(a,b) ^ C(b,c) => C(a,c)')(torch.ones(3, 3)).shape)"
RUNS = (("logicmp", "--version"),
        ("logicmp", "infer", "-i", "examples/smokers.mln", "-e", "examples/smokers.db", "-q", "Smokes"),
        ("python", "-c", LAYER))


def run(*command: Any) -> tuple[bool, str]:
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def try_python(python: str, wheel: Path) -> tuple[str, bool]:
    """What happened to the wheel under a Python, and whether that is an error."""
    try:
        is_there, _ = run(python, "-c", "import venv")
    except FileNotFoundError:
        is_there = False
    if not is_there:
        return "not installed here", False
    with tempfile.TemporaryDirectory() as folder:
        steps = [(python, "-m", "venv", folder), (f"{folder}/bin/python", *PIP, wheel)]
        for command in (*steps, *((f"{folder}/bin/{program}", *more) for program, *more in RUNS)):
            is_done, text = run(*command)
            if not is_done:
                return f"failed: {' '.join(map(str, command))}: {text[-300:]}", True
    return "installed, runs", False


def find_missing(version: str, requirements: list[str]) -> list[str]:
    """The requirements that have no wheel for a Python, at the versions of constraints.txt."""
    look_up = ("--dry-run", "--no-deps", "--ignore-installed", "--only-binary=:all:", "--target", "unused")
    return [found for found in requirements
            if not run(sys.executable, *PIP, *look_up, "--python-version", version, found)[0]]


def main(wheel: Path, pythons: list[str]) -> int:
    has_failed, parts = False, {"logicmp": PROJECT["dependencies"]}
    parts |= {f"logicmp[{extra}]": PROJECT["optional-dependencies"][extra] for extra in EXTRAS}
    for python in pythons:
        (version,) = re.findall(r"3\.\d+", Path(python).name) or [run(python, "-c", (
            "import sys; print('%d.%d' % sys.version_info[:2])"))[1]]
        found, is_error = try_python(python, wheel)
        has_failed |= is_error
        print(f"Python {version}: {found}", flush=True)
        for part, requirements in parts.items():
            missing = find_missing(version, requirements)
            print(f"  {part}: {'no wheel of ' * bool(missing) + ', '.join(missing) or 'all wheels'}", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
