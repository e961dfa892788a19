"""The server: what it answers, and what it rejects."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import SETTINGS, Running

from logicmp import __version__, infer
from logicmp.serve.app import HEADERS, PAGE
from logicmp.serve.examples import EXAMPLES
from logicmp.serve.schema import MAX_BODY, MAX_RULES

SMOKERS = EXAMPLES[0]
MODEL = {"rules": SMOKERS.rules, "facts": SMOKERS.facts, "query": SMOKERS.query}
# each of many iterations is long, and looks at no clock
SLOW = {"rules": "t = {1, ..., 130}\nP(t)\n1 P(a) ^ P(b) => P(c)\n", "query": "P(a) ^ P(b)", "method": "gibbs"}


def problem(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()
    assert found["kind"] == kind and found["message"] and found["text"]
    assert "Traceback" not in response.text and "logicmp/" not in response.text
    return found


def test_the_page_and_its_parts_are_served_with_safe_headers(server: Running) -> None:
    parts = sorted(path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file())
    assert {"index.html", "main.js", "style.css", "vendor/codemirror.js", "vendor/LICENSES.txt"} <= set(parts)
    parts[parts.index("index.html")] = ""
    for part in [*parts, "healthz", "api/examples", "openapi.json", "nowhere"]:
        response = server.client.get(f"/{part}")
        assert response.status_code == (404 if part == "nowhere" else 200)
        for name, value in HEADERS.items():
            assert response.headers[name] == value
        assert "server" not in response.headers
    assert "script-src 'self';" in HEADERS["Content-Security-Policy"]


def test_the_page_loads_nothing_from_elsewhere() -> None:
    own = [path for path in PAGE.rglob("*") if path.suffix in (".html", ".css", ".js") and "vendor" not in path.parts]
    assert len(own) > 5
    for path in own:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text and "cdn" not in text.lower(), path


def test_healthz_and_examples(server: Running) -> None:
    assert server.client.get("/healthz").json() == {"status": "ok", "version": __version__}
    examples = server.client.get("/api/examples").json()
    assert [example["name"] for example in examples] == [example.name for example in EXAMPLES]


def test_answers_explanations_code_and_report(server: Running) -> None:
    found = server.client.post("/api/infer", json=MODEL).json()
    expected = infer(SMOKERS.rules, SMOKERS.facts, SMOKERS.query)
    assert {a["atom"]: a["probability"] for group in found["groups"] for a in group["answers"]} == pytest.approx(
        dict(expected))
    pushes = server.client.post("/api/explain", json={**MODEL, "atom": "Cancer(Anna)"}).json()["pushes"]
    assert pushes[0]["rule"] == "1.5 Smokes(x) => Cancer(x)" and pushes[0]["amount"] == pytest.approx(1.5)
    code = server.client.post("/api/code", json=MODEL).json()
    assert code["python"].startswith("from logicmp import infer") and "-q 'Smokes, Cancer'" in code["command"]
    report = server.client.post("/api/report", json=MODEL)
    assert report.headers["content-type"].startswith("text/html") and "attachment" in report.headers[
        "content-disposition"]
    assert report.headers["content-security-policy"].startswith("sandbox;") and "Smokes(Bob)" in report.text


def test_a_wrong_model_is_a_problem_with_its_place(server: Running) -> None:
    found = problem(server.client.post("/api/infer", json={"rules": "P(t)\n1 Q(x)"}), 400, "model")
    assert (found["where"], found["line"], found["column"]) == ("rules", 2, 3)
    assert found["text"].startswith("predicate 'Q' is used but not declared\n --> rules:2:3\n2 | 1 Q(x)\n  |   ^")
    checked = server.client.post("/api/check", json={"rules": "P(t)\n1 Q(x)"}).json()
    assert checked["problems"] == [found]


def test_files_cannot_be_included(server: Running, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("Secret(t)\n1 Secret(x)")
    for path in ("check", "infer", "report"):
        response = server.client.post(f"/api/{path}", json={"rules": f'#include "{tmp_path}/secret"\n1 P(x)'})
        assert "#include is rejected" in response.text and "Secret(" not in response.text


@pytest.mark.parametrize("path", ["/../app.py", "/%2e%2e/app.py", "/vendor/../../app.py", "//etc/passwd",
                                  "/..%2fapp.py", "/vendor"])
def test_only_files_of_the_page_are_served(server: Running, path: str) -> None:
    with socket.create_connection(("127.0.0.1", int(server.host.rpartition(":")[2]))) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.split(b" ")[1] in (b"404", b"307"), answer[:80]


@pytest.mark.parametrize("headers, is_allowed", [
    ({}, True),
    ({"Host": "evil.example"}, False),
    ({"Host": "evil.example:80"}, False),
    ({"Host": "127.0.0.1.evil.example"}, False),
    ({"Host": ""}, False),
    ({"Host": "localhost"}, True),
    ({"Host": "[::1]:80"}, True),
    ({"Origin": "http://evil.example"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": "{own}"}, True),
    # another port is another site
    ({"Origin": "http://127.0.0.1:1"}, False),
    ({"Sec-Fetch-Site": "cross-site"}, False),
    ({"Sec-Fetch-Site": "same-site"}, False),
    ({"Sec-Fetch-Site": "same-origin"}, True),
])
def test_other_hosts_and_other_sites_are_rejected(server: Running, headers: dict[str, str], is_allowed: bool) -> None:
    headers = {name: value.replace("{own}", server.url) for name, value in headers.items()}
    response = server.client.post("/api/check", json={"rules": "1 P(x)"}, headers=headers)
    if is_allowed:
        assert response.status_code == 200
    else:
        problem(response, 403, "request")


def test_a_link_from_another_site_opens_the_page_but_not_the_interface(server: Running) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert server.client.get("/", headers=link).status_code == 200
    problem(server.client.post("/api/check", json={"rules": ""}, headers=link), 403, "request")
    problem(server.client.get("/api/examples", headers={"Sec-Fetch-Site": "cross-site"}), 403, "request")


@pytest.mark.parametrize("body, status", [
    (b'{"rules": "1 P(x)"', 422), (b"", 422), (b"[]", 422), (b'{"rules": 1}', 422), (b'{"rules": ""}', 200),
    (b'{"rules": "", "more": 1}', 422), (b'{"rules": "\\ud800"}', 422), (b'{"rules": "\\u0000"}', 200),
    (b"\xff", 422), (b"{" * 10_000, 422), (b'{"rules": "' + b"x" * (MAX_RULES + 1) + b'"}', 422),
    (b'{"rules": "' + b" " * MAX_BODY + b'"}', 413)])
def test_wrong_requests_are_rejected(server: Running, body: bytes, status: int) -> None:
    response = server.client.post("/api/check", content=body, headers={"Content-Type": "application/json"})
    if status == 200:
        assert response.status_code == 200
    else:
        problem(response, status, "request")


def test_a_long_body_without_its_length_is_rejected(server: Running) -> None:
    pieces = (b"x" * 100_000 for _ in range(MAX_BODY // 100_000 + 2))
    problem(server.client.post("/api/check", content=pieces), 413, "request")


def test_another_method_names_the_right_one(server: Running) -> None:
    response = server.client.get("/api/infer")
    problem(response, 405, "request")
    assert response.headers["allow"] == "POST"


def test_a_defect_of_the_program_is_not_shown(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ask: Any) -> str:
        raise ValueError("a secret of the program")

    monkeypatch.setattr("logicmp.serve.app.python_program", fail)
    response = server.client.post("/api/code", json=MODEL)
    assert "secret" not in str(problem(response, 500, "internal"))
    assert response.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize("model, message", [
    ({"rules": "t = {1, ..., 200}\nP(t, t)\n1 P(x, y)"}, "40,000 atoms (limit of the playground 20,000)"),
    ({"rules": "t = {1, ..., 100}\nP(t)\n1 P(a) ^ P(b) => P(c)", "method": "bp"}, "limit 100,000"),
])
def test_models_over_a_limit_are_rejected_with_numbers(server: Running, model: dict[str, str], message: str) -> None:
    assert message in problem(server.client.post("/api/infer", json=model), 400, "limit")["message"]


def test_fifty_requests_at_once_are_answered(server: Running) -> None:
    async def ask() -> list[int]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            answers = await asyncio.gather(*(client.post("/api/check", json={"rules": f"P(t)\n{n} P(x)"})
                                             for n in range(50)))
        for n, answer in enumerate(answers):
            assert answer.json()["weights"][0]["value"] == n
        return [answer.status_code for answer in answers]

    assert asyncio.run(ask()) == [200] * 50


def test_more_requests_than_may_wait_are_told_to_come_back(server: Running) -> None:
    async def ask() -> list[httpx.Response]:
        many = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=server.url, timeout=60, limits=many) as client:
            return await asyncio.gather(*(client.post("/api/check", json={"rules": ""})
                                          for _ in range(SETTINGS.queue + 60)))

    answers = asyncio.run(ask())
    rejected = [answer for answer in answers if answer.status_code != 200]
    assert len(answers) - len(rejected) >= SETTINGS.queue
    for answer in rejected:
        problem(answer, 503, "busy")
        assert answer.headers["retry-after"] == "5"


def test_a_client_that_goes_away_frees_its_worker(server: Running) -> None:
    start = time.monotonic()
    for _ in range(2 * SETTINGS.workers):
        with pytest.raises(httpx.ReadTimeout):
            server.client.post("/api/infer", json=SLOW, timeout=0.4)
    assert server.client.post("/api/infer", json={"rules": "t = {A}\nP(t)\n1 P(x)"}).status_code == 200
    # each of them alone takes all its time
    assert time.monotonic() - start < 2 * SETTINGS.seconds
