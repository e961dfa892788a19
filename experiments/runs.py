"""Run the cells of an experiment and store their results: one `Result` per run, one file per data set.

    results/uw_cse.json      a JSON list, one result per line, sorted by split, variant, method and seed
    results/unfinished/      checkpoints and lock files; git ignores them

    run_all(plans, work, folder)    run every plan without a stored result; store and print what `work` returns
    load_results(folder)            the results of all data sets
    run_command(parser)             the exit code of a command; errors as the user should see them
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import multiprocessing
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from logicmp import LogicMPError
from logicmp.files import write_whole

from .files import make_folder

# seconds a process may run over its limit: methods start their clocks after loading and grounding
GRACE = 300.0
# the exit code of an interrupted command
INTERRUPTED = 130


@dataclass(frozen=True)
class Result:
    """One run: what was run, what it measured and what it cost. Without values it is a plan."""

    dataset: str
    split: str
    # a row of the tables, or "speed"
    method: str
    seed: int = 0
    # how the run differs from those of the main tables, such as "share=0.1"
    variant: str = ""
    # "done", or why values are missing or preliminary
    status: str = "done"
    values: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    # peak, in MB
    memory: float = 0.0
    # 0: not recorded
    threads: int = 0
    commit: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.dataset, self.split, self.variant, self.method, self.seed

    @property
    def title(self) -> str:
        return " ".join(filter(None, [f"{self.dataset}/{self.split}", self.method, f"seed {self.seed}", self.variant]))

    def get(self, name: str) -> Any:
        """A value, or None if the run did not measure it."""
        return self.values.get(name)

    def __str__(self) -> str:
        shown = [] if self.status == "done" else [self.status]
        shown += [f"{name} {x:.5g}" for name, x in self.values.items() if isinstance(x, (int, float))]
        return f"{self.title}: {', '.join([*shown, f'{self.seconds:.1f} s', f'{self.memory:.0f} MB'])}"


Work = Callable[[Result], Sequence[Result]]


# storing


def unfinished(plan: Result, folder: Path) -> Path:
    """Where a run may keep a checkpoint; `run_all` deletes it after storing the result."""
    name = "-".join(filter(None, [plan.dataset, plan.split, plan.variant, plan.method]))
    return folder / "unfinished" / f"{name}-{plan.seed}.pt"


def load_results(folder: Path) -> list[Result]:
    """All results of an experiment, sorted."""
    return [result for path in sorted(folder.glob("*.json")) for result in _read(path)]


def _read(path: Path) -> list[Result]:
    try:
        return [Result(**entry) for entry in json.loads(path.read_text())]
    except (OSError, TypeError, ValueError) as cause:
        raise LogicMPError(f"{str(path)!r} is not a list of results: {cause}") from None


def save_results(results: Sequence[Result], folder: Path) -> None:
    """Add results of one data set to its file; a result with the same key is replaced."""
    path = folder / f"{results[0].dataset}.json"
    with _locked(path):
        # read again under the lock: another process may have added results since
        stored = {r.key: r for r in (*(_read(path) if path.exists() else ()), *results)}
        lines = [json.dumps(asdict(stored[key]), ensure_ascii=False) for key in sorted(stored)]
        write_whole(path, "[\n" + ",\n".join(lines) + "\n]\n", "results")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time change a file; the lock ends with the process that holds it."""
    with (make_folder(path.parent / "unfinished") / f"{path.stem}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# running


def run_all(plans: Iterable[Result], work: Work, folder: Path, again: bool = False, limit: float | None = None) -> None:
    """Run plans one after the other; skip those with a stored result.

    Args:
        work: returns the results of a plan, and of other plans if one training serves several methods.
        again: replace stored results.
        limit: run each plan in its own process and stop it after this many seconds (and a grace period).
    """
    made = set()
    for plan in plans:
        if plan.key in made:
            continue
        if not again and any(plan.key == r.key for r in load_results(folder)):
            print(f"{plan.title}: already stored", file=sys.stderr)
        elif limit is None:
            made |= {r.key for r in _run(plan, work, folder)}
        else:
            _run_in_process(plan, work, folder, limit)


def _run(plan: Result, work: Work, folder: Path) -> list[Result]:
    _reset_peak()
    results = [replace(result, memory=_peak_memory(), threads=torch.get_num_threads(), commit=commit())
               for result in work(plan)]
    save_results(results, folder)
    unfinished(plan, folder).unlink(missing_ok=True)
    for result in results:
        print(result, flush=True)
    return results


def _run_in_process(plan: Result, work: Work, folder: Path, limit: float) -> None:
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    processes = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        # import torch and the experiment once
        processes.set_forkserver_preload([work.__module__])
    process = processes.Process(target=_run_in_child, args=(plan, work, folder, torch.get_num_threads()))
    process.start()
    try:
        process.join(limit + GRACE)
    finally:
        is_late = process.is_alive()
        process.kill()
        process.join()
    code = process.exitcode or 0
    if is_late or code < 0:
        # a negative code is a signal, such as that of the system when memory runs out
        status = "> cap" if is_late else f"killed by signal {-code}"
        failed = replace(plan, status=status, seconds=limit, commit=commit())
        save_results([failed], folder)
        print(failed, flush=True)
    elif code == INTERRUPTED:
        raise KeyboardInterrupt
    elif code:
        raise LogicMPError(f"{plan.title} failed, see above")


def _run_in_child(plan: Result, work: Work, folder: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        _run(plan, work, folder)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except LogicMPError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


# cost


def commit() -> str:
    """The commit a run was made with."""
    try:
        return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True,
                              cwd=Path(__file__).parent).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _reset_peak() -> None:
    """Reset the peak memory of the process, if the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> float:
    """Peak memory in MB since `_reset_peak`, or of the whole process."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return round(next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024, 1)
    except (OSError, StopIteration):
        # kilobytes on Linux, bytes on macOS
        unit = 1024**2 if sys.platform == "darwin" else 1024
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


# commands


def make_parser(experiment: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"python -m {experiment}", description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def shared_options(results: Path) -> argparse.ArgumentParser:
    """Options of every command."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--data", help="folder of the data sets (default: LOGICMP_DATA)")
    shared.add_argument("--results", type=Path, default=results, help="folder of the results")
    shared.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (default: all cores)")
    return shared


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default: 1)")
    parser.add_argument("--again", action="store_true", help="replace stored results")


def run_command(parser: argparse.ArgumentParser, arguments: list[str] | None = None) -> int:
    """Parse arguments and call the command's `run`; returns the exit code."""
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    return exit_code(lambda: chosen.run(chosen))


def exit_code(work: Callable[[], object]) -> int:
    """Do the work of a command. SIGTERM interrupts it, so that child processes end with it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        work()
    except LogicMPError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; finished runs are stored: the same command continues from there", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0
