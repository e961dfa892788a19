"""The picture: what is drawn is in the file, and a file that cannot be written is an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from png import read_png

from logicmp import LogicMPError
from logicmp.show.picture import GLYPHS, Picture


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere/blocks.png"
    with pytest.raises(LogicMPError) as caught:
        Picture(2, 2).save(path)
    assert str(caught.value) == f"cannot write the picture to {str(path)!r}: No such file or directory"


def test_what_is_drawn_is_in_the_file(tmp_path: Path) -> None:
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


def test_every_character_has_its_own_glyph() -> None:
    assert set(GLYPHS) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:-")
    assert all(glyph.shape == (7, 5) for glyph in GLYPHS.values())
    assert len({glyph.tobytes() for glyph in GLYPHS.values()}) == len(GLYPHS)
