"""Stored results: one JSON file for each row and seed, and the table they make beside the paper's.

    results/logicmp-adj-0.json     {"f1": 90.1, "list_f1": 93.2, "invalid": 0.3, "seconds": 160.2, "commit": "...", ...}
    results/speed.json             one training step of every method, measured side by side
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runs import save_result

RESULTS = Path(__file__).with_name("results")
SPEED = "speed.json"
# in the order of the table: what it is called there, and the paper's F1; "-" is a failure there, None no row
ROWS: Mapping[str, tuple[str, str | None]] = {
    "blstm": ("BLSTM", "89.98"),
    "blstm-lex": ("BLSTM (lex: training entities)", "90.77"),
    "crf": ("BLSTM w/ CRF", "90.94"),
    "crf-mean-field": ("BLSTM w/ CRF (mean field)", "91.07"),
    "crf-forbidden": ("BLSTM w/ CRF, forbidden transitions", None),
    "sl": ("BLSTM w/ SL (adj)", None),
    "spl": ("BLSTM w/ SPL (adj)", None),
    "sl-list": ("BLSTM w/ SL (adj+list)", "-"),
    "spl-list": ("BLSTM w/ SPL (adj+list)", "-"),
    "slrelax": ("BLSTM w/ SLrelax (adj+list)", "90.38"),
    "logicdist-adj-p": ("BLSTM w/ LogicDist (adj), p", "89.80"),
    "logicdist-adj-q": ("BLSTM w/ LogicDist (adj), q", "91.11"),
    "logicdist-adj+list-p": ("BLSTM w/ LogicDist (adj+list), p", "89.93"),
    "logicdist-adj+list-q": ("BLSTM w/ LogicDist (adj+list), q", "91.18"),
    "logicmp-adj": ("BLSTM w/ LogicMP (adj)", "91.25"),
    "logicmp-adj+list": ("BLSTM w/ LogicMP (adj+list)", "91.42"),
    "blstm+decode": ("BLSTM, then decode", None),
    "logicmp-adj+decode": ("LogicMP (adj), then decode", None),
    "logicmp-adj+list+decode": ("LogicMP (adj+list), then decode", None),
}


@dataclass
class Result:
    """What one row gave for one seed; `f1` is None if there is no answer, and `status` says why."""

    row: str
    method: str
    seed: int
    f1: float | None
    # of training, without the backbone's
    seconds: float
    # in MB
    peak_memory: float
    commit: str
    status: str = "done"
    precision: float | None = None
    recall: float | None = None
    # on the sentences with a list; and places that break the scheme, per 1,000 sentences
    list_f1: float | None = None
    invalid: float | None = None
    # on testa, after each epoch; the best one was taken
    testa: list[float] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    # learned, in the order of the .mln file
    rule_weights: list[float] = field(default_factory=list)

    @property
    def file(self) -> str:
        return f"{self.row}-{self.seed}.json"

    def save(self, folder: Path = RESULTS) -> None:
        save_result(self, folder / self.file)


def load_results(folder: Path = RESULTS) -> list[Result]:
    return [Result(**json.loads(path.read_text())) for path in sorted(folder.glob("*-[0-9]*.json"))]


def load_speed(folder: Path = RESULTS) -> dict[str, float]:
    """By method, the time of a step relative to the plain tagger's."""
    path = folder / SPEED
    return dict(json.loads(path.read_text())["ratio"]) if path.exists() else {}


def _mean(results: Iterable[Result], value: Callable[[Result], float | None], digits: int = 2) -> str:
    """The mean over seeds, with the standard deviation where there are several."""
    values = [x for x in map(value, results) if x is not None]
    if not values:
        return "-"
    spread = f" ±{statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def as_table(results: list[Result], speed: Mapping[str, float] | None = None) -> str:
    """Markdown: our rows, each with the paper's number beside it."""
    base = {r.seed: r.f1 for r in results if r.row == "blstm" and r.f1 is not None}
    columns = ("method", "F1", "over BLSTM", "F1 with a list", "invalid per 1,000", "step", "seconds", "MB", "paper",
               "seeds")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    notes = []
    for row, (name, paper) in ROWS.items():
        own = [r for r in results if r.row == row]
        if not own:
            continue

        def gain(r: Result) -> float | None:
            return None if r.f1 is None or r.seed not in base else r.f1 - base[r.seed]

        ratio = (speed or {}).get(own[0].method)
        is_answer = own[0].f1 is not None
        over = _mean(own, gain) if row != "blstm" else ""
        cells = [name, _mean(own, lambda r: r.f1), over if over[:1] in ("", "-") else f"+{over}",
                 _mean(own, lambda r: r.list_f1), _mean(own, lambda r: r.invalid, 1),
                 "" if ratio is None else f"{ratio:.2f}x", _mean(own, lambda r: r.seconds, 0) if is_answer else "",
                 _mean(own, lambda r: r.peak_memory, 0) if is_answer else "", paper or "", str(len(own))]
        lines.append(f"| {' | '.join(cells)} |")
        if not is_answer:
            notes.append(f"{name}: {own[0].status}")
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"
