"""The demo as a user meets it, and the picture it draws."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from shell import Shell

from logicmp import LogicMPError
from logicmp.show.picture import GLYPHS, Picture


def read_png(path: Path) -> np.ndarray:
    """[height, width, 3]"""
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    length = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, 1 + 3 * width)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, 3)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_the_demo_mends_the_blocks_of_a_form_and_draws_them(shell: Shell, tmp_path: Path) -> None:
    status, out, err = shell("demo", "-o", str(tmp_path / "blocks.png"))
    assert (status, err) == (0, "")
    lines = re.findall(r"(before|after) +([\d.]+)% of the pairs wrong, (\d+) of (\d+) blocks right, (\d+) triples", out)
    before, after = ({"wrong": float(wrong), "right": int(right), "broken": int(broken)}
                     for _, wrong, right, _, broken in lines)
    assert after["wrong"] < before["wrong"] / 2
    assert after["right"] > 3 * before["right"]
    assert after["broken"] < before["broken"] / 4
    pixels = read_png(tmp_path / "blocks.png")
    # the page is white at its edge, and there are colours beside black and grey
    assert (pixels[:, 0] == 255).all()
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere/blocks.png"
    with pytest.raises(LogicMPError) as caught:
        Picture(2, 2).save(path)
    assert str(caught.value) == (f"cannot write {str(path)!r}: No such file or directory\n"
                                 "hint: choose another place with -o")


def test_what_is_drawn_stands_in_the_file(tmp_path: Path) -> None:
    picture = Picture(12, 9)
    picture.fill(1, 1, 3, 2, (10, 20, 30))
    picture.fill(0, 8, 1, 20, (0, 0, 0), opacity=0.5)
    picture.matrix(8, 0, np.array([[0.0, 1.0]]), 2)
    picture.write(1, 1, "I", (0, 0, 255))
    picture.save(tmp_path / "small.png")
    pixels = read_png(tmp_path / "small.png")
    assert pixels.shape == (9, 12, 3)
    assert pixels[1, 1].tolist() == [10, 20, 30]
    assert pixels[8, 0].tolist() == [128, 128, 128]
    assert pixels[0:2, 8:12, 0].tolist() == [[255, 255, 30, 30]] * 2
    assert pixels[4, 3].tolist() == [0, 0, 255]


def test_all_letters_have_dots_of_their_own() -> None:
    assert set(GLYPHS) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:-")
    assert all(glyph.shape == (7, 5) for glyph in GLYPHS.values())
    assert len({glyph.tobytes() for glyph in GLYPHS.values()}) == len(GLYPHS)
