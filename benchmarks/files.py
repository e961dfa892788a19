"""The cases that start from files: loading, and inference as a user runs it.

    loading     load_theory, load_facts                baseline: regular expressions without checks
    infer       load + plan + 20 iterations             in one process after the imports, and as `logicmp infer`
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from logicmp import Evidence, Marginals, Theory, infer, load_facts, load_theory, parse_theory

from .baselines import regex_facts, regex_rules
from .case import Options, Ratio, Task, Unavailable

# loading

# 160,000 facts (3.5 MB) for 20,000 rules
FACTS_PER_RULE = 8


def theory_text(n_rules: int) -> str:
    """A theory of many rules over 100 predicates, in the usual forms."""
    declared = [f"P{k}(person, person)" for k in range(50)] + [f"Q{k}(person)" for k in range(50)]
    forms = ("{w} P{i}(x, y) ^ P{j}(y, z) => P{k}(x, z)", "{w} !P{i}(x, y) v Q{j}(x) v !Q{k}(y)",
             "{w} Q{i}(x) ^ P{j}(x, y) => Q{k}(y)", "{w} !Q{i}(x) v P{j}(x, Anna{k})")
    rules = [forms[r % 4].format(w=f"{1 + r % 9}.5", i=r % 50, j=r // 3 % 50, k=r // 7 % 50) for r in range(n_rules)]
    return "\n".join([*declared, *rules, ""])


def facts_text(n_facts: int) -> str:
    """`n_facts` different facts, 10% of them negative."""
    return "\n".join(f"{'!' if f % 10 == 0 else ''}P{f % 50}(Anna{f // 50 % 1000}, Bob{f // 50_000})"
                     for f in range(n_facts))


def loading_tasks(n: int, options: Options) -> Iterator[Task]:
    with TemporaryDirectory() as folder:
        rules, facts = Path(folder) / "long.mln", Path(folder) / "long.db"
        rules.write_text(theory_text(n))
        yield Task(f"{n} rules", {"load_theory": partial(load_theory, rules),
                                  "regex": lambda: regex_rules(rules.read_text())},
                   lambda: float(len(load_theory(rules).rules) - len(regex_rules(rules.read_text()))),
                   (Ratio("load_theory", "regex", is_share=True),),
                   notes=lambda medians: {"rules per second": f"{n / medians['load_theory']:.3g}"})
        n_facts = FACTS_PER_RULE * n
        facts.write_text(facts_text(n_facts))
        theory = parse_theory(theory_text(4))
        yield Task(f"{n_facts} facts", {"load_facts": partial(load_facts, facts, theory),
                                        "regex": lambda: regex_facts(facts.read_text())},
                   lambda: float(len(load_facts(facts, theory))
                                 - sum(map(len, regex_facts(facts.read_text()).values()))),
                   (Ratio("load_facts", "regex", is_share=True),),
                   notes=lambda medians: {"facts per second": f"{n_facts / medians['load_facts']:.3g}"})


# inference

# iterations, each over all groundings of all rules
UPDATES = 20
MEAN_FIELD: dict[str, Any] = {"iterations": UPDATES, "damping": 0.0, "tolerance": 0.0}
QUERY = "advisedBy"
LOAD, FIRST, WHOLE, COMMAND = "load", "plan and first update", "all in one process", "command line"
# seconds of other engines on the same files; they show the order of magnitude only
ELSEWHERE = {"language": "PSL 10 s, Alchemy MC-SAT 5.6 s, Tuffy 58 s"}


def infer_tasks(n: int, options: Options) -> Iterator[Task]:
    root = options.data_folder / "relational/uw_cse"
    folders = sorted(path.parent for path in root.glob("*/predicates"))
    if not folders:
        raise Unavailable(f"no split of UW-CSE in {str(root)!r}")
    for folder in folders:
        for world in ("closed", "open"):
            theory, facts = _load(folder)
            sides = {LOAD: partial(_load, folder),
                     FIRST: partial(_infer, theory, facts, world, iterations=1),
                     WHOLE: lambda folder=folder, world=world: _infer(*_load(folder), world),
                     COMMAND: partial(run_command, folder, world)}
            yield Task(f"uw_cse/{folder.name}, {world} world", sides, partial(_check_infer, folder, world), (),
                       notes=partial(_infer_notes, folder.name, theory, facts))


def _load(folder: Path) -> tuple[Theory, Evidence]:
    theory = load_theory(folder)
    return theory, load_facts(folder, theory)


def _infer(theory: Theory, facts: Evidence, world: str, **options: Any) -> Marginals:
    return infer(theory, facts, QUERY, "mean-field", world=world, **MEAN_FIELD | options)


def run_command(folder: Path, world: str) -> str:
    """Run `logicmp infer` in a new process and return its output."""
    options = [word for name, value in MEAN_FIELD.items() for word in (f"--{name}", str(value))]
    words = ["infer", "-i", str(folder), "-e", str(folder), "-q", QUERY, "-m", "mean-field", "--world", world,
             "--format", "json", "--quiet", *options]
    return subprocess.run([sys.executable, "-c", "from logicmp.cli import main; main()", *words], capture_output=True,
                          text=True, check=True).stdout


def _check_infer(folder: Path, world: str) -> float:
    """Largest difference between the answers of the library and of the command line."""
    want = {row["atom"]: row["probability"] for row in json.loads(run_command(folder, world))["marginals"]}
    got = _infer(*_load(folder), world)
    if list(got) != list(want):
        return float("inf")
    return float(np.abs(got.probabilities - np.array(list(want.values()))).max())


def _infer_notes(name: str, theory: Theory, facts: Evidence, medians: Mapping[str, float]) -> dict[str, str]:
    further = medians[WHOLE] - medians[LOAD] - medians[FIRST]
    notes = {"files": f"{len(theory.rules)} rules, {len(facts)} facts",
             f"{UPDATES - 1} more iterations:": f"{1e3 * max(further, 0.0):.3g} ms"}
    if name in ELSEWHERE:
        notes["measured elsewhere on a busy machine:"] = ELSEWHERE[name]
    return notes
