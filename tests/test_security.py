"""SECURITY.md: the tests that it names exist, and hostile input runs no code."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures_reader import ROOT

TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
CITED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))
SECTIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("path, name", CITED)
def test_a_cited_test_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_cites_a_test() -> None:
    assert [section.split("\n")[0] for section in SECTIONS] == [
        "Rules and facts", "Saved layers and checkpoints", "Time and memory", "Files you write", "The playground",
        "Report a problem"]
    for section in SECTIONS[:-1]:
        promises = re.findall(r"^- .*(?:\n  .*)*", section, re.MULTILINE)
        assert promises
        assert all("`tests/" in promise for promise in promises), section


# Runs in a process of its own, because an audit hook cannot be removed. The events that Python reports when code is run
# from data, a program is started, or a file is opened are printed.
WATCHED = """
import json, pickle, sys
from pathlib import Path
from logicmp import LogicMP, LogicMPError, infer, load_theory, load_facts, parse_theory
from logicmp.learning.checkpoint import load_checkpoint

# everything is imported before the hook is set
Path("warm").write_text("log(2) P(A)")
load_theory("warm")
Path("warm_facts").write_text('P("A B")\\nP(C)')
load_facts("warm_facts", parse_theory("P(t)"))
LogicMP("1 P(x) v Q(x)").save("layer")
LogicMP.load("layer")
events = []
def hook(event, args):
    if event in ("exec", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pickle.find_class", "import"):
        events.append([event, str(args[:1])])
    elif event == "open" and isinstance(args[0], str):
        events.append([event, args[0]])
sys.addaudithook(hook)
n_errors = 0
for name in sys.argv[1:]:
    for read in (load_theory, lambda path: load_facts(path, parse_theory("P(t)")), LogicMP.load,
                 lambda path: load_checkpoint(Path(path), {})):
        try:
            read(name)
        except LogicMPError:
            n_errors += 1
print(json.dumps([n_errors, events]))
"""


def watch(folder: Path, *names: str) -> tuple[int, list[list[str]]]:
    """Read files in every way; returns how many were rejected, and what else happened."""
    run = subprocess.run([sys.executable, "-c", WATCHED, *names], cwd=folder, capture_output=True, check=True)
    n_errors, events = json.loads(run.stdout)
    return n_errors, events


def test_hostile_input_runs_no_code(tmp_path: Path) -> None:
    hostile = {
        "weight": b'__import__("os").system("touch proof") P(x)\n',
        "arithmetic": b'log(__import__("os").system("touch proof")) P(x)\n',
        "format": b"{0.__class__.__mro__} P(x)\n%(os)s P(x)\n",
        "string": b'P("$(touch proof)")\nP("`touch proof`")\n',
        # what pickle would call: os.system("touch proof")
        "pickle": b"cos\nsystem\n(S'touch proof'\ntR.",
        "tensors": b"\x80\x02cos\nsystem\nX\x0b\x00\x00\x00touch proof\x85R.",
    }
    for name, content in hostile.items():
        (tmp_path / name).write_bytes(content)
    n_errors, events = watch(tmp_path, *hostile)
    # only the strings are a theory, and facts
    assert n_errors == 4 * len(hostile) - 2
    assert {(event, what) for event, what in events} == {("open", name) for name in hostile}
    assert not (tmp_path / "proof").exists()


def test_only_an_include_opens_another_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("Q(t)\n1 Q(x)")
    (tmp_path / "plain").write_text('P(t)\n1 P("secret") v P("/etc/passwd")\n// #include "secret"\n')
    (tmp_path / "including").write_text('#include "secret"\n')
    assert {what for _, what in watch(tmp_path, "plain")[1]} == {"plain"}
    n_errors, events = watch(tmp_path, "including")
    # as facts it is rejected before the other file is opened
    assert n_errors == 3
    assert [what for event, what in events if what == "secret"] == ["secret"]
