"""Train and measure methods that find the blocks of a page.

    python -m experiments.documents run --method all --seeds 3
    python -m experiments.documents run --method logicmp --held-out
    python -m experiments.documents choose --seeds 3
    python -m experiments.documents untrained --schedule adaptive --seeds 3
    python -m experiments.documents table
    python -m experiments.documents scores --out scores.png
    python -m experiments.documents figures --pages 87147607 93106788
    python -m experiments.documents page FILE.json --out page.png
    python -m experiments.documents speed
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from logicmp import LogicMPError
from logicmp.execute.schedule import SCHEDULES
from logicmp.show.progress import shown_progress

from ..runs import Result, add_run_options, load_results, make_parser, run_all, run_command, shared_options
from .choose import budgets, compare, strengths
from .data import load_pages, read_page
from .features import WORK
from .methods import ORDER
from .results import RESULTS, as_table
from .run import Experiment

# pages of the paper's figures that are in the test set
PAGES = ("87147607", "87332450", "93106788")


def main(arguments: list[str] | None = None) -> int:
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("experiments.documents", __doc__)
    commands, shared = parser.add_subparsers(required=True), shared_options(RESULTS)
    shared.add_argument("--work", type=Path, default=WORK, help="folder of word vectors and trained models")
    shared.add_argument("--encoder", choices=("minilm", "layoutlm"), default="minilm")
    shared.add_argument("--weights", type=Path, metavar="DIR", help="weights and vocabulary of LayoutLM")
    shared.add_argument("--held-out", action="store_true", help="use held-out training pages instead of the test set")

    def add(name: str, work: Callable[[argparse.Namespace, Experiment], None], text: str) -> argparse.ArgumentParser:
        def run(chosen: argparse.Namespace) -> None:
            with shown_progress() as progress:
                work(chosen, Experiment(chosen.data, chosen.results, chosen.work, encoder=chosen.encoder,
                                        weights=chosen.weights, is_held_out=chosen.held_out,
                                        max_seconds=getattr(chosen, "max_seconds", 60.0), progress=progress))

        command = commands.add_parser(name, parents=[shared], help=text)
        command.set_defaults(run=run)
        return command

    run = add("run", _run, "train a method, or all, and measure it")
    run.add_argument("--method", required=True, nargs="+", choices=["all", *ORDER], metavar="METHOD",
                     help=f"all, or some of {', '.join(ORDER)}")
    add_run_options(run)
    run.add_argument("--max-seconds", type=float, default=60,
                     help="time limit for each circuit of sl and spl, in seconds (default: 60)")
    choose = add("choose", _choose, "compare settings on held-out training pages")
    choose.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    choose.add_argument("--budgets", action="store_true", help="compare budgets and regularization of all rows instead")
    untrained = add("untrained", _untrained, "put the layer on trained Pair models, without training it")
    untrained.add_argument("--schedule", choices=list(SCHEDULES), help="of the layer (default: the layer's default)")
    add_run_options(untrained)
    shown = add("table", _table, "print our results and the paper's")
    shown.add_argument("--variant", default="", help='other runs, such as "encoder on pairs" (default: those of run)')
    scores = add("scores", _scores, "draw the results of all seeds")
    scores.add_argument("--out", type=Path, default=Path("scores.png"), help="PNG file (default: scores.png)")
    figures = add("figures", _figures, "draw the paper's Figure 1 for test pages")
    figures.add_argument("--pages", nargs="+", default=list(PAGES), metavar="NAME",
                         help=f"names of test pages (default: {' '.join(PAGES)})")
    figures.add_argument("--seed", type=int, default=0, help="seed of the models (default: 0)")
    figures.add_argument("--out", type=Path, help="folder for the PNG files (default: figures in --work)")
    page = add("page", _page, "draw the figure for your own page, in FUNSD's format")
    page.add_argument("file", type=Path)
    page.add_argument("--image", type=Path, help="PNG of the page (default: a file with the same name, if any)")
    page.add_argument("--seed", type=int, default=0, help="seed of the models (default: 0)")
    page.add_argument("--out", type=Path, default=Path("page.png"))
    add("speed", _speed, "measure the cost of the layer, alone and in a training step")
    return parser


def _run(chosen: argparse.Namespace, experiment: Experiment) -> None:
    methods = ORDER if "all" in chosen.method else tuple(chosen.method)
    experiment.run(methods, range(chosen.seed, chosen.seed + chosen.seeds), chosen.again)


def _choose(chosen: argparse.Namespace, experiment: Experiment) -> None:
    seeds = range(chosen.seeds)
    tables = [budgets] if chosen.budgets else [compare, strengths]
    print(*(make(experiment, seeds) for make in tables), sep="\n", end="")


def _untrained(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from . import untrained

    seeds = range(chosen.seed, chosen.seed + chosen.seeds)
    print(untrained.compare(experiment, seeds, chosen.schedule, chosen.again), end="")


def _table(chosen: argparse.Namespace, experiment: Experiment) -> None:
    print(as_table(_own(replace(experiment, tried=chosen.variant))), end="")


def _own(experiment: Experiment) -> list[Result]:
    return [r for r in load_results(experiment.results) if experiment.is_own(r)]


def _scores(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from .figures import draw_scores

    print(draw_scores(_own(experiment), chosen.out))


def _figures(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from .figures import draw_page, models_for

    pages = {page.name: page for page in load_pages("test", chosen.data)}
    unknown = [name for name in chosen.pages if name not in pages]
    if unknown:
        raise LogicMPError(f"unknown test page {unknown[0]!r}", f"pages: {', '.join(pages)}")
    models = models_for(experiment, chosen.seed)
    for name in chosen.pages:
        out = chosen.out or chosen.work / "figures"
        print(draw_page(experiment.item(pages[name]), models, out / f"{name}.png"))


def _page(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from .figures import draw_page, models_for

    page = read_page(chosen.file, chosen.image)
    print(draw_page(experiment.item(page), models_for(experiment, chosen.seed), chosen.out))


def _speed(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from .speed import measure

    def work(plan: Result) -> list[Result]:
        found = measure(experiment.test_items, experiment.make_encoder, experiment.settings, experiment.progress)
        print(json.dumps(found, indent=1))
        return [replace(plan, values=found)]

    run_all([experiment.plan("speed")], work, experiment.results, again=True)


if __name__ == "__main__":
    sys.exit(main())
