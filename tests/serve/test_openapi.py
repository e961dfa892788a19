"""The JSON interface keeps to its schema, whatever is sent: schemathesis looks for a counterexample."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serving import Running

from logicmp.serve.examples import EXAMPLES

OPERATIONS = [("/healthz", "GET"), ("/api/examples", "GET"), ("/api/check", "POST"), ("/api/infer", "POST"),
              ("/api/explain", "POST"), ("/api/code", "POST"), ("/api/report", "POST")]


# a text that fits the schema is not always a model: status 400
NOT_OURS = [positive_data_acceptance]
PIECES = [*"(){}[]=!^+*.,0123456789ABxyz \n\"'\\/#~@", " => ", " <=> ", " v ", "EXIST x ", "FORALL y ",
          "#include \"a\"", "1e308 ", "-inf ", "// ", "1, ..., 9", " in {A, B}", "symmetric ", "\u2028", "\ufeff",
          "\U0001f600", "\x00"]


@st.composite
def damaged(draw: Any, text: str) -> str:
    """A text with some of its pieces deleted, repeated or replaced."""
    for _ in range(draw(st.integers(0, 3))):
        at, length = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
        put = draw(st.one_of(st.sampled_from(PIECES), st.just(""), st.just(text[at:at + length] * 3)))
        text = text[:at] + put + text[at + length:]
    return text


@st.composite
def models(draw: Any) -> dict[str, str]:
    """An example of the playground, a little damaged: most of them get past the parser, many to an answer."""
    example = draw(st.sampled_from(EXAMPLES))
    texts = [draw(damaged(text)) for text in (example.rules, example.facts, example.query)]
    return dict(zip(("rules", "facts", "query"), texts, strict=True))


def check_operation(server: Running, path: str, method: str, n: int, with_models: bool = False) -> None:
    """Send requests that fit the schema and requests that do not, or models with the other fields of the schema."""
    operation = schemathesis.openapi.from_url(f"{server.url}/openapi.json")[path][method]
    checks = [check for check in CHECKS.get_all() if check not in NOT_OURS]
    positive = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    negative = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @given(positive if method == "GET" or with_models else st.one_of(positive, negative),
           models() if with_models else st.none())
    @settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def send(case: Any, model: dict[str, str] | None) -> None:
        if model is not None:
            case.body = {**case.body, **model, **({"atom": model["query"][:500] or "P"} if "explain" in path else {})}
        case.call_and_validate(base_url=server.url, checks=checks)

    send()


@pytest.mark.parametrize("path, method", OPERATIONS)
def test_schemathesis_finds_nothing(server: Running, path: str, method: str) -> None:
    check_operation(server, path, method, 12)


@pytest.mark.parametrize("path, method", OPERATIONS[2:])
def test_damaged_models_are_answered_or_rejected(server: Running, path: str, method: str) -> None:
    check_operation(server, path, method, 12, with_models=True)


@pytest.mark.slow
@pytest.mark.parametrize("with_models", [False, True])
@pytest.mark.parametrize("path, method", OPERATIONS[2:])
def test_nothing_is_found_in_a_long_search(server: Running, path: str, method: str, with_models: bool) -> None:
    # a model that is answered takes ten times as long as a text that is none
    check_operation(server, path, method, 300 if with_models else 1000, with_models)


def test_every_operation_is_documented(server: Running) -> None:
    document = server.client.get("/openapi.json").json()
    found = {(path, method.upper()) for path, operations in document["paths"].items() for method in operations}
    assert found == set(OPERATIONS)
    assert all(operation["summary"] for operations in document["paths"].values() for operation in operations.values())
