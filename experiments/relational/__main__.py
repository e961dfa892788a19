"""The command line of the experiment.

    python -m experiments.relational run uw_cse/ai --method logicmp
    python -m experiments.relational run uw_cse --method logicmp+gnn --seeds 5
    python -m experiments.relational choose uw_cse --method logicmp
    python -m experiments.relational table
    python -m experiments.relational figures
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import torch

from logicmp import CostError, LogicMPError
from logicmp.cli.progress import shown_progress

from .data import SPLITS, load_split, split_names
from .methods import DETERMINISTIC, METHODS, Context, average_precision, run_method
from .results import RESULTS, Result, as_table, commit, load_results
from .settings import choose, load_settings, store


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        chosen.run(chosen)
    except LogicMPError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.relational", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--data", help="the folder of the data sets, unless LOGICMP_DATA names it")
    shared.add_argument("--results", type=Path, default=RESULTS, help="where the results are kept")
    run = commands.add_parser("run", parents=[shared], help="run a method on a split or on all splits of a data set")
    run.add_argument("split", help="such as uw_cse/ai, or uw_cse for all five")
    run.add_argument("--method", required=True, choices=list(METHODS))
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--seeds", type=int, default=1, help="so many seeds, from --seed on")
    run.add_argument("--max-seconds", type=float, default=600, help="the limit of one run")
    run.add_argument("--again", action="store_true", help="also where there is a result already")
    run.set_defaults(run=_run)
    pick = commands.add_parser("choose", parents=[shared], help="choose settings for each split on the others")
    pick.add_argument("data_set", choices=list(SPLITS))
    pick.add_argument("--method", required=True, choices=list(METHODS))
    pick.set_defaults(run=_choose)
    table = commands.add_parser("table", parents=[shared], help="our numbers beside the paper's")
    table.set_defaults(run=_table)
    figures = commands.add_parser("figures", parents=[shared], help="draw the figures from the results")
    figures.add_argument("--out", type=Path, default=RESULTS.with_name("figures"))
    figures.set_defaults(run=_figures)
    return parser


def _run(chosen: argparse.Namespace) -> None:
    splits = [chosen.split] if "/" in chosen.split else split_names(chosen.split)
    n_seeds = 1 if chosen.method in DETERMINISTIC else chosen.seeds
    for name in splits:
        for seed in range(chosen.seed, chosen.seed + n_seeds):
            result = Result(name, chosen.method, seed, None, 0.0, 0.0, commit())
            if (chosen.results / result.file).exists() and not chosen.again:
                print(f"{name} {chosen.method} seed {seed}: there already", file=sys.stderr)
                continue
            run_one(result, chosen.data, chosen.max_seconds)
            result.save(chosen.results)
            shown = result.status if result.auc_pr is None else f"AUC-PR {result.auc_pr:.3f}"
            print(f"{name} {chosen.method} seed {seed}: {shown} in {result.seconds:.1f} s")


def run_one(result: Result, data: str | None, max_seconds: float) -> None:
    """Run what a result describes, and fill in what it gave."""
    split = load_split(result.split, data)
    result.settings = load_settings(result.split, result.method)
    start = time.monotonic()

    def curve(scores: torch.Tensor) -> None:
        result.curve.append((round(time.monotonic() - start, 2), round(average_precision(split, scores), 4)))

    with shown_progress() as progress:
        context = Context(result.seed, max_seconds, data, result.settings, progress, curve)
        try:
            result.auc_pr = average_precision(split, run_method(result.method, split, context))
        except CostError as error:
            result.status = "refused"
            print(f"{result.split} {result.method}: {error.message}", file=sys.stderr)
    result.seconds = round(time.monotonic() - start, 2)
    result.peak_memory = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def _choose(chosen: argparse.Namespace) -> None:
    found = choose(chosen.data_set, chosen.method, Context(data=chosen.data), lambda text: print(text, flush=True))
    store(chosen.method, found)
    for name, entry in found.items():
        print(f"{name}: {entry['settings']}, {entry['auc_pr_of_others']:.3f} on the other splits")


def _table(chosen: argparse.Namespace) -> None:
    print(as_table(load_results(chosen.results)), end="")


def _figures(chosen: argparse.Namespace) -> None:
    from .figures import draw_all

    for path in draw_all(load_results(chosen.results), chosen.out, chosen.data):
        print(path)


if __name__ == "__main__":
    sys.exit(main())
