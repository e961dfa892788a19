"""Every page runs, type-checks and links to something: README, docs/, and the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml
from fixtures_reader import ROOT

import logicmp


def load_script(name: str) -> ModuleType:
    """A script of docs/, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    # dataclasses and NamedTuples look their module up
    sys.modules[name] = script
    spec.loader.exec_module(script)
    return script


make_cli, make_outputs, make_picture, make_site = (
    load_script(name) for name in ("make_cli", "make_outputs", "make_picture", "make_site"))
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.py"))
READMES = [ROOT / "CONTRIBUTING.md", ROOT / "benchmarks/README.md", *sorted((ROOT / "experiments").glob("*/README.md"))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a page, with the examples that a clone has."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize("path", make_outputs.PAGES, ids=lambda path: path.name)
@pytest.mark.usefixtures("folder")
def test_a_page_prints_what_it_shows(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert make_outputs.run_page(page, path.name) == page, "run: python docs/make_outputs.py"


@pytest.mark.parametrize("page", [
    "```python\nprint(1)\n```\n\n```text\n2\n```\n",
    "```python\nx = 1\n```\n```text\n1\n```\n",
    "```console\n$ cat a.mln\n1 P(x)\n$ logicmp explain a.mln\nsomething else\n```\n",
    "```console\n$ logicmp explain missing.mln\n```\n",
    "```console\n$ cat examples/smokers.db\nSmokes(Bob)\n```\n",
])
@pytest.mark.usefixtures("folder")
def test_a_page_with_another_output_is_noticed(page: str) -> None:
    assert make_outputs.run_page(page, "wrong.md") != page


@pytest.mark.parametrize("page", [
    "```python\n1 / 0\n```\n", "```mln\n1 P(x\n```\n", "```mln\n1 P(x)\n```\n```db\nQ(A)\n```\n"])
@pytest.mark.usefixtures("folder")
def test_a_page_with_an_error_fails(page: str) -> None:
    with pytest.raises((ZeroDivisionError, logicmp.LogicMPError)):
        make_outputs.run_page(page, "wrong.md")


RIGHT = """
```python
x = 1
print(x)
```
```text
1
```
In between.
```console
$ cat a.mln
1 P(x) => P(y)
$ cat a.mln | logicmp explain -
1 P(x) => P(y)
  + P(x) !P(y) [x!=y]
$ make something
never looked at
```
```python
assert x == 1 and open("a.mln").read() == "1 P(x) => P(y)\\n"
```
"""


@pytest.mark.usefixtures("folder")
def test_a_right_page_stays_as_it_is() -> None:
    assert make_outputs.run_page(RIGHT, "right.md") == RIGHT


def shell_lines(page: str) -> list[str]:
    """What a reader may copy into a shell: `$` lines, examples in help texts, blocks, commands in a sentence."""
    lines = re.findall(r"^(?:\$ | +(?=(?:cat|logicmp|python) ))(.+)$", page, re.MULTILINE)
    lines += re.findall(r"^```(?:bash|sh)\n(.+?)^```", page, re.MULTILINE | re.DOTALL)
    text = re.sub(make_outputs.FENCE, "", page)
    return lines + [line.replace(" ...", "") for line in re.findall(
        r"`((?:logicmp|python|pip|torchrun|curl) [^`]+)`", text)]


def is_shell(line: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", line], capture_output=True).returncode == 0


@pytest.mark.parametrize("path", [*make_outputs.PAGES, *READMES], ids=lambda path: str(path.relative_to(ROOT)))
def test_bash_accepts_every_command(path: Path) -> None:
    wrong = [line for line in shell_lines(path.read_text(encoding="utf-8")) if not is_shell(line)]
    assert wrong == []


def test_commands_are_found_and_a_wrong_one_is_noticed() -> None:
    page = '$ logicmp infer -q "A(x)"\nA(B) 1\n\n      logicmp infer -q A(x)\n'
    assert shell_lines(page) == ['logicmp infer -q "A(x)"', "logicmp infer -q A(x)"]
    assert [is_shell(line) for line in shell_lines(page)] == [True, False]
    page = "`logicmp check a.mln ...` or `logicmp infer -q A(x)`\n\n```sh\nlogicmp infer -q 'A(x)' \\\n  -m bp\n```\n"
    assert [is_shell(line) for line in shell_lines(page)] == [True, True, False]


def check_types(pages: dict[str, str], folder: Path) -> str:
    """What mypy reports on the Python blocks of all pages, those of one page joined to one module."""
    package = folder / "pages"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, page in pages.items():
        blocks = [block.text for block in make_outputs.read_blocks(page) if block.language == "python"]
        (package / f"{re.sub(r'[^a-z]', '_', name.lower())}.py").write_text("\n\n".join(blocks), encoding="utf-8")
    # the options are those of `make lint`, so that both share one cache
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(package)], cwd=ROOT,
                             env={**os.environ, "MYPYPATH": "src"}, capture_output=True, text=True)
    # torch has no types for Tensor.backward
    return "\n".join(line for line in (checked.stdout + checked.stderr).splitlines()
                     if 'untyped function "backward"' not in line)


def test_mypy_accepts_all_examples(tmp_path: Path) -> None:
    assert check_types({path.stem: path.read_text(encoding="utf-8") for path in make_outputs.PAGES}, tmp_path) == ""


def test_mypy_notices_a_wrong_example(tmp_path: Path) -> None:
    page = "```python\nfrom logicmp import infer\n```\n\nThen:\n\n```python\ninfer(1)\n```\n"
    assert "infer" in check_types({"wrong": page}, tmp_path)


def anchors(page: str) -> set[str]:
    """The headings of a page as a browser addresses them."""
    text = re.sub(make_outputs.FENCE, "", page)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("path", [*make_outputs.PAGES, *READMES], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    page = re.sub(make_outputs.FENCE, "", path.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", page):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    # the last one is a list of links for those who know its old address
    names = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md", "markov-logic.md"}
    assert {name for name in names if f"]({name})" not in index} == set()


def test_the_readme_is_short_and_names_the_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") <= 180
    assert "`make test`" in readme and "`make demo`" in readme


def test_the_page_of_the_command_line_is_current() -> None:
    assert make_cli.PAGE.read_text(encoding="utf-8") == make_cli.build_page(), "run: python docs/make_cli.py"


def test_the_pictures_are_what_the_demo_draws(tmp_path: Path) -> None:
    assert doctest.testmod(make_picture).failed == 0
    make_picture.draw(tmp_path)
    # the others: commands of the experiments, python -m benchmarks scale --plot, and the browser's
    others = {"conll.png", "funsd.png", "hierarchies.png", "playground.png", "relational.png", "scale.png"}
    stored_names = {path.name for path in make_picture.IMAGES.iterdir()} - others
    assert {path.name for path in tmp_path.iterdir()} == stored_names
    for path in tmp_path.iterdir():
        now, stored = (make_picture.imread(folder / path.name) for folder in (tmp_path, make_picture.IMAGES))
        assert now.shape == stored.shape, "run: python docs/make_picture.py"
        # rounding may differ between machines and move a word to another block; the page stays the same
        assert np.mean(np.any(np.abs(now - stored) > 0.05, -1)) < 0.05, "run: python docs/make_picture.py"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch,
                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(path))
    assert capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n# # Notebook: ")
    for link in re.findall(r"\]\(\.\./([^)#]+)\)", text):
        assert (ROOT / "docs" / link).exists()


def test_the_site_has_every_page_and_every_public_name() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    shelves = [page for entry in site["nav"] for page in (*entry.values(),)]
    named = {name for shelf in shelves for name in ([shelf] if isinstance(shelf, str) else shelf)}
    pages = {*make_site.find_sources().values(), "api.md", *(f"notebooks/{path.stem}.md" for path in NOTEBOOKS)}
    assert named == pages - {"markov-logic.md"}
    reference = make_site.write_reference()
    assert {name for name in logicmp.__all__ if f".{name}\n" not in reference} == set()
    assert re.findall(r"^::: logicmp\.recipes\.(\w+)$", reference, re.MULTILINE) == [
        "bio", "bioes", "hierarchy", "equivalence", "order", "exactly_one", "matching", "same_label"]


def test_links_of_the_repository_become_links_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_site, "PAGES", tmp_path)
    sources = make_site.find_sources()
    text = ROOT / "experiments/text/README.md"
    page = "[a](../../docs/layer.md#b) [c](adjacent.mln) [d](results) [e](https://example.org) [f](../documents)"
    assert make_site.move_links(page, text, sources) == (
        "[a](../layer.md#b) [c](text/adjacent.mln) d [e](https://example.org) [f](documents.md)")
    assert (tmp_path / "experiments/text/adjacent.mln").exists()


def test_a_link_of_the_site_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="x"></h1><a href="b.html#y">1</a><a href="#x">2</a><img src="c.png">')
    (tmp_path / "b.html").write_text('<a href="a.html#x">3</a><a href="https://example.org">4</a>')
    assert list(make_site.find_broken_links(tmp_path)) == [
        "a.html: b.html#y: the page has no such anchor", "a.html: c.png: there is no such file"]


@pytest.mark.parametrize("module", [
    "logicmp", *(found.name for found in pkgutil.walk_packages(logicmp.__path__, "logicmp."))])
def test_examples_in_docstrings(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
