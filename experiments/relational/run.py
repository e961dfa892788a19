"""One run: a method on a split with a seed, under a time limit, in a process of its own where there are several."""

from __future__ import annotations

import multiprocessing
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from logicmp import CostError, LogicMPError
from logicmp.show.progress import shown_progress

from ..runs import Checkpoint, peak_memory
from .data import load_split
from .methods import run_method
from .results import Result
from .settings import load_settings
from .training import Context, GivenUp, average_precision

# how much longer than its limit a run may take: the limit of a method does not count what comes before its iterations
PATIENCE = 300.0


@dataclass(frozen=True)
class Options:
    """What all runs of a command share."""

    data: str | None
    results: Path
    max_seconds: float
    threads: int
    give_up: float | None = None


def run_one(result: Result, options: Options) -> None:
    """Run what a result describes, fill in what it gave, and store it."""
    torch.set_num_threads(options.threads)
    result.settings = load_settings(result.split, result.method)
    result.max_seconds = options.max_seconds
    checkpoint = Checkpoint(options.results / "unfinished" / f"{result.file}.pt")
    with shown_progress() as progress:
        context = Context(result.seed, options.max_seconds, options.give_up, options.data, result.settings,
                          progress=progress, checkpoint=checkpoint, curve=result.curve)
        try:
            split = load_split(result.split, options.data)
            result.auc_pr = round(average_precision(split, run_method(result.method, split, context)), 4)
            if context.is_cut_short:
                result.status = "> cap"
        except GivenUp as pace:
            result.status, result.expected = "> cap", round(pace.seconds)
        except CostError as error:
            result.status = "refused"
            print(f"{result.title}: {error.message}", file=sys.stderr)
    result.seconds, result.peak_memory, result.threads = round(context.seconds, 2), peak_memory(), options.threads
    result.save(options.results)
    checkpoint.remove()
    shown = result.status if result.auc_pr is None else f"AUC-PR {result.auc_pr:.3f}"
    print(f"{result.title}: {shown} in {result.seconds:.1f} s", flush=True)


def run_apart(result: Result, options: Options) -> None:
    """The same in a process of its own: its memory is its own, and one that is far over its time is stopped."""
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    processes = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        # torch and all else are imported once
        processes.set_forkserver_preload([__name__])
    process = processes.Process(target=_run_in_child, args=(result, options))
    process.start()
    try:
        process.join(options.max_seconds + PATIENCE)
    finally:
        is_late = process.is_alive()
        process.kill()
        process.join()
    if is_late:
        _store_failure(result, options, "> cap")
    elif process.exitcode == 130:
        raise KeyboardInterrupt
    elif process.exitcode is not None and process.exitcode < 0:
        # such as the system's answer to memory that is not there
        _store_failure(result, options, f"killed by signal {-process.exitcode}")
    elif process.exitcode:
        raise LogicMPError(f"{result.title} failed, see above")


def _run_in_child(result: Result, options: Options) -> None:
    try:
        run_one(result, options)
    except KeyboardInterrupt:
        sys.exit(130)
    except LogicMPError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _store_failure(result: Result, options: Options, status: str) -> None:
    result.status, result.seconds, result.max_seconds = status, options.max_seconds, options.max_seconds
    result.save(options.results)
    print(f"{result.title}: {status}, no result", flush=True)
