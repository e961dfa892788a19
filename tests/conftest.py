"""Fixtures for every test: where the data sets are, and how random theories are drawn."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from fixtures_reader import ROOT
from hypothesis import settings

# the same random theories in every run, so that a test says the same tomorrow; `make nightly` draws new ones
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# the batteries are shipped: their assertions are rewritten like those of any test
pytest.register_assert_rewrite("logicmp.testing.executor_battery", "logicmp.testing.method_battery")


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if numba were not installed, and no compiled loop imported yet."""
    for name in [name for name in sys.modules if name.startswith("logicmp.") and name.endswith("loops")]:
        package, _, module = name.rpartition(".")
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(sys.modules[package], module)
    monkeypatch.setitem(sys.modules, "numba", None)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the data sets, which may not be copied into the repository."""
    if not os.environ.get("LOGICMP_DATA"):
        pytest.skip("needs the data sets: set LOGICMP_DATA to their folder")
    folder = ROOT / os.environ["LOGICMP_DATA"]
    if not folder.is_dir():
        pytest.fail(f"LOGICMP_DATA is set, but there is no folder {str(folder)!r}")
    return folder
