"""The folders are the pipeline: what may import what, read from the source with `ast`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "src/logicmp"
STAGES = ["errors", "parse", "normalize", "plan", "execute", "layer", "ground", "infer", "learn", "cli"]
# the generators of random theories stand beside the pipeline and are shipped with it
# and so does what makes two of the folders callable
ALLOWED = {"testing": {"errors", "parse", "testing"}, "modules": set(), "__init__": {*STAGES, "testing"}}
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def stage_of(file: str) -> str:
    return Path(file).parts[0].removesuffix(".py")


def imports(file: str) -> Iterator[str]:
    """Every module that a file imports anywhere, as its full name: `logicmp.parse.syntax`, `torch`.

    `from ..parse import syntax` counts as both `logicmp.parse` and `logicmp.parse.syntax`.
    """
    package = ["logicmp", *Path(file).parts[:-1]]
    for node in ast.walk(ast.parse((PACKAGE / file).read_text(encoding="utf-8"), file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def own_stages(file: str) -> set[str]:
    """The stages of the package that a file imports."""
    found = (name.split(".")[1] for name in imports(file) if name.startswith("logicmp."))
    # `from .. import x` may import a name that the package itself defines
    return {name for name in found if name in STAGES or name in ALLOWED}


@pytest.mark.parametrize("file", FILES)
def test_a_stage_imports_only_earlier_stages(file: str) -> None:
    stage = stage_of(file)
    assert stage in STAGES or stage in ALLOWED, f"{file} belongs to no stage of {STAGES}"
    allowed = ALLOWED[stage] if stage in ALLOWED else set(STAGES[: STAGES.index(stage) + 1])
    late = own_stages(file) - allowed - {"modules"}
    assert not late, f"{file} imports {sorted(late)}, which come after {stage}"
    if stage != "__init__":
        assert "logicmp" not in imports(file), f"{file} imports the package as a whole"


@pytest.mark.parametrize("file", [file for file in FILES if stage_of(file) in {"errors", "parse", "normalize", "plan"}])
def test_torch_comes_after_the_plan(file: str) -> None:
    assert not (found := [name for name in imports(file) if name.split(".")[0] == "torch"]), f"{file} imports {found}"


@pytest.mark.parametrize("file", ["execute/grounding.py", "execute/reference.py"])
def test_the_oracle_calls_nothing_of_the_pipeline(file: str) -> None:
    allowed = ("logicmp.errors.", "logicmp.parse.", "logicmp.execute.grounding.", "numpy.", "torch.")
    found = [name for name in imports(file)
             if name.split(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith(allowed)]
    assert not found, f"{file} imports {found}"


@pytest.mark.parametrize("file", FILES)
def test_every_module_opens_by_saying_where_it_stands(file: str) -> None:
    source = (PACKAGE / file).read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source, file)), f"{file} has no docstring"
    assert source.startswith(('"""', 'r"""')), f"{file} does not start with its docstring"


def test_the_reader_of_imports_sees_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan/steps.py").write_text(
        "import torch.nn as nn\nfrom ..execute.dense import run\nfrom .. import layer\nfrom . import passes\n"
        "def late():\n    from logicmp.cli import main\n")
    monkeypatch.setattr("test_architecture.PACKAGE", tmp_path)
    assert set(imports("plan/steps.py")) >= {
        "torch.nn", "logicmp.execute.dense", "logicmp.layer", "logicmp.plan.passes", "logicmp.cli"}
    assert own_stages("plan/steps.py") == {"execute", "layer", "plan", "cli"}
