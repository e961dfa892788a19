"""Plots of a run: files that are pictures, and errors before the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from logicmp import LogicMPError
from logicmp.inference.method import TraceLine
from logicmp.show.plot import MAX_LINES, check_plot, draw_trace


@pytest.mark.parametrize("name, start", [("run.png", b"\x89PNG"), ("run.SVG", b"<?xml"), ("run.pdf", b"%PDF")])
def test_the_suffix_chooses_the_format(tmp_path: Path, name: str, start: bytes) -> None:
    trace = [TraceLine(number, -1.0 / (number + 1), [1.0], 0.5) for number in range(3)]
    check_plot(tmp_path / name)
    draw_trace(tmp_path / name, trace, ["1 Costs(x, $5)"])
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_rules_with_few_violations_share_a_line(tmp_path: Path) -> None:
    n = MAX_LINES + 3
    trace = [TraceLine(number, 0.0, [float(rule) for rule in range(n)], 0.0) for number in range(2)]
    draw_trace(tmp_path / "run.svg", trace, [f"rule {rule}" for rule in range(n)])
    # an SVG of matplotlib has the text of each label in a comment
    text = (tmp_path / "run.svg").read_text(encoding="utf-8")
    assert "<!-- the other 3 rules together -->" in text
    assert [rule for rule in range(n) if f"<!-- rule {rule} -->" in text] == list(range(3, n))


def test_an_unknown_suffix_is_an_error() -> None:
    with pytest.raises(LogicMPError) as caught:
        check_plot(Path("out/run.doc"))
    assert str(caught.value) == "a plot must end in .png, .svg or .pdf, got 'run.doc'\nhint: for example --plot run.png"
