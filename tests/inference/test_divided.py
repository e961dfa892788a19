"""Inference where each process has its own facts only: the same answers as with all facts in one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logicmp import LogicMPError, infer, learn, load_facts, parse_theory
from logicmp.cli.app import app
from logicmp.facts import world
from logicmp.facts.columns import Evidence
from logicmp.facts.divided import Division
from logicmp.facts.stores import write_parts
from logicmp.inference.mean_field import MeanField
from logicmp.testing.thread_shares import run_shares

N = 14
DECLARED = """person = {0, ..., 13}
Friends(person, person)
Likes(person, person)
Smokes(person)
Cancer(person)
Knows(person, person)
"""
RULES = DECLARED + """
1.5 Smokes(x) => Cancer(x)
0.5 Friends(x, y) => (Smokes(x) <=> Smokes(y))
0.7 Friends(x, y) ^ Likes(y, z) ^ Smokes(x) => Cancer(z)
-0.3 Friends(x, x) ^ Smokes(x)
0.4 Friends(3, y) => Smokes(y)
0.6 Smokes(x) => EXIST y (Friends(x, y) ^ Cancer(y))
0.2 !Friends(x, y) ^ Smokes(x) => Cancer(y)
0.8 Friends(x, y) ^ x != y => Knows(x, y)
0.3 Likes(x, y) ^ Likes(y, z) ^ Smokes(x) => Smokes(z)
"""
QUERY = ["Smokes", "Cancer", "Knows", "Friends(x, y) ^ Smokes(x) ^ Cancer(y)"]


@pytest.fixture(autouse=True)
def sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeanField, "dense_atoms", 0)
    monkeypatch.setattr(world, "SPARSE_SHARE", 2.0)


def tables(seed: int, n: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, N, n), rng.integers(0, N, n)
    # one person has most friends
    one[: n // 3] = 3
    keys = np.unique(one * N + other)
    likes = np.unique(rng.integers(0, N * N, 20))
    return {"Friends": {"a": keys // N, "b": keys % N}, "Likes": {"a": likes // N, "b": likes % N},
            "Smokes": {"a": [0, 1, 5], "value": [1, 0, 1]}}


def divided(rules: str, facts: dict[str, Any], shares: Any, names: tuple[str, ...] = ("Friends",)) -> Evidence:
    return load_facts(facts, parse_theory(rules), division=Division(names, shares.share.rank, shares.share.size))


def check(n: int, facts: dict[str, Any], rules: str = RULES, query: Any = QUERY, names: tuple[str, ...] = ("Friends",),
          **options: Any) -> None:
    given: dict[str, Any] = {"closed": ["Friends", "Likes"], "correction": "none", **options}
    want = infer(rules, facts, query, "mean-field", **given)
    theory = parse_theory(rules)
    for got in run_shares(n, lambda shares: infer(theory, divided(rules, facts, shares, names), query, "mean-field",
                                                  shares=shares, **given)):
        assert dict(got) == pytest.approx(dict(want), rel=0, abs=1e-9)
        assert got.solution.status == want.solution.status
        assert got.solution.n_rows == want.solution.n_rows
        assert got.solution.elbo == pytest.approx(want.solution.elbo)
        assert list(got.describe())[:4] == list(want.describe())[:4]


@pytest.mark.parametrize("n, seed", [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1)])
def test_random_facts(n: int, seed: int) -> None:
    check(n, tables(seed), iterations=10, tolerance=0)


@pytest.mark.parametrize("options", [{"schedule": "paper"}, {"schedule": "adaptive"}, {"schedule": "cold"},
                                     {"restarts": 2, "iterations": 5, "tolerance": 0}], ids=str)
def test_every_schedule(options: dict[str, Any]) -> None:
    check(2, tables(5), **options)


def test_a_process_without_facts() -> None:
    check(3, {**tables(0), "Friends": {"a": [2], "b": [9]}}, iterations=20, tolerance=1e-3)


def test_no_process_has_facts() -> None:
    check(2, {**tables(0), "Friends": {"a": np.zeros(0, dtype=int), "b": np.zeros(0, dtype=int)}}, iterations=20,
          tolerance=1e-3)


def test_two_predicates_are_divided() -> None:
    rules = "\n".join(line for line in RULES.split("\n") if "Likes(y" not in line)
    check(3, tables(7), rules + "1 Likes(x, y) ^ Cancer(x) => Cancer(y)\n", names=("Friends", "Likes"), iterations=20,
          tolerance=1e-3)


def test_duckdb_joins_a_share() -> None:
    check(2, tables(1), iterations=10, tolerance=0, engine="duckdb")


def test_the_correction_needs_all_facts() -> None:
    theory, facts = parse_theory(RULES), tables(0)
    (found, _) = run_shares(2, lambda shares: infer(theory, divided(RULES, facts, shares), "Smokes", "mean-field",
                                                    shares=shares))
    assert "mean field without the TAP correction: no process has all facts of Friends" in found.notes


@pytest.mark.parametrize("rules, query, options, message", [
    ("1 Friends(x, y) ^ Friends(y, z) => Knows(x, z)", "Knows", {}, "this rule reads Friends more than once"),
    ("1 Smokes(x) => EXIST y (Friends(x, y) ^ Friends(y, x))", "Smokes", {}, "this rule reads Friends more than once"),
    ("Friends(x, y) ^ Friends(x, z) => y = z.", "Smokes", {}, "this rule reads Friends more than once"),
    ("1 Friends(x, y) => Knows(x, y)", "Friends(x, y) ^ Friends(y, x)", {}, "this rule reads Friends more than once"),
    ("1 Friends(x, y) ^ Likes(x, y) => Knows(x, y)", "Knows", {"closed": ["Friends", "Likes"]},
     "this rule reads Friends and Likes, so a process needs facts of others"),
    ("1 Friends(x, y) => Knows(x, y)", "Friends", {}, "divided over processes, but it is not closed"),
    ("1 Friends(x, y) => Knows(x, y)", "Knows", {"method": "bp"}, "method 'bp' needs all facts of Friends"),
    ("1 Friends(x, y) => Knows(x, y)", "Knows", {"reach": 1}, "reach needs all facts of Friends"),
])
def test_what_needs_all_facts_is_rejected(rules: str, query: str, options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"method": "mean-field", "closed": () if query == "Friends" else ["Friends"], **options}
    theory, facts = parse_theory(DECLARED + rules), tables(0)
    with pytest.raises(LogicMPError, match=message):
        run_shares(2, lambda shares: infer(theory, divided(DECLARED + rules, facts, shares, tuple(given["closed"]) or (
            "Friends",)), query, shares=shares, **given))


def test_a_share_alone_is_rejected() -> None:
    theory = parse_theory(RULES)
    facts = load_facts(tables(0), theory, division=Division(("Friends",), 0, 2))
    with pytest.raises(LogicMPError, match="facts of Friends are divided over processes, and this is one process"):
        infer(theory, facts, "Smokes", "mean-field")
    with pytest.raises(LogicMPError, match="database 1 has divided facts of Friends, and learning needs all of them"):
        learn(theory, [facts], relearn="all")


def test_a_checkpoint_resumes_with_another_number_of_processes(tmp_path: Any) -> None:
    theory, facts = parse_theory(RULES), tables(2)
    given: dict[str, Any] = {"closed": ["Friends", "Likes"], "checkpoint": str(tmp_path / "run.safetensors")}

    def run(n: int, **options: Any) -> Any:
        return run_shares(n, lambda shares: infer(theory, divided(RULES, facts, shares), "Smokes", "mean-field",
                                                  shares=shares, **given, **options))[0]

    want = infer(theory, load_facts(facts, theory), "Smokes", "mean-field",
                 closed=["Friends", "Likes"], correction="none")
    assert dict(run(2)) == pytest.approx(dict(want), rel=0, abs=1e-6)
    assert dict(run(3)) == pytest.approx(dict(want), rel=0, abs=1e-6)


def test_two_processes_from_the_command_line(tmp_path: Path) -> None:
    facts = tables(4)
    for name in ("Friends", "Likes"):
        write_parts(tmp_path / name, [facts[name]])
    (tmp_path / "facts.db").write_text("Smokes(0)\n!Smokes(1)\nSmokes(5)\n")
    (tmp_path / "model.mln").write_text(RULES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "logicmp", "infer", "-i", "model.mln", "-e", "facts.db", "-e", "Friends=Friends/",
               "-e", "Likes=Likes/", "-q", "Smokes,Cancer", "-cw", "Friends,Likes", "-m", "mean-field", "--distributed",
               "--divide", "Friends"]
    started = [subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={
        **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port)}) for rank in range(2)]
    (out, err), (none, _) = [process.communicate(timeout=100) for process in started]
    assert [process.returncode for process in started] == [0, 0], err
    assert f"{len(facts['Friends']['a']):,} true atoms of 196 atoms" in err and none == ""
    theory = parse_theory(RULES)
    want = infer(theory, load_facts(facts, theory), ["Smokes", "Cancer"], "mean-field", closed=["Friends", "Likes"],
                 correction="none")
    found = dict(line.split() for line in out.splitlines())
    assert {atom: float(p) for atom, p in found.items()} == pytest.approx(dict(want), abs=1e-5)


def test_a_share_needs_other_processes(tmp_path: Path) -> None:
    (tmp_path / "model.mln").write_text(RULES)
    with pytest.raises(LogicMPError, match="--divide needs --distributed: one process has all facts"):
        app(["infer", "-i", str(tmp_path / "model.mln"), "-q", "Smokes", "--divide", "Friends"], standalone_mode=False)
    for option in (["--check"], ["--report", str(tmp_path / "out.html")]):
        with pytest.raises(LogicMPError, match=f"{option[0]} reads all facts, and with --divide no process has them"):
            app(["infer", "-i", str(tmp_path / "model.mln"), "-q", "Smokes", "--distributed", "--divide", "Friends",
                 *option], standalone_mode=False)
