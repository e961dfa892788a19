"""Queries: the formula that each text means, and the errors of texts that mean none."""

from __future__ import annotations

import pytest

from logicmp import LogicMPError, parse_theory
from logicmp.parse.query import parse_queries

THEORY = parse_theory("""\
person = {Anna, Bob, "carl"}
Smokes(person)
Friends(person, person)
mood(person) in {Glad, Sad}
In(person, person)
Rain

1 Smokes(x)
""")


@pytest.mark.parametrize("text, expected", [
    ("Smokes", ["Smokes(x1)"]),
    # a word of the language that names a predicate
    ("In, In(Anna, Bob)", ["In(x1, x2)", "In(Anna, Bob)"]),
    ("Rain, Smokes(Anna)", ["Rain", "Smokes(Anna)"]),
    # commas and spaces separate nothing inside brackets
    ("Friends(x, Bob),Friends( Anna , y )", ["Friends(x, Bob)", "Friends(Anna, y)"]),
    # a file of queries: one to a line, with comments
    ("Smokes(Anna) // why\nRain\n\n// nothing\nSmokes(Bob)", ["Smokes(Anna)", "Rain", "Smokes(Bob)"]),
    # a constant in lower case is that constant, because the database has it
    ("Smokes(carl)", ['Smokes("carl")']),
    ("Smokes(who)", ["Smokes(who)"]),
    # a multi-class predicate is queried for all its labels, or for some
    ("mood", ["mood(x1)"]),
    ("mood(Bob)", ["mood(Bob)"]),
    ("mood(x) = Sad", ["mood(x) in {Sad}"]),
    # formulas
    ("Smokes(x) => Rain, !Rain", ["Smokes(x) => Rain", "!Rain"]),
    ("(Smokes(x) v Rain)", ["Smokes(x) v Rain"]),
    ("EXIST y Friends(x, y)", ["EXIST y (Friends(x, y))"]),
    ("x != y ^ Friends(x, y)", ["x != y ^ Friends(x, y)"]),
])
def test_query_means(text: str, expected: list[str]) -> None:
    assert [str(query.formula) for query in parse_queries(text, THEORY)] == expected


@pytest.mark.parametrize("text, message", [
    ("", "no query is given\nhint: leave it out to query all, or name predicates: Smokes, Friends, mood, In, Rain"),
    ("Smoke", """\
predicate 'Smoke' is used but not declared
 --> <query>:1:1
1 | Smoke
  | ^^^^^
hint: did you mean 'Smokes'?"""),
    ("Smokes(Ana)", """\
'Ana' is not a constant of type 'person'
 --> <query>:1:8
1 | Smokes(Ana)
  |        ^^^
hint: did you mean 'Anna'?"""),
    ("Friends(x)", """\
Friends has 2 arguments, but 1 is given
 --> <query>:1:1
1 | Friends(x)
  | ^^^^^^^^^^
hint: it is declared as Friends(person, person)"""),
    ("2 Smokes(x)", "'2 Smokes(x)' is not a query\nhint: query a predicate, an atom or a formula, without a weight"),
    ("Smokes(x).", "'Smokes(x).' is not a query\nhint: query a predicate, an atom or a formula, without a weight"),
    # the second of two, in the line that was written
    ("Smokes,\n  Smokes(x) ^ Smoke(x)", """\
predicate 'Smoke' is used but not declared
 --> <query>:2:15
2 |   Smokes(x) ^ Smoke(x)
  |               ^^^^^
hint: did you mean 'Smokes'?"""),
    ("mood(x) = Angry", """\
'Angry' is not a label of mood
 --> <query>:1:1
1 | mood(x) = Angry
  | ^^^^^^^^^^^^^^^
hint: declared labels: Glad, Sad"""),
    ("*Smokes(x)", """\
'*' is allowed only before an atom of a rule
 --> <query>:1:1
1 | *Smokes(x)
  | ^^^^^^^^^^"""),
])
def test_wrong_query_is_rejected(text: str, message: str) -> None:
    with pytest.raises(LogicMPError) as caught:
        parse_queries(text, THEORY)
    assert str(caught.value) == message
