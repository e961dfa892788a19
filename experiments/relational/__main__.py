"""The command line of the experiment.

    python -m experiments.relational run uw_cse/ai --method logicmp
    python -m experiments.relational run uw_cse --method logicmp+gnn --seeds 5
    python -m experiments.relational choose uw_cse --method logicmp
    python -m experiments.relational table
    python -m experiments.relational figures
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from ..runs import exit_code
from .data import SPLITS, split_names
from .methods import DETERMINISTIC, METHODS
from .results import RESULTS, Result, as_table, load_results
from .run import Options, run_apart, run_one
from .settings import choose, store
from .training import Context


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    return exit_code(lambda: chosen.run(chosen))


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
    run.add_argument("--max-seconds", type=float, default=600, help="the limit of one run (default: 600)")
    run.add_argument("--give-up", type=float, metavar="SECONDS",
                     help="look at the pace of a classical method then, and stop it if all of its iterations would "
                          "take more than twice the limit")
    run.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (default: all cores)")
    run.add_argument("--again", action="store_true", help="also where there is a result already")
    run.set_defaults(run=_run)
    pick = commands.add_parser("choose", parents=[shared], help="choose settings for each split on the others")
    pick.add_argument("data_set", choices=list(SPLITS))
    pick.add_argument("--method", required=True, choices=list(METHODS))
    pick.add_argument("--look-at", type=int, help="on how many of the other splits, the smallest first (default: all)")
    pick.add_argument("--seeds", type=int, default=1, help="the mean of so many decides (default: 1)")
    pick.add_argument("--from-round", type=int, default=1, metavar="N",
                      help="go on from what was chosen before, with this round of the grid (default: 1)")
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
    options = Options(chosen.data, chosen.results, chosen.max_seconds, chosen.threads, chosen.give_up)
    runs = [Result(name, chosen.method, seed) for name in splits for seed in range(chosen.seed, chosen.seed + n_seeds)]
    for result in runs:
        if (chosen.results / result.file).exists() and not chosen.again:
            print(f"{result.title}: there already", file=sys.stderr)
        elif len(runs) == 1:
            run_one(result, options)
        else:
            run_apart(result, options)


def _choose(chosen: argparse.Namespace) -> None:
    found = choose(chosen.data_set, chosen.method, Context(data=chosen.data), lambda text: print(text, flush=True),
                   chosen.look_at, chosen.seeds, chosen.from_round)
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
