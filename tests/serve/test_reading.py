"""Models as the page sends them: errors at their place, warnings, weights, and no files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logicmp import LogicMPError, parse_theory
from logicmp.limits import Limits
from logicmp.serve.examples import EXAMPLES
from logicmp.serve.reading import MAX_ATOMS, check, describe_error, read

RULES = "Smokes(person)\nFriends(person, person)\n1.5 Smokes(x) ^ Freinds(x, y) => Smokes(y)\n"


def only(found: dict[str, Any]) -> dict[str, Any]:
    (problem,) = found["problems"]
    return dict(problem)


def test_an_error_has_the_place_and_the_text_of_the_library() -> None:
    problem = only(check({"rules": RULES}))
    with pytest.raises(LogicMPError) as error:
        parse_theory(RULES, "rules")
    assert problem["text"] == str(error.value)
    assert "^^^^^^^" in problem["text"] and "did you mean 'Friends'?" in problem["text"]
    assert (problem["where"], problem["line"], problem["column"]) == ("rules", 3, 17)
    assert RULES[problem["start"] : problem["end"]] == "Freinds"


@pytest.mark.parametrize("ask, where, shown", [
    ({"rules": "Smokes(person)", "facts": "Smokes(Anna)\nSmoke(Bob)"}, "facts", "Smoke"),
    ({"rules": "Smokes(person)", "facts": "Smokes(Anna)", "query": "Smokes, Smoke(x)"}, "query", "Smoke"),
    # a mistake that the first piece contains, too
    ({"rules": "Smokes(person)", "facts": "Smokes(Anna)", "query": "Smokes(Bob)"}, "query", "Bob"),
])
def test_an_error_names_the_text_that_it_is_about(ask: dict[str, Any], where: str, shown: str) -> None:
    problem = only(check(ask))
    assert problem["where"] == where
    assert ask[where][problem["start"] : problem["end"]] == shown


def test_places_are_counted_as_browsers_do() -> None:
    rules = "// 😀\nP(t)\n1 Q(x)"
    problem = only(check({"rules": rules}))
    # two units for the face
    encoded = rules.encode("utf-16-le")
    assert encoded[2 * problem["start"] : 2 * problem["end"]].decode("utf-16-le") == "Q"


def test_an_include_is_rejected_and_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.mln").write_text("Secret(t)\n1 Secret(x)")
    monkeypatch.chdir(tmp_path)
    for text in ('#include "secret.mln"', 'P(t)\n#include "secret.mln"\n', f'#include "{tmp_path}/secret.mln"',
                 "#include </etc/passwd>"):
        problem = only(check({"rules": text}))
        assert "#include is rejected" in problem["message"] and "Secret" not in problem["text"]
        with pytest.raises(LogicMPError, match="#include is rejected"):
            read({"rules": text})
    # in a comment it is text
    assert not check({"rules": '// #include "secret.mln"\nP(t)\n1 P(x)'})["problems"]
    # facts have no includes
    assert only(check({"rules": "P(t)", "facts": '#include "secret.mln"'}))["where"] == "facts"


def test_warnings_name_their_lines() -> None:
    found = check({"rules": "P(t)\nQ(t)\n1 P(x) => Q(x)\n0 P(x)", "facts": "P(A)\nP(A)"})
    assert not found["problems"]
    assert [(warning["where"], warning["lines"]) for warning in found["warnings"]] == [
        ("facts", []), ("rules", [3]), ("rules", [4])]


def test_the_places_of_weights_are_those_of_the_numbers() -> None:
    rules = "P(t) // 1\n  2 P(x)\nP(x) v P(y).\n-0.5 (P(x)\n  v P(y))\nlog(0.9/0.1) P(A)\n(P(B))\n"
    weights = check({"rules": rules})["weights"]
    assert [rules[w["start"] : w["end"]] for w in weights] == ["2", "-0.5", "log(0.9/0.1)"]
    assert [w["line"] for w in weights] == [2, 4, 6]
    assert [w["rule"] for w in weights] == ["P(x)", "(P(x)\n  v P(y))", "P(A)"]


def test_a_model_with_too_many_atoms_is_rejected_with_numbers() -> None:
    ask = {"rules": "t = {1, ..., 300}\nP(t, t)\n1 P(x, y)"}
    with pytest.raises(LogicMPError, match=f"90,000 atoms \\(limit of the playground {MAX_ATOMS:,}\\)"):
        read(ask)
    # reading it for errors is cheap
    assert not check(ask)["problems"]


def test_the_hint_of_a_limit_names_what_the_page_has() -> None:
    problem = describe_error(Limits(2.0).error("grounding"))
    assert problem["kind"] == "limit" and problem["text"] == (
        "the time limit of 2 s was reached while grounding\n"
        "hint: choose another method, give more evidence, or restart the server with a larger --max-seconds")
    with pytest.raises(LogicMPError) as error:
        Limits(memory=10**6).allow(2e6, "a tensor")
    assert describe_error(error.value)["hint"] == (
        "give more evidence, or restart the server with a larger --max-memory")


def test_too_many_answers_are_rejected_with_numbers() -> None:
    rules = "t = {1, ..., 40}\nP(t)\n1 P(x)"
    with pytest.raises(LogicMPError, match=r"64,000 answers \(limit of the playground 20,000\)"):
        read({"rules": rules, "query": "P(x) ^ P(y) ^ P(z)"})
    assert read({"rules": rules, "query": "P(x) ^ P(y), P"}).queried == {"P"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_examples_have_no_errors(example: Any) -> None:
    found = check({"rules": example.rules, "facts": example.facts, "query": example.query})
    assert not found["problems"]
    assert all(len(line) <= 80 for line in example.rules.splitlines())
