"""Errors: the line they show, the carets below it, and copies for other processes."""

from __future__ import annotations

import pickle

import pytest

from logicmp import CostError, LogicMPError, RuleError
from logicmp.errors import Source, Span

TEXT = Source("people.mln", "Smokes(person)\r\n\t1 Cough(x)\n")
COUGH = Span(TEXT, 19, 24)


def test_a_span_is_shown_with_its_place_line_and_carets() -> None:
    assert (COUGH.line, COUGH.column, COUGH.text) == (2, 4, "Cough")
    assert COUGH.show() == " --> people.mln:2:4\n2 |  1 Cough(x)\n  |    ^^^^^"


def test_a_part_of_a_text_has_the_line_numbers_of_the_whole() -> None:
    span = Span(Source("people.mln", "1 Cough(x)", 12), 2, 7)
    assert span.show() == " --> people.mln:12:3\n12 | 1 Cough(x)\n   |   ^^^^^"


def test_the_end_of_a_text_has_a_caret() -> None:
    assert Span(TEXT, len(TEXT.text), len(TEXT.text)).show() == " --> people.mln:3:1\n3 |\n  | ^"


def test_a_character_that_cannot_be_printed_takes_one_place() -> None:
    assert Span(Source("a", "P\0\x1b(x)"), 3, 4).show().split("\n")[1:] == [
        "1 | P\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}(x)", "  |    ^"]


def test_end_of_a_long_line_is_shown() -> None:
    text = "x" * 1000 + "Cough"
    _, line, carets = Span(Source("long", text), 1000, 1005).show().split("\n")
    assert line.endswith("xCough")
    assert carets.index("^") == line.index("Cough")
    assert carets.endswith("^^^^^") and len(carets) == len(line)


def test_an_error_has_its_message_places_and_hint() -> None:
    assert str(LogicMPError("no file", "give a file")) == "no file\nhint: give a file"
    first, second = Span(TEXT, 0, 6), COUGH
    assert str(RuleError("they differ", first, "remove one", second)) == "\n".join(
        ["they differ", first.show(), second.show(), "hint: remove one"])


@pytest.mark.parametrize("error", [
    LogicMPError("no file", "give a file"), RuleError("they differ", COUGH, None, COUGH), CostError("too large", None)])
def test_an_error_survives_the_way_to_another_process(error: LogicMPError) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error) and str(copied) == str(error)
