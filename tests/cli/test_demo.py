"""`logicmp demo`: its text, and the picture it draws."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from png import read_png
from shell import Ended, Shell


def test_the_rule_corrects_the_blocks_of_a_form(shell: Shell, tmp_path: Path) -> None:
    status, out, err = shell("demo", "-o", str(tmp_path / "blocks.png"))
    assert (status, err) == (0, "")
    lines = re.findall(r"(before|after) +([\d.]+)% of the pairs wrong, (\d+) of (\d+) blocks right, (\d+) triples", out)
    before, after = ({"wrong": float(wrong), "right": int(right), "violations": int(violations)}
                     for _, wrong, right, _, violations in lines)
    assert after["wrong"] < before["wrong"] / 2
    assert after["right"] > 3 * before["right"]
    assert after["violations"] < before["violations"] / 4
    pixels = read_png(tmp_path / "blocks.png")
    # the page is white at its edge, and it has colours other than black and grey
    assert (pixels[:, 0] == 255).all()
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50


def test_a_picture_that_cannot_be_written_is_an_error_before_the_work(shell: Shell) -> None:
    assert shell("demo", "-o", "nowhere/blocks.png") == Ended(
        1, "", "error: cannot write 'nowhere/blocks.png': there is no folder 'nowhere'\n")
