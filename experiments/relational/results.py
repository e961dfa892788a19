"""Tables of the stored results and of the paper's.

A result has the values `auc_pr`; `curve`, pairs (seconds, AUC-PR) during training; `processor`, the seconds of
processor time of a classical method; and `expected`, the seconds all iterations would have taken, if the run was given
up. Its status is "done"; "> cap" if it reached the time limit; or
"too large" if the method raised `CostError`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..runs import Result
from ..tables import mean, table
from .data import SPLITS

# the order of the rows
ORDER = ("logicmp", "logicmp+lessons", "logicmp+weights", "logicmp+embedding", "logicmp+gnn",
         "weights+embedding", "weights+gnn", "gs", "expressgnn", "hl-mrf", "lifted-bp", "bp", "mc-sat", "gibbs")

RESULTS = Path(__file__).with_name("results")
# the paper's Table "AUC-PR on Kinship, UW-CSE, and Cora"; None where the paper has "-"
PAPER: Mapping[str, Mapping[str, tuple[float | None, ...]]] = {
    "MCMC": {"kinship": (0.53, None, None, None, None)},
    "BP/Lifted BP": {"kinship": (0.53, 0.58, 0.55, 0.55, 0.56), "uw_cse": (0.01, 0.01, 0.01, 0.01, 0.01)},
    "MC-SAT": {"kinship": (0.54, 0.60, 0.55, 0.55, None), "uw_cse": (0.03, 0.05, 0.06, 0.02, 0.02)},
    "HL-MRF": {"kinship": (1.0, 1.0, 1.0, 1.0, None), "uw_cse": (0.06, 0.09, 0.02, 0.04, 0.03)},
    "ExpressGNN": {"kinship": (0.56, 0.55, 0.49, 0.53, 0.55), "uw_cse": (0.01, 0.01, 0.01, 0.01, 0.01),
                   "cora": (0.37, 0.66, 0.21, 0.42, 0.55)},
    "ExpressGNN w/ GS": {"kinship": (0.97, 0.97, 0.99, 0.99, 0.99), "uw_cse": (0.09, 0.19, 0.14, 0.06, 0.09),
                         "cora": (0.62, 0.79, 0.46, 0.57, 0.75)},
    "ExpressGNN w/ LogicMP": {"kinship": (0.99, 0.98, 1.0, 1.0, 1.0), "uw_cse": (0.26, 0.30, 0.42, 0.25, 0.28),
                              "cora": (0.80, 0.88, 0.72, 0.83, 0.89)},
}
# the paper's Table "Comparison of inference time on UW-CSE", in minutes
PAPER_MINUTES: Mapping[str, tuple[str, ...]] = {
    "MCMC": ("> 1,440",) * 5,
    "BP": ("408", "352", "37", "457", "190"),
    "Lifted BP": ("321", "270", "32", "525", "243"),
    "MC-SAT": ("172", "147", "14", "196", "86"),
    "HL-MRF": ("135", "132", "18", "178", "72"),
    "ExpressGNN w/ GS (16K groundings)": ("14", "20", "5", "7", "13"),
    "ExpressGNN w/ LogicMP (16K groundings)": ("< 1",) * 5,
    "ExpressGNN w/ LogicMP (20M groundings)": ("101", "82", "64", "85", "70"),
}
DATASETS = ("kinship", "uw_cse", "cora")
BySplit = Mapping[str, Sequence[Result]]


def _by_method(results: Sequence[Result], dataset: str) -> dict[str, dict[str, list[Result]]]:
    """Results by method, in the order of the rows, and by split."""
    found: dict[str, dict[str, list[Result]]] = {}
    for method in ORDER:
        for r in results:
            if r.method == method and r.dataset == dataset and not r.variant:
                found.setdefault(method, {}).setdefault(r.split, []).append(r)
    return found


def _auc_pr(results: Sequence[Result]) -> str:
    """The mean over seeds; marked if the time limit ended a run."""
    values = [r.get("auc_pr") for r in results]
    if not any(x is not None for x in values):
        return results[0].status if results else ""
    return mean(values) + ("†" if any(r.status == "> cap" for r in results) else "")


def _average(by_split: BySplit, dataset: str) -> str:
    """The mean over splits of the means over seeds, if every split has one."""
    known = [[r.get("auc_pr") for r in by_split.get(split, ()) if r.get("auc_pr") is not None]
             for split in SPLITS[dataset]]
    return f"{statistics.mean(map(statistics.mean, known)):.2f}" if all(known) else ""


def _minutes(results: Sequence[Result]) -> str:
    """The mean time of one run, or the limit that ended it."""
    if not results:
        return ""
    if any(r.status not in ("done", "> cap") for r in results):
        return results[0].status
    if any(r.status == "> cap" for r in results):
        # the pace of a run that was given up; a run that had its full time has reached the limit, whatever its pace
        expected = [r.get("expected") for r in results
                    if r.get("expected") is not None and r.seconds < r.settings["max_seconds"]]
        pace = f" (≈ {statistics.mean(expected) / 60:,.0f})" if expected else ""
        return f"> {max(r.settings['max_seconds'] for r in results) / 60:.0f}{pace}"
    seconds = [r.get("processor") or r.seconds for r in results]
    return f"{statistics.mean(seconds) / 60:.2f}" + ("‡" if any(r.get("processor") for r in results) else "")


def _averages(found: Mapping[str, Mapping[str, BySplit]]) -> str:
    rows = []
    for method in ORDER:
        own = {dataset: found[dataset].get(method, {}) for dataset in DATASETS}
        cells = [_average(by_split, dataset) for dataset, by_split in own.items()]
        if any(cells):
            runs = [rs for by_split in own.values() for rs in by_split.values()]
            rows.append([method, *cells, str(max(map(len, runs))), f"{max(r.seconds for rs in runs for r in rs):,.0f}"])
    for method, row in PAPER.items():
        given = [[v for v in row.get(dataset, ()) if v is not None] for dataset in DATASETS]
        cells = [f"{statistics.mean(values):.2f}" if len(values) == 5 else "" for values in given]
        if any(cells):
            rows.append([f"paper: {method}", *cells, "", ""])
    return table(["AUC-PR, mean of the splits", *DATASETS, "seeds", "longest run, s"], rows)


def _splits(dataset: str, by_method: Mapping[str, BySplit], cell: Callable[[Sequence[Result]], str],
            paper: Mapping[str, Sequence[str]]) -> str:
    """A column for each split of a data set."""
    rows = [[method, *(cell(by_split.get(split, ())) for split in SPLITS[dataset])]
            for method, by_split in by_method.items()]
    return table(["method", *SPLITS[dataset]], [*rows, *([f"paper: {method}", *row] for method, row in paper.items())])


def _seconds(found: Mapping[str, Mapping[str, BySplit]]) -> str:
    rows = []
    for method in ORDER:
        cells = []
        for dataset in DATASETS:
            seconds = [r.seconds for rs in found[dataset].get(method, {}).values() for r in rs]
            cells += [f"{statistics.mean(seconds):,.0f}", f"{max(seconds):,.0f}"] if seconds else ["", ""]
        if any(cells):
            rows.append([method, *cells])
    return table(["method", *(f"{dataset}, {what}" for dataset in DATASETS for what in ("mean", "max"))], rows)


def _schedules(results: Sequence[Result]) -> list[str]:
    """AUC-PR of inference without training under given schedules, mean of the splits."""
    rows = []
    for method, variant in sorted({(r.method, r.variant) for r in results if "schedule=" in r.variant}):
        own = [r for r in results if (r.method, r.variant) == (method, variant)]
        found = {dataset: {r.split: [r] for r in own if r.dataset == dataset} for dataset in DATASETS}
        schedule, _, is_plain = variant.removeprefix("schedule=").partition(" ")
        rows.append([method, schedule, "none" if is_plain else "chosen",
                     *(_average(by_split, dataset) for dataset, by_split in found.items())])
    if not rows:
        return []
    return ["### Schedules without training: AUC-PR, mean of the splits",
            table(["method", "schedule", "settings", *DATASETS], rows)]


MARKS = {"±": "standard deviation over seeds", "†": "stopped at the time limit, with the values it had then",
         "≈": "given up early, with the minutes that all iterations would take at its pace",
         "‡": "processor time of all threads"}


def as_table(results: Sequence[Result]) -> str:
    """Markdown: averages, AUC-PR of each data set, then times; our rows above the paper's; then schedules."""
    found = {dataset: _by_method(results, dataset) for dataset in DATASETS}
    parts = [_averages(found)]
    for dataset in DATASETS:
        paper = {method: ["-" if v is None else f"{v:.2f}" for v in row[dataset]] for method, row in PAPER.items()
                 if dataset in row}
        parts += [f"### {dataset}: AUC-PR", _splits(dataset, found[dataset], _auc_pr, paper)]
    parts += ["### uw_cse: minutes of one run, set-up included",
              _splits("uw_cse", found["uw_cse"], _minutes, PAPER_MINUTES),
              "### Seconds of one run, over all splits and seeds", _seconds(found), *_schedules(results)]
    text = "\n\n".join(parts)
    marks = "; ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in text)
    return f"{text}\n\n{marks}.\n"
