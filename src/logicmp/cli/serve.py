"""`logicmp serve`: the playground, a page for rules, facts and queries in a browser."""

from __future__ import annotations

import contextlib
import os
import socket
import webbrowser
from typing import Annotated

import typer

from ..errors import LogicMPError
from ..limits import need
from ..show.progress import print_message
from .options import read_bytes

# addresses that mean "every address of this machine"
EVERYWHERE = ("0.0.0.0", "::", "")


def serve(
    host: Annotated[str, typer.Option(
        help="Listen on this address; 0.0.0.0 lets other machines connect, without a password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 picks a free one.")] = 8417,
    allow_host: Annotated[list[str] | None, typer.Option(
        metavar="NAME", help="Also answer requests for this host name, as behind a proxy; repeatable.")] = None,
    max_seconds: Annotated[float, typer.Option(help="Time limit of a request, in seconds, above 0.")] = 10.0,
    max_memory: Annotated[str, typer.Option(
        metavar="SIZE", help="Memory limit of a request, such as 500MB or 2GB.")] = "1GB",
    workers: Annotated[int, typer.Option(min=1, help="Requests that run at once; the others wait.")] = 2,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Start the playground: a page for rules, facts and queries.

    Only this machine can open it, unless you say otherwise.

    \b
        logicmp serve
        logicmp serve --port 0 --open
        logicmp serve --max-seconds 3 --max-memory 500MB
    """
    need("fastapi", "serve", "logicmp serve")
    need("uvicorn", "serve", "logicmp serve")
    if not hasattr(os, "fork"):
        raise LogicMPError("logicmp serve needs Linux or macOS: each request runs in a forked process",
                           "use the Windows Subsystem for Linux")
    if not max_seconds > 0:
        raise LogicMPError(f"--max-seconds must be above 0, got {max_seconds:g}")
    from ..serve.app import run_server
    from ..serve.nursery import Settings

    settings = Settings(seconds=max_seconds, memory=read_bytes(max_memory), workers=workers)
    listening = _listen(host, port)
    shown = "127.0.0.1" if host in EVERYWHERE else host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"
    typer.echo(f"{address}   (stop with Ctrl+C)")
    if host in EVERYWHERE and not allow_host:
        print_message("warning: other machines can connect, but only requests for localhost are answered; name this "
                      "machine with --allow-host")
    if browser:
        webbrowser.open(address)
    # Ctrl+C is the way to stop it
    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
        run_server(settings, listening, [*(allow_host or []), *([] if host in EVERYWHERE else [host])])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as cause:
        raise LogicMPError(f"cannot listen on {host}, port {port}: {cause.strerror or cause}",
                           "use another port, or --port 0 for a free one") from None
