"""Flags of Alchemy and Tuffy: each gives an error with a command line that works."""

from __future__ import annotations

import shlex

import pytest
from shell import Ended, Shell

from logicmp.cli.flags import INFER, LEARN, NONE, SETTINGS, check_flags

# by the letter in the table
VALUES = {"N": "50", "P": "Smokes", "F": "file.txt"}
BASE = {"infer": ["infer", "-i", "smoking.mln", "-e", "smoking.db", "-q", "Cancer", "-seed", "1"],
        "learn": ["learn", "-i", "unweighted.mln", "-t", "smoking.db", "-o", "out.mln", "-ne", "Cancer"]}


@pytest.mark.parametrize("command, flag", [*(("infer", flag) for flag in (*INFER, "-m")),
                                           *(("learn", flag) for flag in LEARN)])
def test_every_flag_is_named_with_a_line_that_runs(shell: Shell, command: str, flag: str) -> None:
    shell.write("smoking.db", "Smokes(Anna)\nFriends(Anna, Bob)\n")
    shell.write("unweighted.mln", "Smokes(person)\nFriends(person, person)\nCancer(person)\nSmokes(x) => Cancer(x)\n")
    shell.write("file.txt", "Cancer(Bob)")
    typed = [VALUES.get(word, word) for word in flag.split()]
    # between others, so that a value that is not read would be seen
    status, out, err = shell(*BASE[command][:3], *typed, *BASE[command][3:])
    assert (status, out) == (2, "")
    first, listed, hint = err.splitlines()
    assert first == "error: these flags belong to Alchemy or Tuffy"
    shown = " ".join(typed)
    assert listed.startswith((f"  {shown}  use ", f"  {shown}  remove it: ", f"  {shown}  {NONE}"))
    words = shlex.split(hint.removeprefix("hint: "))
    assert words[:2] == ["logicmp", command]
    assert typed[0] not in words[2:] or flag == "-m"
    assert shell(*words[1:]).status == 0, hint


def hint_of(*words: str) -> str:
    with pytest.raises(Exception) as caught:
        check_flags(words)
    return str(caught.value).splitlines()[-1]


def test_several_flags_give_one_line(shell: Shell) -> None:
    assert shell("infer", "-i", "a.mln", "-q", "Cancer(x)", "-ms", "-maxSteps", "100", "-lazy") == Ended(2, "", """\
error: these flags belong to Alchemy or Tuffy
  -ms            use -m mc-sat
  -maxSteps 100  use --set samples=100
  -lazy          remove it: only groundings that the evidence leaves open are built
hint: logicmp infer -i a.mln -q 'Cancer(x)' -m mc-sat --set samples=100
""")


@pytest.mark.parametrize("words, line", [
    # a setting of a method that the line does not name
    ("infer -i a.mln -maxSteps 100", "infer -i a.mln --set samples=100 -m mc-sat"),
    ("infer -i a.mln -tries 3", "infer -i a.mln --restarts 3 -m map"),
    ("infer -i a.mln -m gibbs -maxSteps 100", "infer -i a.mln -m gibbs --set samples=100"),
    # belief propagation has rounds, not samples
    ("infer -i a.mln -maxSteps 100 -bp", "infer -i a.mln --iterations 100 -m bp"),
    # Alchemy's -m takes no value
    ("infer -i a.mln -m -q Smokes", "infer -i a.mln -m map -q Smokes"),
    ("infer -i a.mln -m", "infer -i a.mln -m map"),
    # a value that is missing
    ("infer -i a.mln -maxSteps", "infer -i a.mln --set samples=N -m mc-sat"),
    ("infer -i a.mln -maxSteps -q Smokes", "infer -i a.mln --set samples=N -q Smokes -m mc-sat"),
    # settings that the method lacks, or calls differently
    ("infer -i a.mln -ms -tries 2", "infer -i a.mln -m mc-sat"),
    ("infer -i a.mln -tries 2 -m map", "infer -i a.mln --restarts 2 -m map"),
    ("infer -i a.mln -ms -convThresh 0.01", "infer -i a.mln -m mc-sat --set error=0.01"),
    ("infer -i a.mln -convThresh 0.01 --method=gibbs", "infer -i a.mln --set error=0.01 --method=gibbs"),
    ("infer -i a.mln -bp -convThresh 0.01", "infer -i a.mln -m bp --tolerance 0.01"),
    ("infer -i a.mln -convThresh 0.01", "infer -i a.mln --tolerance 0.01"),
    ("infer -i a.mln -convThresh 0.01 -maxSteps 9", "infer -i a.mln --set error=0.01 --set samples=9 -m mc-sat"),
    ("infer -i a.mln -tries 2 -maxSteps 9", "infer -i a.mln --set samples=9 -m mc-sat"),
    ("infer -i a.mln -a -numChains 2", "infer -i a.mln -m map"),
    ("infer -i a.mln -mbp -numChains 2", "infer -i a.mln -mbp"),
    # flags without a counterpart, with a value or without one
    *((f"infer -i a.mln {flag} -q Smokes", "infer -i a.mln -q Smokes") for flag in (
        "-minSteps 5", "-epsilonError 0.1", "-fracConverged 0.9", "-delta 0.1", "-lazyNoApprox", "-walksatType 1",
        "-hard", "-multipleDatabases", "-tabuLength 5", "-saRatio -1")),
    *((f"learn -i a.mln {flag} -o b.mln", "learn -i a.mln -o b.mln") for flag in (
        "-dMwsMaxSteps 5", "-dZeroInit", "-noEqualPredWt", "-multipleDatabases")),
    # discriminative learning needs predicates to predict
    ("learn -i a.mln -d -t a.db -o b.mln", "learn -i a.mln -m discriminative -ne P -t a.db -o b.mln"),
    ("learn -i a.mln -d --non-evidence Q", "learn -i a.mln -m discriminative --non-evidence Q"),
])
def test_the_line_to_type(words: str, line: str) -> None:
    assert hint_of(*words.split()) == f"hint: logicmp {line}"


@pytest.mark.parametrize("words", [
    "infer -i a.mln -e a.db -r out -q Smokes -cw P -ow Q -f file -seed 1 -m mc-sat",
    "infer -mbp -qSmokes -qWorksFor -rout",
    "learn -i a.mln -o b.mln -t a.db -ne P -m discriminative", "check -ms", "demo -o a.png", ""])
def test_our_own_flags_pass(words: str) -> None:
    check_flags(words.split())


def test_a_flag_without_a_counterpart_is_listed(shell: Shell) -> None:
    assert shell("infer", "-i", "a.mln", "-minSteps", "5", "-ms", "-tries", "2") == Ended(2, "", """\
error: these flags belong to Alchemy or Tuffy
  -minSteps 5  has no counterpart: leave it out
  -ms          use -m mc-sat
  -tries 2     has no counterpart: leave it out
hint: logicmp infer -i a.mln -m mc-sat
""")


def test_settings_are_listed_with_the_methods_that_have_them() -> None:
    from logicmp.inference.run import METHODS, method_class

    fields = {name: method_class(name).__dataclass_fields__ for name in METHODS}
    for setting, methods in SETTINGS.items():
        assert set(methods) == {name for name in METHODS if setting.strip("-=") in fields[name]}, setting
