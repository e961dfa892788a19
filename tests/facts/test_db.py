"""Facts: what every line of a .db file means, and the errors for lines that are no facts."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from fixtures_reader import FIXTURES, blocks
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logicmp import Evidence, LogicMPError, load_facts, load_theory, parse_facts, parse_theory
from logicmp.facts import db

THEORY = parse_theory("""
color = {Red, Green}
Smokes(person)
Friends(person, person)
symmetric Married(person, person)
Advisor(person, person?)
Color(person, color)
label(token) in {O, B-PER, I-PER}
weather in {Sun, Cloud}
Rain
Snow
""")


def show(facts: Evidence) -> str:
    """One line for each fact, in the order of the lines."""
    rows = [(line, f"{name}({', '.join(args)}) = {value:g}   line {line}") for name, table in facts.tables.items()
            for args, value, line in zip(table.args, table.values, table.lines, strict=True)]
    return "\n".join(text for _, text in sorted(rows))


def error_of(text: str) -> str:
    with pytest.raises(LogicMPError) as error:
        parse_facts(text, THEORY)
    return str(error.value)


@pytest.mark.parametrize("text, expected", list(blocks(FIXTURES / "parse/facts.txt")))
def test_text_means_facts(text: str, expected: str) -> None:
    facts = parse_facts(text, THEORY)
    assert show(facts) == expected
    assert len(facts) == len(expected.split("\n"))
    assert facts.warnings == []


@pytest.mark.parametrize("text, expected", list(blocks(FIXTURES / "parse/facts_errors.txt")))
def test_a_line_that_is_no_fact_is_an_error(text: str, expected: str) -> None:
    assert error_of(text) == expected


def test_not_text() -> None:
    assert error_of("Smokes(A)\nSmokes(B\0)").startswith("this is not text: character 0x00\n --> <facts>:2:9\n")


@pytest.mark.parametrize("text", ["", "\n \n\t\n", "// nothing", "/* nothing\n*/"])
def test_no_facts_are_no_error(text: str) -> None:
    facts = parse_facts(text, THEORY)
    assert (len(facts), facts.tables, facts.warnings, facts.theory) == (0, {}, [], THEORY)


# constants


def test_facts_bring_their_constants() -> None:
    theory = parse_theory("Works(person, firm)\n1 Works(x, Acme)")
    facts = parse_facts("Works(Bob, Acme)\n!Works(Anna, Bolt)\n?Works(Bob, Core)", theory)
    assert {t.name: t.constants for t in facts.theory.types} == {
        "person": ("Bob", "Anna"), "firm": ("Acme", "Bolt", "Core")}
    assert facts.theory.rules == theory.rules
    assert theory.sizes == {"person": 0, "firm": 1}


def test_domain_lines_of_pracmln_add_constants_first() -> None:
    facts = parse_facts(
        'Smokes(Zoe)\nperson = {Anna, "b c"}\ntoken = {1, ..., 3}\ncolor = {Blue}\nColor(Zoe, Blue)', THEORY)
    assert {t.name: t.constants for t in facts.theory.types} == {
        "color": ("Red", "Green", "Blue"), "person": ("Anna", "b c", "Zoe"), "token": ("1", "2", "3")}
    assert len(facts) == 2


# repeated facts


def test_repeated_facts_are_kept_once_with_a_warning() -> None:
    facts = parse_facts("Smokes(A)\nRain\nSmokes( A )\nSmokes(\"A\") // again\nRain\n", THEORY, "people.db")
    assert show(facts) == "Smokes(A) = 1   line 1\nRain() = 1   line 2"
    assert facts.warnings == ["people.db: 2 facts of Smokes are given again, first on line 3",
                              "people.db: 1 fact of Rain is given again, first on line 5"]


def test_unobserved_and_soft_facts_may_be_repeated() -> None:
    facts = parse_facts("?Smokes(A)\n?Smokes(A)\n.3 Smokes(B)\n0.30 Smokes(B)", THEORY)
    assert show(facts) == "Smokes(A) = nan   line 1\nSmokes(B) = 0.3   line 3"


def test_a_symmetric_fact_is_its_mirror_image() -> None:
    facts = parse_facts("Married(B, A)\nMarried(A, B)\nMarried(A, C)", THEORY)
    assert show(facts) == "Married(B, A) = 1   line 1\nMarried(A, C) = 1   line 3"
    assert facts.warnings == ["<facts>: 1 fact of Married is given again, first on line 2"]


# files


def test_windows_newlines_in_a_text() -> None:
    assert show(parse_facts("Smokes(Anna)\r\n!Smokes(Bob)\r\n\r\n", THEORY)) == (
        "Smokes(Anna) = 1   line 1\nSmokes(Bob) = 0   line 2")


def test_error_in_a_file_names_it(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    path.write_bytes(b"Smokes(Anna)\r\n\tSmoks(Bob)\r\n")
    with pytest.raises(LogicMPError) as error:
        load_facts(path, THEORY)
    assert str(error.value) == f"""\
