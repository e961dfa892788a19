"""The server: the page, and the JSON interface that the page uses.

Room: **serve** (schema, examples, programs, nursery -> app) -> cli.

    GET /                    the page            GET /healthz          whether the server can answer
    POST /api/check          errors while typing POST /api/explain     why an atom has its probability
    POST /api/infer          answers             POST /api/report      one HTML page to keep
    GET /api/examples        models              POST /api/code        the same in Python and in a shell

Every request that reads a model runs in a process of its own, see `nursery`. Requests from other sites are rejected by
their Host and Origin headers, so that a page somewhere else cannot use a server on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import __version__
from .examples import EXAMPLES
from .nursery import BusyError, CutOffError, FailedError, Nursery, Settings, WrongModelError
from .programs import python_program, shell_commands
from .schema import (
    MAX_BODY,
    Answers,
    AtomQuestion,
    Checked,
    Code,
    ExampleModel,
    Explanation,
    Health,
    Model,
    Problem,
    Question,
)

PAGE = Path(__file__).parent / "page"
HEADERS = {
    # the editor adds its own styles
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}
# seconds that a request may take to arrive
BODY_SECONDS = 30
LOCAL = ("localhost", "127.0.0.1", "::1")
# what can come back instead of an answer
_PROBLEMS: Mapping[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The model is wrong, or over a limit."},
    403: {"model": Problem, "description": "The request came from another site."},
    413: {"model": Problem, "description": "The request is too large."},
    422: {"model": Problem, "description": "The request does not fit the schema."},
    503: {"model": Problem, "description": "Too many requests are waiting."},
}


def create_app(settings: Settings, hosts: Collection[str] = ()) -> FastAPI:
    """The application.

    Args:
        settings: limits of each request.
        hosts: names and addresses under which the server may be reached, besides this machine's own.
    """
    nurseries: dict[str, Nursery] = {}

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nurseries.update({name: Nursery(f"{__package__}.{name}", settings) for name in ("reading", "answers")})
        started = [asyncio.ensure_future(nursery.wait()) for nursery in nurseries.values()]
        try:
            yield
        finally:
            for future in started:
                future.cancel()
            await asyncio.gather(*started, return_exceptions=True)
            for nursery in nurseries.values():
                nursery.close()

    app = FastAPI(title="LogicMP playground", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan,
                  description="Markov logic in a browser. Rules, facts and queries are texts, as in files of the "
                  "command line.")

    async def work(request: Request, name: str, task: str, body: Model) -> dict[str, Any]:
        """The answer of a child, which is killed if the client goes away."""
        asked = asyncio.ensure_future(nurseries[name].ask(task, body.model_dump()))
        gone = asyncio.ensure_future(_until_disconnected(request))
        try:
            await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return await asked
            raise HTTPException(499, "the client is gone")
        finally:
            for future in (asked, gone):
                future.cancel()

    @app.get("/healthz", response_model=Health, summary="Whether the server can answer")
    async def healthz() -> Any:
        is_ready = all(nursery.is_ready for nursery in nurseries.values())
        return {"status": "ok" if is_ready else "starting", "version": __version__}

    @app.get("/api/examples", response_model=list[ExampleModel], summary="Models to start from")
    async def examples() -> Any:
        return [asdict(example) for example in EXAMPLES]

    @app.post("/api/check", response_model=Checked, responses={**_PROBLEMS}, summary="Errors and warnings")
    async def check(request: Request, body: Model) -> Any:
        return JSONResponse(await work(request, "reading", "check", body))

    @app.post("/api/infer", response_model=Answers, responses={**_PROBLEMS}, summary="Answer the queries")
    async def infer(request: Request, body: Question) -> Any:
        return JSONResponse(await work(request, "answers", "answer", body))

    @app.post("/api/explain", response_model=Explanation, responses={**_PROBLEMS},
              summary="Which rules pushed an atom, and through which groundings")
    async def explain(request: Request, body: AtomQuestion) -> Any:
        return JSONResponse(await work(request, "answers", "explain", body))

    @app.post("/api/code", response_model=Code, responses={**_PROBLEMS}, summary="The same in Python and in a shell")
    async def code(body: Question) -> Any:
        ask = body.model_dump()
        return {"python": python_program(ask), "command": shell_commands(ask)}

    @app.post("/api/report", response_model=None, responses={200: {"content": {"text/html": {}}}, **_PROBLEMS},
              summary="A page to keep, which needs no other file")
    async def report(request: Request, body: Question) -> Any:
        found = await work(request, "answers", "report", body)
        return HTMLResponse(found["html"], headers={"Content-Disposition": 'attachment; filename="logicmp-report.html"',
                                                    "Content-Security-Policy": "sandbox; default-src 'none'; "
                                                    "style-src 'unsafe-inline'"})

    _handle_errors(app)
    # one route for each file: nothing else can be read
    for path in (path for path in PAGE.rglob("*") if path.is_file()):
        name = path.relative_to(PAGE).as_posix()
        app.router.routes.append(Route("/" if name == "index.html" else f"/{name}", _file(path)))
    app.add_middleware(Guard, hosts={*LOCAL, *(host.lower() for host in hosts)})
    return app


def run_server(settings: Settings, listening: socket.socket, hosts: Collection[str] = ()) -> None:
    """Serve until an interrupt.

    Args:
        settings: limits of each request.
        listening: the socket to accept connections from.
        hosts: names and addresses under which the server may be reached, besides this machine's own.
    """
    # accepted connections inherit it; without it each answer waits 40 ms for the client
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    make_server(settings, hosts).run([listening])


def make_server(settings: Settings, hosts: Collection[str] = ()) -> uvicorn.Server:
    """The server without its socket; arguments as for `run_server`."""
    return uvicorn.Server(uvicorn.Config(create_app(settings, hosts), log_level="warning", access_log=False,
                                         server_header=False, timeout_keep_alive=20, timeout_graceful_shutdown=2,
                                         ws="none", h11_max_incomplete_event_size=64_000, limit_concurrency=1000))


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        return FileResponse(path)

    return send


async def _until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _problem(status: int, kind: str, message: str, hint: str | None = None, **headers: str) -> Response:
    text = f"{message}\nhint: {hint}" if hint else message
    body = Problem.model_validate({"kind": kind, "message": message, "hint": hint, "text": text})
    return JSONResponse(body.model_dump(), status, headers)


def _handle_errors(app: FastAPI) -> None:
    """Turn every exception into a problem that names the next step, without details of the program."""

    @app.exception_handler(WrongModelError)
    async def wrong(request: Request, error: WrongModelError) -> Response:
        return JSONResponse(error.problem, 400)

    @app.exception_handler(CutOffError)
    async def cut_off(request: Request, error: CutOffError) -> Response:
        return _problem(400, "limit", str(error), "make the model smaller, or run logicmp infer on your machine")

    @app.exception_handler(BusyError)
    async def busy(request: Request, error: BusyError) -> Response:
        return _problem(503, "busy", "too many requests are waiting", "try again in a few seconds",
                        **{"Retry-After": "5"})

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or "body"
        if first["type"] == "string_too_long" and place in ("rules", "facts", "query"):
            return _problem(422, "request", f"the {place} {'has' if place == 'query' else 'have'} "
                            f"{len(first['input']):,} characters (limit {first['ctx']['max_length']:,})",
                            "make it shorter, or run logicmp infer on your machine")
        return _problem(422, "request", f"{place}: {first['msg']}", "the schema is in /openapi.json")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        # a body that is no text is as wrong as one that is no JSON
        status = 422 if error.status_code == 400 else error.status_code
        return _problem(status, "request", error.detail, **dict(error.headers or {}))

    async def unexpected(request: Request, error: Exception) -> Response:
        # outside of the guard, so the headers are added here
        return _problem(500, "internal", "an unexpected error", "the log of the server has the details", **HEADERS)

    app.add_exception_handler(FailedError, unexpected)
    app.add_exception_handler(Exception, unexpected)


class Guard:
    """Reject requests for other hosts, from other sites, and with large bodies; add headers to every response.

    Args:
        app: what comes next.
        hosts: host names without ports, in lower case.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]):
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(
                    (name.lower().encode(), value.encode()) for name, value in HEADERS.items()
                    if name.lower().encode() not in present)]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        rejected = self._reject(scope["method"], headers)
        if rejected is not None:
            await rejected(scope, receive, send_with_headers)
            return
        try:
            async with asyncio.timeout(BODY_SECONDS):
                received = await _read_body(receive)
        except TimeoutError:
            await _problem(408, "request", "the request did not arrive in time")(scope, receive, send_with_headers)
            return
        if received is None:
            await _too_large()(scope, receive, send_with_headers)
            return

        async def replay() -> Message:
            # the whole body, and then whether the client is still there
            return received.pop() if received else await receive()

        await self.app(scope, replay, send_with_headers)

    def _reject(self, method: str, headers: Mapping[str, str]) -> Response | None:
        host = headers.get("host", "")
        if _name(host) not in self.hosts:
            return _problem(403, "request", f"this server is not {host[:100]!r}",
                            "start it with --allow-host NAME for another name")
        origin = headers.get("origin")
        is_foreign = (origin is not None and origin.partition("://")[2] != host) or headers.get(
            "sec-fetch-site", "same-origin") not in ("same-origin", "none")
        # a link to the page from another site is fine
        is_link = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if is_foreign and not is_link:
            return _problem(403, "request", "requests from other sites are rejected")
        return None


async def _read_body(receive: Receive) -> list[Message] | None:
    """The body as one message; None if it is too large, whatever its header says."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return [message]
        body += message.get("body", b"")
        is_last = not message.get("more_body")
        # a client that has sent everything reads the answer; one that goes on is cut off
        if len(body) > MAX_BODY and (is_last or len(body) > 4 * MAX_BODY):
            return None
        if is_last:
            return [{"type": "http.request", "body": bytes(body), "more_body": False}]


def _too_large() -> Response:
    return _problem(413, "request", f"the request is over {MAX_BODY:,} bytes", "send a smaller model",
                    Connection="close")


def _name(host: str) -> str:
    """The name in a Host header, without the port.

    >>> _name("LocalHost:8000"), _name("[::1]:8000"), _name("[::1")
    ('localhost', '::1', '')
    """
    if host.startswith("["):
        name, bracket, _ = host[1:].partition("]")
        with contextlib.suppress(ValueError):
            return str(ipaddress.ip_address(name)) if bracket else ""
        return ""
    return host.partition(":")[0].lower()
