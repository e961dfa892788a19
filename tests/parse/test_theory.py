"""What a text means: every dialect, every spelling, printed in one way."""

from __future__ import annotations

import io
import pickle
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from fixtures_reader import FIXTURES, blocks
from hypothesis import given, settings

from logicmp import LogicMPError, Theory, load_theory, parse_theory
from logicmp.parse.syntax import Atom, Constant, Exists, Implies, Not, Or, Variable
from logicmp.parse.theory import Argument, Predicate
from logicmp.testing.random_theories import theories

DIALECTS = list(blocks(FIXTURES / "parse/dialects.txt"))


@pytest.mark.parametrize("text, expected", DIALECTS)
def test_text_means_theory(text: str, expected: str) -> None:
    assert str(parse_theory(text)) == expected + "\n"


@pytest.mark.parametrize("text, expected", DIALECTS)
def test_printed_theory_reads_back(text: str, expected: str) -> None:
    assert parse_theory(expected) == parse_theory(text)


@settings(max_examples=200, deadline=None)
@given(theories())
def test_random_theory_reads_back(theory: Theory) -> None:
    assert parse_theory(str(theory)) == theory


# printing cannot show these, so the trees are compared


def test_precedence_builds_the_tree() -> None:
    (rule,) = parse_theory("!A ^ B v C => D").rules
    assert isinstance(rule.formula, Implies)
    assert isinstance(rule.formula.premise, Or)
    conjunction, c = rule.formula.premise.parts
    assert c == Atom("C")
    assert conjunction.parts == (Not(Atom("A")), Atom("B"))  # type: ignore[union-attr]


def test_variables_and_constants_have_types() -> None:
    theory = parse_theory("Works(person, firm)\n1 Works(x, Acme) v (EXIST y Works(x, y)) v x = Anna")
    (rule,) = theory.rules
    assert rule.variables == {"x": "person"}
    works, exists, equal = rule.formula.parts  # type: ignore[union-attr]
    assert works.args == (Variable("x", "person"), Constant("Acme", "firm"))
    assert isinstance(exists, Exists)
    assert exists.variables == (Variable("y", "firm"),)
    assert equal.right == Constant("Anna", "person")
    assert {t.name: t.constants for t in theory.types} == {"person": ("Anna",), "firm": ("Acme",)}


def test_hidden_variable_is_another_variable() -> None:
    (rule,) = parse_theory("P(t)\nQ(s)\n1 P(x) ^ (EXIST x Q(x))").rules
    assert rule.variables == {"x": "t"}
    assert rule.formula.parts[1].variables == (Variable("x", "s"),)  # type: ignore[union-attr]


def test_marks_of_a_predicate() -> None:
    seat, home, label, married, rain = parse_theory(
        "seat(person, row!, place!)\nhome(person, town?)\nlabel(i) in {O, B}\n*symmetric Married(p, p)\nRain"
    ).predicates
    assert (seat.functional, seat.may_be_none, seat.is_categorical) == ((1, 2), False, True)
    assert (home.functional, home.may_be_none, home.is_categorical) == ((1,), True, True)
    assert (label.labels, label.functional, label.is_categorical) == (("O", "B"), (), True)
    assert married == Predicate("Married", (Argument("p"), Argument("p")), closed_world=True, symmetric=True)
    assert rain == Predicate("Rain")


def test_weight_hard_indivisible_and_per_constant() -> None:
    theory = parse_theory("P(t)\nR(t, t)\n2.5 P(+x) ^ R(x, +y) ^ P(z)\nP(x) v R(x, x).\n[P(x) v P(y)]")
    soft, hard, learned = theory.rules
    assert (soft.weight, soft.is_hard, soft.per_constant) == (2.5, False, ("x", "y"))
    assert (hard.weight, hard.is_hard, hard.indivisible) == (None, True, False)
    assert (learned.weight, learned.is_hard, learned.indivisible) == (None, False, True)


def test_every_rule_has_the_place_where_it_was_written() -> None:
    theory = parse_theory("P(t)\n\n1 P(x) =>\n  P(y)\n", "a.mln")
    span = theory.rules[0].span
    assert str(span) == "a.mln:3:1"
    assert span.text == "1 P(x) =>\n  P(y)"
    assert theory.rules[0].formula.conclusion.span.text == "P(y)"  # type: ignore[union-attr]


def test_closed_types_are_those_with_a_list() -> None:
    theory = parse_theory("person = {Anna}\nP(person, town)\n1 P(Anna, Rome)")
    assert {t.name: t.closed for t in theory.types} == {"person": True, "town": False}
    assert theory.sizes == {"person": 1, "town": 1}
    assert theory.index("town", "Rome") == 0


def test_tables_belong_to_their_theory() -> None:
    theory = parse_theory("person = {Anna}\nP(person, town)\n1 P(Anna, Rome)")
    more = theory.with_constants({"town": ("Oslo",)})
    assert (more.index("town", "Oslo"), theory.has_constant("town", "Oslo")) == (1, False)
    assert more.type["town"].constants == ("Rome", "Oslo") and more.predicate == theory.predicate
    assert replace(theory, predicates=()).predicate == {}
    for same in (copy(theory), deepcopy(theory), pickle.loads(pickle.dumps(theory)), replace(theory)):
        assert (same, hash(same), repr(same)) == (theory, hash(theory), repr(theory))
        assert (same.type, same.predicate, same.index("town", "Rome")) == (theory.type, theory.predicate, 0)
    assert "_index" not in repr(theory)
    with pytest.raises(FrozenInstanceError):
        theory.type = {}  # type: ignore[misc]


