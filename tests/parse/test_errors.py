"""Every error, word for word: the user's text, the cause and the fix."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from fixtures_reader import FIXTURES, blocks

from logicmp import LogicMPError, load_theory, parse_theory
from logicmp.errors import MAX_SHOWN


def message(text: str) -> str:
    with pytest.raises(LogicMPError) as error:
        parse_theory(text)
    return str(error.value)


@pytest.mark.parametrize("text, expected", list(blocks(FIXTURES / "parse/errors.txt")))
def test_error_text(text: str, expected: str) -> None:
    assert message(text) == expected


@pytest.mark.parametrize("text", ["", " \n\t\n", "// nothing\n", "/* nothing */"])
def test_empty_text(text: str) -> None:
    assert message(text).startswith("the theory is empty\n --> <text>:1:1\n1 |")
    assert message(text).endswith("hint: write at least one rule, for example: 1.5 Smokes(x) => Cancer(x)")


def test_binary_junk() -> None:
    assert message("P(t)\n1 P\x00(x)\x01") == """\
this is not text: character 0x00
 --> <text>:2:4
2 | 1 P\N{REPLACEMENT CHARACTER}(x)\N{REPLACEMENT CHARACTER}
  |    ^
hint: a theory is a plain text file in UTF-8"""


def test_caret_is_below_its_place_after_a_tab() -> None:
    assert message("\tSmokes(t)\n1\tSmokes(x)\tv\tCough(x)").split("\n")[1:4] == [
        " --> <text>:2:15",
        "2 | 1 Smokes(x) v Cough(x)",
        "  |               ^^^^^",
    ]


def test_carets_do_not_leave_the_line() -> None:
    lines = message("P(t)\n2 P(x) => \nQ(\ny).").split("\n")
    assert lines[1:4] == [" --> <text>:2:1", "2 | 2 P(x) =>", "  | ^^^^^^^^^^"]


def test_long_line_is_cut_around_the_place() -> None:
    many = " v ".join(["Smokes(x)"] * 100)
    _, where, line, carets, _ = message(f"Smokes(t)\n1 {many} v Cough(x) v {many}").split("\n")
    assert where == " --> <text>:2:1203"
    assert len(line) == len("2 | ") + MAX_SHOWN
    first = carets.index("^")
    assert line[first : first + 5] == "Cough"
    assert carets[first:] == "^^^^^"


# files


def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "smokers.mln").write_text("A v B")
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "smoker.mln")
    assert str(error.value) == (f"cannot read '{tmp_path}/smoker.mln': No such file or directory\n"
                                f"hint: did you mean '{tmp_path}/smokers.mln'?")
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "models" / "a.mln")
    assert str(error.value) == (f"cannot read '{tmp_path}/models/a.mln': No such file or directory\n"
                                f"hint: there is no folder '{tmp_path}/models'")
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "smokers.mln" / "a.mln")
    assert str(error.value) == (f"cannot read '{tmp_path}/smokers.mln/a.mln': Not a directory\n"
                                f"hint: there is no folder '{tmp_path}/smokers.mln'")


@pytest.mark.parametrize("path, reason", [
    ("x" * 300, "File name too long"), ("x" * 300 + "/y", "File name too long"), ("a\0b", "embedded null byte"),
])
def test_impossible_path(path: str, reason: str) -> None:
    with pytest.raises(LogicMPError) as error:
        load_theory(path)
    assert str(error.value).startswith(f"cannot read {path!r}: {reason}")


def test_include_of_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "main.mln").write_text('#include "loop.mln"\n')
    (tmp_path / "loop.mln").symlink_to("loop.mln")
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "main.mln")
    assert str(error.value) == f"""\
cannot read '{tmp_path}/loop.mln': Too many levels of symbolic links
 --> {tmp_path}/main.mln:1:1
1 | #include "loop.mln"
  | ^^^^^^^^^^^^^^^^^^^"""


def test_standard_input_that_is_not_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"P(\xff)"), encoding="utf-8"))
    with pytest.raises(LogicMPError) as error:
        load_theory("-")
    assert str(error.value).startswith("cannot read the standard input: 'utf-8' codec can't decode byte 0xff")


def test_missing_include_shows_the_line_that_includes_it(tmp_path: Path) -> None:
    (tmp_path / "main.mln").write_text('A v B\n#include "other.mln"\n')
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "main.mln")
    assert str(error.value) == f"""\
cannot read '{tmp_path}/other.mln': No such file or directory
 --> {tmp_path}/main.mln:2:1
2 | #include "other.mln"
  | ^^^^^^^^^^^^^^^^^^^^"""


def test_include_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "main.mln").write_text('#include "."\n')
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "main.mln")
    assert str(error.value).startswith(f"cannot read '{tmp_path}': Is a directory\n --> {tmp_path}/main.mln:1:1")


def test_a_device_or_a_pipe_is_not_included(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        (tmp_path / "main.mln").write_text(f'#include "{path}"\n')
        with pytest.raises(LogicMPError) as error:
            load_theory(tmp_path / "main.mln")
        assert str(error.value).startswith(f"cannot include '{path}': it is not a regular file\n --> ")


def test_include_cycle_shows_the_way_around(tmp_path: Path) -> None:
    (tmp_path / "a.mln").write_text('P(t)\n#include "b.mln"\n')
    (tmp_path / "b.mln").write_text('#include "c.mln"\n')
    (tmp_path / "c.mln").write_text('Q(t)\n1 P(x) v Q(x)\n#include "b.mln"\n')
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "a.mln")
    assert str(error.value) == f"""\
the file includes itself: b.mln -> c.mln -> b.mln
 --> {tmp_path}/c.mln:3:1
3 | #include "b.mln"
  | ^^^^^^^^^^^^^^^^"""


def test_text_that_includes_a_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.mln").write_text('#include "a.mln"\n')
    monkeypatch.chdir(tmp_path)
    assert message('#include "a.mln"\n').startswith("the file includes itself: a.mln -> a.mln\n --> a.mln:1:1\n")


def test_error_in_an_included_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "main.mln").write_text('P(t)\n#include "rules.mln"\n')
    (tmp_path / "rules.mln").write_text("1 P(x)\n1 Q(x)\n")
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path / "main.mln")
    assert str(error.value).startswith(
        f"predicate 'Q' is used but not declared\n --> {tmp_path}/rules.mln:2:3\n2 | 1 Q(x)\n")


def test_folder_without_rules(tmp_path: Path) -> None:
    (tmp_path / "predicates").write_text("P(t)\n")
    with pytest.raises(LogicMPError) as error:
        load_theory(tmp_path)
    assert str(error.value) == (
        f"the folder '{tmp_path}' has no file 'rules'\n"
        "hint: expected 'predicates' and 'rules', as ExpressGNN writes them; or give an .mln file")
