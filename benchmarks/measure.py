"""Measure time and memory of several functions under the same conditions.

Time: the functions take turns, A B A B ..., so that all run in the same state of the machine. Each is warmed up first;
a short one runs several times per sample. The result is the median; all samples are kept.

Memory: the peak of torch's CPU allocator minus its start value, from the profiler's allocation events. These events are
complete, and the same in every run. The alternatives are not: a saved-tensors hook misses temporary tensors, and
`ru_maxrss` of a child process includes memory that malloc does not return and the buffers of MKL. Checked against VmHWM
of a child process that maps every tensor separately (MALLOC_MMAP_THRESHOLD_=65536): a difference of 2 MB at 105 MB.
With malloc's defaults the same child grows by 150 to 250 MB.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Side = Callable[[], object]

# shortest sample: shorter functions run several times per sample
SAMPLE_SECONDS = 0.04
WARM_UP_RUNS = 2


def interleave(sides: Mapping[str, Side], repeat: int,
               sample_seconds: float | None = None) -> dict[str, list[float]]:
    """Seconds per run of every function, `repeat` samples each, taken in turns.

    >>> samples = interleave({"a": lambda: None, "b": lambda: None}, repeat=3, sample_seconds=0)
    >>> {name: len(times) for name, times in samples.items()}
    {'a': 3, 'b': 3}
    """
    least = SAMPLE_SECONDS if sample_seconds is None else sample_seconds
    runs = {}
    for name, side in sides.items():
        for _ in range(WARM_UP_RUNS):
            start = time.perf_counter()
            side()
            spent = time.perf_counter() - start
            # a slow function needs no second warm-up
            if spent > 1:
                break
        runs[name] = max(1, math.ceil(least / max(spent, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in sides}
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeat):
            for name, side in sides.items():
                n = runs[name]
                start = time.perf_counter()
                for _ in range(n):
                    side()
                samples[name].append((time.perf_counter() - start) / n)
    finally:
        if was_enabled:
            gc.enable()
    return samples


def median(samples: list[float]) -> float:
    return statistics.median(samples)


def peak_memory(side: Side) -> int:
    """Peak memory of one run in bytes, minus the memory in use before it."""
    import torch

    side()
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = side()
    del result
    # the public events miss allocations inside operators; these events have all of them
    events = profiler.profiler.kineto_results.events()
    held = peak = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def machine() -> dict[str, Any]:
    """Versions, threads and load: results depend on them, so every run records them."""
    import numpy
    import opt_einsum
    import torch

    import logicmp

    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "src")),
        "logicmp": logicmp.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "opt_einsum": opt_einsum.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        # a load above the number of cores means that other programs were running
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _git(*args: str) -> str | None:
    try:
        return subprocess.run(["git", *args], cwd=Path(__file__).parent.parent, capture_output=True, text=True,
                              check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()
