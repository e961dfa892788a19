"""Pages: every text is escaped, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from logicmp.page import Page, bar, code, curves, graph, heading, histogram, listed, paragraph, scatter, table

EVIL = "<script>alert(1)</script>&\"'"


class Tags(HTMLParser):
    """The tags of a page, and whether they are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_well_formed_and_escapes_every_text() -> None:
    page = Page(EVIL)
    page.add(EVIL, paragraph(EVIL), paragraph(EVIL, is_note=True), heading(EVIL), code(EVIL), listed([EVIL]),
             table([EVIL], [[EVIL], [0.25], [bar(0.5)]]), histogram([0.0, 0.5, 1.0]), curves({EVIL: [1, 2]}, EVIL),
             scatter({EVIL: [(0.0, 1.0)]}, EVIL), graph([EVIL, EVIL], [(0, 1)], EVIL))
    page.add("empty")
    html = page.to_html()
    tags = Tags()
    tags.feed(html)
    assert tags.open == [] and "script" not in tags.seen
    assert "<h2>empty" not in html and html.count("&lt;script&gt;") == 18
    assert not re.search(r"(?:src|href)=", html)


@pytest.mark.parametrize("share, width", [(0.25, "40.0"), (-1, "0.0"), (2, "160.0")])
def test_a_bar_is_as_long_as_its_share(share: float, width: str) -> None:
    assert f'class="mark" width="{width}"' in bar(share).text


def test_a_histogram_counts_both_ends() -> None:
    text = histogram([0.0, 0.01, 1.0], 2).text
    assert "0 to 0.5: 2<" in text and "0.5 to 1: 1<" in text
    assert "histogram of 0 probabilities" in histogram([]).text


def test_curves_leave_out_what_is_not_finite() -> None:
    text = curves({"a": [float("-inf"), 1.0, 2.0], "b": [float("nan")]}, "rule").text
    assert text.count("<polyline") == 1 and text.count("<tr>") == 2


def test_a_graph_has_each_box_below_what_points_to_it() -> None:
    text = graph(["a", "b", "c", "d"], [(0, 2), (1, 2), (2, 3), (0, 3)], "drawing").text
    heights = {label: float(y) for y, label in re.findall(r'y="(\d+)">([a-d])<', text)}
    assert heights["a"] == heights["b"] < heights["c"] < heights["d"]
    assert text.count('class="arrow"') == 4
    assert "<svg" in graph([], [], "nothing").text


def test_points_of_a_scatter_plot_go_up_and_to_the_right() -> None:
    text = scatter({"bp": [(0.25, 1.0)], "none": []}, "exact").text
    assert 'cx="40.0" cy="0.0"' in text and text.count("<circle") == 1 and text.count("<svg") == 2
