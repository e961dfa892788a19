"""`logicmp demo`: its text, and the picture it draws."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from png import read_png
from shell import Ended, Shell


def test_the_rules_correct_the_predictions(shell: Shell, tmp_path: Path) -> None:
    status, out, err = shell("demo", "-o", str(tmp_path / "blocks.png"))
    assert (status, err) == (0, "")
    lines = re.findall(r"(?:before|after) +([\d.]+)% of the pairs wrong, (\d+) of .+ right, ([\d,]+) triples", out)
    before, after = ({"wrong": float(wrong), "right": int(right), "violations": int(violations.replace(",", ""))}
                     for wrong, right, violations in lines)
    assert after["wrong"] < 0.6 * before["wrong"]
    assert after["right"] > 1.1 * before["right"]
    assert after["violations"] < before["violations"] / 4
    # evidence about Anna spreads along the chain of friends
    smokes = {name: float(p) for name, p in re.findall(r"^   (\w+) +0\.38 +([\d.]+) ", out, re.MULTILINE)}
    assert smokes["Bob"] > 0.95 and smokes["Carl"] > 0.9 and smokes["Dora"] < 0.38
    pixels = read_png(tmp_path / "blocks.png")
    # the page is white at its edge, and it has colours other than black and grey
    assert (pixels[:, 0] == 255).all()
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50


def test_a_picture_that_cannot_be_written_is_an_error_before_the_work(shell: Shell) -> None:
    assert shell("demo", "-o", "nowhere/blocks.png") == Ended(
        1, "", "error: cannot write 'nowhere/blocks.png': there is no folder 'nowhere'\n")
