"""Limits with a clock that the test moves, and the packages that are optional."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from logicmp import LogicMPError
from logicmp.errors import LimitError
from logicmp.limits import MAX_GROUNDINGS, Limits, kept, machine_memory, need, silent


def test_the_clock_starts_when_limits_are_made() -> None:
    seconds = 100.0
    limits = Limits(10, now=lambda: seconds)
    assert (limits.is_over(), limits.left()) == (False, 10)
    seconds = 107.0
    assert (limits.is_over(), limits.left()) == (False, 3)
    seconds = 110.0
    assert (limits.is_over(), limits.left()) == (True, 0)
    seconds = 120.0
    assert (limits.is_over(), limits.left()) == (True, 0)


def test_a_part_of_the_time_is_of_what_is_left() -> None:
    seconds = 0.0
    limits = Limits(10, groundings=7, now=lambda: seconds)
    seconds = 4.0
    part = limits.part(0.5)
    assert (part.seconds, part.groundings) == (3, 7)
    seconds = 6.0
    assert (part.is_over(), part.left()) == (False, 1)
    seconds = 7.0
    assert (part.is_over(), limits.is_over()) == (True, False)
    seconds = 12.0
    assert limits.part(0.5).is_over()


def test_the_error_of_a_part_names_the_whole_limit_when_that_is_over() -> None:
    seconds = 0.0
    limits = Limits(4, now=lambda: seconds)
    part = limits.part(0.25)
    seconds = 2.0
    assert part.error("grounding").message == "the time limit of 1 s was reached while grounding"
    seconds = 5.0
    assert part.error("grounding").message == "the time limit of 4 s was reached while grounding"


def test_without_a_limit_time_is_never_over() -> None:
    limits = Limits()
    assert (limits.is_over(), limits.left(), limits.part(0.5).left()) == (False, None, None)
    assert limits.groundings == MAX_GROUNDINGS
    silent("nothing", 1, 2)


@pytest.mark.parametrize("given, message", [
    ({"seconds": -1}, "the time limit must be a number of seconds, at least 0, got -1"),
    ({"seconds": float("nan")}, "the time limit must be a number of seconds, at least 0, got nan"),
    ({"seconds": "soon"}, "the time limit must be a number of seconds, at least 0, got 'soon'"),
    ({"seconds": True}, "the time limit must be a number of seconds, at least 0, got True"),
    ({"groundings": -1}, "the limit of groundings must be a whole number, at least 0, got -1"),
    ({"groundings": 2.5}, "the limit of groundings must be a whole number, at least 0, got 2.5"),
    ({"groundings": None}, "the limit of groundings must be a whole number, at least 0, got None"),
    ({"memory": 0}, "the memory limit must be a whole number of bytes, above 0, got 0"),
    ({"memory": 1e9}, "the memory limit must be a whole number of bytes, above 0, got 1000000000.0"),
])
def test_a_limit_that_is_no_limit_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        Limits(**given)
    assert str(caught.value) == message


def test_what_is_installed_is_no_error() -> None:
    need("numpy", "all", "arithmetic")


def test_a_missing_package_gives_the_command_and_what_to_do_instead() -> None:
    with pytest.raises(LogicMPError) as caught:
        need("no_such_module", "circuits", "a circuit", "use the layer")
    assert str(caught.value) == ('a circuit needs no_such_module, which is not installed\n'
                                 'hint: pip install "logicmp[circuits]"; or use the layer')


def test_a_package_that_cannot_be_imported_is_not_called_missing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "too_old.py").write_text("raise ImportError('needs NumPy 3')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LogicMPError, match="method 'gibbs' needs too_old, which cannot be imported: needs NumPy 3"):
        need("too_old", "sampling", "method 'gibbs'")


def test_work_without_an_answer_ends_at_the_time_limit() -> None:
    seconds = 0.0
    limits = Limits(2, now=lambda: seconds)
    limits.check("grounding")
    seconds = 2.0
    with pytest.raises(LimitError, match="the time limit of 2 s was reached while grounding"):
        limits.check("grounding")


def test_what_would_need_too_much_memory_is_rejected_with_numbers() -> None:
    Limits(memory=1000).allow(1000, "the network")
    with pytest.raises(LimitError) as caught:
        Limits(memory=1000).allow(1500, "the network")
    assert caught.value.message == "the network needs 1.5 kB, the limit is 1 kB"
    Limits().allow(2**20, "the network")
    with pytest.raises(LimitError, match=r"the network needs .* GB, 80% of the memory of this machine is .* GB"):
        Limits().allow(machine_memory(), "the network")


def test_work_that_never_looks_at_the_clock_is_interrupted() -> None:
    before = signal.getsignal(signal.SIGALRM)
    begin = time.monotonic()
    # a limit of a tenth of a second, of which nothing is left
    with pytest.raises(LimitError) as caught, kept(Limits(0.1, start=begin - 0.7)) as progress:
        progress("joining", 3, 7000)
        while time.monotonic() - begin < 20:
            pass
    assert time.monotonic() - begin < 10
    assert caught.value.message == "the time limit of 0.1 s was reached while joining, 3 of 7,000 done"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_function_of_llvmlite_is_not_interrupted() -> None:
    own: dict[str, Any] = {"__name__": "llvmlite.binding", "time": time}
    # llvmlite calls such functions from C, where an exception is lost
    exec("def called_from_c(end, done):\n    while time.monotonic() < end:\n        pass\n    done.append(end)", own)
    done: list[float] = []
    begin = time.monotonic()
    with pytest.raises(LimitError), kept(Limits(0.1, start=begin - 0.7)):
        own["called_from_c"](begin + 0.4, done)
        while time.monotonic() - begin < 20:
            pass
    assert done and time.monotonic() - begin < 10


def test_work_within_its_limits_is_left_alone() -> None:
    seen = []
    with kept(Limits(60), lambda *about: seen.append(about)) as progress:
        progress("joining", 1, 2)
    assert seen == [("joining", 1, 2)]
    with pytest.raises(RuntimeError, match="another"), kept(Limits()):
        raise RuntimeError("another")


SLOW = """
import sys
from logicmp.limits import Limits, kept
sys.path.insert(0, sys.argv[1])
with kept(Limits(0.2), is_process=sys.argv[2] == "process") as progress:
    progress("importing", 0, 0)
    import slow
