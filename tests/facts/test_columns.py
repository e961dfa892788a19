"""Columns of facts, and reading them in pieces of any size."""

from __future__ import annotations

import random

import numpy as np
import pytest

from logicmp import LogicMPError, parse_facts, parse_theory
from logicmp.facts import db
from logicmp.facts.columns import FactTable, column, first_of_each

THEORY = parse_theory("Friends(person, person)\nSmokes(person)\nBorn(person, city, number)\n"
                      "symmetric Near(city, city)\nP(a, b, c, d)\nRain\nlabel(token) in {O, B}")


def random_lines(seed: int) -> list[str]:
    """Plain facts of all predicates, soft and negated ones, and lines that only the careful reader reads."""
    rng = random.Random(seed)
    lines = []
    for k in range(60):
        a, b = (f"A{rng.randrange(200)}" for _ in range(2))
        lines.append(rng.choice([
            f"Friends({a}, {b})", f"!Friends({a},{b}{k})", f"0.5 Smokes({a}{k})", f"?Smokes({a}x{k})",
            f"Smokes(\"{a} {k}\")", f"Born({a}, C{k}, {k})", f"Near(C{k}, D{k})", f"P({a},{b},C,{k})",
            f"label(T{k}) = B", "// nothing", "", f"  Born({a},  C{k},{k}) // why", f"0.2 Friends({a},{b}y{k})"]))
    return [*lines, "Rain"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("chunk", [0, 40, 300])
def test_pieces_change_nothing(seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(random_lines(seed))

    def read() -> tuple[object, ...]:
        facts = parse_facts(text, THEORY)
        return facts.theory, facts.warnings, {name: (t.args, t.values.tolist(), t.lines.tolist())
                                              for name, t in facts.tables.items()}

    monkeypatch.setattr(db, "_LINES", db.re.compile(r"^()()()()()()[^\n]*$", db.re.MULTILINE))
    careful = read()
    monkeypatch.undo()
    monkeypatch.setattr(db, "CHUNK", chunk)
    # repr, because NaN is not equal to itself
    assert repr(read()) == repr(careful)


def test_an_error_in_a_later_piece_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "CHUNK", 20)
    text = "\n".join([f"Smokes(A{k})" for k in range(50)] + ["Smokes(A1, A2)"])
    with pytest.raises(LogicMPError, match="<facts>:51:1"):
        parse_facts(text, THEORY)


def test_keys_of_facts() -> None:
    near = FactTable(THEORY.predicate["Near"], [column(["X", "Y", "X"]), column(["Y", "X", "X"])], np.ones(3))
    assert len(set(near.keys().tolist())) == 2
    friends = FactTable(THEORY.predicate["Friends"], [column(["X", "Y", "X"]), column(["Y", "X", "X"])], np.ones(3))
    assert len(set(friends.keys().tolist())) == 3
    assert len(set(friends.keys(without=(1,)).tolist())) == 2
    wide = FactTable(THEORY.predicate["P"], [column([f"A{j % k}" for j in range(9)]) for k in (2, 3, 5, 9)], np.ones(9))
    for c in wide.columns:
        # as many names as need more than 64 bits together
        c.names = range(2**20)  # type: ignore[assignment]
    assert len(set(wide.keys().tolist())) == 9


def test_first_of_each() -> None:
    assert first_of_each(np.array([3, 1, 2])) is None
    assert first_of_each(np.array([4, 9, 4, 1, 9, 4])).tolist() == [0, 1, 0, 3, 1, 0]
    assert first_of_each(np.zeros(0, dtype=np.int64)) is None


def test_some_of_the_facts() -> None:
    table = FactTable(THEORY.predicate["Friends"], [column("ABCA"), column("XYXZ")], np.arange(4) / 4, np.arange(4))
    some = table.take(np.array([2, 0]))
    assert (some.args, some.columns[0].names) == ([("C", "X"), ("A", "X")], ["C", "A"])
    assert some.values.tolist() == [0.5, 0.0]
    assert table.keep(np.array([0, 2])).args == [("A", "X"), ("C", "X")]
