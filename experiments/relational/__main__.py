"""Train and measure methods on relational graphs.

    python -m experiments.relational run uw_cse/ai --method logicmp
    python -m experiments.relational run uw_cse --method logicmp+gnn --seeds 5
    python -m experiments.relational run uw_cse --method logicmp --schedule adaptive --plain
    python -m experiments.relational choose uw_cse --method logicmp
    python -m experiments.relational table
    python -m experiments.relational figures
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from logicmp import LogicMPError
from logicmp.execute.schedule import SCHEDULES

from ..runs import Result, add_run_options, load_results, make_parser, run_all, run_command, shared_options
from .data import SPLITS, split_names
from .methods import DETERMINISTIC, METHODS, SCHEDULED
from .results import RESULTS, as_table
from .run import Runner
from .settings import choose, store
from .training import Context


def main(arguments: list[str] | None = None) -> int:
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("experiments.relational", __doc__)
    commands, shared = parser.add_subparsers(required=True), [shared_options(RESULTS)]
    run = commands.add_parser("run", parents=shared, help="run a method on a split, or on all splits of a data set")
    run.add_argument("split", help="such as uw_cse/ai, or uw_cse for all five")
    run.add_argument("--method", required=True, choices=list(METHODS))
    add_run_options(run)
    run.add_argument("--max-seconds", type=float, default=600, help="time limit of one run in seconds (default: 600)")
    run.add_argument("--give-up", type=float, metavar="SECONDS",
                     help="after this time, stop a classical method whose iterations would take over twice the limit")
    run.add_argument("--schedule", choices=list(SCHEDULES),
                     help=f"of the layer of {', '.join(SCHEDULED)}, with its own iterations and damping")
    run.add_argument("--plain", action="store_true", help="ignore settings.json and use rules without weights")
    run.set_defaults(run=_run)
    pick = commands.add_parser("choose", parents=shared, help="choose the settings of each split on the other splits")
    pick.add_argument("dataset", choices=list(SPLITS))
    pick.add_argument("--method", required=True, choices=list(METHODS))
    pick.add_argument("--look-at", type=int, help="how many of the other splits, smallest first (default: all)")
    pick.add_argument("--seeds", type=int, default=1, help="number of seeds to average over (default: 1)")
    pick.add_argument("--from-round", type=int, default=1, metavar="N",
                      help="start at this round of the grid, with the stored settings (default: 1)")
    pick.set_defaults(run=_choose)
    commands.add_parser("table", parents=shared, help="print our results and the paper's").set_defaults(run=_table)
    figures = commands.add_parser("figures", parents=shared, help="draw the figures")
    figures.add_argument("--out", type=Path, default=RESULTS.with_name("figures"), help="folder for the PNG files")
    figures.set_defaults(run=_figures)
    return parser


def _run(chosen: argparse.Namespace) -> None:
    names = split_names(chosen.split) if chosen.split in SPLITS else [chosen.split]
    n_seeds = 1 if chosen.method in DETERMINISTIC else chosen.seeds
    settings: dict[str, Any] = {"max_seconds": chosen.max_seconds}
    if chosen.schedule and chosen.method not in SCHEDULED:
        raise LogicMPError(f"--schedule does not apply to {chosen.method}", f"methods: {', '.join(SCHEDULED)}")
    settings |= {"schedule": chosen.schedule} if chosen.schedule else {}
    settings |= {"is_plain": True, "scale": None} if chosen.plain else {}
    variant = " ".join(filter(None, [chosen.schedule and f"schedule={chosen.schedule}", chosen.plain and "plain"]))
    plans = [Result(*name.partition("/")[::2], chosen.method, seed, variant, settings=settings)
             for name in names for seed in range(chosen.seed, chosen.seed + n_seeds)]
    run_all(plans, Runner(chosen.data, chosen.results, chosen.give_up), chosen.results, chosen.again,
            chosen.max_seconds if len(plans) > 1 else None)


def _choose(chosen: argparse.Namespace) -> None:
    found = choose(chosen.dataset, chosen.method, Context(data=chosen.data), lambda text: print(text, flush=True),
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
