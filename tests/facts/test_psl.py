"""PSL's rules and data files, as its own programs write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from logicmp import LogicMPError
from logicmp.facts.psl import read_psl

RULES = """\
// people
1.5: Friends(X, Y) & Smokes(X) -> Smokes(Y) ^2
0.7: ~Smokes(X)   # most people
Smokes(Y) <- Friends(X, Y) && Smokes(X) .
0.6: Lives(X, 'Rome') >> Smokes(X)
0.1: Lives(X, 'a = 1 // b # c') >> Smokes(X)
2.0: Lives(A, C) & Lives(B, C) & A != B -> Friends(A, B)
Lives(X, +C) = 1 .
1: Smokes(+X) >= 3
0.5: 0.3 * Smokes(X) + Friends(X, Y) <= 1
"""
DATA = """\
predicates:
  Friends/2: closed
  Smokes/1: open
  Lives/2: open

observations:
  Friends: friends.txt

targets:
  Smokes: smokes.txt
  Lives: lives.txt
"""


def write(folder: Path, rules: str = RULES, data: str = DATA) -> Path:
    files = {"model.psl": rules, "model.data": data, "friends.txt": "Anna\tBob\nBob\tCarl\t0.5\n",
             "smokes.txt": "Anna\nDora\n", "lives.txt": "Anna\tOslo\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_rules_and_data_are_read(tmp_path: Path) -> None:
    theory, facts, notes = read_psl(write(tmp_path))
    assert [str(predicate) for predicate in theory.predicates] == ["*Friends(t1, t1)", "Smokes(t1)", "Lives(t1, t2!)"]
    assert [str(rule) for rule in theory.rules] == [
        "1.5 Friends(x, y) ^ Smokes(x) => Smokes(y)", "0.7 !Smokes(x)", "Friends(x, y) ^ Smokes(x) => Smokes(y).",
        "0.6 Lives(x, Rome) => Smokes(x)", '0.1 Lives(x, "a = 1 // b # c") => Smokes(x)',
        "2 Lives(a, c) ^ Lives(b, c) ^ a != b => Friends(a, b)"]
    assert set(facts.theory.type["t1"].constants) == {"Anna", "Bob", "Carl", "Dora"}
    assert set(facts.theory.type["t2"].constants) == {"Rome", "a = 1 // b # c", "Oslo"}
    assert facts.tables["Friends"].values.tolist() == [1.0, 0.5]
    assert [note.rpartition(": ")[2] for note in notes] == [
        "the loss is squared in PSL; a weight here is linear", "an arithmetic rule", "an arithmetic rule"]


@pytest.mark.parametrize("rules, data, message", [
    (RULES, DATA.replace("  Lives: lives.txt", "  Likes: lives.txt"), "predicate 'Likes' has targets, but no"),
    (RULES, DATA.replace("lives.txt", "none.txt"), "cannot read"),
    (RULES, "predicates\n", "line 1: expected a section or an entry, got 'predicates'"),
    (RULES, DATA.replace("lives.txt", "smokes.txt"), "smokes.txt: 1 fields, expected 2, because Lives/2"),
])
def test_wrong_files_are_named(tmp_path: Path, rules: str, data: str, message: str) -> None:
    with pytest.raises(LogicMPError, match=message):
        read_psl(write(tmp_path, rules, data))


def test_a_folder_needs_one_model(tmp_path: Path) -> None:
    with pytest.raises(LogicMPError, match=r"has 0 \.psl files, expected one"):
        read_psl(tmp_path)
