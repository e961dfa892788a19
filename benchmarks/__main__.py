"""The command line: run cases, list them, compare two runs, compare inference methods."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console

from logicmp import LogicMPError


def main(arguments: list[str] | None = None) -> int:
    """Exit 0 done, 1 a check failed or the input is wrong, 2 wrong usage; a bar that is missed is no failure."""
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
    commands = parser.add_subparsers(
        required=True, metavar="run | list | compare | methods | compile-time | sampling | ablation | quality")
    run = commands.add_parser("run", help="measure cases, all of them if none is named",
                              epilog="example: python -m benchmarks run forward backward --n 128 512 --json new.json")
    run.add_argument("cases", nargs="*", metavar="CASE")
    run.add_argument("--n", type=int, nargs="+", default=[], metavar="N", help="sizes, instead of the case's own")
    run.add_argument("--repeat", type=int, default=5, metavar="K", help="the median of K samples (default: 5)")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the run there, for compare")
    run.add_argument("--data", type=Path, metavar="DIR", help="the data sets (default: $LOGICMP_DATA)")
    run.add_argument("--threads", type=int, metavar="T", help="threads of torch (default: torch's own)")
    run.set_defaults(action=_run)
    listing = commands.add_parser("list", help="what there is to run")
    listing.set_defaults(action=_list)
    compare = commands.add_parser("compare", help="two runs as a markdown table",
                                  epilog="example: python -m benchmarks compare old.json new.json")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.set_defaults(action=_compare)
    methods = commands.add_parser("methods", help="errors of inference methods against published probabilities",
                                  epilog="example: python -m benchmarks methods --methods mean-field,exact")
    methods.add_argument("--data", type=Path, metavar="DIR", help="the folder with mln/ (default: $LOGICMP_DATA)")
    methods.add_argument("--methods", default="", metavar="M,M", help="which methods (default: all there are)")
    methods.add_argument("--cases", nargs="+", default=[], metavar="CASE",
                         help="cases whose name contains one of these (default: all)")
    methods.add_argument("--seconds-limit", type=float, default=60.0, metavar="S",
                         help="stop a method after so many seconds on one case (default: 60)")
    methods.add_argument("--seed", type=int, default=0, metavar="N", help="for everything random (default: 0)")
    methods.add_argument("--json", type=Path, metavar="FILE", help="write errors and seconds there")
    methods.set_defaults(action=_methods)
    # these have their own arguments and read what is left
    for name, what in (("compile-time", "the paper's table of compiled circuits beside the layer"),
                       ("sampling", "flips per second of the compiled loops"),
                       ("ablation", "one mean-field update with and without the paper's improvements"),
                       ("quality", "scores of the schedules on tasks with known truth")):
        other = commands.add_parser(name, help=what, add_help=False)
        other.set_defaults(action=_other, name=name)
    return parser


def _run(chosen: argparse.Namespace) -> int:
    import torch

    from .case import Options
    from .cases import find_cases
    from .report import run_cases, show

    if chosen.repeat < 1 or any(n < 1 for n in chosen.n):
        raise LogicMPError("--repeat and --n are at least 1")
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
    from . import ablation, compile_time, quality, sampling

    modules = {"compile-time": compile_time, "sampling": sampling, "ablation": ablation, "quality": quality}
    return int(modules[chosen.name].main(chosen.rest))


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
