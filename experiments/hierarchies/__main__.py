"""Train and measure models whose labels form a hierarchy.

    python -m experiments.hierarchies run --seeds 5 --together 5
    python -m experiments.hierarchies run --set ImCLEF07D --method c-hmcnn one-path
    python -m experiments.hierarchies run --set eisen_FUN --method exact --held-out --epochs 50 100 --rate 3e-4
    python -m experiments.hierarchies speed
    python -m experiments.hierarchies table
    python -m experiments.hierarchies figure --out hierarchies.png
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from logicmp.show.progress import shown_progress

from ..runs import Result, add_run_options, load_results, make_parser, run_all, run_command, shared_options
from .data import DATA_SETS
from .methods import ORDER
from .results import as_table
from .run import RESULTS, Experiment


def main(arguments: list[str] | None = None) -> int:
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("experiments.hierarchies", __doc__)
    commands, shared = parser.add_subparsers(required=True), shared_options(RESULTS)
    sets = argparse.ArgumentParser(add_help=False)
    sets.add_argument("--set", nargs="+", choices=DATA_SETS, default=list(DATA_SETS), metavar="NAME",
                      help=f"data sets (default: {', '.join(DATA_SETS)})")
    run = commands.add_parser("run", parents=[shared, sets], help="train rows of the table and measure them")
    run.add_argument("--method", nargs="+", choices=ORDER, default=list(ORDER), metavar="METHOD",
                     help=f"rows (default: {', '.join(ORDER)})")
    add_run_options(run)
    run.add_argument("--together", type=int, default=1, help="number of seeds that are trained at once (default: 1)")
    run.add_argument("--held-out", action="store_true", help="measure on held-out training items, not the test set")
    run.add_argument("--epochs", type=int, nargs="+", metavar="N",
                     help="numbers of epochs, instead of the table's; models are trained once, and measured after each")
    for name, kind, text in (("batch", int, "items per step"), ("rate", float, "learning rate"),
                             ("dtype", str, "of the products, such as bfloat16")):
        run.add_argument(f"--{name}", type=kind, help=f"{text}, instead of the table's setting")
    run.set_defaults(run=_run)
    speed = commands.add_parser("speed", parents=[shared, sets], help="measure a training step of each row")
    speed.set_defaults(run=_speed)
    table = commands.add_parser("table", parents=[shared], help="print the results")
    table.set_defaults(run=_table)
    figure = commands.add_parser("figure", parents=[shared], help="draw the results")
    figure.add_argument("--out", type=Path, default=Path("hierarchies.png"), help="PNG file (default: hierarchies.png)")
    figure.set_defaults(run=_figure)
    return parser


def _run(chosen: argparse.Namespace) -> None:
    *stops, epochs = sorted(chosen.epochs or [None])
    tried = {"epochs": epochs, **{name: getattr(chosen, name) for name in ("batch", "rate", "dtype")}}
    with shown_progress() as progress:
        experiment = Experiment(chosen.data, chosen.results, chosen.held_out,
                                {name: x for name, x in tried.items() if x is not None}, tuple(stops), chosen.together,
                                progress)
        experiment.run(chosen.set, chosen.method, range(chosen.seed, chosen.seed + chosen.seeds), chosen.again)


def _speed(chosen: argparse.Namespace) -> None:
    from .speed import measure_steps

    experiment = Experiment(chosen.data, chosen.results)

    def work(plan: Result) -> list[Result]:
        found = measure_steps(experiment.load(plan.split, chosen.data, False), experiment.settings(plan.split))
        return [replace(plan, values=found)]

    run_all([experiment.plan(name, "speed", 0) for name in chosen.set], work, chosen.results, again=True)


def _figure(chosen: argparse.Namespace) -> None:
    from .figures import draw

    print(draw(load_results(chosen.results), chosen.out))


def _table(chosen: argparse.Namespace) -> None:
    print(as_table(load_results(chosen.results)), end="")


if __name__ == "__main__":
    sys.exit(main())
