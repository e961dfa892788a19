"""Rank the missing entities of a knowledge graph's test triples.

    python -m experiments.knowledge run --method rules
    python -m experiments.knowledge run --method complex --method complex+rules --seeds 3
    python -m experiments.knowledge run                        # all methods, then the speed of inference
    python -m experiments.knowledge table
"""

from __future__ import annotations

import argparse
import sys

from logicmp.show.progress import shown_progress

from ..runs import add_run_options, load_results, make_parser, run_all, run_command, shared_options
from .embedding import EmbeddingSettings
from .methods import DETERMINISTIC, METHODS, Experiment
from .results import RESULTS, as_table
from .rules import RuleSettings
from .speed import Speed


def main(arguments: list[str] | None = None) -> int:
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("experiments.knowledge", __doc__)
    commands, shared = parser.add_subparsers(required=True), [shared_options(RESULTS)]
    run = commands.add_parser("run", parents=shared, help="run methods and store their results")
    run.add_argument("--method", action="append", choices=[*METHODS, "speed"], help="may be repeated (default: all)")
    add_run_options(run)
    run.add_argument("--epochs", type=int, default=EmbeddingSettings.epochs, metavar="N",
                     help="of the embedding model (default: %(default)s)")
    run.add_argument("--max-rows", type=float, default=RuleSettings.max_rows, metavar="N",
                     help="skip a rule whose premises have more rows over the training facts (default: %(default)g)")
    run.set_defaults(run=_run)
    commands.add_parser("table", parents=shared, help="print the stored results").set_defaults(run=_table)
    return parser


def _run(chosen: argparse.Namespace) -> None:
    methods = chosen.method or [*METHODS, "speed"]
    with shown_progress() as progress:
        experiment = Experiment(chosen.data, chosen.results, EmbeddingSettings(epochs=chosen.epochs),
                                RuleSettings(max_rows=chosen.max_rows), progress=progress)
        plans = [experiment.plan(method, seed) for seed in range(chosen.seed, chosen.seed + chosen.seeds)
                 for method in METHODS if method in methods and not (method in DETERMINISTIC and seed > chosen.seed)]
        run_all(plans, experiment, chosen.results, chosen.again)
    if "speed" in methods:
        speed = Speed(chosen.data)
        run_all([speed.plan()], speed, chosen.results, chosen.again)


def _table(chosen: argparse.Namespace) -> None:
    print(as_table(load_results(chosen.results)), end="")


if __name__ == "__main__":
    sys.exit(main())
