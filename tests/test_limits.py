"""Limits with a clock that the test moves, and the packages that are optional."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logicmp import LogicMPError
from logicmp.limits import MAX_GROUNDINGS, Limits, need, silent


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
