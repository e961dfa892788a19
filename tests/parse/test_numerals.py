"""Constants that are numbers: the same names, positions and facts as strings have, on random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from logicmp import infer, load_facts, parse_facts, parse_theory
from logicmp.facts import tables
from logicmp.facts.columns import Column
from logicmp.parse.numerals import Numerals, merge, positions


@pytest.mark.parametrize("high", [60, 10**15])
def test_equal_to_strings(high: int) -> None:
    rng = np.random.default_rng(high % 7)
    for _ in range(20):
        numbers = np.unique(rng.integers(-high, high, 30))[rng.permutation(20)]
        names, texts = Numerals(numbers), tuple(map(str, numbers.tolist()))
        assert names == texts and hash(names) == hash(texts) and tuple(names) == texts and names[3:5] == texts[3:5]
        assert dict(names.positions) == {text: k for k, text in enumerate(texts)}
        assert texts[4] in names and "07" not in names and "x" not in names and str(high) not in names
        # a part of the names, as strings and as numbers
        at = rng.permutation(20)[:9]
        for part in ([texts[k] for k in at], Numerals(numbers[at])):
            assert Column(part, np.arange(9)).indices(names.positions).tolist() == at.tolist()
        assert Column(names, np.arange(20)).take(at).names == tuple(texts[k] for k in at)


def test_unknown_names() -> None:
    names = Numerals(np.array([5, 7]))
    for part in (Numerals(np.array([5, 6])), ["5", "A"], ["05"]):
        with pytest.raises(KeyError):
            Column(part, np.zeros(1, dtype=np.int32)).indices(names.positions)


def test_merged_names() -> None:
    first, second = Numerals(np.array([4, 2])), Numerals(np.array([2, 9]))
    assert merge([first, (), first]) is first
    found = merge([first, ["2", "11"], second])
    assert isinstance(found, Numerals) and found == ("4", "2", "11", "9")
    # as soon as one name is no number, all are strings
    assert merge([first, ("A", "4")]) == ("4", "2", "A")
    assert merge([first, ("04",)]) == ("4", "2", "04")
    assert positions(("B", "A")) == {"B": 0, "A": 1}


RULES = ("Friends(person, person)\nSmokes(person)\nsymmetric Near(person, person)\n"
         "0.5 Friends(x,y) => (Smokes(x) <=> Smokes(y))\n1 Near(x,y) ^ Smokes(x) => Smokes(y)\n-0.2 Smokes(x)\n")


@pytest.mark.parametrize("text", [False, True])
def test_answers(monkeypatch: pytest.MonkeyPatch, text: bool) -> None:
    """Tables of numbers, or of their numerals in Arrow, against the same facts as text."""
    import pyarrow

    monkeypatch.setattr(tables, "MANY", 2)
    rng = np.random.default_rng(0)
    pairs = {name: np.unique(rng.integers(0, 9, (14, 2)), axis=0) for name in ("Friends", "Near")}
    pairs["Near"] = pairs["Near"][pairs["Near"][:, 0] < pairs["Near"][:, 1]]
    given = {name: pyarrow.table({"a": x[:, 0].astype(str) if text else x[:, 0],
                                  "b": x[:, 1].astype(str) if text else x[:, 1]}) for name, x in pairs.items()}
    given["Smokes"] = pyarrow.table({"a": np.array([12, 3]), "value": [1, 0]})
    theory = parse_theory(RULES)
    evidence = load_facts(given, theory)
    assert isinstance(evidence.theory.type["person"].constants, Numerals)
    lines = [f"{name}({a}, {b})" for name, x in pairs.items() for a, b in x.tolist()]
    want = infer(theory, parse_facts("\n".join([*lines, "Smokes(12)", "!Smokes(3)"]), theory), "Smokes")
    got = infer(theory, evidence, "Smokes")
    assert dict(got) == pytest.approx(dict(want), abs=1e-9)
    assert infer(theory, evidence, "Smokes(4)")["Smokes(4)"] == pytest.approx(got["Smokes(4)"], abs=1e-9)


def test_a_table_and_a_text(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """Facts of one predicate from a table of numbers and from a text, in both orders."""
    monkeypatch.setattr(tables, "MANY", 2)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n2,3\n3,4\n")
    (tmp_path / "b.db").write_text("F(2, Anna)\nF(1, 2)\n")
    theory = parse_theory("F(p, p)\nS(p)\n1 F(x,y) ^ S(x) => S(y)\n")
    paths = [f"F={tmp_path}/a.csv", str(tmp_path / "b.db")]
    for order in (paths, paths[::-1]):
        evidence = load_facts(order, theory)
        assert sorted(evidence.tables["F"].args) == [("1", "2"), ("2", "3"), ("2", "Anna"), ("3", "4")]
        assert "given again" in evidence.warnings[0]
        assert set(evidence.theory.type["p"].constants) == {"1", "2", "3", "4", "Anna"}
