"""Stored results: one JSON file for each run, and the table they make beside the paper's.

    results/uw_cse-ai-logicmp-0.json     {"auc_pr": 0.28, "seconds": 2.1, "commit": "...", ...}
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runs import commit, save_result
from .data import SPLITS, split_names

# of the rows
ORDER = ("logicmp", "logicmp+lessons", "logicmp+weights", "logicmp+embedding", "logicmp+gnn", "gs", "expressgnn",
         "hl-mrf", "lifted-bp", "bp", "mc-sat", "gibbs")

RESULTS = Path(__file__).with_name("results")
# the paper's Table "AUC-PR on Kinship, UW-CSE, and Cora"; None where it says "-"
PAPER: Mapping[str, Mapping[str, tuple[float | None, ...]]] = {
    "MCMC": {"kinship": (.53, None, None, None, None)},
    "BP/Lifted BP": {"kinship": (.53, .58, .55, .55, .56), "uw_cse": (.01, .01, .01, .01, .01)},
    "MC-SAT": {"kinship": (.54, .60, .55, .55, None), "uw_cse": (.03, .05, .06, .02, .02)},
    "HL-MRF": {"kinship": (1.0, 1.0, 1.0, 1.0, None), "uw_cse": (.06, .09, .02, .04, .03)},
    "ExpressGNN": {"kinship": (.56, .55, .49, .53, .55), "uw_cse": (.01, .01, .01, .01, .01),
                   "cora": (.37, .66, .21, .42, .55)},
    "ExpressGNN w/ GS": {"kinship": (.97, .97, .99, .99, .99), "uw_cse": (.09, .19, .14, .06, .09),
                         "cora": (.62, .79, .46, .57, .75)},
    "ExpressGNN w/ LogicMP": {"kinship": (.99, .98, 1.0, 1.0, 1.0), "uw_cse": (.26, .30, .42, .25, .28),
                              "cora": (.80, .88, .72, .83, .89)},
}
# its table "Comparison of inference time on UW-CSE", in minutes
PAPER_MINUTES: Mapping[str, tuple[str, ...]] = {
    "MCMC": ("> 1440",) * 5,
    "BP": ("408", "352", "37", "457", "190"),
    "Lifted BP": ("321", "270", "32", "525", "243"),
    "MC-SAT": ("172", "147", "14", "196", "86"),
    "HL-MRF": ("135", "132", "18", "178", "72"),
    "ExpressGNN w/ GS (16K groundings)": ("14", "20", "5", "7", "13"),
    "ExpressGNN w/ LogicMP (16K groundings)": ("< 1",) * 5,
    "ExpressGNN w/ LogicMP (20M groundings)": ("101", "82", "64", "85", "70"),
}
DATA_SETS = ("kinship", "uw_cse", "cora")


@dataclass
class Result:
    """What one run gave; `auc_pr` is None if there is no number."""

    split: str
    method: str
    seed: int
    auc_pr: float | None = None
    seconds: float = 0.0
    # in MB
    peak_memory: float = 0.0
    threads: int = 0
    max_seconds: float = 0.0
    commit: str = field(default_factory=commit)
    # or "> cap": over the time limit, with what there was then; "refused": too large
    status: str = "done"
    # the seconds that all iterations would take at the pace it had when it was given up
    expected: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    # (seconds, average precision) while it ran
    curve: list[tuple[float, float]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.split} {self.method} seed {self.seed}"

    @property
    def file(self) -> str:
        return f"{self.split.replace('/', '-')}-{self.method}-{self.seed}.json"

    def save(self, folder: Path = RESULTS) -> None:
        save_result(self, folder / self.file)


def load_results(folder: Path = RESULTS) -> list[Result]:
    return [Result(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def _short(value: float) -> str:
    """.31 for 0.31"""
    return f"{value:.2f}".removeprefix("0")


def _cell(results: list[Result]) -> str:
    """The mean over seeds, with its spread where there are several; marked where the time limit ended a run."""
    values = [r.auc_pr for r in results if r.auc_pr is not None]
    if not values:
        return results[0].status if results else ""
    spread = f" ±{_short(statistics.stdev(values))}" if len(values) > 1 else ""
    return _short(statistics.mean(values)) + spread + ("†" if any(r.status == "> cap" for r in results) else "")


def _average(by_split: Mapping[str, list[Result]], names: list[str]) -> str:
    means = []
    for name in names:
        values = [r.auc_pr for r in by_split.get(name, []) if r.auc_pr is not None]
        if not values:
            return ""
        means.append(statistics.mean(values))
    return f"**{_short(statistics.mean(means))}**"


def _averages(results: list[Result]) -> str:
    """The mean over the splits of each data set."""
    lines = [f"| average of the splits | {' | '.join(DATA_SETS)} | seconds per split, at most |",
             "|---|" + "---|" * (len(DATA_SETS) + 1)]
    every = [name for data_set in DATA_SETS for name in split_names(data_set)]
    for method, by_split in _by_method(results, every).items():
        cells = [_average(by_split, split_names(data_set)) for data_set in DATA_SETS]
        if any(cells):
            longest = max(r.seconds for rs in by_split.values() for r in rs)
            lines.append(f"| {method} | {' | '.join(cells)} | {longest:.0f} |")
    for method, row in PAPER.items():
        given = [[v for v in row.get(data_set, ()) if v is not None] for data_set in DATA_SETS]
        cells = [_short(statistics.mean(values)) if len(values) == 5 else "" for values in given]
        lines.append(f"| *paper: {method}* | {' | '.join(cells)} | |")
    return "\n".join(lines)


def _minutes(results: list[Result]) -> str:
    """The mean time of one run, or the limit that ended it."""
    if not results:
        return ""
    if any(r.status not in ("done", "> cap") for r in results):
        return results[0].status
    if any(r.status == "> cap" for r in results):
        # of a run that had its whole time the pace says less than that it was not done
        expected = [r.expected for r in results if r.expected is not None and r.seconds < r.max_seconds]
        pace = f" (≈ {statistics.mean(expected) / 60:.0f})" if expected else ""
        return f"> {max(r.max_seconds for r in results) / 60:.0f}{pace}"
    return f"{statistics.mean(r.seconds for r in results) / 60:.2f}"


def _by_method(results: list[Result], names: list[str]) -> dict[str, dict[str, list[Result]]]:
    found: dict[str, dict[str, list[Result]]] = {}
    for method in ORDER:
        for r in results:
            if r.method == method and r.split in names:
                found.setdefault(method, {}).setdefault(r.split, []).append(r)
    return found


def as_table(results: list[Result]) -> str:
    """Markdown: the averages, AUC-PR for each data set, then minutes on UW-CSE, our rows above the paper's."""
    parts = [_averages(results)]
    for data_set in DATA_SETS:
        names = split_names(data_set)
        lines = [f"### {data_set}: AUC-PR", "",
                 f"| method | {' | '.join(SPLITS[data_set])} | avg | seeds | seconds per split |",
                 "|---|" + "---|" * (len(names) + 3)]
        for method, by_split in _by_method(results, names).items():
            seconds = [r.seconds for rs in by_split.values() for r in rs]
            cells = [_cell(by_split.get(name, [])) for name in names]
            n_seeds = max(map(len, by_split.values()))
            lines.append(f"| {method} | {' | '.join(cells)} | {_average(by_split, names)} | {n_seeds} | "
                         f"{statistics.mean(seconds):.0f} (max {max(seconds):.0f}) |")
        for method, row in PAPER.items():
            if data_set in row:
                given = row[data_set]
                cells = ["-" if v is None else _short(v) for v in given]
                average = "" if None in given else _short(statistics.mean(v for v in given if v is not None))
                lines.append(f"| *paper: {method}* | {' | '.join(cells)} | {average} | | |")
        parts.append("\n".join(lines))
    names = split_names("uw_cse")
    lines = ["### uw_cse: minutes of one run, all-in", "", f"| method | {' | '.join(SPLITS['uw_cse'])} |",
             "|---|" + "---|" * len(names)]
    lines += [f"| {method} | {' | '.join(_minutes(by_split.get(name, [])) for name in names)} |"
              for method, by_split in _by_method(results, names).items()]
    lines += [f"| *paper: {method}* | {' | '.join(row)} |" for method, row in PAPER_MINUTES.items()]
    parts.append("\n".join(lines))
    parts.append("± standard deviation over seeds; † stopped at the time limit, with what it had; ≈ given up early: "
                 "what all of its\niterations would take at its pace.")
    return "\n\n".join(parts) + "\n"