predicate 'Smoks' is used but not declared
 --> {path}:2:2
2 |  Smoks(Bob)
  |  ^^^^^
hint: did you mean 'Smokes'?"""


@pytest.mark.parametrize("path, reason", [("x" * 300, "File name too long"), ("a\0b", "embedded null byte")])
def test_impossible_path(path: str, reason: str) -> None:
    with pytest.raises(LogicMPError, match=f"^cannot read .*: {reason}"):
        load_facts(path, THEORY)


def test_folder_of_expressgnn(tmp_path: Path) -> None:
    (tmp_path / "predicates").write_text("smokes(person)\nfriend(person, person)\n")
    (tmp_path / "rules").write_text("1.0 !smokes(a) v !friend(a,b) v smokes(b)\n")
    theory = load_theory(tmp_path)
    with pytest.raises(LogicMPError) as error:
        load_facts(tmp_path, theory)
    assert str(error.value) == f"the folder '{tmp_path}' has no file 'facts'"
    (tmp_path / "facts").write_text("smokes(Anna)\nfriend(Anna,Bob)\n!friend(Bob, Anna)\n")
    facts = load_facts(tmp_path, theory)
    assert show(facts) == ("smokes(Anna) = 1   line 1\nfriend(Anna, Bob) = 1   line 2\n"
                           "friend(Bob, Anna) = 0   line 3")
    assert facts.theory.type["person"].constants == ("Anna", "Bob")


# the plain line and the odd one


constants = st.one_of(
    st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_']{0,5}(-[A-Za-z][a-z0-9]{0,3})?\Z"),
    st.from_regex(r"\A[A-Z][A-Z0-9]{0,3}-[0-9]{1,2}\Z"),
    st.from_regex(r"\A-?[0-9]{1,4}(\.[0-9]{1,2})?\Z"),
    st.sampled_from(["v", "in", "not", "or", "and", "exists", "EXIST", "forall", "1e5", "Ä", "é"]))


@st.composite
def plain_facts(draw: st.DrawFn) -> tuple[str, str]:
    """A line that takes the fast path, and the same line with odd spaces and a comment."""
    before = draw(st.sampled_from(["", "!", "?", "0.25 ", "1 ", "0 "]))
    name, arity = draw(st.sampled_from([("Smokes", 1), ("Friends", 2), ("Advisor", 2)]))
    args = draw(st.lists(constants, min_size=arity, max_size=arity))
    blank = st.sampled_from(["", " ", "\t", "  "])
    pieces = [before, name, "(", *[piece for arg in args for piece in (arg, ",")][:-1], ")"]
    end = draw(st.sampled_from([" // why", "/* x */", "\t//", "\r", "/* ( */ // )"]))
    return f"{before}{name}({','.join(args)})", "".join(piece + draw(blank) for piece in pieces) + end


@settings(max_examples=200, deadline=None)
@given(st.lists(plain_facts(), max_size=4))
def test_odd_spaces_and_comments_change_nothing(lines: list[tuple[str, str]]) -> None:
    def read(text: str) -> tuple[object, ...]:
        try:
            facts = parse_facts(text, THEORY)
        except LogicMPError as error:
            return (error.message,)
        return show(facts), facts.theory, facts.warnings

    plain, odd = ("\n".join(column) for column in zip(*lines, strict=True)) if lines else ("", "")
    assert read(plain) == read(odd)


@settings(max_examples=200, deadline=None)
@given(constants)
def test_quotes_around_a_constant_change_nothing(constant: str) -> None:
    plain, quoted = (parse_facts(f"Smokes({text})", THEORY) for text in (constant, f'"{constant}"'))
    assert show(plain) == show(quoted)
    assert plain.theory == quoted.theory


PIECES = [
    "Smokes", "Friends", "label", "Rain", "Color", "person", "Zebra", "(", ")", ",", "Anna", "anna", "Red",
    '"a b"', '"', "!",
    "?", "!=", "=", "in", "{", "}", "O", "B-PER", "...", "1", "0.5", "-1", "2.", "1e9", ".", "*", "+",
    "//", "/*", "*/", "=>", "v", "^", "EXIST x ", "not ", "symmetric ", "#include", "---",
    "\n", "\n", "\r\n", " ", "\t",
    "\0", "\\", "é", "\u2028", "log(2) ", "'",
]


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
@example("Smokes(" * 300)
@example("!" * 300 + "Smokes(A)")
@example("?")
@example("person = {1, ..., 99999999999999999999}")
@example("person = {}")
def test_whatever_the_text_there_are_facts_or_an_error_for_people(text: str) -> None:
    try:
        facts = parse_facts(text, THEORY)
    except LogicMPError as error:
        assert str(error)
        return
    for table in facts.tables.values():
        assert len(table.args) == len(table.values) == len(table.lines)
        assert all(0 <= value <= 1 or math.isnan(value) for value in table.values)
        for row in table.args:
            for constant, type_name in zip(row, table.predicate.types, strict=False):
                assert facts.theory.has_constant(type_name, constant)


# real files


def test_every_evidence_file_fits_its_model(data: Path) -> None:
    paths = sorted(path for path in data.glob("mln/*/evidence.db") if path.parent.name != "alchemy_univ")
    assert len(paths) == 20
    for path in paths:
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        facts = load_facts(path, load_theory(path.parent / "model.mln"))
        assert (path, len(facts), facts.warnings) == (path, text.count("("), [])


def test_every_split_has_the_facts_of_the_readme(data: Path) -> None:
    # | smoke/all | entities | predicates | facts (false) | ...
    rows = re.findall(r"^\| (\w+/\w+) \|[^|]*\|[^|]*\| ([\d,]+)(?: \(([\d,]+)\))? \|",
                      (data / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [split for split, _, _ in rows] == sorted(
        (str(path.parent.relative_to(data / "relational")) for path in data.glob("relational/*/*/facts")),
        key=[split for split, _, _ in rows].index)
    for split, n_facts, n_false in rows:
        folder = data / "relational" / split
        facts = load_facts(folder, load_theory(folder))
        values = [value for table in facts.tables.values() for value in table.values]
        assert (split, len(facts), values.count(0.0)) == (
            split, int(n_facts.replace(",", "")), int(n_false.replace(",", "") or 0))
        assert set(values) <= {0.0, 1.0}


ALIKE = [
    "Friends(Anna,Bob)", "Friends(Bob, Carl)", "Friends(Carl,Anna)", "Friends(A,B,C)", "Friends(D)", "Friends(a b,C)",
    "Friends(É,1.5)", 'Friends("x","y,z")', "Friends(A,B) ", "!Friends(A,B)", "Smokes(Anna)", "", "Friends(A,B),",
    "Friends(A,)", "Friends(A, B, )", "Friends(A,B)Friends(A,B)", "Friends((A,B)", "Friends(A,B)\r", "Advisor(A,B)"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(ALIKE), st.sampled_from(ALIKE[:3])), max_size=6), st.booleans())
@example(["Friends(A,B,C)", "Friends(D)"], False)
@example(["Friends(Anna,Bob)", "Friends(Bob, Carl)"], True)
def test_lines_that_are_alike_are_read_as_one_by_one(lines: list[str], ends: bool) -> None:
    """Splitting at commas reads what the regular expression reads, and leaves every other line to it."""
    def read(text: str) -> tuple[object, ...]:
        try:
            facts = parse_facts(text, THEORY)
        except LogicMPError as error:
            return (str(error),)
        lines_of = {name: table.lines.tolist() for name, table in facts.tables.items()}
        return show(facts), facts.theory, facts.warnings, lines_of

    text = "\n".join(lines) + "\n" * ends
    alike = read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(db, "_read_alike", lambda lines, reader, first_line: 0)
        assert read(text) == alike


def test_many_lines_that_are_alike_are_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(f"Friends(P{k}, P{k + 1})" for k in range(100))
    monkeypatch.setattr(db, "CHUNK", 300)
    want = parse_facts(text, THEORY)
    monkeypatch.setattr(db, "_read_plain", None)
    found = parse_facts(text, THEORY)
    assert show(found) == show(want) and len(found) == 100
    assert found.tables["Friends"].lines.tolist() == list(range(1, 101))
