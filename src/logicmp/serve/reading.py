"""Read a model as the page sends it, and say what is wrong with it, without torch.

Room: parse, facts, normalize -> **serve** (reading -> answers -> nursery -> app).

    check({"rules": "1 P(x)"})        problems, warnings, and where the weights are
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import CostError, LimitError, LogicMPError, RuleError, Source, Span
from ..facts.columns import Evidence
from ..facts.db import parse_facts
from ..limits import MORE_MEMORY, MORE_TIME
from ..normalize.build import normalize_theory
from ..normalize.review import find_warnings
from ..parse.query import parse_queries
from ..parse.reader import read_statements
from ..parse.resolve import resolve
from ..parse.syntax import free_variables
from ..parse.theory import Theory
from ..parse.tokens import Include, Statement
from .examples import EXAMPLES

# of all predicates together, observed or not
MAX_ATOMS = 20_000
# hints of the command line, as the page gives them: it has no -m and no --candidates
HINTS = {MORE_TIME: "choose another method, give more evidence, or restart the server with a larger --max-seconds",
         MORE_MEMORY: "give more evidence, or restart the server with a larger --max-memory"}
Ask = Mapping[str, Any]


@dataclass(frozen=True)
class Read:
    """A model that was read: the theory has the constants of the facts."""

    theory: Theory
    facts: Evidence
    # None for every predicate that is not closed
    query: str | None
    # the predicates in it
    queried: Collection[str]



def read_rules(text: str) -> tuple[Theory, list[Statement]]:
    """The theory of a text, which may not include files."""
    with _no_files():
        found = read_statements(Source("rules", text))
    statements = [statement for statement in found if isinstance(statement, Statement)]
    for statement in found:
        if isinstance(statement, Include):
            raise _no_include(statement.span)
    return resolve(statements), statements


def read_facts(text: str, theory: Theory) -> Evidence:
    """The facts of a text, which may not include files."""
    with _no_files():
        return parse_facts(text, theory, "facts")


@contextmanager
def _no_files() -> Iterator[None]:
    """Reject `#include`, whatever else is wrong with it."""
    try:
        yield
    except RuleError as error:
        span = error.span
        if span is not None and span.source.line(span.line).lstrip().startswith("#include"):
            raise _no_include(span) from None
        raise


def _no_include(span: Span) -> RuleError:
    return RuleError("#include is rejected: the playground opens no files", span, "paste the text of the file here")


def read(ask: Ask) -> Read:
    """Read rules, facts and queries, and reject what has too many atoms or answers."""
    theory, _ = read_rules(ask["rules"])
    facts = read_facts(ask.get("facts", ""), theory)
    sizes = facts.theory.sizes
    n_atoms = sum(math.prod(predicate.shape(sizes)) for predicate in facts.theory.predicates)
    if n_atoms > MAX_ATOMS:
        raise LimitError(f"the model has {n_atoms:,} atoms (limit of the playground {MAX_ATOMS:,})",
                         "use fewer constants, or run logicmp infer on your machine")
    query = ask.get("query", "")
    query = query if query.strip() else ""
    queries = parse_queries(query, facts.theory, "query") if query else []
    n_answers = sum(math.prod(sizes[t] for t in free_variables(found.formula).values()) for found in queries)
    if n_answers > MAX_ATOMS:
        raise LimitError(f"the queries have {n_answers:,} answers (limit of the playground {MAX_ATOMS:,})",
                         "query fewer atoms, or formulas with fewer variables")
    return Read(facts.theory, facts, query or None, {name for found in queries for name in found.predicates})


def check(ask: Ask) -> dict[str, Any]:
    """Errors and warnings of a model, and the places of its weights."""
    problems: list[dict[str, Any]] = []
    found: dict[str, Any] = {"problems": problems, "warnings": [], "weights": [], "predicates": []}
    try:
        theory, statements = read_rules(ask["rules"])
    except LogicMPError as error:
        problems.append(describe_error(error, "rules"))
        return found
    found["weights"] = list(_weights(ask["rules"], statements))
    found["predicates"] = [str(predicate) for predicate in theory.predicates]
    try:
        facts = read_facts(ask.get("facts", ""), theory)
        theory = facts.theory
        found["warnings"] += [{"where": "facts", "lines": [], "message": text} for text in facts.warnings]
    except LogicMPError as error:
        problems.append(describe_error(error, "facts"))
    try:
        found["warnings"] += [{"where": "rules", "lines": list(warning.lines), "message": warning.message}
                              for warning in find_warnings(normalize_theory(theory))]
        # constants may come from the facts, so a query is checked only where these are read
        if not problems and ask.get("query", "").strip():
            parse_queries(ask["query"], theory, "query")
    except CostError as error:
        problems.append(describe_error(error, "rules"))
    except LogicMPError as error:
        problems.append(describe_error(error, "query"))
    return found


def _weights(text: str, statements: Sequence[Statement]) -> Iterator[dict[str, Any]]:
    for statement in statements:
        place = statement.weight_span
        if place is None or statement.weight is None or not math.isfinite(statement.weight):
            continue
        rule = statement.span.source.text[place.end : statement.span.end].strip()
        start, end = _utf16(text, place.start), _utf16(text, place.end)
        yield {"line": statement.span.line, "rule": rule, "value": statement.weight, "start": start, "end": end}


def _utf16(text: str, position: int) -> int:
    """A position as browsers count it."""
    return position + sum(c > "\uffff" for c in text[:position])


def describe_error(error: LogicMPError, where: str = "model") -> dict[str, Any]:
    """An error as the page shows it: the text that it is about, the place, and what the command line prints."""
    if error.hint in HINTS:
        error = LimitError(error.message, HINTS[error.hint])
    kind = "limit" if isinstance(error, (LimitError, CostError)) else "model"
    found: dict[str, Any] = {"kind": kind, "where": where, "message": error.message, "hint": error.hint,
                             "text": str(error), "line": None, "column": None, "start": None, "end": None}
    span = getattr(error, "span", None)
    if isinstance(span, Span) and span.source.name in ("rules", "facts", "query"):
        text = span.source.text
        found |= {"where": span.source.name, "line": span.line, "column": span.column,
                  "start": _utf16(text, span.start), "end": _utf16(text, span.end)}
    return found


def prepare() -> None:
    """Read a model, so that children find everything imported."""
    check({"rules": EXAMPLES[0].rules, "facts": EXAMPLES[0].facts, "query": EXAMPLES[0].query})


TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {"check": lambda ask, limits: check(ask)}
