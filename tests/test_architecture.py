"""The rules of the house, read from the source with `ast`: what may import what, and where code may be."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures_reader import ROOT

PACKAGE = ROOT / "src/logicmp"
# a room imports itself and earlier rooms
ROOMS = ["errors", "arguments", "files", "limits", "page", "parse", "recipes", "facts", "normalize", "ground", "plan",
         "execute", "inference", "layer", "learning", "constrain", "estimator", "show", "demo", "serve", "cli"]
# next to the pipeline, with the rooms they may import
BESIDE = {"oracle": {"errors", "parse", "oracle"},
          "testing": {*ROOMS[: ROOMS.index("layer") + 1], "oracle", "testing"},
          "__init__": {*ROOMS, "oracle", "testing"}, "__main__": {"limits", "cli"}}
INSIDE_INFERENCE = ["method", "report", "answers", "moves", "search", "sampling", "exact", "bp", "hlmrf_loops", "hlmrf",
                    "tap", "mean_field", "auto", "run"]
TORCH = ("execute/", "layer.py", "estimator.py", "inference/exact/", "inference/search/tensors.py",
         "inference/mean_field.py", "inference/auto.py", "learning/", "constrain/", "demo/", "oracle/", "testing/")
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def room_of(file: str) -> str:
    return Path(file).parts[0].removesuffix(".py")


def tree_of(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"), file)


def imports(file: str) -> Iterator[str]:
    """Every module that a file imports when it runs, as its full name: `logicmp.parse.syntax`, `torch`.

    `from ..parse import syntax` counts as both `logicmp.parse` and `logicmp.parse.syntax`.
    """
    package = ["logicmp", *Path(file).parts[:-1]]
    tree = tree_of(file)
    # what only type checkers see is not imported
    hidden = {id(below) for node in ast.walk(tree) if isinstance(node, ast.If)
              and ast.unparse(node.test) == "TYPE_CHECKING" for below in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def own_rooms(file: str) -> set[str]:
    """The rooms of the package that a file imports."""
    found = (name.split(".")[1] for name in imports(file) if name.startswith("logicmp."))
    return {name for name in found if name in ROOMS or name in BESIDE}


def imports_from(file: str, package: str) -> bool:
    return any(name.split(".")[0] == package for name in imports(file))


@pytest.mark.parametrize("file", FILES)
def test_a_room_imports_only_earlier_rooms(file: str) -> None:
    room = room_of(file)
    assert room in ROOMS or room in BESIDE, f"{file} belongs to no room of {ROOMS}"
    allowed = BESIDE[room] if room in BESIDE else set(ROOMS[: ROOMS.index(room) + 1])
    late = own_rooms(file) - allowed
    assert not late, f"{file} imports {sorted(late)}, which come after {room}"


@pytest.mark.parametrize("file", [file for file in FILES if room_of(file) == "inference" and file.count("/")])
def test_methods_import_only_earlier_methods(file: str) -> None:
    part = Path(file).parts[1].removesuffix(".py")
    if part == "__init__":
        return
    assert part in INSIDE_INFERENCE, f"{file} has no place in the order of inference"
    found = {name.split(".")[2] for name in imports(file) if name.startswith("logicmp.inference.")}
    late = {name for name in found if name in INSIDE_INFERENCE[INSIDE_INFERENCE.index(part) + 1 :]}
    assert not late, f"{file} imports {sorted(late)}, which come after {part}"


@pytest.mark.parametrize("file", [file for file in FILES if file.endswith("/__init__.py")])
def test_a_package_only_exports(file: str) -> None:
    for node in tree_of(file).body[1:]:
        is_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        assert is_all or isinstance(node, ast.ImportFrom), f"{file}:{node.lineno} has code of its own"


@pytest.mark.parametrize("file", [file for file in FILES if file.endswith("__init__.py")])
def test_no_module_has_the_name_of_an_export(file: str) -> None:
    folder = (PACKAGE / file).parent
    modules = {path.stem for path in folder.glob("*.py")} | {path.name for path in folder.iterdir() if path.is_dir()}
    exported = {alias.asname or alias.name for node in ast.walk(tree_of(file)) if isinstance(node, ast.ImportFrom)
                and node.module for alias in node.names}
    assert not exported & modules, f"{file} exports {sorted(exported & modules)}, which are modules too"


@pytest.mark.parametrize("file", FILES)
def test_torch_and_numba_stay_where_they_are_needed(file: str) -> None:
    if not file.startswith(TORCH):
        assert not imports_from(file, "torch"), f"{file} imports torch"
    if not file.endswith("loops.py"):
        assert not imports_from(file, "numba"), f"{file} imports numba"


@pytest.mark.parametrize("file", [file for file in FILES if room_of(file) == "oracle"])
def test_the_oracle_calls_nothing_of_the_pipeline(file: str) -> None:
    allowed = ("logicmp.errors.", "logicmp.parse.", "logicmp.oracle.", "numpy.", "torch.")
    found = [name for name in imports(file)
             if name.split(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith(allowed)]
    assert not found, f"{file} imports {found}"


@pytest.mark.parametrize("file", FILES)
def test_every_module_opens_with_its_docstring(file: str) -> None:
    source = (PACKAGE / file).read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source, file)), f"{file} has no docstring"
    assert source.startswith(('"""', 'r"""')), f"{file} does not start with its docstring"


def test_the_reader_of_imports_sees_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan/steps.py").write_text(
        "import torch.nn as nn\nfrom ..execute.dense import run\nfrom .. import layer\nfrom . import passes\n"
        "def late():\n    from logicmp.cli import main\n")
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    assert set(imports("plan/steps.py")) >= {
        "torch.nn", "logicmp.execute.dense", "logicmp.layer", "logicmp.plan.passes", "logicmp.cli"}
    assert own_rooms("plan/steps.py") == {"execute", "layer", "plan", "cli"}
    assert imports_from("plan/steps.py", "torch")
