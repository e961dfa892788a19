"""The files around the code agree with it: workflow, pre-commit hooks, issue forms, citation."""

from __future__ import annotations

import importlib
import re
import runpy
from typing import Any

import pytest
import yaml
from fixtures_reader import ROOT

PROJECT = dict(re.findall(r'^([\w-]+) = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_workflow_runs_every_supported_python() -> None:
    # no upper limit: a version that is not in the list may work
    (first,) = re.findall(r"^>=3\.(\d+)$", PROJECT["requires-python"])
    listed = re.findall(r"Programming Language :: Python :: 3\.(\d+)", (ROOT / "pyproject.toml").read_text())
    assert listed[0] == first
    job = read(".github/workflows/test.yml")["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == [f"3.{minor}" for minor in listed]
    setup = next(step for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    assert setup["with"]["python-version"] == "${{ matrix.python }}"
    assert setup["with"]["cache"] == "pip"


def test_the_workflow_runs_targets_that_exist() -> None:
    commands = [step["run"] for step in read(".github/workflows/test.yml")["jobs"]["test"]["steps"] if "run" in step]
    targets = [command.removeprefix("make ") for command in commands if command.startswith("make ")]
    assert targets == ["test", "wheel", "docs"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_the_hooks_run_the_tools_of_the_environment() -> None:
    # a hook with a version of its own could disagree with `make lint`
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert {hook["id"]: (hook["entry"].split()[0], hook["language"]) for hook in repository["hooks"]} == {
        "ruff": (".venv/bin/ruff", "system"), "mypy": (".venv/bin/mypy", "system")}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_is_complete(path: Any) -> None:
    form = read(str(path.relative_to(ROOT)))
    assert form["name"] and form["description"]
    assert all(field["type"] == "textarea" and field["attributes"]["label"] for field in form["body"])
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names))
    assert "logicmp --version --verbose" in next(
        field["attributes"]["description"] for field in form["body"] if field["id"] == "versions")


def test_there_is_a_form_for_a_bug_and_for_a_rule() -> None:
    assert [path.name for path in FORMS] == ["bug.yml", "rule.yml"]
    rule = [field["id"] for field in read(".github/ISSUE_TEMPLATE/rule.yml")["body"]]
    assert rule[:2] == ["rules", "tensor"] and "expected" in rule


def test_the_citation_is_of_this_version_and_names_the_paper() -> None:
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0" and citation["message"] and citation["authors"]
    assert citation["version"] == PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {citation['version']} - {citation['date-released']}" in changelog
    (paper,) = citation["references"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert paper["url"] in readme and paper["title"].removeprefix("LogicMP: ") in readme
    authors = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    assert authors in readme


def find(path: str) -> Any:
    """A module, or a name in one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(find(module), name)


def test_every_new_name_of_the_changelog_can_be_imported() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `logicmp\.[^|]+\| ([^|]+) \|$", changelog, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(logicmp[\w.]*)`", row)]
    assert len(names) > 40
    for name in names:
        assert find(name) is not None


def test_every_extra_for_users_is_on_the_page_and_looked_up() -> None:
    wheels = runpy.run_path(str(ROOT / ".ci/wheels.py"))
    assert {"map", "plot"} < {*wheels["EXTRAS"]}
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert [name for name in wheels["EXTRAS"] if f"| `logicmp[{name}]` |" not in page] == []
    assert wheels["try_python"]("python-that-does-not-exist", ROOT) == ("not installed here", False)
