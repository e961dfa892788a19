"""Stored results: one JSON file for each run, and the table they make beside the paper's.

    results/uw_cse-ai-logicmp-0.json     {"auc_pr": 0.28, "seconds": 2.1, "commit": "...", ...}
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from logicmp.parse.files import write_whole

from ..runs import commit
from .data import SPLITS, split_names

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
    commit: str = field(default_factory=commit)
    # or "> cap": over the time limit, with what there was then; "refused": too large
    status: str = "done"
    settings: dict[str, Any] = field(default_factory=dict)
    # (seconds, average precision) while it ran
    curve: list[tuple[float, float]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.split} {self.method} seed {self.seed}"

    @property
    def file(self) -> str:
        return f"{self.split.replace('/', '-')}-{self.method}-{self.seed}.json"

    def save(self, folder: Path = RESULTS) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n", "a result")
        return path


def load_results(folder: Path = RESULTS) -> list[Result]:
    return [Result(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def _cell(results: Iterable[Result]) -> str:
    """The mean over seeds, with its spread where there are several."""
    results = list(results)
    values = [r.auc_pr for r in results if r.auc_pr is not None]
    if not values:
        return results[0].status if results else ""
    spread = f" ±{statistics.stdev(values):.2f}".replace("0.", ".") if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}".replace("0.", ".") + spread


def _average(by_split: Mapping[str, list[Result]], names: list[str]) -> str:
    means = []
    for name in names:
        values = [r.auc_pr for r in by_split.get(name, []) if r.auc_pr is not None]
        if not values:
            return ""
        means.append(statistics.mean(values))
    return f"**{statistics.mean(means):.2f}**".replace("0.", ".")


def as_table(results: list[Result]) -> str:
    """Markdown: a table for each data set, our rows above the paper's."""
    parts = []
    for data_set in DATA_SETS:
        names = split_names(data_set)
        lines = [f"### {data_set}", "", f"| method | {' | '.join(SPLITS[data_set])} | avg | seconds per split |",
                 "|---|" + "---|" * (len(names) + 2)]
        methods = list(dict.fromkeys(r.method for r in results if r.split in names))
        for method in methods:
            by_split: dict[str, list[Result]] = {}
            for r in results:
                if r.method == method and r.split in names:
                    by_split.setdefault(r.split, []).append(r)
            seconds = [r.seconds for rs in by_split.values() for r in rs]
            cells = [_cell(by_split.get(name, [])) for name in names]
            lines.append(f"| {method} | {' | '.join(cells)} | {_average(by_split, names)} | "
                         f"{statistics.mean(seconds):.0f} (max {max(seconds):.0f}) |")
        for method, row in PAPER.items():
            if data_set in row:
                given = row[data_set]
                cells = ["-" if v is None else f"{v:.2f}".replace("0.", ".") for v in given]
                average = "" if None in given else f"{statistics.mean(v for v in given if v is not None):.2f}"
                lines.append(f"| *paper: {method}* | {' | '.join(cells)} | {average.replace('0.', '.')} | |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
