"""The command line of the experiment.

    python -m experiments.text run --method logicmp-adj --seed 0
    python -m experiments.text run --method all --seeds 3
    python -m experiments.text run --method all --seeds 3 --share 0.1
    python -m experiments.text table
    python -m experiments.text show "West Indian all-rounder Phil Simmons took four for 38"
    python -m experiments.text choose --method logicmp-adj
    python -m experiments.text speed
    python -m experiments.text compile
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from logicmp.files import write_whole
from logicmp.show.progress import shown_progress

from ..runs import commit, exit_code
from .data import load_corpus
from .heads import RuleHead
from .lists import purity
from .methods import (
    BACKBONE,
    CIRCUITS,
    FINE_TUNING,
    METHODS,
    Context,
    choose,
    compile_until,
    find_method,
    load_settings,
    store_settings,
    train_method,
)
from .results import RESULTS, SPEED, Result, as_table, load_results, load_speed
from .train import Data, evaluate, load_data

# backbones and checkpoints: hundreds of megabytes, made again from the data at any time
WORK = Path.home() / ".cache/logicmp/text"


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    return exit_code(lambda: chosen.run(chosen))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.text", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--data", help="the folder of the data sets, unless LOGICMP_DATA names it")
    shared.add_argument("--results", type=Path, default=RESULTS, help="where the results are kept")
    shared.add_argument("--work", type=Path, default=WORK, help="where backbones and checkpoints are kept")
    shared.add_argument("--share", type=float, default=1.0, help="of the training documents, drawn by the seed")
    shared.add_argument("--threads", type=int, default=0, help="of torch; all cores, unless given")
    known = [*METHODS, *CIRCUITS]
    run = commands.add_parser("run", parents=[shared], help="train a method, or all, and measure it on testb")
    run.add_argument("--method", required=True, choices=["all", *known], metavar="METHOD",
                     help=f"all, or one of {', '.join(known)}")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--seeds", type=int, default=1, help="so many seeds, from --seed on")
    run.add_argument("--again", action="store_true", help="also where there is a result already")
    run.set_defaults(run=_run)
    table = commands.add_parser("table", parents=[shared], help="our numbers beside the paper's")
    table.set_defaults(run=_table)
    show = commands.add_parser("show", parents=[shared], help="a sentence before and after the rules")
    show.add_argument("text", help="words separated by blanks, punctuation too")
    show.add_argument("--method", default="logicmp-adj", choices=[n for n in METHODS if n.startswith("logicmp")])
    show.add_argument("--seed", type=int, default=0)
    show.set_defaults(run=_show)
    pick = commands.add_parser("choose", parents=[shared], help="choose the settings of a method on testa")
    pick.add_argument("--method", required=True, choices=[n for n, m in METHODS.items() if m.choices])
    pick.add_argument("--seed", type=int, default=0)
    pick.set_defaults(run=_choose)
    speed = commands.add_parser("speed", parents=[shared], help="one training step of every method, side by side")
    speed.add_argument("--batches", type=int, default=40)
    speed.set_defaults(run=_speed)
    circuit = commands.add_parser("compile", parents=[shared], help="how far the circuits of SL and SPL go")
    circuit.add_argument("--max-seconds", type=float, default=60)
    circuit.set_defaults(run=_compile)
    lists = commands.add_parser("lists", parents=[shared], help="how pure the lists are that are found in a file")
    lists.add_argument("--split", default="train")
    lists.set_defaults(run=_lists)
    return parser


@cache
def _data(folder: str | None, share: float = 1.0, seed: int = 0) -> Data:
    return load_data(folder, share, seed if share < 1 else 0)


def _context(chosen: argparse.Namespace, **options: Any) -> Context:
    """What was asked for; with few documents the batches are smaller, so that there are still enough of them."""
    if chosen.share == 1:
        return Context(chosen.work, **options)
    n_tokens = max(100, round(BACKBONE.n_tokens * chosen.share))
    return Context(chosen.work / f"share-{chosen.share:g}", replace(BACKBONE, n_tokens=n_tokens),
                   replace(FINE_TUNING, n_tokens=n_tokens), **options)


def _results(chosen: argparse.Namespace) -> Path:
    folder: Path = chosen.results
    return folder if chosen.share == 1 else folder / f"share-{chosen.share:g}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# run


def _run(chosen: argparse.Namespace) -> None:
    names = [*METHODS, *CIRCUITS] if chosen.method == "all" else [chosen.method]
    for given in range(chosen.seed, chosen.seed + chosen.seeds):
        for name in names:
            rows = METHODS[name].rows if name in METHODS else {name: ""}
            # circuits know no seed: once is enough
            seed = 0 if name in CIRCUITS else given
            if all((_results(chosen) / f"{row}-{seed}.json").exists() for row in rows) and not chosen.again:
                _say(f"{name} seed {seed}: there already")
                continue
            for result in _run_one(name, seed, chosen):
                result.save(_results(chosen))
                shown = result.status if result.f1 is None else (
                    f"F1 {result.f1:.2f}, with a list {result.list_f1:.2f}, {result.invalid:.2f} invalid transitions "
                    "per 1,000 sentences")
                print(f"{result.row} seed {seed}: {shown} in {result.seconds:.0f} s", flush=True)


def _run_one(name: str, seed: int, chosen: argparse.Namespace) -> list[Result]:
    if name in CIRCUITS:
        return [_refused(name, seed)]
    with shown_progress() as progress:
        context = _context(chosen, progress=progress, say=lambda text: _say(f"{name} seed {seed}: {text}"))
        return run_one(name, seed, _data(chosen.data, chosen.share, seed), context)


def run_one(name: str, seed: int, data: Data, context: Context) -> list[Result]:
    """Train one method and measure every row it fills."""
    _reset_peak()
    tagger, fitted = train_method(name, data, seed, context)
    settings, found = load_settings(name), []
    for row, answer in find_method(name).rows.items():
        # a way to answer that is not trained for, such as decoding, has the model of the first one
        trained = answer if answer in fitted.best else tagger.head.answers[0]
        tagger.load_state_dict(fitted.best[trained])
        measured = evaluate(tagger, data.testb, answer)
        weights = [float(w.detach()) for w in tagger.head.layer.weights] if isinstance(tagger.head, RuleHead) else []
        found.append(Result(
            row, name, seed, round(measured.f1, 3), round(fitted.seconds, 1), round(_peak(), 1), commit(),
            "done", round(measured.precision, 3), round(measured.recall, 3), round(measured.list_f1, 3),
            round(measured.invalid, 3), [round(f1, 3) for f1 in fitted.curves[trained]], settings,
            asdict(context.fine_tuning), [round(w, 4) for w in weights]))
    return found


def _refused(name: str, seed: int, max_seconds: float = 60.0) -> Result:
    """What needs a circuit that does not compile: how far it went."""
    done, reason = compile_until("adj+list", 12, max_seconds)
    tokens, nodes, seconds = done[-1]
    status = (f"does not compile beyond {tokens} tokens, which took {nodes:,} nodes and {seconds:.1f} s; with "
              f"{tokens + 1}: {reason}")
    return Result(name, name, seed, None, sum(s for _, _, s in done), 0.0, commit(), status)


def _reset_peak() -> None:
    """Forget the highest memory use so far, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    """The highest memory use, in MB, since `_reset_peak`, or of the whole process."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# the other commands


def _table(chosen: argparse.Namespace) -> None:
    print(as_table(load_results(_results(chosen)), load_speed(chosen.results)), end="")


def _show(chosen: argparse.Namespace) -> None:
    from .show import show

    print(show(chosen.text, chosen.method, chosen.seed, chosen.data, _context(chosen)), end="")


def _choose(chosen: argparse.Namespace) -> None:
    with shown_progress() as progress:
        settings, tried = choose(chosen.method, _data(chosen.data, chosen.share, chosen.seed), chosen.seed,
                                 _context(chosen, progress=progress, say=_say))
    store_settings(chosen.method, settings, tried)
    print(f"{chosen.method}: {settings}")


def _speed(chosen: argparse.Namespace) -> None:
    from .speed import as_text, measure

    with shown_progress() as progress:
        found = measure(_data(chosen.data), n_batches=chosen.batches, progress=progress)
    chosen.results.mkdir(parents=True, exist_ok=True)
    write_whole(chosen.results / SPEED, json.dumps({**found, "commit": commit()}, indent=1) + "\n", "a result")
    print(as_text(found), end="")


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
    print(f"{chosen.split}: {total:,} pairs of tokens in one list, the first in an entity; of one category "
          f"{100 * same / max(1, total):.1f}%")


if __name__ == "__main__":
    sys.exit(main())
