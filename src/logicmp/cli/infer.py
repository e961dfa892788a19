"""`logicmp infer`: probabilities from .mln and .db files."""

from __future__ import annotations

import csv
import io
import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import LogicMPError
from ..facts.columns import Evidence
from ..facts.db import load_facts, parse_facts
from ..files import read_source, write_whole
from ..parse.load import load_theory
from ..parse.theory import Theory
from ..show.answers import _finite, to_csv, to_json, to_text
from ..show.progress import shown_progress
from .options import Grammar, GrammarOption, Semantics, plural

if TYPE_CHECKING:
    from ..inference.answers import Marginals



class OutputFormat(str, Enum):
    text = "text"
    json = "json"
    csv = "csv"


class WorldName(str, Enum):
    alchemy = "alchemy"
    open = "open"
    closed = "closed"


def infer(
    models: Annotated[list[str], typer.Option(
        "-i", "--input", metavar="FILE", help="An .mln file, an ExpressGNN folder, or - for stdin; repeatable.")],
    evidence: Annotated[list[str] | None, typer.Option(
        "-e", "--evidence", metavar="FILE", help="A .db file, or - for stdin; repeatable.")] = None,
    query: Annotated[list[str] | None, typer.Option(
        "-q", "--query", metavar="P,Q(x,A),...", help="Predicates, atoms or formulas; without it and without -f, every "
        "predicate that is not closed.")] = None,
    query_file: Annotated[Path | None, typer.Option("-f", "--query-file", help="A file of queries.")] = None,
    results: Annotated[Path | None, typer.Option(
        "-r", "--results", help="Where the answers go, instead of stdout.")] = None,
    method: Annotated[str, typer.Option(
        "-m", "--method", help="auto (exact where it can be, mean field elsewhere), exact, mean-field, "
        "gibbs, mc-sat, bp, lifted-bp, hl-mrf, map; see docs/methods.md.")] = "auto",
    fmt: Annotated[OutputFormat, typer.Option(
        "--format", help="text: 'Pred(A,B) 0.478' to a line, as Alchemy writes it.")] = OutputFormat.text,
    semantics: Annotated[Semantics, typer.Option(
        help="exact: a weight counts true groundings of its formula; alchemy: it is divided over the clauses; paper: "
             "meeting atoms taken as independent, mean field only.")] = Semantics.exact,
    world: Annotated[WorldName, typer.Option(
        help="alchemy: a predicate with facts is closed unless it is asked for; open, closed: all are.")
    ] = WorldName.alchemy,
    closed: Annotated[str, typer.Option("-cw", "--closed", metavar="P,Q", help="Predicates that are closed.")] = "",
    opened: Annotated[str, typer.Option("-ow", "--open", metavar="P,Q", help="Predicates that are open.")] = "",
    seed: Annotated[int, typer.Option("-seed", "--seed", help="For everything random.")] = 0,
    iterations: Annotated[int | None, typer.Option(
        help="Mean field: updates at most; exactly, if --tolerance 0.")] = None,
    damping: Annotated[float | None, typer.Option(help="Mean field: how much of the old log-odds stays.")] = None,
    tolerance: Annotated[float | None, typer.Option(help="Mean field: stop when no marginal moves by more.")] = None,
    restarts: Annotated[int | None, typer.Option(help="Mean field: the best of so many runs.")] = None,
    max_cells: Annotated[int | None, typer.Option(help="Exact: table cells that one component may need.")] = None,
    max_groundings: Annotated[int | None, typer.Option(help="Exact: open groundings there may be.")] = None,
    max_seconds: Annotated[float | None, typer.Option(
        help="Stop after so long with what there is, and say so.")] = None,
    more: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other option of the method, see docs/methods.md; repeatable.")] = None,
    check: Annotated[bool, typer.Option(
        "--check", help="Run exact and mean field, and say how far they are apart.")] = False,
    trace: Annotated[Path | None, typer.Option(
        help="Mean field: write bound and violations of every iteration to a .csv file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Mean field: draw them, .png or .svg.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Answers and errors only.")] = False,
    grammar: GrammarOption = Grammar.auto,
) -> None:
    """Answer queries about a Markov logic network.

    \b
        logicmp infer -i smoking.mln -e smoking.db -q Smokes,Cancer
        logicmp infer -i smoking.mln -e smoking.db -q "Smokes(x) => Cancer(x)" -m exact
        logicmp infer -i smoking.mln -e smoking.db -q Cancer(x) --format json -r out.json
    """
    given: dict[str, Any] = {"iterations": iterations, "damping": damping, "tolerance": tolerance, "restarts": restarts,
             "max_cells": max_cells, "max_groundings": max_groundings, "max_seconds": max_seconds,
             "trace": True if trace or plot else None}
    options = {name: value for name, value in given.items() if value is not None} | _settings(more or [])
    for path in (results, trace, plot):
        _check_place(path)
    if plot is not None:
        from ..show.plot import check_plot

        check_plot(plot)
    if [*models, *(evidence or [])].count("-") > 1:
        raise LogicMPError("standard input ('-') can be read only once")
    theory = load_theory(models, grammar.value)
    facts = load_facts(evidence, theory) if evidence else parse_facts("", theory)
    queries = _queries(query or [], query_file)
    say = _say(quiet)
    for warning in facts.warnings:
        say(f"warning: {warning}")
    ask: dict[str, Any] = {"query": queries or None, "semantics": semantics.value, "world": world.value,
                           "closed": _names(closed), "opened": _names(opened), "seed": seed}
    # torch takes its time: what is wrong with the files is said before
    from ..inference.run import infer as run

    with shown_progress(quiet) as progress:
        found = run(theory, facts, method=method, progress=progress, **ask, **options)
    checked = _check(theory, facts, ask, options, say) if check else None
    _tell(found, theory, facts, say)
    if trace is not None or plot is not None:
        _write_trace(found, theory, trace, plot, say)
    text = _FORMATS[fmt](found, checked)
    if results is None:
        typer.echo(text, nl=False)
    else:
        write_whole(results, text, "the answers")
        say(f"{plural(len(found.log_odds), 'answer')} in {results}")


