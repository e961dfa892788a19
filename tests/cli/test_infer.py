"""`logicmp infer`: answers on stdout, messages on stderr, and its errors."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import Ended, Shell

from logicmp.inference.run import METHODS

MODEL = """\
person = {Anna, Bob, Carl}
Smokes(person)
Cancer(person)
Friends(person, person)

1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
!Friends(x, x).
"""
FACTS = "Friends(Anna, Bob)\nFriends(Bob, Carl)\nSmokes(Anna)\n"
QUERY = ("infer", "-i", "model.mln", "-e", "facts.db", "-q", "Smokes,Cancer(Bob)")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    shell = Shell(tmp_path, monkeypatch, capsys)
    shell.write("model.mln", MODEL)
    shell.write("facts.db", FACTS)
    return shell


def test_answers_are_on_stdout_as_alchemy_writes_them_and_the_rest_on_stderr(shell: Shell) -> None:
    status, out, err = shell(*QUERY)
    assert status == 0
    # the numbers are those of the oracle
    assert out == "Smokes(Anna) 1\nSmokes(Bob) 0.518465\nSmokes(Carl) 0.518465\nCancer(Bob) 0.664651\n"
    assert err == """\
3 predicates, 3 rules, 3 facts
closed world: Friends (it has facts)
open world:   Smokes, Cancer
semantics: exact; method: auto
exact on 2 of 2 components
log Z = 16.0956895
"""


def test_quiet_says_nothing_but_the_answers(shell: Shell) -> None:
    assert shell(*QUERY, "--quiet").err == ""


def test_json_has_what_the_numbers_mean(shell: Shell) -> None:
    found = json.loads(shell(*QUERY, "--format", "json", "-m", "exact", "--check").out)
    assert (found["method"], found["status"]) == ("exact", "exact")
    assert found["closed_world"] == {"Friends": "it has facts"}
    assert found["marginals"][0] == {"atom": "Smokes(Anna)", "probability": 1.0, "log_odds": None, "decided": True}
    assert found["marginals"][1]["log_odds"] == pytest.approx(np.log(0.518465 / 0.481535), abs=1e-5)
    assert found["check"]["largest"] == pytest.approx(0.02, abs=0.02)


def test_csv_has_a_header_and_quotes_what_needs_it(shell: Shell) -> None:
    out = shell("infer", "-i", "model.mln", "-e", "facts.db", "-q", "Friends(Anna, x)", "--format", "csv").out
    assert list(csv.reader(io.StringIO(out))) == [
        # Smokes has facts and is not queried: Carl does not smoke
        ["atom", "probability", "log_odds"], ["Friends(Anna,Anna)", "0", "-inf"], ["Friends(Anna,Bob)", "1", "inf"],
        ["Friends(Anna,Carl)", "0.24974", "-1.1"]]


def test_a_result_file_is_written_and_named(shell: Shell) -> None:
    status, out, err = shell(*QUERY, "-r", "out.txt")
    assert (status, out) == (0, "")
    assert err.endswith("4 answers in out.txt\n")
    assert (shell.folder / "out.txt").read_text() == shell(*QUERY).out


def test_several_files_and_stdin_and_a_file_of_queries(shell: Shell) -> None:
    shell.write("types.mln", "\n".join(MODEL.split("\n")[:4]))
    shell.write("rules.mln", "\n".join(MODEL.split("\n")[5:]))
    shell.write("queries", "Smokes // all of them\nCancer(Bob)\n")
    found = shell("infer", "-i", "types.mln", "-i", "rules.mln", "-e", "-", "-f", "queries", stdin=FACTS)
    assert found.out == shell(*QUERY).out


def test_worlds_are_chosen_by_flag_and_printed(shell: Shell) -> None:
    err = shell(*QUERY, "--world", "open").err
    assert "closed world: none\nopen world:   Smokes, Cancer, Friends\n" in err
    err = shell(*QUERY, "-cw", "Smokes", "-ow", "Friends").err
    assert "closed world: Smokes (as requested)\nopen world:   Cancer, Friends\n" in err


def test_semantics_make_a_difference_where_a_formula_has_clauses(shell: Shell) -> None:
    shell.write("iff.mln", "p = {A}\nS(p)\nT(p)\n2 S(x) <=> T(x)\n1 S(x)")
    found = [shell("infer", "-i", "iff.mln", "-q", "T", "--semantics", name).out for name in ("exact", "alchemy")]
    e = np.e
    want = [(e**3 + 1) / (e**3 + e**2 + e + 1), (e**3 + e) / (e**3 + 2 * e**2 + e)]
    assert found == [f"T(A) {p:.6g}\n" for p in want]


def test_exactly_so_many_updates(shell: Shell) -> None:
    words = (*QUERY, "-m", "mean-field", "--iterations", "5", "--damping", "0", "--tolerance", "0", "--trace", "t.csv")
    assert shell(*words).status == 0
    rows = list(csv.DictReader((shell.folder / "t.csv").open()))
    assert [row["iteration"] for row in rows] == ["0", "1", "2", "3", "4", "5"]
    assert list(rows[0]) == ["iteration", "elbo", "change", "1.5 Smokes(x) => Cancer(x)",
                             "1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)", "!Friends(x, x)."]


def test_plain_mean_field_is_run_on_request(shell: Shell) -> None:
    corrected, plain = (shell(*QUERY, "-m", "mean-field", *words) for words in ((), ("--correction", "none")))
    assert corrected.out != plain.out
    assert "TAP" not in corrected.err + plain.err
    stopped = shell(*QUERY, "-m", "mean-field", "--max-groundings", "0")
    assert stopped.out == plain.out
    assert "mean field without the TAP correction: " in stopped.err
    assert shell(*QUERY, "-m", "mean-field", "--correction", "bp").err == (
        "error: correction must be tap or none, got bp\n")


def test_a_plot_is_a_picture(shell: Shell) -> None:
    status, _, err = shell(*QUERY, "-m", "mean-field", "--plot", "run.png")
    assert status == 0
    assert err.endswith("plot in run.png\n")
    assert (shell.folder / "run.png").read_bytes().startswith(b"\x89PNG")


def test_any_option_of_a_method_can_be_set(shell: Shell) -> None:
    words = ("-m", "mean-field", "--set", "hard_weight=5", "--set", "iterations=3", "--set", "trace=true", "--quiet")
    assert shell(*QUERY, *words).out == shell(*QUERY, "-m", "mean-field", "--iterations", "3", "--quiet").out


@pytest.mark.parametrize("words", [["--max-seconds", "0"], ["--set", "max_seconds=0"]])
def test_a_time_limit_is_of_the_whole_command(shell: Shell, words: list[str]) -> None:
    for method in ("exact", "gibbs"):
        assert shell(*QUERY, "-m", method, *words).err.startswith("error: the time limit of 0 s was reached while")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_answers_that_no_inference_supports_are_rejected(shell: Shell, method: str, form: str) -> None:
    got = shell(*QUERY, "-m", method, "--format", form, "--max-seconds", "0", "--quiet")
    assert (got.status, got.out) == (3, "")
    if method == "mean-field":
        assert got.err.startswith("error: method 'mean-field' stopped before its first step")
    else:
        assert got.err.startswith("error: the time limit of 0 s was reached while grounding\nhint: raise --max-seconds")


def test_answers_at_the_time_limit_are_marked(shell: Shell) -> None:
    words = ("-m", "mean-field", "--tolerance", "0", "--iterations", "100000000", "--max-seconds", "2", "--quiet")
    warning = "warning: the time limit of 2 s was reached; these are the best answers so far\n"
    status, out, err = shell(*QUERY, *words, "--format", "json")
    assert (status, err) == (3, warning)
    found = json.loads(out)
    assert (found["complete"], found["status"]) == (False, "time")
    assert any("was stopped after 2 s" in note for note in found["notes"])
    # complete answers have no warning
    status, out, err = shell(*QUERY, "-m", "hl-mrf", "--quiet", "--format", "json", "--max-seconds", "60")
    assert (status, err, json.loads(out)["complete"]) == (0, "", True)


def test_atoms_without_a_fact_have_the_prior(shell: Shell) -> None:
    shell.write("same.mln", "record = {R1, R2, R3}\nSame(record)\n0 Same(x)")
    shell.write("same.db", "0.9 Same(R1)\n0.5 Same(R2)\n")
    words = ["infer", "-i", "same.mln", "-e", "same.db", "-q", "Same", "--quiet"]
    assert shell(*words).out == "Same(R1) 0.9\nSame(R2) 0.5\nSame(R3) 0.5\n"
    assert shell(*words, "--prior", "Same=0.1").out == "Same(R1) 0.9\nSame(R2) 0.5\nSame(R3) 0.1\n"
    assert "\nSame: 1 of 3 atoms have no fact, prior probability 0.1\n" in shell(*words[:-1], "--prior", "Same=0.1").err
    assert shell(*words, "--prior", "Same").err == (
        "error: --prior must be PREDICATE=PROBABILITY, got 'Same'\nhint: for example --prior Smokes=0.1\n")


def test_check_says_how_far_mean_field_is_off(shell: Shell) -> None:
    err = shell(*QUERY, "--check").err
    assert "check: mean field is off by 0.0" in err
    assert "on average over 4 answers\n" in err


def test_the_help_names_every_method(shell: Shell) -> None:
    # the lines are folded, also at hyphens
    text = "".join(shell("infer", "--help").out.split())
    assert [name for name in METHODS if not any(f"{name}{end}" in text for end in ",;(")] == []


def test_unweighted_rules_are_pointed_out(shell: Shell) -> None:
    shell.write("bare.mln", "p = {A}\nS(p)\nT(p)\nS(x) => T(x)")
    assert "1 rule without a weight: using 1 (logicmp learn learns weights)\n" in shell(
        "infer", "-i", "bare.mln", "-q", "S").err


def test_repeated_facts_are_a_warning(shell: Shell) -> None:
    shell.write("more.db", "Friends(Anna, Bob)")
    err = shell(*QUERY, "-e", "more.db").err
    assert err.startswith("warning: more.db: 1 fact of Friends is given again, first on line 1\n")


@pytest.mark.parametrize("words, message", [
    (["-i", "model.mln", "-e", "fcts.db"],
     "error: cannot read 'fcts.db': No such file or directory\nhint: did you mean 'facts.db'?\n"),
    (["-i", "model.mln", "-q", "Smoke"], """\
