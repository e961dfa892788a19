"""Measure speed and memory, list the cases, compare two runs, compare inference methods."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console

from logicmp import LogicMPError

# commands with a module of their own
OTHERS = {
    "compile-time": "compare compile times of circuits with the paper's and with the layer",
    "sampling": "measure flips and draws per second, and seconds to 1,000 effective samples",
    "ablation": "time one mean-field iteration with and without the paper's improvements",
    "quality": "score the schedules on tasks with known truth",
    "train-through": "score models that were trained with the layer, by schedule",
    "narrow": "time exact inference on trees and taggers, and evidence shared by a batch",
    "sparse": "measure facts, mean field and graphs over lists of atoms",
    "scale": "measure the stages of many rows in one and in several processes",
    "limits": "run every method under time limits, or on every split, and measure seconds and memory",
    "records": "score groups of records on Cora, compared with other clusterings; time a million pairs",
    "fuzz": "run random inputs: each ends in a right answer or a LogicMPError",
}


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: 0 done, 1 a check failed or the input is wrong, 2 wrong usage. A missed target is no failure."""
    chosen, chosen_rest = _parser().parse_known_args(arguments)
    if chosen_rest and chosen.action is not _other:
        _parser().error(f"unrecognized arguments: {' '.join(chosen_rest)}")
    chosen.rest = chosen_rest
    try:
        return int(chosen.action(chosen))
    except LogicMPError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar=" | ".join(("run", "list", "compare", "methods", *OTHERS)))
    run = commands.add_parser("run", help="measure the named cases (default: all)",
                              epilog="example: python -m benchmarks run forward backward --n 128 512 --json new.json")
    run.add_argument("cases", nargs="*", metavar="CASE")
    run.add_argument("--n", type=int, nargs="+", default=[], metavar="N", help="sizes to run instead of the case's own")
    run.add_argument("--repeat", type=int, default=5, metavar="K", help="samples per median (default: 5)")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE, for compare")
    run.add_argument("--data", type=Path, metavar="DIR", help="folder of the data sets (default: $LOGICMP_DATA)")
    run.add_argument("--threads", type=int, metavar="T", help="number of torch threads (default: torch decides)")
    run.set_defaults(action=_run)
    listing = commands.add_parser("list", help="list the cases")
    listing.set_defaults(action=_list)
    compare = commands.add_parser("compare", help="compare two runs in a markdown table",
                                  epilog="example: python -m benchmarks compare old.json new.json")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.set_defaults(action=_compare)
    methods = commands.add_parser("methods", help="measure the errors of inference methods on published models",
                                  epilog="example: python -m benchmarks methods --methods mean-field,exact")
    methods.add_argument("--data", type=Path, metavar="DIR", help="folder that contains mln/ (default: $LOGICMP_DATA)")
    methods.add_argument("--methods", default="", metavar="M,M", help="methods to run (default: all)")
    methods.add_argument("--cases", nargs="+", default=[], metavar="CASE",
                         help="run cases whose name contains one of these (default: all)")
    methods.add_argument("--seconds-limit", type=float, default=60.0, metavar="S",
                         help="time limit per method and case, in seconds (default: 60)")
    methods.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random numbers (default: 0)")
    methods.add_argument("--json", type=Path, metavar="FILE", help="write errors and seconds to FILE")
    methods.set_defaults(action=_methods)
    # these commands parse the remaining arguments themselves
    for name, what in OTHERS.items():
        other = commands.add_parser(name, help=what, add_help=False)
        other.set_defaults(action=_other, name=name)
    return parser


def _run(chosen: argparse.Namespace) -> int:
    import torch

    from .case import Options
    from .cases import find_cases
    from .report import run_cases, show

    if chosen.repeat < 1 or any(n < 1 for n in chosen.n):
        raise LogicMPError("--repeat and --n must be at least 1")
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    # progress to stderr, the table to stdout
    run = run_cases(find_cases(chosen.cases), Options(tuple(chosen.n), chosen.data), chosen.repeat,
                    Console(stderr=True))
    if chosen.json:
        chosen.json.write_text(json.dumps(run, indent=1) + "\n")
    width = None if sys.stdout.isatty() else 130
    show(run, Console(width=width))
    return int(any(entry["kind"] == "disagreement" for entry in run["failed"]))


def _list(chosen: argparse.Namespace) -> int:
    from .cases import CASES

    for case in CASES.values():
        sizes = f"  (n = {', '.join(map(str, case.n))})" if case.n else ""
        print(f"{case.name:20}{case.about}{sizes}")
    return 0


def _compare(chosen: argparse.Namespace) -> int:
    from .report import compare

    print(compare(_read(chosen.old), _read(chosen.new)), end="")
    return 0


def _methods(chosen: argparse.Namespace) -> int:
    from .measure import machine
    from .methods import as_json, as_markdown, chosen_methods, find_published, run_methods

    methods = chosen_methods(chosen.methods)
    console = Console(stderr=True)
    outcomes = run_methods(find_published(chosen.data, chosen.cases), methods, chosen.seed, chosen.seconds_limit,
                           lambda text: console.print(text, style="dim", highlight=False))
    if chosen.json:
        run = {"machine": machine(), "seed": chosen.seed, "cases": as_json(outcomes)}
        chosen.json.write_text(json.dumps(run, indent=1) + "\n")
    print(as_markdown(outcomes, methods))
    return 0


def _other(chosen: argparse.Namespace) -> int:
    return int(import_module(f".{chosen.name.replace('-', '_')}", __package__).main(chosen.rest))


def _read(path: Path) -> dict:
    try:
        run = json.loads(path.read_text())
    except (OSError, ValueError) as cause:
        raise LogicMPError(f"cannot read {str(path)!r}: {cause}", "give a file that run --json wrote") from None
    if not isinstance(run, dict) or "results" not in run or "machine" not in run:
        raise LogicMPError(f"{str(path)!r} is not a run", "give a file that run --json wrote")
    return run


if __name__ == "__main__":
    sys.exit(main())
