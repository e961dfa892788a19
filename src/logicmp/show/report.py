"""A report of answers as one HTML page: the input, the assumptions, the answers, the trace, and explanations.

Room: inference -> **show** (page -> report) -> serve, cli.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .answers import describe, plural, probability
from .page import Html, Page, bar, code, curves, heading, histogram, listed, paragraph, table

if TYPE_CHECKING:
    from ..facts.columns import Evidence
    from ..inference.answers import Marginals
    from ..parse.theory import Theory

# rows of the table of answers
MAX_ROWS = 500
# what pushed an atom: amount and rule, with the amount and text of its strongest groundings
Pushes = Sequence[tuple[float, str, Sequence[tuple[float, str]]]]


def report_answers(found: Marginals, theory: Theory, facts: Evidence, seconds: float,
                   difference: Mapping[str, Any] | None = None,
                   trace: tuple[Sequence[float], Sequence[Sequence[float]]] | None = None,
                   explained: Sequence[tuple[str, Pushes]] = (), sources: Mapping[str, str] | None = None) -> str:
    """The report of a run, as the text of an HTML file that needs no other file.

    Args:
        found: the answers.
        theory, facts: what was read.
        seconds: time that inference took.
        difference: "largest", "atom" and "mean" difference to exact inference, if it was measured.
        trace: of mean field, the bound after each iteration, and the expected violations of each rule.
        explained: atoms with the pushes that each rule gave them.
        sources: texts of the model by name.
    """
    page = Page("LogicMP report")
    lines = [*describe(found, theory, facts), f"status: {found.status}", f"time: {seconds:.3g} s"]
    if difference is not None:
        lines.append(f"difference to exact inference: at most {difference['largest']:.4f}, for {difference['atom']}; "
                     f"{difference['mean']:.4f} on average")
    page.add("Summary", listed([line for text in lines for line in text.splitlines()]))
    page.add("Answers", *_answers(found))
    page.add("Mean field", *([] if trace is None else _trace(found, *trace)))
    page.add("Why", *(part for atom, pushes in explained for part in _explained(atom, pushes)))
    page.add("Model", *(part for name, text in (sources or {}).items() if text.strip()
                        for part in (heading(name), code(text))))
    return page.to_html()


def _answers(found: Marginals) -> list[Html]:
    p = found.probabilities
    texts = [text for answer in found.answers for text in answer.texts()]
    order = sorted(range(len(p)), key=lambda k: -p[k])
    rows: list[list[str | float | Html]] = [[texts[k], probability(float(p[k])), bar(float(p[k]))]
                                            for k in order[:MAX_ROWS]]
    parts = [histogram(p.tolist()), table(["answer", "probability", ""], rows)]
    if len(order) > MAX_ROWS:
        parts.append(paragraph(f"{plural(len(order) - MAX_ROWS, 'more answer')}, less probable, not shown", True))
    return parts


def _trace(found: Marginals, bound: Sequence[float], violations: Sequence[Sequence[float]]) -> list[Html]:
    rules = [str(rule) for rule in found.world.theory.rules]
    by_rule = {rule: [row[f] for row in violations] for f, rule in enumerate(rules)}
    most = sorted(by_rule, key=lambda rule: -by_rule[rule][-1])
    return [paragraph(f"Mean field over {plural(len(bound) - 1, 'iteration')}; the rule with most "
                      "expected violations is first.", True),
            curves({"lower bound of log Z": bound, **{rule: by_rule[rule] for rule in most}},
                   "bound, then expected violations")]


def _explained(atom: str, pushes: Pushes) -> list[Html]:
    rows: list[list[str | float | Html]] = []
    for amount, rule, groundings in pushes:
        if amount:
            rows.append([f"{amount:+.3f}", rule])
            rows += [[f"{part:+.3f}", f"    of it through {text}"] for part, text in groundings]
    return [heading(atom), table(["log-odds", "rule"], rows) if rows else paragraph("no rule pushed it", True)]
