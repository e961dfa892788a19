"""Draw docs/images/blocks-before-after.png: the two pages of the picture of `logicmp demo`, side by side.

    python docs/make_picture.py
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

PICTURE = Path(__file__).parent / "images/blocks-before-after.png"
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


def draw(path: Path) -> None:
    """Run the demo and write its two pages to a file."""
    from logicmp.cli import main

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "demo.png")
        with (mock.patch("sys.argv", ["logicmp", "demo", "-o", str(whole)]), contextlib.suppress(SystemExit),
              contextlib.redirect_stdout(io.StringIO())):
            main()
        picture = np.rint(imread(whole)[..., :3] * 255).astype(np.uint8)
    imsave(path, pages_side_by_side(picture))


if __name__ == "__main__":
    draw(PICTURE)