def _settings(pairs: list[str]) -> dict[str, Any]:
    """`chains=4` and the like: a number, true, false, or a word."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise LogicMPError(f"--set {pair!r} is not of the form NAME=VALUE", "for example --set chains=4")
        try:
            found[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            found[name.strip().replace("-", "_")] = value.strip()
    return found


def _say(quiet: bool) -> Any:
    return (lambda text: None) if quiet else (lambda text: typer.echo(text, err=True))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _check_place(path: Path | None) -> None:
    """A result that cannot be written is better known before the work than after it."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        why = "it is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        raise LogicMPError(f"cannot write {str(path)!r}: {why}")


def _queries(texts: list[str], file: Path | None) -> list[str]:
    return texts + ([read_source(file).text] if file is not None else [])


def _tell(found: Marginals, theory: Theory, facts: Evidence, say: Any) -> None:
    say(f"{plural(len(theory.predicates), 'predicate')}, {plural(len(theory.rules), 'rule')}, "
        f"{plural(len(facts), 'fact')}")
    n_unweighted = sum(rule.weight is None and not rule.is_hard for rule in theory.rules)
    if n_unweighted:
        say(f"{plural(n_unweighted, 'rule')} without a weight: taken as 1 (logicmp learn finds weights)")
    say(found.world.describe())
    say(f"semantics: {found.semantics}; method: {found.method}")
    for note in found.notes:
        say(note)
    if found.log_partition is not None:
        say(f"log Z = {found.log_partition:.9g}")
    elif found.solution.elbo is not None:
        has_hard = any(rule.is_hard for rule in theory.rules)
        say(f"lower bound of log Z{', hard rules softened,' * has_hard} = {found.solution.elbo:.9g}")


def _check(theory: Theory, facts: Evidence, ask: dict[str, Any], options: dict[str, Any], say: Any) -> dict[str, Any]:
    """How far mean field is from the truth."""
    from ..inference.run import infer, method_class

    exact, field = (infer(theory, facts, method=name, **ask, **{
        option: value for option, value in options.items() if option in method_class(name).__dataclass_fields__})
        for name in ("exact", "mean-field"))
    difference = abs(exact.probabilities - field.probabilities)
    worst = int(difference.argmax())
    atom = list(exact)[worst]
    say(f"check: mean field is off by {difference[worst]:.4f} at most, for {atom} ({field.probabilities[worst]:.4f} "
        f"instead of {exact.probabilities[worst]:.4f}), and by {difference.mean():.4f} in the mean over "
        f"{plural(len(difference), 'answer')}")
    return {"largest": float(difference[worst]), "atom": atom, "mean": float(difference.mean())}


def _write_trace(found: Marginals, theory: Theory, trace: Path | None, plot: Path | None, say: Any) -> None:
    iterations = found.solution.trace
    if not iterations:
        raise LogicMPError("there are no iterations to trace: all was solved exactly", "use -m mean-field")
    if trace is not None:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["iteration", "elbo", "change", *(str(rule) for rule in theory.rules)])
        writer.writerows([i.number, i.elbo, _finite(i.change), *i.violations] for i in iterations)
        write_whole(trace, out.getvalue(), "the trace")
        say(f"{plural(len(iterations), 'iteration')} in {trace}")
    if plot is not None:
        from ..show.plot import draw_trace

        draw_trace(plot, iterations, [str(rule) for rule in theory.rules])
        say(f"plot in {plot}")


_FORMATS = {OutputFormat.text: to_text, OutputFormat.json: to_json, OutputFormat.csv: to_csv}
