"""The playground's server, in a thread of the tests, with short limits."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from logicmp.serve.app import make_server
from logicmp.serve.nursery import Settings

SETTINGS = Settings(seconds=4.0, memory=600_000_000, groundings=100_000, workers=2, queue=80)


@dataclass(frozen=True)
class Running:
    """A server that runs: its address, and a client that talks to it."""

    url: str
    client: httpx.Client

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")


@contextlib.contextmanager
def running(settings: Settings) -> Iterator[Running]:
    server = make_server(settings)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            with httpx.Client(base_url=url, timeout=60) as client:
                deadline = time.monotonic() + 60
                while client.get("/healthz").json()["status"] != "ok":
                    assert time.monotonic() < deadline, "the server did not start"
                    time.sleep(0.05)
                yield Running(url, client)
        finally:
            server.should_exit = True
            thread.join(20)
    assert not thread.is_alive()
