"""`logicmp infer`: probabilities from .mln and .db files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import LogicMPError
from ..facts.columns import Evidence
from ..facts.db import load_facts
from ..facts.divided import Division
from ..facts.frames import table_bytes
from ..files import check_place, check_places, read_source, write_whole
from ..limits import LIMIT_REACHED, MAX_GROUNDINGS, Limits, kept, need, shown_bytes
from ..page import plural
from ..parse.load import load_theory
from ..parse.query import split_names
from ..parse.theory import Theory
from ..show.answers import to_csv, to_json, to_text, trace_to_csv
from ..show.progress import print_message, shown_progress
from .options import (
    CandidatesOption,
    ClosedOption,
    EngineName,
    EngineOption,
    EvidenceOption,
    Grammar,
    GrammarOption,
    InputOption,
    MasterOption,
    MemoryOption,
    OpenOption,
    Outside,
    OutsideOption,
    Premises,
    PremisesOption,
    ReachOption,
    Semantics,
    SemanticsOption,
    WorldName,
    WorldOption,
    read_bytes,
)

if TYPE_CHECKING:
    from ..inference.answers import Marginals

METHODS_PAGE = 'see "Methods" in the documentation (docs/methods.md in the repository)'


class OutputFormat(StrEnum):
    text = "text"
    json = "json"
    csv = "csv"
    parquet = "parquet"


def infer(
    context: typer.Context,
    models: InputOption,
    evidence: EvidenceOption = None,
    query: Annotated[list[str] | None, typer.Option(
        "-q", "--query", metavar="P,Q(x,A),...", help="Predicates, atoms or formulas to answer; without -q and -f, "
        "every predicate that is not closed.")] = None,
    query_file: Annotated[Path | None, typer.Option("-f", "--query-file", help="Read queries from this file.")] = None,
    results: Annotated[Path | None, typer.Option(
        "-r", "--results", "-o", "--output", help="Write the answers to this file instead of stdout; .csv, .json and "
        ".parquet set the format.")] = None,
    method: Annotated[str, typer.Option(
        "-m", "--method", help="auto (exact inference where possible, bp or mean field for the rest), exact, "
        f"mean-field, gibbs, mc-sat, bp, lifted-bp, hl-mrf, map; {METHODS_PAGE}.")] = "auto",
    fmt: Annotated[OutputFormat | None, typer.Option(
        "--format", help="text: one answer per line, 'Pred(A,B) 0.478', as Alchemy writes it; the default unless the "
        "ending of -o says otherwise.")] = None,
    semantics: SemanticsOption = Semantics.exact,
    world: WorldOption = WorldName.alchemy,
    closed: ClosedOption = "",
    opened: OpenOption = "",
    prior: Annotated[list[str] | None, typer.Option(
        metavar="P=0.1", help="Set the probability of atoms of the open predicate P without a fact, if no rule "
        "mentions them, above 0 and below 1; default 0.5; repeatable.")] = None,
    candidates: CandidatesOption = None,
    reach: ReachOption = 0,
    premises: PremisesOption = Premises.all,
    outside: OutsideOption = Outside.false,
    unscored: Annotated[str | None, typer.Option(
        metavar="false|skip|P", help="What an atom without a row counts as, where a table has scores. false; skip: "
        "false, and rules ignore it; P: a probability.")] = None,
    seed: Annotated[int, typer.Option("-seed", "--seed", help="Set the seed of all random choices.")] = 0,
    iterations: Annotated[int | None, typer.Option(
        help="Mean field, bp, hl-mrf: maximum number of iterations; mean field with --tolerance 0 runs exactly this "
        "many.")] = None,
    damping: Annotated[float | None, typer.Option(
        help="Mean field, bp: share of the previous log-odds kept, 0 to below 1.")] = None,
    tolerance: Annotated[float | None, typer.Option(
        help="Mean field: stop when no marginal changes by more than this; bp, hl-mrf: no message, no truth value; at "
        "least 0.")] = None,
    schedule: Annotated[str | None, typer.Option(
        help="Mean field: run a schedule of the layer once (paper, adaptive or cold), not until convergence.")] = None,
    correction: Annotated[str | None, typer.Option(
        help="Mean field: tap (the default) adds the second-order term to each update where the ground network fits; "
        "none runs plain mean field.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Mean field: write this file every minute; if it exists, resume from it, with any number "
        "of processes.")] = None,
    restarts: Annotated[int | None, typer.Option(
        help="Mean field, map: number of runs, of which the best is kept; at least 1.")] = None,
    max_cells: Annotated[int | None, typer.Option(
        help="Exact inference: maximum number of table cells per component.")] = None,
    max_groundings: Annotated[int | None, typer.Option(
        help="Maximum number of groundings that the evidence leaves open; mean field needs them for its correction "
        "only.")] = None,
    max_seconds: Annotated[float | None, typer.Option(
        help="Time limit in seconds for the whole command; at the limit, print the best answers so far, or an error if "
        "there are none, and exit with status 3.")] = None,
    max_memory: MemoryOption = None,
    engine: EngineOption = EngineName.torch,
    master: MasterOption = "local[*]",
    distributed: Annotated[bool, typer.Option(
        "--distributed", help="Mean field, bp: share the rows of the rules with the other processes that torchrun "
        "started; rank 0 prints the answers.")] = False,
    divide: Annotated[str, typer.Option(
        metavar="P,Q", help="With --distributed, mean field: each process keeps a share of the facts of these closed "
        "predicates only; they come from tables, and no rule reads two of them, or one twice.")] = "",
    more: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUE", help=f"Set any other option of the method; repeatable; {METHODS_PAGE}.")] = None,
    check: Annotated[bool, typer.Option(
        "--check", help="Also run exact inference and report the mean-field error.")] = False,
    trace: Annotated[Path | None, typer.Option(
        help="Mean field: write the bound and the violations after every iteration to this .csv file.")] = None,
    plot: Annotated[Path | None, typer.Option(
        help="Mean field: draw the same to this .png, .svg or .pdf file.")] = None,
    report: Annotated[Path | None, typer.Option(
        metavar="FILE.html", help="Also write a page with the answers, the course of mean field and explanations to "
        "this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print answers and errors only.")] = False,
    grammar: GrammarOption = Grammar.auto,
) -> None:
    """Answer queries about a Markov logic network.

    \b
        logicmp infer -i smoking.mln -e smoking.db -q Smokes,Cancer
        logicmp infer -i smoking.mln -e smoking.db -q "Smokes(x) => Cancer(x)" -m exact
        logicmp infer -i smoking.mln -e Friends=friends.csv -q "Cancer(x)" -o out.parquet
        torchrun --nproc-per-node 2 -m logicmp infer -i big.mln -e Friends=parts/ -q Smokes -m mean-field --distributed
    """
    # of several processes, the first one prints
    is_first = not distributed or os.environ.get("RANK", "0") == "0"
    quiet = quiet or not is_first
    given: dict[str, Any] = {"iterations": iterations, "damping": damping, "tolerance": tolerance, "restarts": restarts,
             "schedule": schedule, "correction": correction,
             "checkpoint": None if checkpoint is None else str(checkpoint),
             "max_cells": max_cells, "max_groundings": max_groundings, "max_seconds": max_seconds,
             "trace": True if trace or plot else None}
    options = {name: value for name, value in given.items() if value is not None} | _settings(more or [])
    # the clock of the whole command starts here
    limits = Limits(options.pop("max_seconds", None), options.pop("max_groundings", MAX_GROUNDINGS),
                    None if max_memory is None else read_bytes(max_memory), start=context.obj)
    check_places({"the results": results, "the trace": trace, "the plot": plot, "the report": report},
                 [*models, *(evidence or []), *(candidates or []), query_file])
    check_place(checkpoint)
    division = _division(divide, distributed)
    if division is not None and (check or report is not None):
        option = "--check" if check else "--report"
        raise LogicMPError(f"{option} reads all facts, and with --divide no process has them",
                           f"leave out {option}, or --divide")
    if plot is not None:
        from ..show.plot import check_plot

        check_plot(plot)
    fmt = fmt or _format(results)
    if fmt is OutputFormat.parquet:
        if results is None:
            raise LogicMPError("--format parquet needs a file", "add -o answers.parquet")
        need("pyarrow", "tables", "writing a .parquet file", "write the table as .csv")
    if [*models, *(evidence or []), *(candidates or [])].count("-") > 1:
        raise LogicMPError("standard input ('-') can be read only once")
    say = (lambda text: None) if quiet else print_message
    with shown_progress(quiet) as shown, kept(limits, shown, context.obj is not None) as progress:
        progress("reading", 0, 0)
        theory = load_theory(models, grammar.value)
        if str(results) in theory.predicate:
            raise LogicMPError(f"-o names the file for the answers, got the predicate {str(results)!r}",
                               f"to open the predicate, write -ow {results}")
        facts = load_facts(evidence or [], theory, progress, division)
        allowed = load_facts(candidates, facts.theory, progress) if candidates else None
        queries = _queries(query or [], query_file)
        for warning in facts.warnings:
            say(f"warning: {warning}")
        ask: dict[str, Any] = {"query": queries or None, "semantics": semantics.value, "world": world.value,
                               "closed": split_names(closed), "opened": split_names(opened),
                               "prior": _priors(prior or []), "seed": seed, "limits": limits, "candidates": allowed,
                               "reach": reach, "premises": premises.value, "outside": outside.value,
                               "unscored": _unscored(unscored)}
        # importing torch is slow, so errors in the files are reported first
        progress("importing", 0, 0)
        from ..inference.run import infer as run

        with _processes(distributed, say) as shares:
            found = run(theory, facts, method=method, progress=progress, engine=engine.value, master=master,
                        shares=shares, **ask, **options)
    if not is_first:
        return
    with shown_progress(quiet) as shown:
        checked = _check(theory, facts, {**ask, "progress": shown}, options, say) if check else None
    for line in found.describe():
        say(line)
    if trace is not None or plot is not None:
        _write_trace(found, trace, plot, say)
    text: str | bytes
    if report is not None:
        from ..inference.report import build_report

        write_whole(report, build_report(found, limits.now() - limits.start, checked), "the report")
        say(f"report in {report}")
    if fmt is OutputFormat.json:
        text = to_json(found, checked)
    elif fmt is OutputFormat.parquet:
        text = table_bytes(found.columns(), ".parquet")
    else:
        text = to_csv(found) if fmt is OutputFormat.csv else to_text(found)
    if results is None:
        typer.echo(text, nl=False)
    else:
        write_whole(results, text, "the answers")
        say(f"{plural(len(found.log_odds), 'answer')} in {results}")
    if not found.is_complete:
        # shown with --quiet too: a file of answers does not tell
        print_message(f"warning: the time limit of {limits.seconds:g} s was reached; these are the best answers so far")
        raise typer.Exit(LIMIT_REACHED)


def _format(results: Path | None) -> OutputFormat:
    """The format that the ending of a file names, else text."""
    ending = "" if results is None else results.suffix.lower().removeprefix(".")
    return OutputFormat(ending) if ending in set(OutputFormat) else OutputFormat.text


def _division(names: str, is_distributed: bool) -> Division | None:
    """Which facts are divided; the launcher tells each process its rank."""
    if not names:
        return None
    if not is_distributed:
        raise LogicMPError("--divide needs --distributed: one process has all facts", "start it with torchrun")
    return Division(tuple(split_names(names)), int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def _unscored(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


@contextmanager
def _processes(distributed: bool, say: Any) -> Iterator[Any]:
    """The processes that share the rows; None for one process."""
    if not distributed:
        yield None
        return
    from ..execute.processes import joined_processes

    with joined_processes() as shares:
        yield shares
        say(f"{shares.share.size} processes: {plural(shares.calls, 'exchange')}, {shown_bytes(shares.bytes)}, "
            f"{shares.seconds:.2f} s, the time to wait for others included")


def _settings(pairs: list[str]) -> dict[str, Any]:
    """The options in a list of `chains=4` and the like; a value is a number, true, false, or a word."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise LogicMPError(f"--set must be NAME=VALUE, got {pair!r}", "for example --set chains=4")
        try:
            found[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            found[name.strip().replace("-", "_")] = value.strip()
    return found


def _priors(pairs: list[str]) -> dict[str, float]:
    """The probabilities in a list of `Smokes=0.1`."""
    found = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise LogicMPError(f"--prior must be PREDICATE=PROBABILITY, got {pair!r}",
                               "for example --prior Smokes=0.1") from None
    return found


def _queries(texts: list[str], file: Path | None) -> list[str]:
    return texts + ([read_source(file).text] if file is not None else [])


def _check(theory: Theory, facts: Evidence, ask: dict[str, Any], options: dict[str, Any], say: Any) -> dict[str, Any]:
    """Run exact inference and mean field, and measure how far they differ."""
    from ..inference.run import infer, method_class

    exact, field = (infer(theory, facts, method=name, **ask, **{
        option: value for option, value in options.items() if option in method_class(name).__dataclass_fields__})
        for name in ("exact", "mean-field"))
    difference = abs(exact.probabilities - field.probabilities)
    worst = int(difference.argmax())
    atom = list(exact)[worst]
    say(f"check: mean field is off by {difference[worst]:.4f} at most, for {atom} ({field.probabilities[worst]:.4f} "
        f"instead of {exact.probabilities[worst]:.4f}), and by {difference.mean():.4f} on average over "
        f"{plural(len(difference), 'answer')}")
    return {"largest": float(difference[worst]), "atom": atom, "mean": float(difference.mean())}


def _write_trace(found: Marginals, trace: Path | None, plot: Path | None, say: Any) -> None:
    iterations = found.solution.trace
    if not iterations:
        raise LogicMPError("there are no iterations to trace: exact inference solved all", "use -m mean-field")
    rules = [str(rule) for rule in found.world.theory.rules]
    if trace is not None:
        write_whole(trace, trace_to_csv(iterations, rules), "the trace")
        say(f"{plural(len(iterations), 'iteration')} in {trace}")
    if plot is not None:
        from ..show.plot import draw_trace

        draw_trace(plot, iterations, rules)
        say(f"plot in {plot}")
