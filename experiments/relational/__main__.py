"""The command line of the experiment.

    python -m experiments.relational run uw_cse/ai --method logicmp
    python -m experiments.relational run uw_cse --method logicmp+gnn --seeds 5
    python -m experiments.relational choose uw_cse --method logicmp
    python -m experiments.relational table
    python -m experiments.relational figures
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch

from logicmp import CostError, LogicMPError
from logicmp.cli.progress import shown_progress

from ..runs import Checkpoint, peak_memory
from .data import SPLITS, load_split, split_names
from .methods import DETERMINISTIC, METHODS, run_method
from .results import RESULTS, Result, as_table, load_results
from .settings import choose, load_settings, store
from .training import Context, average_precision


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
    run.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (default: all cores)")
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
    runs = [Result(name, chosen.method, seed) for name in splits for seed in range(chosen.seed, chosen.seed + n_seeds)]
    for result in runs:
        if (chosen.results / result.file).exists() and not chosen.again:
            print(f"{result.title}: there already", file=sys.stderr)
        elif len(runs) == 1:
            run_one(result, chosen)
        else:
            _run_apart(result, chosen)


def run_one(result: Result, chosen: argparse.Namespace) -> None:
    """Run what a result describes, fill in what it gave, and store it."""
    torch.set_num_threads(chosen.threads)
    split = load_split(result.split, chosen.data)
    result.settings = load_settings(result.split, result.method)
    checkpoint = Checkpoint(chosen.results / "unfinished" / f"{result.file}.pt")
    with shown_progress() as progress:
        context = Context(result.seed, chosen.max_seconds, chosen.data, result.settings, progress=progress,
                          checkpoint=checkpoint, curve=result.curve)
        try:
            result.auc_pr = round(average_precision(split, run_method(result.method, split, context)), 4)
            if context.is_cut_short:
                result.status = "> cap"
        except CostError as error:
            result.status = "refused"
            print(f"{result.title}: {error.message}", file=sys.stderr)
    result.seconds, result.peak_memory, result.threads = round(context.seconds, 2), peak_memory(), chosen.threads
    result.save(chosen.results)
    checkpoint.remove()
    shown = result.status if result.auc_pr is None else f"AUC-PR {result.auc_pr:.3f}"
    print(f"{result.title}: {shown} in {result.seconds:.1f} s")


def _run_apart(result: Result, chosen: argparse.Namespace) -> None:
    """Run in a process of its own: its memory is its own, and one that is far over its time is stopped."""
    words = [sys.executable, "-m", __package__, "run", result.split, "--method", result.method, "--seed",
             str(result.seed), "--max-seconds", str(chosen.max_seconds), "--results", str(chosen.results), "--again",
             "--threads", str(chosen.threads), *(["--data", chosen.data] if chosen.data else [])]
    try:
        # the limit of a method does not count what comes before its iterations
        code = subprocess.run(words, check=False, timeout=2 * chosen.max_seconds + 60).returncode
    except subprocess.TimeoutExpired:
        result.status, result.seconds = "> cap", chosen.max_seconds
        result.save(chosen.results)
        print(f"{result.title}: stopped, no result after {2 * chosen.max_seconds + 60:.0f} s")
        return
    if code in (130, -2):
        raise KeyboardInterrupt
    if code < 0:
        # such as the system's answer to memory that is not there
        result.status = f"killed by signal {-code}"
        result.save(chosen.results)
        print(f"{result.title}: {result.status}")
    elif code:
        raise LogicMPError(f"{result.title} failed, see above")


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
