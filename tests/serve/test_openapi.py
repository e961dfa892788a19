"""The JSON interface keeps to its schema, whatever is sent: schemathesis looks for a counterexample."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serving import Running

OPERATIONS = [("/healthz", "GET"), ("/api/examples", "GET"), ("/api/check", "POST"), ("/api/infer", "POST"),
              ("/api/explain", "POST"), ("/api/code", "POST"), ("/api/report", "POST")]


def check_operation(server: Running, path: str, method: str, n: int) -> None:
    """Send requests that fit the schema and requests that do not."""
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operation = schema[path][method]
    # a text that fits the schema is not always a model: status 400
    checks = [check for check in CHECKS.get_all() if check is not positive_data_acceptance]
    from schemathesis import GenerationMode

    @given(st.one_of(operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
                     operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)) if method == "POST"
           else operation.as_strategy())
    @settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def send(case: Any) -> None:
        case.call_and_validate(base_url=server.url, checks=checks)

    send()


@pytest.mark.parametrize("path, method", OPERATIONS)
def test_schemathesis_finds_nothing(server: Running, path: str, method: str) -> None:
    check_operation(server, path, method, 12)


@pytest.mark.slow
@pytest.mark.parametrize("path, method", OPERATIONS[2:])
def test_schemathesis_finds_nothing_in_a_long_search(server: Running, path: str, method: str) -> None:
    check_operation(server, path, method, 1000)


def test_every_operation_is_documented(server: Running) -> None:
    document = server.client.get("/openapi.json").json()
    found = {(path, method.upper()) for path, operations in document["paths"].items() for method in operations}
    assert found == set(OPERATIONS)
    assert all(operation["summary"] for operations in document["paths"].values() for operation in operations.values())
