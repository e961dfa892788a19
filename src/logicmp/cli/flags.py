"""Flags of Alchemy and Tuffy: an error that shows the command line to type here.

    $ logicmp infer -i a.mln -e a.db -q Smokes -ms -maxSteps 100
    error: these flags belong to Alchemy or Tuffy
      -ms            use -m mc-sat
      -maxSteps 100  use --set samples=100
    hint: logicmp infer -i a.mln -e a.db -q Smokes -m mc-sat --set samples=100

Without this, `-ms` would be read as `-m s`. Flags with the same meaning here are not listed: -i -e -r -o -q -f -cw
-ow -seed of `infer`, -i -o -t -ne of `learn`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..errors import LogicMPError

# a flag, with a capital letter for the value it takes -> the words to type # a remark; "one way | another" where
# methods differ, empty if there is no counterpart; flags in camel case that are not listed have none
INFER = {
    "-a": "-m map",
    "-p": "-m gibbs",
    "-ms": "-m mc-sat",
    "-simtp": "-m gibbs",
    "-bp": "-m bp",
    "-efbp": "-m bp",
    "-lifted": "-m lifted-bp",
    "-c P": "-cw P",
    "-maxSteps N": "--set samples=N | --iterations N",
    "-burnMinSteps N": "--set burn_in=N",
    "-burnMaxSteps N": "--set burn_in=N",
    "-numChains N": "--set chains=N",
    "-mwsMaxSteps N": "--set max_flips=N",
    "-tries N": "--restarts N",
    "-maxSeconds N": "--max-seconds N",
    "-convThresh N": "--tolerance N | --set error=N",
    "-delta N": "",
    "-hard": "",
    "-queryEvidence": "# add -cw P to close a queried predicate P",
    "-lazy": "# only groundings that the evidence leaves open are built",
    "-lazyNoApprox": "# only groundings that the evidence leaves open are built",
    "-memLimit N": "# --max-memory limits the memory, for example --max-memory 2GB",
    "-queryFile F": "-f F",
    "-marginal": "# infer prints marginals by default",
    "-dual": "# run infer twice, the second time with -m map",
    "-mcsatSamples N": "--set samples=N",
    "-maxFlips N": "--set max_flips=N",
    "-maxTries N": "--restarts N",
    "-timeout N": "--max-seconds N",
    "-threads N": "# set OMP_NUM_THREADS=N in the environment",
    "-minProb N": "# every answer is printed; filter the output of --format csv",
    "-activateAll": "# every queried atom is answered",
    "-nopart": "# every queried atom is answered",
    "-conf F": "# no database server is needed",
    "-db F": "# no database server is needed",
    "-learnwt": "# to learn weights, type logicmp learn",
}
LEARN = {
    "-d": "-m discriminative",
    "-g": "-m pseudo-likelihood",
    "-dNumIter N": "--max-iterations N",
    "-gMaxIter N": "--max-iterations N",
    "-gConvThresh N": "--tolerance N",
    "-priorStdDev N": "--prior-std N",
    "-priorMean N": "# the mean of the prior is 0",
    "-noPrior": "--prior-std 1e6",
    "-multipleDatabases": "# each database is a separate world",
    "-noAddUnitClauses": "# no rules are added; for a unit clause write the rule (P(x))",
    "-withEM": "# databases must not have unobserved facts (?P)",
    "-dVP": "# the optimizer is always L-BFGS",
    "-dNewton": "# the optimizer is always L-BFGS",
    "-dCG": "# the optimizer is always L-BFGS",
    "-cgLambda N": "# the optimizer is always L-BFGS",
    "-dLearningRate N": "# the optimizer is always L-BFGS",
}
TABLES = {"infer": INFER, "learn": LEARN}
SAMPLERS = ("mc-sat", "gibbs")
ITERATED = ("auto", "mean-field", "bp", "lifted-bp", "hl-mrf")
# a setting -> the methods of `infer` that have it; the first is added to a line that names no method
SETTINGS = {"samples=": SAMPLERS, "burn_in=": SAMPLERS, "chains=": SAMPLERS, "error=": SAMPLERS,
            "max_flips=": ("map", *SAMPLERS), "--restarts": ("map", *ITERATED[:2]),
            "--iterations": ITERATED, "--tolerance": ITERATED}
# our options that take a value, which may be glued on: -qSmokes
LETTERS = {"infer": "ieqfrom", "learn": "itom"}
NONE = "has no counterpart: leave it out"


class _Typed(NamedTuple):
    """A word of the command line, or a flag of Alchemy or Tuffy with its value."""

    words: list[str]
    # of the value in `use`, empty if the flag takes none
    letter: str = ""
    # None for words that are not theirs
    use: str | None = None


def check_flags(words: Sequence[str]) -> None:
    """Raise if a command line has flags of Alchemy or Tuffy, with the line to type instead.

    >>> check_flags(["learn", "-i", "a.mln", "-d", "-ne", "P", "-t", "a.db", "-o", "b.mln"])
    Traceback (most recent call last):
    logicmp.errors.LogicMPError: these flags belong to Alchemy or Tuffy
      -d  use -m discriminative
    hint: logicmp learn -i a.mln -m discriminative -ne P -t a.db -o b.mln
    """
    command, *rest = words or [""]
    if command not in TABLES:
        return
    typed = list(_read(command, rest))
    line = [word for part in typed if part.use is None for word in part.words]
    if len(line) == len(rest):
        return
    method, added = _method(typed, line) if command == "infer" else (None, [])
    line, found = [], {}
    for part in typed:
        if part.use is None:
            line += part.words
            continue
        ways, _, remark = (text.strip() for text in part.use.partition("#"))
        new = _choose(ways.split(" | "), method)
        if new and part.letter:
            # the value comes last
            new = new.removesuffix(part.letter) + shlex.quote(part.words[1] if part.words[1:] else part.letter)
        line += shlex.split(new)
        found[shlex.join(part.words)] = (f"use {new}{f' ({remark})' * bool(remark)}" if new
                                         else f"remove it: {remark}" if remark else NONE)
    width = max(map(len, found))
    listed = "".join(f"\n  {flag:<{width}}  {use}" for flag, use in found.items())
    raise LogicMPError(f"these flags belong to Alchemy or Tuffy{listed}",
                       shlex.join(["logicmp", command, *line, *added]))


def _read(command: str, rest: list[str]) -> Iterator[_Typed]:
    table = {flag: (letter, use) for key, use in TABLES[command].items() for flag, _, letter in [key.partition(" ")]}
    if command == "learn" and not {"-ne", "--non-evidence"} & set(rest):
        table["-d"] = ("", "-m discriminative -ne P # P is the predicate to predict")
    at = 0
    while at < len(rest):
        word = rest[at]
        # no flag: a word, a number, or - for standard input
        has_value = at + 1 < len(rest) and not re.match("-[^0-9.]", rest[at + 1])
        at += 1
        if word in table:
            letter, use = table[word]
        elif command == "infer" and word == "-m" and not has_value:
            # Alchemy's -m, for the most probable world, takes no value
            letter, use = "", "-m map # -m names a method"
        elif re.fullmatch("-[a-z]+[A-Z][A-Za-z]*", word) and not (word[1] in LETTERS[command] and word[2].isupper()):
            letter, use = "N" * has_value, ""
        else:
            yield _Typed([word])
            continue
        at += bool(letter) and has_value
        yield _Typed([word, *rest[at - 1:at]] if letter and has_value else [word], letter, use)


def _method(typed: list[_Typed], line: list[str]) -> tuple[str | None, list[str]]:
    """The method of the line to type, and the words that add it if the line names none."""
    named = [value for option, value in pairwise(line) if option in ("-m", "--method")]
    named += [found[1] for word in line if (found := re.fullmatch("(?:-m|--method=)(.+)", word))]
    uses = [part.use for part in typed if part.use]
    named += [use.split()[1] for use in uses if use.startswith("-m ")]
    if named:
        return named[-1], []
    owners = {methods[0] for use in uses for setting, methods in SETTINGS.items() if setting in use.split(" | ")[0]}
    chosen = next((name for name in ("mc-sat", "map") if name in owners), None)
    return chosen or "auto", ["-m", chosen] if chosen else []


def _choose(ways: list[str], method: str | None) -> str:
    """The first way that the method has, empty if there is none."""
    return next((way for way in ways if method is None or all(
        method in methods for setting, methods in SETTINGS.items() if setting in way)), "")
