"""Every method of `logicmp infer` on UW-CSE, as a command of its own: seconds, memory, and what came out.

    python -m benchmarks limits --data DIR                         each method with a limit of 1, 5 and 20 s, open world
    python -m benchmarks limits --data DIR --splits                all five splits in Alchemy's world, no limit but 60 s
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from logicmp import LogicMPError
from logicmp.inference.run import METHODS

from .measure import machine

QUERY = "advisedBy"
# ai has 23 million groundings
MAX_GROUNDINGS = 30_000_000
# methods that import torch
WITH_TORCH = {"auto", "exact", "mean-field"}
# a run is within its limit up to this factor and these seconds more
FACTOR, MORE = 1.2, 1.0
# seconds of a split in Alchemy's world
TARGET = 60.0


@dataclass(frozen=True)
class Run:
    """One command: what it was given, what it cost, and what came out."""

    split: str
    method: str
    limit: float
    seconds: float
    processor: float
    gigabytes: float
    # complete, partial, or error
    outcome: str
    # the status of the answers, or the first line of the error
    about: str

    @property
    def is_within(self) -> bool:
        return self.seconds <= FACTOR * self.limit + MORE


def run_command(folder: Path, split: str, method: str, world: str, limit: float, options: tuple[str, ...] = ()) -> Run:
    """Run `logicmp infer` with a time limit in a new process."""
    with tempfile.TemporaryDirectory() as place, (Path(place) / "messages").open("w+") as messages:
        answers = Path(place) / "answers.json"
        words = ["infer", "-i", str(folder / split), "-e", str(folder / split), "-q", QUERY, "-m", method, "--world",
                 world, "--format", "json", "-r", str(answers), "--quiet", "--max-groundings", str(MAX_GROUNDINGS),
                 "--max-seconds", f"{limit:g}", *options]
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "logicmp", *words], stderr=messages)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        messages.seek(0)
        said = messages.read().strip()
        if answers.exists():
            found = json.loads(answers.read_text())
            outcome, about = ("complete" if found["complete"] else "partial"), found["status"]
            about += "".join(f"; {note}" for note in found["notes"] if " rounds" in note or "chains of" in note)
        else:
            outcome, about = "error", said.removeprefix("error: ").split("\n")[0]
        if process.returncode != {"complete": 0, "partial": 3}.get(outcome, process.returncode):
            raise LogicMPError(f"{split}, {method}: {outcome} answers with exit status {process.returncode}")
    return Run(split, method, limit, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, outcome, about)


def import_seconds() -> float:
    """The seconds of a process that only imports torch."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - start


def as_table(runs: list[Run], target: bool) -> str:
    """A markdown table; the last column says whether a limit held."""
    lines = ["| Split | Method | Limit, s | Seconds | Memory, GB | Result | Within |",
             "|---|---|--:|--:|--:|---|---|"]
    for run in runs:
        within = run.seconds <= TARGET if target else run.is_within
        lines.append(f"| {run.split} | `{run.method}` | {run.limit:g} | {run.seconds:.1f} | {run.gigabytes:.2f} | "
                     f"{run.outcome}: {run.about} | {'yes' if within else 'no'} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the chosen methods, print a table, and write the numbers as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks limits", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LOGICMP_DATA", ".")), metavar="DIR",
                        help="folder that contains relational/uw_cse (default: $LOGICMP_DATA)")
    parser.add_argument("--on", nargs="+", metavar="SPLIT", help="splits (default: language ai, or all with --splits)")
    parser.add_argument("--methods", default=",".join(METHODS), metavar="M,M", help="methods (default: all)")
    parser.add_argument("--seconds", type=float, nargs="+", default=[1, 5, 20], metavar="S", help="limits")
    parser.add_argument("--splits", action="store_true", help="every split in Alchemy's world, with a limit of 60 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the runs to FILE; those it has are kept")
    chosen = parser.parse_args(arguments)
    folder = chosen.data / "relational/uw_cse"
    if not (folder / "language/predicates").exists():
        raise LogicMPError(f"no split of UW-CSE in {str(folder)!r}", "use --data DIR, or set LOGICMP_DATA")
    splits = chosen.on or (sorted(path.parent.name for path in folder.glob("*/predicates")) if chosen.splits
                           else ["language", "ai"])
    world, limits = ("alchemy", [TARGET]) if chosen.splits else ("open", chosen.seconds)
    stored = _read(chosen.json)
    runs = [Run(**run) for run in stored.get("runs", [])]
    done = {(run.split, run.method, run.limit) for run in runs}
    for split in splits:
        for limit in limits:
            for method in chosen.methods.split(","):
                if (split, method, limit) in done:
                    continue
                print(f"{split}, {method}, {limit:g} s", file=sys.stderr)
                runs.append(run_command(folder, split, method, world, limit))
                _write(chosen.json, world, runs)
    # it imports torch, and the memory of a process begins with that of the one that starts it
    _write(chosen.json, world, runs, machine())
    print(as_table([run for run in runs if run.split in splits and run.limit in limits], chosen.splits))
    if WITH_TORCH & set(chosen.methods.split(",")):
        print(f"\nimporting torch alone takes {import_seconds():.1f} s, which {', '.join(sorted(WITH_TORCH))} need")
    return 0


def _write(path: Path | None, world: str, runs: list[Run], about: dict[str, Any] | None = None) -> None:
    if path is not None:
        found = {"machine": about, "world": world, "runs": [asdict(run) for run in runs]}
        path.write_text(json.dumps(found, indent=1) + "\n")


def _read(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return found