error: predicate 'Smoke' is used but not declared
 --> <query>:1:1
1 | Smoke
  | ^^^^^
hint: did you mean 'Smokes'?
"""),
    (["-i", "model.mln", "-e", "facts.db", "-cw", "Cancer"],
     "error: there is nothing to answer: every predicate is closed: Smokes, Friends (they have facts); Cancer (as "
     "requested)\nhint: name a query: query=\"Smokes\", or -q Smokes on the command line\n"),
    (["-i", "model.mln", "-q", "Smokes", "--max-seconds", "-1"],
     "error: the time limit must be a number of seconds, at least 0, got -1.0\n"),
    (["-i", "model.mln", "-m", "gibs"], "error: unknown method 'gibs'\nhint: "),
    (["-i", "model.mln", "-m", "exact", "--damping", "0.1"], "error: method 'exact' has no option 'damping'\nhint: "),
    (["-i", "model.mln", "--set", "damping"], "error: --set must be NAME=VALUE, got 'damping'\nhint: "),
    (["-i", "model.mln", "--set", "damping=high"],
     "error: option 'damping' of method 'auto' is 'high'\nhint: expected a number\n"),
    (["-i", "model.mln", "--set", "iterations=2.5"],
     "error: option 'iterations' of method 'auto' is 2.5\nhint: expected a whole number\n"),
    # also where no part of the method runs that uses the option
    (["-i", "model.mln", "--damping", "2"], "error: damping must be at least 0 and below 1, got 2.0\n"),
    (["-i", "model.mln", "-m", "bp", "--iterations", "-1"], "error: iterations must be at least 0, got -1\n"),
    (["-i", "model.mln", "-m", "map", "--set", "noise=1.5"], "error: noise must be between 0 and 1, got 1.5\n"),
    (["-i", "model.mln", "-r", "no/where"], "error: cannot write 'no/where': there is no folder 'no'\n"),
    (["-i", "-", "-e", "-"], "error: standard input ('-') can be read only once\n"),
    (["-i", "model.mln", "--plot", "run.doc"],
     "error: a plot must end in .png, .svg or .pdf, got 'run.doc'\nhint: for example --plot run.png\n"),
    (["-i", "model.mln", "-q", "Smokes", "--trace", "t.csv"],
     "error: there are no iterations to trace: exact inference solved all\nhint: use -m mean-field\n"),
])
def test_wrong_input_is_an_error_and_nothing_is_written(shell: Shell, words: list[str], message: str) -> None:
    status, out, err = shell("infer", *words)
    assert (status, out) == (1, "")
    assert message in err
    assert sorted(path.name for path in shell.folder.iterdir()) == ["facts.db", "model.mln"]


def test_contradicting_facts_are_shown_with_both_lines(shell: Shell) -> None:
    shell.write("more.db", "\n!Smokes(Anna)")
    assert shell(*QUERY, "-e", "more.db").err == """\
