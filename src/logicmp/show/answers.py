"""`logicmp infer`: probabilities from .mln and .db files."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..inference.answers import Marginals



def probability(p: float) -> str:
    """Six digits, or as many as it takes not to look like 0 or 1.

    >>> probability(0.47812345), probability(1 - 1e-9), probability(1.0)
    ('0.478123', '0.999999999', '1')
    """
    short = f"{p:.6g}"
    return short if float(short) not in (0, 1) or p in (0, 1) else repr(p)


def to_text(found: Marginals, checked: dict[str, Any] | None) -> str:
    return "".join(f"{text} {probability(p)}\n" for text, p in _rows(found))


def _rows(found: Marginals) -> zip[tuple[str, float]]:
    texts = (text for answer in found.answers for text in answer.texts())
    return zip(texts, found.probabilities.tolist(), strict=True)


def _finite(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None


def to_json(found: Marginals, checked: dict[str, Any] | None) -> str:
    about = {"method": found.method, "semantics": found.semantics,
             "closed_world": {name: why for name, why in found.world.closed.items() if why},
             "notes": found.notes, "log_partition": found.log_partition, "elbo": _finite(found.solution.elbo)}
    rows = [{"atom": text, "probability": p, "log_odds": _finite(odds), "decided": math.isinf(odds)}
            for (text, p), odds in zip(_rows(found), found.log_odds.tolist(), strict=True)]
    return json.dumps(about | ({} if checked is None else {"check": checked}) | {"marginals": rows}, indent=2) + "\n"


def to_csv(found: Marginals, checked: dict[str, Any] | None) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["atom", "probability", "log_odds"])
    writer.writerows([text, probability(p), f"{odds:.6g}"]
                     for (text, p), odds in zip(_rows(found), found.log_odds.tolist(), strict=True))
    return out.getvalue()
