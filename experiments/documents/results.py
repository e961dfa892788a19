"""Stored results: one JSON file for each row and seed, and the tables they make beside the paper's.

    results/logicmp-0.json     {"full": 74.1, "long": 40.2, "violated": 0.0001, "seconds": 210.2, "commit": "...", ...}
    results/speed.json         the layer alone, and a training step with and without it, measured side by side
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..runs import commit, save_result
from .methods import COMPILED, DECODED, ORDER, ROWS

RESULTS = Path(__file__).with_name("results")
SPEED = "speed.json"


@dataclass
class Result:
    """What one row gave for one seed; `full` and `long` are None if there is no answer, and `status` says why."""

    method: str
    seed: int
    # F1 of blocks that match exactly, in percent: of all, and of those with 20 words or more
    full: float | None = None
    long: float | None = None
    # matched, predicted and true blocks of both
    blocks: tuple[int, int, int] = (0, 0, 0)
    long_blocks: tuple[int, int, int] = (0, 0, 0)
    # the share of all triples that break the rule, before the layer and at the end; None where there are no pairs
    violated_before: float | None = None
    violated: float | None = None
    # what the rule's weight was learned to be
    weight: float | None = None
    # of training this row, and of the encoder that all rows of a seed start from
    seconds: float = 0.0
    encoder_seconds: float = 0.0
    # in MB, of the process so far
    peak_memory: float = 0.0
    threads: int = 0
    encoder: str = "minilm"
    pages: str = "test"
    commit: str = field(default_factory=commit)
    status: str = "done"
    losses: list[float] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.method} seed {self.seed}"

    @property
    def file(self) -> str:
        return f"{self.method}-{self.seed}.json"

    def save(self, folder: Path = RESULTS) -> None:
        save_result(self, folder / self.file)


def load_results(folder: Path = RESULTS) -> list[Result]:
    return [Result(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json")) if path.name != SPEED]


def load_speed(folder: Path = RESULTS) -> dict[str, Any] | None:
    path = folder / SPEED
    return json.loads(path.read_text()) if path.exists() else None


def title_of(method: str) -> str:
    if method in COMPILED:
        return COMPILED[method]
    return ROWS[method].title if method in ROWS else DECODED[method].title


def with_spread(values: Sequence[float], digits: int = 1) -> str:
    spread = f" ±{statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def _cell(results: Sequence[Result], name: str) -> str:
    values = [getattr(r, name) for r in results if getattr(r, name) is not None]
    return with_spread(values) if values else "-"


def _violated(results: Sequence[Result]) -> str:
    """In millionths of all triples, below the layer and at the end."""
    ends = [1e6 * r.violated for r in results if r.violated is not None]
    starts = [1e6 * r.violated_before for r in results if r.violated_before is not None]
    if not ends:
        return ""
    before, after = (f"{statistics.mean(values):.1f}" for values in (starts, ends))
    return after if before == after else f"{before} → {after}"


def _paper(method: str) -> str:
    if method in COMPILED:
        return "- / -"
    paper = ROWS[method].paper if method in ROWS else None
    return "" if paper is None else f"{paper[0]} / {paper[1]}"


def as_table(results: Sequence[Result], speed: Mapping[str, Any] | None = None) -> str:
    """Markdown: F1, violated triples and costs by row, what LogicMP gains over Pair, and what the layer takes."""
    by_method = {method: [r for r in results if r.method == method] for method in ORDER}
    lines = ["| method | full | long | *paper: full / long* | triples violated, ppm | weight | seeds | seconds | MB |",
             "|---|---|---|---|---|---|---|---|---|"]
    notes = []
    for method, found in by_method.items():
        if not found:
            continue
        weights = [r.weight for r in found if r.weight is not None]
        lines.append(f"| {title_of(method)} | {_cell(found, 'full')} | {_cell(found, 'long')} | {_paper(method)} | "
                     f"{_violated(found)} | {with_spread(weights, 2) if weights else ''} | {len(found)} | "
                     f"{statistics.mean(r.seconds for r in found):.0f} | {max(r.peak_memory for r in found):.0f} |")
        notes += [f"{title_of(method)}: {status}." for status in dict.fromkeys(r.status for r in found)
                  if status != "done"]
    parts = ["\n".join(lines), *(["\n".join(f"- {note}" for note in notes)] if notes else [])]
    gains = _gains(by_method)
    if gains:
        parts.append(gains)
    if speed is not None:
        parts.append(_speed(speed))
    return "\n\n".join(parts) + "\n\n± standard deviation over seeds; ppm: millionths of all triples of the pages.\n"


def _gains(by_method: Mapping[str, Sequence[Result]]) -> str:
    """LogicMP minus Pair, seed by seed: they start from the same encoder."""
    lines = []
    for method in ("slrelax", "logicmp", "slrelax+logicmp", "logicmp-symmetric"):
        plain = {r.seed: r for r in by_method["pair"]}
        found = [(r, plain[r.seed]) for r in by_method[method] if r.seed in plain]
        if found:
            full, long = ([getattr(r, name) - getattr(p, name) for r, p in found] for name in ("full", "long"))
            lines.append(f"| {title_of(method)} | {with_spread(full, 2)} | {with_spread(long, 2)} |")
    return "\n".join(["| against Pair of the same seed | full | long |", "|---|---|---|", *lines]) if lines else ""


def _speed(speed: Mapping[str, Any]) -> str:
    lines = ["| the layer alone, T=5, one page | ms |", "|---|---|"]
    lines += [f"| {what} | {ms:.1f} |" for what, ms in speed["layer_ms"].items()]
    lines += ["", f"A training step with the layer takes {speed['step_ratio']:.2f} times the plain one "
              f"({speed['step_ms']['logicmp']:.0f} and {speed['step_ms']['pair']:.0f} ms, batches of "
              f"{speed['batch']} pages, {speed['threads']} threads)."]
    return "\n".join(lines)