error: Smokes(Anna) is given two different values
 --> facts.db:3:1
3 | Smokes(Anna)
  | ^^^^^^^^^^^^
 --> more.db:2:1
2 | !Smokes(Anna)
  | ^^^^^^^^^^^^^
"""


def test_an_interrupted_run_leaves_no_half_written_file(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from logicmp.execute.mean_field import Run

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "iterate", interrupted)
    shell.write("out.txt", "from before")
    status, out, err = shell(*QUERY, "-m", "mean-field", "-r", "out.txt")
    assert (status, out) == (130, "")
    assert err == "interrupted\n"
    assert sorted(path.name for path in shell.folder.iterdir()) == ["facts.db", "model.mln", "out.txt"]
    assert (shell.folder / "out.txt").read_text() == "from before"


@pytest.mark.parametrize("method", ["gibbs", "mc-sat", "map --set solver=walksat"])
def test_without_numba_the_error_names_the_extra(shell: Shell, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    status, out, err = shell(*QUERY, "-m", *method.split())
    assert (status, out) == (1, "")
    assert err.endswith(' needs numba, which is not installed\nhint: pip install "logicmp[sampling]"\n')


def test_without_matplotlib_the_error_names_the_extra(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert shell(*QUERY, "-m", "mean-field", "--plot", "run.png") == Ended(
        1, "", 'error: --plot needs matplotlib, which is not installed\nhint: pip install "logicmp[plot]"\n')


@pytest.mark.parametrize("words, message", [
    (("-r", "model.mln"), "the results would overwrite the input 'model.mln'"),
    (("-r", "../here/facts.db"), "the results would overwrite the input 'facts.db'"),
    (("-r", "link"), "the results would overwrite the input 'model.mln'"),
    (("-f", "query.txt", "-r", "query.txt"), "the results would overwrite the input 'query.txt'"),
    (("--trace", "facts.db"), "the trace would overwrite the input 'facts.db'"),
    (("-r", "new.csv", "--trace", "./new.csv"), "the trace would overwrite the results 'new.csv'"),
    (("-r", "new.png", "--plot", "new.png"), "the plot would overwrite the results 'new.png'")])
def test_a_result_never_overwrites_an_input_or_another_result(
        shell: Shell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str) -> None:
    here = shell.folder / "here"
    here.mkdir()
    for name, text in (("model.mln", MODEL), ("facts.db", FACTS), ("query.txt", "Smokes")):
        (here / name).write_text(text)
    (here / "link").symlink_to("model.mln")
    monkeypatch.chdir(here)
    assert shell(*QUERY, *words) == Ended(1, "", f"error: {message}\nhint: write to another file\n")
    assert (here / "model.mln").read_text() == MODEL and (here / "facts.db").read_text() == FACTS
    assert sorted(path.name for path in here.iterdir()) == ["facts.db", "link", "model.mln", "query.txt"]


def test_a_device_may_be_used_twice(shell: Shell) -> None:
    assert shell(*QUERY, "-m", "mean-field", "-r", "/dev/null", "--trace", "/dev/null").status == 0


@pytest.mark.parametrize("words", [("-i", "facts.db"), ("-i", "model.mln", "-i", "facts.db")])
def test_facts_given_as_rules_are_rejected(shell: Shell, words: tuple[str, ...]) -> None:
    assert shell("infer", *words, "-q", "Smokes") == Ended(
        1, "", "error: -i is for rules, got the database 'facts.db'\nhint: give facts with -e facts.db\n")


def test_an_empty_query_is_rejected(shell: Shell) -> None:
    assert shell(*QUERY[:-1], "") == Ended(1, "", """\
