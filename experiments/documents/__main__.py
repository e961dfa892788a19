"""The command line of the experiment.

    python -m experiments.documents run --method all --seeds 3
    python -m experiments.documents run --method logicmp --held-out
    python -m experiments.documents choose --seeds 3
    python -m experiments.documents table
    python -m experiments.documents figures --pages 87147607 93106788
    python -m experiments.documents page FILE.json --out page.png
    python -m experiments.documents speed
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from logicmp import LogicMPError
from logicmp.files import write_whole
from logicmp.show.progress import shown_progress

from ..runs import exit_code
from .choose import compare
from .data import load_pages, read_page
from .features import WORK
from .methods import ORDER
from .results import RESULTS, SPEED, as_table, load_results, load_speed
from .run import Experiment, run_all
from .training import Progress

# of the paper's figures, those of the test set
PAGES = ("87147607", "87332450", "93106788")


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    if chosen.threads:
        torch.set_num_threads(chosen.threads)

    def work() -> None:
        with shown_progress() as progress:
            chosen.run(chosen, _experiment(chosen, progress))

    return exit_code(work)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.documents", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--data", help="the folder of the data sets, unless LOGICMP_DATA names it")
    shared.add_argument("--results", type=Path, default=RESULTS, help="where the results are kept")
    shared.add_argument("--work", type=Path, default=WORK, help="where word vectors and networks are kept")
    shared.add_argument("--encoder", choices=("minilm", "layoutlm"), default="minilm")
    shared.add_argument("--weights", type=Path, metavar="DIR", help="of LayoutLM, with its vocabulary")
    shared.add_argument("--held-out", action="store_true", help="pages of the training set in place of the test set")
    shared.add_argument("--threads", type=int, default=0, help="of torch; all cores, unless given")
    run = commands.add_parser("run", parents=[shared], help="train a row of the table, or all, and measure it")
    run.add_argument("--method", required=True, choices=["all", *ORDER], metavar="METHOD",
                     help=f"all, or one of {', '.join(ORDER)}")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--seeds", type=int, default=1, help="so many seeds, from --seed on")
    run.add_argument("--max-seconds", type=float, default=60, help="for each circuit of sl and spl (default: 60)")
    run.add_argument("--again", action="store_true", help="also where there is a result already")
    run.set_defaults(run=_run)
    choose = commands.add_parser("choose", parents=[shared], help="compare settings on pages of the training set")
    choose.add_argument("--seeds", type=int, default=3, help="how many, from 0 on (default: 3)")
    choose.set_defaults(run=_choose)
    table = commands.add_parser("table", parents=[shared], help="our numbers beside the paper's")
    table.set_defaults(run=_table)
    figures = commands.add_parser("figures", parents=[shared], help="the paper's Figure 1 for some test pages")
    figures.add_argument("--pages", nargs="+", default=list(PAGES), metavar="NAME",
                         help=f"(default: {' '.join(PAGES)})")
    figures.add_argument("--seed", type=int, default=0, help="whose networks")
    figures.add_argument("--out", type=Path, help="(default: in --work, as FUNSD must not come into a repository)")
    figures.set_defaults(run=_figures)
    page = commands.add_parser("page", parents=[shared], help="the same for a page of your own, in FUNSD's format")
    page.add_argument("file", type=Path)
    page.add_argument("--image", type=Path, help="a PNG; else one of the same name beside the file, or none")
    page.add_argument("--seed", type=int, default=0, help="whose networks")
    page.add_argument("--out", type=Path, default=Path("page.png"))
    page.set_defaults(run=_page)
    speed = commands.add_parser("speed", parents=[shared], help="what the layer costs, alone and in a training step")
    speed.set_defaults(run=_speed)
    return parser


def _experiment(chosen: argparse.Namespace, progress: Progress) -> Experiment:
    return Experiment(chosen.data, chosen.results, chosen.work, encoder=chosen.encoder, weights=chosen.weights,
                      is_held_out=chosen.held_out, max_seconds=getattr(chosen, "max_seconds", 60.0), progress=progress)


def _run(chosen: argparse.Namespace, experiment: Experiment) -> None:
    methods = ORDER if chosen.method == "all" else (chosen.method,)
    run_all(experiment, methods, range(chosen.seed, chosen.seed + chosen.seeds), chosen.again)


def _choose(chosen: argparse.Namespace, experiment: Experiment) -> None:
    print(compare(experiment, range(chosen.seeds)), end="")


def _table(chosen: argparse.Namespace, experiment: Experiment) -> None:
    print(as_table(load_results(experiment.results_folder), load_speed(experiment.results_folder)), end="")


def _figures(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from .figures import draw_page, networks_for

    pages = {page.name: page for page in load_pages("test", chosen.data)}
    unknown = [name for name in chosen.pages if name not in pages]
    if unknown:
        raise LogicMPError(f"there is no test page {unknown[0]!r}", f"pages: {', '.join(pages)}")
    networks = networks_for(experiment, chosen.seed)
    for name in chosen.pages:
        out = chosen.out or chosen.work / "figures"
        print(draw_page(experiment.item(pages[name]), networks, out / f"{name}.png"))


def _page(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from .figures import draw_page, networks_for

    page = read_page(chosen.file, chosen.image)
    print(draw_page(experiment.item(page), networks_for(experiment, chosen.seed), chosen.out))


def _speed(chosen: argparse.Namespace, experiment: Experiment) -> None:
    from .speed import measure

    found = measure(experiment.test_items, experiment.make_encoder, experiment.settings, experiment.progress)
    experiment.results_folder.mkdir(parents=True, exist_ok=True)
    write_whole(experiment.results_folder / SPEED, json.dumps(found, indent=1) + "\n", "a result")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.exit(main())
