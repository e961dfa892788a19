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

if TYPE_CHECKING:
    from ..facts.columns import Evidence
    from ..inference.answers import Marginals
    from ..inference.method import TraceLine
    from ..parse.theory import Theory


def plural(count: int, noun: str) -> str:
    """A number with its noun.

    >>> plural(1, "fact"), plural(2000, "fact")
    ('1 fact', '2,000 facts')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def probability(p: float) -> str:
    """Six digits, or as many as needed to differ from 0 and 1.

    >>> probability(0.47812345), probability(1 - 1e-9), probability(1.0)
    ('0.478123', '0.999999999', '1')
    """
    short = f"{p:.6g}"
    return short if float(short) not in (0, 1) or p in (0, 1) else repr(p)


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


def describe(found: Marginals, theory: Theory, facts: Evidence) -> Iterator[str]:
    """Lines about the input, the assumptions, and how the answers were computed."""
    yield (f"{plural(len(theory.predicates), 'predicate')}, {plural(len(theory.rules), 'rule')}, "
           f"{plural(len(facts), 'fact')}")
    n_unweighted = sum(rule.weight is None and not rule.is_hard for rule in theory.rules)
    if n_unweighted:
        yield f"{plural(n_unweighted, 'rule')} without a weight: using 1 (logicmp learn learns weights)"
    yield found.world.describe()
    if found.world.supports:
        dense = (report for report in describe_supports(found.world) if report.kind == "dense")
        yield f"dense:        {', '.join(f'{report.predicate} ({report.atoms:,} atoms)' for report in dense) or 'none'}"
        if found.solution.n_rows is not None:
            yield f"rows of the rules over sparse predicates: {found.solution.n_rows:,}"
    yield f"semantics: {found.semantics}; method: {found.method}"
    yield from found.notes
    if found.log_partition is not None:
        yield f"log Z = {found.log_partition:.9g}"
    elif found.solution.elbo is not None:
        has_hard = any(rule.is_hard for rule in theory.rules)
        yield f"lower bound of log Z{', hard rules softened,' * has_hard} = {found.solution.elbo:.9g}"


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