error: no query is given
hint: leave it out to query all, or name predicates: Smokes, Cancer, Friends
""")


@pytest.mark.parametrize("flag", ["-r", "-o", "--output"])
def test_the_ending_of_the_file_sets_the_format(shell: Shell, flag: str) -> None:
    from pyarrow import parquet

    want = [line.split() for line in shell(*QUERY, "--quiet").out.splitlines()]
    for name in ("out.csv", "out.json", "out.parquet", "out.txt"):
        assert shell(*QUERY, flag, name).status == 0
    rows = list(csv.DictReader(io.StringIO((shell.folder / "out.csv").read_text())))
    assert [[row["atom"], row["probability"]] for row in rows] == want
    assert [row["atom"] for row in json.loads((shell.folder / "out.json").read_text())["marginals"]] == [
        atom for atom, _ in want]
    table = parquet.read_table(shell.folder / "out.parquet").to_pydict()
    assert table["atom"] == [atom for atom, _ in want]
    np.testing.assert_allclose(table["probability"], [float(p) for _, p in want], atol=1e-6)
    assert (shell.folder / "out.txt").read_text().split() == [word for row in want for word in row]


def test_a_format_goes_before_the_ending_and_parquet_needs_a_file(shell: Shell) -> None:
    assert shell(*QUERY, "-o", "out.csv", "--format", "text").status == 0
    assert (shell.folder / "out.csv").read_text().startswith("Smokes(Anna) 1\n")
    ended = shell(*QUERY, "--format", "parquet")
    assert (ended.status, ended.err) == (1, "error: --format parquet needs a file\nhint: add -o answers.parquet\n")
    ended = shell(*QUERY, "-o", "Smokes")
    assert ended.err == ("error: -o names the file for the answers, got the predicate 'Smokes'\nhint: to open the "
                         "predicate, write -ow Smokes\n")


def test_unscored_is_a_word_or_a_probability(shell: Shell) -> None:
    shell.write("same.mln", "Same(r, r)\n1 Same(x, y) => Same(x, y)\n")
    shell.write("pairs.csv", "a,b,score\nA,B,0.9\n")
    words = ("infer", "-i", "same.mln", "-e", "Same=pairs.csv", "-q", "Same", "--quiet", "--unscored")
    assert shell(*words, "false").out == "Same(A,B) 0.9\n"
    assert shell(*words, "0.2").out == "Same(A,A) 0.2\nSame(A,B) 0.9\nSame(B,A) 0.2\nSame(B,B) 0.2\n"
    assert "unscored must be 'false', 'skip' or a probability, got 'no'" in shell(*words, "no").err


def test_a_report_is_one_page(shell: Shell) -> None:
    status, _, err = shell(*QUERY, "--report", "a.html")
    assert status == 0 and "report in a.html" in err
    page = (shell.folder / "a.html").read_text(encoding="utf-8")
    assert "<td>Smokes(Anna)</td><td>1</td>" in page
    assert ">through Friends(Anna, Bob) ^ Smokes(Anna) =&gt; Smokes(Bob)" in page
    assert shell(*QUERY, "--report", "model.mln")[0] == 1
    assert (shell.folder / "model.mln").read_text(encoding="utf-8") == MODEL