"""


@pytest.mark.parametrize("kind, status, out, err", [
    ("process", 3, "", "error: the time limit of 0.2 s was reached while importing slow\nhint: raise --max-seconds"),
    # a module that is imported in part cannot be used again
    ("other", 0, "the import ended\n", "")])
def test_an_import_is_ended_with_the_process_only(tmp_path: Path, kind: str, status: int, out: str, err: str) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nfor _ in range(25):\n    time.sleep(0.1)\nprint('the import ended', flush=True)\n")
    words = [sys.executable, "-c", SLOW, str(tmp_path), kind]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, out), done.stderr
    assert done.stderr.startswith(err)


def test_a_method_that_has_made_a_step_gets_a_moment_more() -> None:
    begin = time.monotonic()
    limits = Limits(0.5, start=begin)
    with kept(limits) as progress:
        progress("bp", 1, 1000)
        while time.monotonic() - begin < 1.0:
            pass
    with pytest.raises(LimitError, match="while bp, 1 of 1,000 done"), kept(limits) as progress:
        progress("bp", 1, 1000)
        while time.monotonic() - begin < 20:
            pass


MEMORY = """
import sys
import numpy as np
from logicmp.errors import LimitError
from logicmp.limits import Limits, kept
try:
    with kept(Limits(memory=400_000_000)) as progress:
        progress("joining", 1, 2)
        held = [np.ones(2**23) for _ in range(100)]
except LimitError as error:
    print(error.message)
# the limit is gone
np.ones(2**26)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory for a process exists on Linux only")
def test_a_memory_limit_is_kept() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=False)
    assert done.stdout == "the memory is used up while joining, 1 of 2 done: the limit is 400 MB\n", done.stderr
    assert done.returncode == 0, done.stderr
