"""One server for all tests of the playground in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import SETTINGS, Running, running


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with running(SETTINGS) as found:
        yield found
