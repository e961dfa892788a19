"""Train and measure taggers on CoNLL-2003.

    python -m experiments.text run --method logicmp-adj --seed 0
    python -m experiments.text run --method all --seeds 3
    python -m experiments.text run --method all --seeds 3 --share 0.1
    python -m experiments.text untrained --rules adj --schedule adaptive --seeds 3
    python -m experiments.text table
    python -m experiments.text show "West Indian all-rounder Phil Simmons took four for 38"
    python -m experiments.text moved --method logicmp-adj+doc+lex
    python -m experiments.text choose --method logicmp-adj
    python -m experiments.text speed
    python -m experiments.text compile
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from logicmp.execute.schedule import SCHEDULES
from logicmp.show.progress import shown_progress

from ..runs import Result, add_run_options, load_results, make_parser, run_all, run_command, shared_options
from .data import load_corpus
from .lists import purity
from .methods import (
    BACKBONE,
    CIRCUITS,
    FINE_TUNING,
    METHODS,
    Context,
    choose,
    compile_until,
    measure_circuit,
    run_method,
    store_settings,
    train_method,
)
from .results import RESULTS, as_table, draw_scores
from .train import Data, load_data

# backbones and checkpoints: hundreds of megabytes that training can make again
WORK = Path.home() / ".cache/logicmp/text"


def main(arguments: list[str] | None = None) -> int:
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("experiments.text", __doc__)
    commands, shared = parser.add_subparsers(required=True), shared_options(RESULTS)
    shared.add_argument("--work", type=Path, default=WORK, help="folder of backbones and checkpoints")
    shared.add_argument("--share", type=float, default=1.0, help="share of the training documents, 0 to 1 (default: 1)")
    known = [*METHODS, *CIRCUITS]
    run = commands.add_parser("run", parents=[shared], help="train a method, or all, and measure it on testb")
    run.add_argument("--method", required=True, choices=["all", *known], metavar="METHOD",
                     help=f"all, or one of {', '.join(known)}")
    add_run_options(run)
    run.set_defaults(run=_run)
    untrained = commands.add_parser("untrained", parents=[shared], help="put the layer on BLSTM, without training it")
    untrained.add_argument("--rules", choices=["adj", "adj+list"], default="adj", help="(default: adj)")
    untrained.add_argument("--schedule", choices=list(SCHEDULES), default="adaptive", help="(default: adaptive)")
    untrained.add_argument("--plain", action="store_true", help="use the rules without their weights")
    add_run_options(untrained)
    untrained.set_defaults(run=_untrained)
    commands.add_parser("table", parents=[shared], help="print our results and the paper's").set_defaults(run=_table)
    scores = commands.add_parser("scores", parents=[shared], help="draw F1 of all seeds")
    scores.add_argument("--out", type=Path, default=Path("scores.png"), help="PNG file (default: scores.png)")
    scores.set_defaults(run=_scores)
    show = commands.add_parser("show", parents=[shared], help="tag a sentence without and with rules")
    show.add_argument("text", help="words and punctuation, separated by spaces")
    show.add_argument("--method", default="logicmp-adj", choices=[n for n in METHODS if n.startswith("logicmp")])
    show.add_argument("--seed", type=int, default=0)
    show.set_defaults(run=_show)
    moved = commands.add_parser("moved", parents=[shared], help="list names that rules mended and spoilt")
    moved.add_argument("--method", default="logicmp-adj+doc+lex",
                       choices=[n for n, m in METHODS.items() if m.is_put_on])
    moved.add_argument("--seed", type=int, default=0)
    moved.add_argument("--split", default="testa", choices=["testa", "testb"], help="(default: testa)")
    moved.add_argument("--names", type=int, default=20, help="number of names of each kind (default: 20)")
    moved.set_defaults(run=_moved)
    pick = commands.add_parser("choose", parents=[shared], help="choose the settings of a method on testa")
    pick.add_argument("--method", required=True, choices=[n for n, m in METHODS.items() if m.choices])
    pick.add_argument("--seed", type=int, default=0)
    pick.set_defaults(run=_choose)
    speed = commands.add_parser("speed", parents=[shared], help="measure a training step of every method")
    speed.add_argument("--batches", type=int, default=40, help="number of batches (default: 40)")
    speed.set_defaults(run=_speed)
    circuit = commands.add_parser("compile", parents=[shared], help="measure how far circuits compile")
    circuit.add_argument("--max-seconds", type=float, default=60, help="time limit in seconds (default: 60)")
    circuit.set_defaults(run=_compile)
    lists = commands.add_parser("lists", parents=[shared], help="measure how pure the lists of a file are")
    lists.add_argument("--split", default="train")
    lists.set_defaults(run=_lists)
    return parser


@cache
def _data(folder: str | None, share: float = 1.0, seed: int = 0) -> Data:
    return load_data(folder, share, seed if share < 1 else 0)


def _context(chosen: argparse.Namespace, **options: Any) -> Context:
    """The context of a command. With fewer documents batches are smaller, so that there are still enough of them."""
    if chosen.share == 1:
        return Context(chosen.work, **options)
    n_tokens = max(100, round(BACKBONE.n_tokens * chosen.share))
    return Context(chosen.work / f"share-{chosen.share:g}", replace(BACKBONE, n_tokens=n_tokens),
                   replace(FINE_TUNING, n_tokens=n_tokens), draws=True, **options)


def _variant(chosen: argparse.Namespace) -> str:
    return "" if chosen.share == 1 else f"share={chosen.share:g}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run(chosen: argparse.Namespace) -> None:
    names = [*METHODS, *CIRCUITS] if chosen.method == "all" else [chosen.method]
    method_of = {row: name for name in names for row in (METHODS[name].rows if name in METHODS else [name])}
    # circuits ignore the seed: run them once
    plans = [Result("conll2003", "testb", row, 0 if name in CIRCUITS else seed, _variant(chosen))
             for seed in range(chosen.seed, chosen.seed + chosen.seeds) for row, name in method_of.items()]

    def work(plan: Result) -> list[Result]:
        name = method_of[plan.method]
        if name in CIRCUITS:
            return [measure_circuit(plan)]
        with shown_progress() as progress:
            context = _context(chosen, progress=progress, say=lambda text: _say(f"{name} seed {plan.seed}: {text}"))
            return run_method(name, plan, _data(chosen.data, chosen.share, plan.seed), context)

    run_all(plans, work, chosen.results, chosen.again)


def _untrained(chosen: argparse.Namespace) -> None:
    from .untrained import as_text, measure, plan_untrained

    plans = [plan_untrained(chosen.rules, chosen.schedule, seed, _variant(chosen), chosen.plain)
             for seed in range(chosen.seed, chosen.seed + chosen.seeds)]

    def work(plan: Result) -> list[Result]:
        with shown_progress() as progress:
            context = _context(chosen, progress=progress, say=lambda text: _say(f"blstm seed {plan.seed}: {text}"))
            return [measure(plan, _data(chosen.data, chosen.share, plan.seed), context)]

    run_all(plans, work, chosen.results, chosen.again)
    keys = {plan.key for plan in plans}
    print(as_text([r for r in load_results(chosen.results) if r.key in keys]), end="")


def _table(chosen: argparse.Namespace) -> None:
    # speed is measured once, with all documents
    print(as_table([r for r in load_results(chosen.results) if r.variant == _variant(chosen) or r.method == "speed"]),
          end="")


def _scores(chosen: argparse.Namespace) -> None:
    print(draw_scores(load_results(chosen.results), chosen.out))


def _show(chosen: argparse.Namespace) -> None:
    from .show import show

    print(show(chosen.text, chosen.method, chosen.seed, chosen.data, _context(chosen)), end="")


def _moved(chosen: argparse.Namespace) -> None:
    from .moved import as_text, find_moved

    data = _data(chosen.data, chosen.share, chosen.seed)
    tagger, _ = train_method(chosen.method, data, chosen.seed, _context(chosen, say=_say))
    print(as_text(*find_moved(tagger, getattr(data, chosen.split)), chosen.names), end="")


def _choose(chosen: argparse.Namespace) -> None:
    with shown_progress() as progress:
        settings, tried = choose(chosen.method, _data(chosen.data, chosen.share, chosen.seed), chosen.seed,
                                 _context(chosen, progress=progress, say=_say))
    store_settings(chosen.method, settings, tried)
    print(f"{chosen.method}: {settings}")


def _speed(chosen: argparse.Namespace) -> None:
    from .speed import as_text, measure

    def work(plan: Result) -> list[Result]:
        with shown_progress() as progress:
            found = measure(_data(chosen.data), n_batches=chosen.batches, progress=progress)
        print(as_text(found), end="")
        return [replace(plan, values=found)]

    run_all([Result("conll2003", "train", "speed")], work, chosen.results, again=True)


def _compile(chosen: argparse.Namespace) -> None:
    for rules, most in (("adj", 40), ("adj+list", 12)):
        done, reason = compile_until(rules, most, chosen.max_seconds)
        for tokens, nodes, seconds in done:
            print(f"{rules:9} {tokens:3} tokens {nodes:9,} nodes {seconds:7.2f} s")
        if reason:
            print(f"{rules:9} {done[-1][0] + 1:3} tokens: {reason}")


def _lists(chosen: argparse.Namespace) -> None:
    corpus = load_corpus(chosen.split, chosen.data)
    total, same = purity(corpus)
    print(f"{chosen.split}: {total:,} pairs of tokens in one list whose first token is in an entity; "
          f"{100 * same / max(1, total):.1f}% have the same category")


if __name__ == "__main__":
    sys.exit(main())
