"""Reports of answers."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from logicmp import LogicMP, build_plan, infer, learn, normalize_theory, parse_facts, parse_theory
from logicmp.inference.report import MAX_ROWS, report_answers

RULES = "t = {1, ..., 600}\nP(t)\n1 P(x)\n2 P(1)\n"


def test_a_report_has_the_most_probable_answers_first_and_says_what_is_missing() -> None:
    theory = parse_theory(RULES)
    facts = parse_facts("", theory)
    html = report_answers(infer(theory, facts, "P"), 0.125)
    assert html.index("<td>P(1)</td><td>0.952574</td>") < html.index("<td>P(2)</td>")
    assert f"{600 - MAX_ROWS} more answers" in html
    assert "time: 0.125 s" in html and "status: exact inference" in html
    assert "<h2>Why" not in html and "<h2>Mean field" not in html and "<h2>Model" not in html


def test_a_report_shows_difference_trace_explanations_and_sources() -> None:
    theory = parse_theory("P(t)\nQ(t)\n1 P(x)\n2 Q(x)")
    facts = parse_facts("P(A)", theory)
    found = infer(theory, facts, "Q")
    html = report_answers(found, 1.0, {"largest": 0.25, "atom": "Q(A)", "mean": 0.125},
                          ([1.0, 2.0], [[3.0, 4.0], [1.0, 5.0]]),
                          [("Q(A)", [(2.0, theory.rules[1], [(2.0, "Q(A)")]), (0.0, theory.rules[0], [])]),
                           ("Q(B)", [])],
                          {"Rules": "1 P(x) <", "Facts": " "})
    assert "at most 0.2500, for Q(A); 0.1250 on average" in html
    # the rule with most violations first
    assert html.index('<td>2 Q(x)</td><td class="number">4<') < html.index('<td>1 P(x)</td><td class="number">3<')
    assert "+2.000" in html and ">through Q(A)" in html and "no rule pushed it" in html
    assert "1 P(x) &lt;" in html and "<h3>Facts" not in html


SMOKERS = """person = {Anna, Bob, Carl}
Friends(person, person)
Smokes(person)
1.5 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""


def test_answers_write_their_own_report(tmp_path: Path) -> None:
    found = infer(SMOKERS, "Friends(Anna, Bob)\nFriends(Bob, Carl)\nSmokes(Anna)", "Smokes")
    page = found.report(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page
    assert "2 predicates, 1 rule, 3 facts" in page and "closed world: Friends (it has facts)" in page
    # the strongest grounding of the pushed atom
    assert "Friends(Anna, Bob) ^ Smokes(Anna) =&gt; Smokes(Bob)" in page
    # the expected violations fall
    first, last = re.search(r"Smokes\(y\)</td><td class=\"number\">([\d.]+)</td><td class=\"number\">([\d.]+)",
                            page).groups()  # type: ignore[union-attr]
    assert float(last) < float(first)
    assert "://" not in page and "<script" not in page


def test_the_bound_in_a_report_is_one_of_the_reported_log_z() -> None:
    found = infer(SMOKERS + "!Friends(x, x).\n", "Friends(Anna, Bob)\nSmokes(Anna)", "Smokes")
    first, last = re.search(r"bound of log Z</td><td class=\"number\">([\d.]+)</td><td class=\"number\">([\d.]+)",
                            found.report()).groups()  # type: ignore[union-attr]
    assert found.log_partition is not None
    assert float(first) <= float(last) <= found.log_partition < float(last) + 1


def test_a_report_of_an_observed_world_has_no_explanations() -> None:
    page = infer("P(t)\nQ(t)\n1 P(x) => Q(x)", "P(A)\n!Q(A)", "Q").report()
    assert "<h2>Why" not in page and "<td>Q(A)</td><td>0</td>" in page


def test_a_report_explains_what_bp_answered_too() -> None:
    assert "<h2>Why" in infer(SMOKERS, "Friends(Anna, Bob)\nSmokes(Anna)", "Smokes", "bp").report()


def test_values_show_themselves_in_a_notebook(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    database.write_text("P(A)\nQ(A)\nP(B)\n")
    theory = parse_theory(SMOKERS)
    found = infer(theory, "Friends(Anna, Bob)\nSmokes(Anna)", "Smokes")
    layer = LogicMP(SMOKERS)
    logits = {"Friends": torch.zeros(2, 3, 3), "Smokes": torch.zeros(2, 3)}
    learned = learn("P(t)\nQ(t)\nP(x) => Q(x)\n0.5 Q(x)", [database], relearn="all")
    shown = {
        "Smokes(Bob)": found, "Friends(x, y) ^ Smokes(x) =&gt; Smokes(y)": theory,
        "lower bound of log Z": layer.trace(logits), "message to Smokes(a)": build_plan(normalize_theory(theory)),
        "<td class=\"number\">0.5</td>": learned}
    for words, value in shown.items():
        html = value._repr_html_()
        assert words in html and html.startswith('<div class="logicmp">') and "<script" not in html