def test_deepest_formulas_read_back() -> None:
    many = [f"x{k}" for k in range(49)]
    quantified = "".join(f"EXIST {x} " for x in many) + f"Q({', '.join(many)})"
    for deep in (quantified, "!" * 49 + "P(x)", "P(x) ^ EXIST x " * 24 + "P(x)", "P(x) => !EXIST x " * 16 + "P(x)"):
        theory = parse_theory(f"P(t)\nQ({', '.join(['t'] * 49)})\n1 {deep}")
        assert parse_theory(str(theory)) == theory


def test_a_range_of_numbers_reads_as_written() -> None:
    assert parse_theory("t = {1, ..., 20}").type["t"].constants == tuple(map(str, range(1, 21)))


def test_windows_and_old_mac_newlines(tmp_path: Path) -> None:
    expected = parse_theory("P(t)\n1 P(x)\n")
    for newline in ("\r\n", "\r"):
        path = tmp_path / "m.mln"
        path.write_bytes(f"P(t){newline}1 P(x){newline}".encode())
        assert load_theory(path) == expected


def test_byte_order_mark_and_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "m.mln"
    path.write_bytes(b"\xef\xbb\xbfP(t)\n1 P(x)")
    assert load_theory(path) == parse_theory("P(t)\n1 P(x)")
    path.write_bytes('P(t)\n1 P("Müller")'.encode("latin-1"))
    assert load_theory(path) == parse_theory('P(t)\n1 P("Müller")')


# grammar


def test_question_mark_of_a_declaration_is_not_a_variable_of_pracmln(tmp_path: Path) -> None:
    assert str(parse_theory("P(t, t?)\n1 P(x, Y)")) == "P(t, t?)\n\n1 P(x, Y)\n"


def test_grammar_prac_makes_every_other_name_a_constant() -> None:
    text = "P(t)\n1 P(x)"
    assert str(parse_theory(text, grammar="prac")) == 'P(t)\n\n1 P("x")\n'
    assert str(parse_theory(text, grammar="standard")) == "P(t)\n\n1 P(x)\n"
    assert parse_theory(text) == parse_theory(text, grammar="standard")


def test_grammar_standard_keeps_lower_case_variables_next_to_question_marks() -> None:
    assert str(parse_theory("P(t, t)\n1 P(?x, y)", grammar="standard")) == "P(t, t)\n\n1 P(x, y)\n"


def test_unknown_grammar_is_rejected() -> None:
    for read in (parse_theory, load_theory):
        with pytest.raises(LogicMPError) as error:
            read("A", grammar="prolog")
        assert str(error.value) == "unknown grammar 'prolog'\nhint: available grammars: auto, standard, prac"


# files


def test_include_is_replaced_by_the_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "main.mln").write_text('#include "sub/types.mln"\n1 P(Anna)\n#include <more.mln>\n')
    # looked up from the file that includes, not from the current folder
    (tmp_path / "sub/types.mln").write_text('person = {Anna}\n#include "deep.mln"\n')
    (tmp_path / "sub/deep.mln").write_text("P(person)\n")
    (tmp_path / "more.mln").write_text("2 P(x)\n")
    assert str(load_theory(tmp_path / "main.mln")) == "person = {Anna}\n\nP(person)\n\n1 P(Anna)\n2 P(x)\n"


def test_a_file_may_be_included_twice(tmp_path: Path) -> None:
    (tmp_path / "main.mln").write_text('#include "decl.mln"\n#include "decl.mln"\n1 P(x)\n')
    (tmp_path / "decl.mln").write_text("P(t)\n")
    assert str(load_theory(tmp_path / "main.mln")) == "P(t)\n\n1 P(x)\n"


def test_text_includes_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "decl.mln").write_text("P(t)\n")
    monkeypatch.chdir(tmp_path)
    assert str(parse_theory('#include "decl.mln"\n1 P(x)\n')) == "P(t)\n\n1 P(x)\n"


def test_folder_of_expressgnn(tmp_path: Path) -> None:
    (tmp_path / "predicates").write_text("smokes(person)\n\nfriend(person, person)\n")
    (tmp_path / "rules").write_text("1.0 !smokes(a) v !friend(a,b) v smokes(b)\n\n1.0 !friend(Anna,a) v smokes(a)\n")
    (tmp_path / "facts").write_text("smokes(Anna)\n")
    assert str(load_theory(tmp_path)) == (
        "smokes(person)\nfriend(person, person)\n\n"
        "1 !smokes(a) v !friend(a, b) v smokes(b)\n1 !friend(Anna, a) v smokes(a)\n")


def test_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("P(t)\n1 P(x)\n"))
    assert str(load_theory("-")) == "P(t)\n\n1 P(x)\n"
