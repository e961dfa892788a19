"""Every text gives a theory that prints and reads back, or an error for the user; never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz import PIECES
from logicmp import LogicMPError, load_theory, parse_theory

# LOGICMP_FUZZ=5000 for a long run
EXAMPLES = int(os.environ.get("LOGICMP_FUZZ", "150"))
fuzz = settings(
    max_examples=EXAMPLES, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large])

OWN = [
    """// people
person = {Anna, Bob, "C. D."}
Smokes(person)  // who does
*Friends(person, person)
symmetric Married(person, person)
1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
-0.25 Smokes(+x) v !Smokes(y) v x = y
EXIST y Married(x, y).
/* nobody is
   his own friend */
!Friends(Anna, Anna).
""",
    """step = {1, ..., 4}
tag(step) in {O, B-PER, I-PER}
word(step, token!)
Rain
2 tag(i) in {O} => !(tag(i+1) = I-PER)
log(0.9/0.1) Rain <=> (FORALL i (tag(i) not in {O} v word(i-1, "the")))
[Rain v !Rain]
1e-3 *Rain ^ *word(i, Cat) ^ tag(i) in {O, B-PER}
""",
    """state(time, kind!)
seen(time, thing?)
logx(0) state(?T, noun) ^ seen(?T, "dog") => ?T = first
!(EXIST ?t (state(?t, verb) ^ ?t != first)).
""",
    "C(a,b) ^ C(b,c) => C(a,c)",
    "∀x (A(x) ∧ ¬B(x) ∨ C(x) ⇒ ∃y D(x,y) ⇔ x ≠ y).\nA(x) & B(x) | ~C(x) -> D(x, x)\n",
]
own_texts = st.sampled_from(OWN)


def survives(text: str) -> None:
    """Parsing ends in a theory that reads back as itself, or in one of our errors, which prints."""
    try:
        theory = parse_theory(text)
    except LogicMPError as error:
        assert str(error)
        return
    assert parse_theory(str(theory), "<printed>") == theory, str(theory)


@st.composite
def mutated(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with chunks deleted, inserted, doubled or swapped."""
    text = draw(texts)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["delete", "insert", "double", "swap"])):
            case "delete":
                text = text[:start] + text[end:]
            case "insert":
                text = text[:start] + draw(st.sampled_from(PIECES)) + text[start:]
            case "double":
                text = text[:end] + text[start:]
            case "swap":
                other = min(len(text), end + draw(st.integers(0, 12)))
                text = text[:start] + text[end:other] + text[start:end] + text[other:]
    return text


@fuzz
@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzz.mln"
    path.write_bytes(content)
    try:
        theory = load_theory(path)
    except LogicMPError as error:
        assert str(error)
    else:
        assert parse_theory(str(theory)) == theory


@fuzz
@given(st.text(max_size=100))
def test_no_text_crashes_the_reader(text: str) -> None:
    survives(text)


@fuzz
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@example("P(x--5) => P(x)")
@example("P(x+" + "9" * 5000 + ")")
@example("t = {1, ..., " + "9" * 5000 + "}")
@example('P("a b"!)')
@example("A => B")
@example("(1=x) => P(x)")
@example("(log(1)) v P(x)")
@example('P(t) in {"a-1", b}\n2 P(x) in {b}')
@example("P(x)" + " => P(x)" * 3000)
@example("~" * 3000 + "P(x)")
@example("EXIST x " * 3000 + "P(x)")
@example("(" * 3000 + "P(x)" + ")" * 3000)
@example("(exist) v P(x)")
@example("P(x) v not=x")
@example("*not(x) v Q(x)")
@example("in()\nP()")
@example("not*(t)")
@example("symmetric not(t, t)")
@example("P(?İ) => P(?𝐀)")
@example("∃é P(é)")
def test_no_words_of_the_language_crash_the_reader(text: str) -> None:
    survives(text)


@fuzz
@given(mutated(own_texts))
def test_no_damaged_theory_crashes_the_reader(text: str) -> None:
    survives(text)


@fuzz
@given(drawn=st.data())
def test_no_damaged_file_crashes_the_reader(data: Path, drawn: st.DataObject) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(data.glob("mln/*/model.mln"))]
    survives(drawn.draw(mutated(st.sampled_from([text for text in texts if len(text) < 6000]))))


@pytest.mark.parametrize("text", OWN)
def test_the_texts_to_damage_are_valid(text: str) -> None:
    survives(text)
    assert parse_theory(text).rules
