"""Reports of answers."""

from __future__ import annotations

from logicmp import infer, parse_facts, parse_theory
from logicmp.show.report import MAX_ROWS, report_answers

RULES = "t = {1, ..., 600}\nP(t)\n1 P(x)\n2 P(1)\n"


def test_a_report_has_the_most_probable_answers_first_and_says_what_is_missing() -> None:
    theory = parse_theory(RULES)
    facts = parse_facts("", theory)
    html = report_answers(infer(theory, facts, "P"), theory, facts, 0.125)
    assert html.index("<td>P(1)</td><td>0.952574</td>") < html.index("<td>P(2)</td>")
    assert f"{600 - MAX_ROWS} more answers" in html
    assert "time: 0.125 s" in html and "status: exact" in html
    assert "<h2>Why" not in html and "<h2>Mean field" not in html and "<h2>Model" not in html


def test_a_report_shows_difference_trace_explanations_and_sources() -> None:
    theory = parse_theory("P(t)\nQ(t)\n1 P(x)\n2 Q(x)")
    facts = parse_facts("P(A)", theory)
    found = infer(theory, facts, "Q")
    html = report_answers(found, theory, facts, 1.0, {"largest": 0.25, "atom": "Q(A)", "mean": 0.125},
                          ([1.0, 2.0], [[3.0, 4.0], [1.0, 5.0]]),
                          [("Q(A)", [(2.0, "2 Q(x)", [(2.0, "Q(A)")]), (0.0, "1 P(x)", [])]), ("Q(B)", [])],
                          {"Rules": "1 P(x) <", "Facts": " "})
    assert "at most 0.2500, for Q(A); 0.1250 on average" in html
    # the rule with most violations first
    assert html.index('<td>2 Q(x)</td><td class="number">4<') < html.index('<td>1 P(x)</td><td class="number">3<')
    assert "+2.000" in html and "of it through Q(A)" in html and "no rule pushed it" in html
    assert "1 P(x) &lt;" in html and "<h3>Facts" not in html
