"""Several methods on the same queries, as a table.

Room: inference -> **show** -> cli.

    method       seconds   memory  status        log Z   largest      mean
    exact            0.9   312 MB  exact       6.23815         -         -
    mean-field       1.4   315 MB  converged  >= 6.1902    0.0121    0.0040
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..limits import shown_bytes
from ..page import Page, bar, code, listed, paragraph, scatter, table

# of a method, in the drawing
MAX_POINTS = 2_000


@dataclass(frozen=True)
class Row:
    """One method: what it cost and what it answered."""

    method: str
    seconds: float
    # bytes, None where the system does not tell
    memory: int | None
    # by atom; None if the method failed
    answers: Mapping[str, float] | None
    status: str
    log_partition: float | None
    elbo: float | None
    error: str = ""

    def differences(self, first: Row) -> list[float]:
        """How far each answer is from the reference, for the atoms that both have."""
        own, other = self.answers or {}, first.answers or {}
        return [abs(p - other[atom]) for atom, p in own.items() if atom in other]


def to_table(rows: Sequence[Row]) -> str:
    """A table for people; differences are to the first row."""
    lines = [f"{'method':<11}{'seconds':>9}{'memory':>9}  {'status':<10}{'log Z':>14}{'largest':>10}{'mean':>10}"]
    for row in rows:
        memory = "-" if row.memory is None else shown_bytes(row.memory)
        head = f"{row.method:<11}{row.seconds:9.2f}{memory:>9}  {row.status or 'failed':<10}"
        z = (f"{row.log_partition:.6g}" if row.log_partition is not None
             else f">= {row.elbo:.6g}" if row.elbo is not None else "-")
        off = row.differences(rows[0]) if row is not rows[0] else []
        shown = (f"{max(off):.4f}", f"{sum(off) / len(off):.4f}") if off else ("-", "-")
        lines.append(f"{head}{z:>14}{shown[0]:>10}{shown[1]:>10}")
    n = len(rows[0].answers or {})
    lines.append(f"largest and mean difference to {rows[0].method} over {n:,} answer{'s' * (n != 1)}")
    return "\n".join(lines) + "\n"


def to_html(rows: Sequence[Row]) -> str:
    """One HTML page that needs no other file: the table, and the answers of each method against the first."""
    page = Page("LogicMP: methods compared")
    most = max(row.seconds for row in rows) or 1.0
    errors = [f"{row.method}: {row.error}" for row in rows if row.error]
    page.add("Methods", code(to_table(rows)), *([listed(errors)] if errors else []),
             table(["method", "seconds", ""],
                   [[row.method, round(row.seconds, 2), bar(row.seconds / most)] for row in rows]))
    first = rows[0].answers or {}
    points = {row.method: [(first[atom], p) for atom, p in (row.answers or {}).items() if atom in first][:MAX_POINTS]
              for row in rows[1:]}
    axes = f"To the right: probability by {rows[0].method}; upwards: by the other method."
    page.add("Answers", paragraph(axes, True),
             scatter({name: pairs for name, pairs in points.items() if pairs}, rows[0].method))
    return page.to_html()


def to_json(rows: Sequence[Row]) -> str:
    """A list with one object for each method, answers included."""
    found = []
    for row in rows:
        off = row.differences(rows[0])
        found.append({
            "method": row.method, "status": row.status or "failed", "error": row.error or None,
            "seconds": row.seconds, "memory": row.memory, "log_partition": row.log_partition, "elbo": row.elbo,
            "largest": max(off) if off else None, "mean": sum(off) / len(off) if off else None,
            "answers": row.answers})
    return json.dumps(found, indent=2) + "\n"
