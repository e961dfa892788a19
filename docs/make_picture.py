"""Draw the pictures of the documentation, all from the picture of `logicmp demo`.

    python docs/make_picture.py

    blocks.png                  the pages and their pairs, before and after the rule
    blocks-before-after.png     the two pages, side by side
    iterations.png              the pairs during the iterations of two schedules
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from matplotlib.image import imread, imsave

IMAGES = Path(__file__).parent / "images"
# white pixels around each page
MARGIN = 12


def pages_side_by_side(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return both pages without the matrices: before the rule on the left, after it on the right."""
    columns = filled_runs((picture < 255).any((0, 2)))
    left, right = columns[0]
    rows = filled_runs((picture[:, left:right] < 255).any((1, 2)))
    # a page is a heading and a form: two runs
    pages = [picture[rows[k][0] : rows[k + 1][1], left:right] for k in (0, 2)]
    height, width = (max(page.shape[axis] for page in pages) for axis in (0, 1))
    sheet = np.full((height + 2 * MARGIN, 2 * width + 4 * MARGIN, 3), 255, np.uint8)
    for k, page in enumerate(pages):
        start = MARGIN + k * (width + 2 * MARGIN)
        sheet[MARGIN : MARGIN + page.shape[0], start : start + page.shape[1]] = page
    return sheet


def filled_runs(filled: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Return where something is drawn, start and end, in runs that at least 2 * MARGIN empty pixels separate.

    >>> filled_runs(np.array([0] * 30 + [1, 0, 1] + [0] * 30 + [1]))
    [(30, 33), (63, 64)]
    """
    places = np.flatnonzero(filled)
    cuts = np.flatnonzero(np.diff(places) > 2 * MARGIN)
    return list(zip(places[[0, *(cuts + 1)]].tolist(), (places[[*cuts, -1]] + 1).tolist(), strict=True))


def draw(folder: Path) -> None:
    """Run the demo and write its pictures to a folder."""
    from logicmp.cli import main
    from logicmp.demo.forms import make_form
    from logicmp.demo.pages import PAGES, read_words, strip_size

    with tempfile.TemporaryDirectory() as name:
        whole = Path(name, "demo.png")
        with (mock.patch("sys.argv", ["logicmp", "demo", "-o", str(whole)]), contextlib.suppress(SystemExit),
              contextlib.redirect_stdout(io.StringIO())):
            main()
        picture = np.rint(imread(whole)[..., :3] * 255).astype(np.uint8)
    _, height = strip_size(len(read_words(make_form(PAGES[0])["form"])[1]))
    pages, strip = picture[:-height], picture[-height:]
    imsave(folder / "blocks.png", pages)
    imsave(folder / "blocks-before-after.png", pages_side_by_side(pages))
    imsave(folder / "iterations.png", strip)


if __name__ == "__main__":
    draw(IMAGES)
