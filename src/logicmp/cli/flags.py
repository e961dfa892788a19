"""Flags of Alchemy and Tuffy: an error that shows the command line to type here.

    $ logicmp infer -i a.mln -e a.db -q Smokes -ms -maxSteps 100
    error: these flags belong to Alchemy or Tuffy
      -ms            use -m mc-sat
      -maxSteps 100  use --set samples=100
    hint: logicmp infer -i a.mln -e a.db -q Smokes -m mc-sat --set samples=100

Without this, `-ms` would be read as `-m s`. Flags with the same meaning here are not listed: -i -e -r -q -f -cw -ow
-seed of `infer`, -i -o -t -ne of `learn`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ..errors import LogicMPError

# a flag, with a capital letter for the value it takes -> the words to type # a remark
INFER = {
    "-a": "-m map",
    "-p": "-m gibbs",
    "-ms": "-m mc-sat",
    "-simtp": "-m mc-sat",
    "-bp": "-m bp",
    "-efbp": "-m bp",
    "-lifted": "-m lifted-bp",
    "-c P": "-cw P",
    "-o F": "-r F # the open-world flag is -ow",
    "-maxSteps N": "--set samples=N",
    "-burnMinSteps N": "--set burn_in=N",
    "-numChains N": "--set chains=N",
    "-mwsMaxSteps N": "--set max_flips=N",
    "-tries N": "--restarts N",
    "-maxSeconds N": "--max-seconds N",
    "-convThresh N": "--tolerance N",
    "-queryEvidence": "# add -cw P to close a queried predicate P",
    "-numSolutions N": "# no method has this setting",
    "-saRatio N": "# no method has this setting",
    "-heuristic N": "# no method has this setting",
    "-tabuLength N": "# no method has this setting",
    "-lazy": "# only groundings that the evidence leaves open are built",
    "-memLimit N": "# --max-groundings limits the number of groundings",
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
# settings that only some methods have, with the method to add where the line names none
OWNERS = {"samples=": "mc-sat", "burn_in=": "mc-sat", "chains=": "mc-sat", "max_flips=": "map", "--restarts": "map"}


def check_flags(words: Sequence[str]) -> None:
    """Raise if a command line has flags of Alchemy or Tuffy, with the line to type instead.

    >>> check_flags(["learn", "-i", "a.mln", "-d", "-t", "a.db", "-o", "b.mln"])
    Traceback (most recent call last):
    logicmp.errors.LogicMPError: these flags belong to Alchemy or Tuffy
      -d  use -m discriminative
    hint: logicmp learn -i a.mln -m discriminative -t a.db -o b.mln
    """
    command, *rest = words or [""]
    table = {flag: (letter, use) for key, use in TABLES.get(command, {}).items()
             for flag, _, letter in [key.partition(" ")]}
    if command == "infer" and {"-bp", "-efbp", "-lifted"} & set(rest):
        table["-maxSteps"] = ("N", "--iterations N")
    line: list[str] = []
    found: dict[str, str] = {}
    while rest:
        flag = rest.pop(0)
        letter, use = table.get(flag, ("", ""))
        # Alchemy's -m, for the most probable world, takes no value
        if command == "infer" and flag == "-m" and (not rest or rest[0].startswith("-")):
            use = "-m map # -m names a method"
        if not use:
            line.append(flag)
            continue
        typed, value = ([flag, rest[0]], rest.pop(0)) if letter and rest else ([flag], letter)
        text, _, remark = (part.strip() for part in use.partition("#"))
        # the value comes last
        new = (text.removesuffix(letter) + shlex.quote(value) if letter else text) if text else ""
        line += shlex.split(new)
        found[shlex.join(typed)] = f"use {new}{f' ({remark})' * bool(remark)}" if new else f"remove it: {remark}"
    if found:
        width = max(map(len, found))
        listed = "".join(f"\n  {flag:<{width}}  {use}" for flag, use in found.items())
        raise LogicMPError(f"these flags belong to Alchemy or Tuffy{listed}",
                           shlex.join(["logicmp", command, *_with_method(line)]))


def _with_method(line: list[str]) -> list[str]:
    """The line with a method that has the settings on it."""
    if "-m" in line or "--method" in line:
        return line
    owners = [owner for setting, owner in OWNERS.items() if any(word.startswith(setting) for word in line)]
    return [*line, "-m", owners[0]] if owners else line
