"""`logicmp serve`: it starts on this machine only, and says what is wrong with its options."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from shell import Shell


def test_the_server_listens_on_this_machine_only() -> None:
    command = [sys.executable, "-m", "logicmp", "serve", "--port", "0", "--max-seconds", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            found = re.fullmatch(r"(http://127\.0\.0\.1:(\d+)/)   \(stop with Ctrl\+C\)\n", process.stdout.readline())
            assert found is not None
            # the page is there before torch is imported
            assert "LogicMP playground" in httpx.get(found[1], timeout=30).text
            assert httpx.get(f"{found[1]}healthz", timeout=30).json()["status"] in ("starting", "ok")
            with open(f"/proc/{process.pid}/net/tcp", encoding="ascii") as table:
                port = f"{int(found[2]):04X}"
                listening = [line.split()[1] for line in table if line.split()[1].endswith(f":{port}")
                             and line.split()[3] == "0A"]
            assert listening == [f"0100007F:{port}"]
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    assert errors == "" and process.returncode == 0


@pytest.mark.parametrize("words, message", [
    (["--max-seconds", "0"], "--max-seconds must be above 0, got 0"),
    (["--max-seconds", "nan"], "--max-seconds must be above 0, got nan"),
    (["--max-memory", "much"], "--max-memory must be a size above 0, got 'much'"),
    (["--host", "256.0.0.1"], "cannot listen on 256.0.0.1, port 8417"),
])
def test_wrong_options_are_errors(shell: Shell, words: list[str], message: str) -> None:
    found = shell("serve", *words)
    assert found.status == 1 and message in found.err


def test_a_port_in_use_is_an_error_with_a_way_out(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = shell("serve", "--port", str(taken.getsockname()[1]))
    assert found.status == 1 and "Address already in use" in found.err and "--port 0" in found.err
