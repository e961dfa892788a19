"""Answers as text, JSON and CSV, with notes on how they were computed.

Room: inference -> **show** -> cli.

    to_text(infer("2 P(x)", "", "P(A)"))        'P(A) 0.880797\\n'
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..ground.worlds import describe_supports
from ..page import probability

if TYPE_CHECKING:
    from ..inference.answers import Marginals
    from ..inference.method import TraceLine


def to_text(found: Marginals) -> str:
    """One line per answer, as Alchemy writes them: `Smokes(Anna) 0.478123`."""
    return "".join(f"{text} {probability(p)}\n" for text, p in _rows(found))


def to_json(found: Marginals, checked: dict[str, Any] | None = None) -> str:
    """One object: how the answers were computed, the error of mean field if it was measured, and the answers."""
    about = {"method": found.method, "status": found.status, "complete": found.is_complete,
             "semantics": found.semantics,
             "closed_world": {name: why for name, why in found.world.closed.items() if why},
             "supports": {report.predicate: report.to_dict() for report in describe_supports(found.world)},
             "rows": found.solution.n_rows,
             "notes": found.notes, "log_partition": found.log_partition, "elbo": _finite(found.solution.elbo)}
    rows = [{"atom": text, "probability": p, "log_odds": _finite(odds), "decided": math.isinf(odds)}
            for (text, p), odds in zip(_rows(found), found.log_odds.tolist(), strict=True)]
    return json.dumps(about | ({} if checked is None else {"check": checked}) | {"marginals": rows}, indent=2) + "\n"


def to_csv(found: Marginals) -> str:
    """A header and one row per answer: atom, probability, log-odds."""
    return _table(["atom", "probability", "log_odds"], (
        [text, probability(p), f"{odds:.6g}"]
        for (text, p), odds in zip(_rows(found), found.log_odds.tolist(), strict=True)))


def trace_to_csv(iterations: Sequence[TraceLine], rules: Sequence[str]) -> str:
    """A header and one row per iteration: bound, largest change, expected violations of each rule."""
    return _table(["iteration", "elbo", "change", *rules],
                  ([i.number, i.elbo, _finite(i.change), *i.violations] for i in iterations))


def _rows(found: Marginals) -> Iterator[tuple[str, float]]:
    texts = (text for answer in found.answers for text in answer.texts())
    return zip(texts, found.probabilities.tolist(), strict=True)


def _finite(x: float | None) -> float | None:
    # JSON has no infinity
    return x if x is not None and math.isfinite(x) else None


def _table(header: list[str], rows: Iterable[list[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
