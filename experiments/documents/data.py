"""FUNSD, and pages in its format: words, where they stand, and which block each belongs to.

    pages = load_pages("test", folder)
    pages[0].words       ordered by position, line by line: the order of the files gives the blocks away
    pages[0].boxes       [n, 4], x0 y0 x1 y1 as shares of the page
    pages[0].block       [n], the number of the block of each word

Words without text are dropped, and blocks without words with them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from logicmp import LogicMPError

from ..files import DataFiles

SPLITS = {"train": "training_data", "test": "testing_data"}
FILES = DataFiles("FUNSD is", (
    "FUNSD is for research only: github guillaumejaume/FUNSD says where it is; put training_data and testing_data into "
    "FOLDER/funsd and give --data FOLDER, or set LOGICMP_DATA"), Path(__file__).with_name("checksums.txt"), "funsd")
FORMAT = '{"form": [{"words": [{"box": [x0, y0, x1, y1], "text": "Name:"}, ...]}, ...]}'
# how many of the training pages are held out when settings are chosen
N_HELD_OUT = 20


@dataclass(frozen=True, eq=False)
class Page:
    """A page: its words in the order of their positions."""

    name: str
    words: tuple[str, ...]
    boxes: np.ndarray
    block: np.ndarray
    # width and height in pixels
    size: tuple[int, int]
    image: Path | None = None

    def __len__(self) -> int:
        return len(self.words)

    @property
    def truth(self) -> np.ndarray:
        """[n, n]: whether two words are in one block."""
        return self.block[:, None] == self.block


def load_pages(split: str, data: str | Path | None = None) -> list[Page]:
    """Read and check all pages of a split: "train", "test", or a part of train, "kept" or "held-out"."""
    folder = FILES.folder(data)
    if split in ("kept", "held-out"):
        pages = load_pages("train", data)
        # every seventh page: the files are sorted by name, which says nothing of the page
        held = range(3, 7 * N_HELD_OUT, 7)
        return [page for k, page in enumerate(pages) if (k in held) == (split == "held-out")]
    if split not in SPLITS:
        raise LogicMPError(f"there is no split {split!r}", "splits: train, kept, held-out, test")
    names = [Path(path).stem for path in FILES.checksums if path.startswith(f"{SPLITS[split]}/annotations/")]
    pages = []
    for name in sorted(names):
        files = [f"{SPLITS[split]}/annotations/{name}.json", f"{SPLITS[split]}/images/{name}.png"]
        annotation, image = (FILES.read(file, data) for file in files)
        pages.append(build_page(name, json.loads(annotation), _png_size(image), folder / files[1]))
    return pages


def read_page(path: Path, image: Path | None = None) -> Page:
    """A page of your own, in FUNSD's format; its image may stand beside it, or in `images` as in FUNSD."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as cause:
        raise LogicMPError(f"cannot read {str(path)!r}: {cause.strerror}") from None
    except ValueError as cause:
        raise LogicMPError(f"{str(path)!r} is not JSON: {cause}", f"a page is {FORMAT}") from None
    places = [path.with_suffix(".png"), path.parent.parent / "images" / f"{path.stem}.png"]
    image = image or next((place for place in places if place.is_file()), None)
    size = None
    if image is not None:
        try:
            size = _png_size(image.read_bytes())
        except OSError as cause:
            raise LogicMPError(f"cannot read {str(image)!r}: {cause.strerror}") from None
    try:
        return build_page(path.stem, content, size, image)
    except (KeyError, TypeError, ValueError, IndexError) as cause:
        raise LogicMPError(f"{str(path)!r} is no page in FUNSD's format: {type(cause).__name__} {cause}",
                           f"a page is {FORMAT}") from None


def _png_size(data: bytes) -> tuple[int, int]:
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise LogicMPError("the image of a page is not a PNG file", "convert it to PNG")
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)


def build_page(name: str, content: Mapping[str, Any], size: tuple[int, int] | None = None,
               image: Path | None = None) -> Page:
    """A page from what its file holds; without an image its size is that of what is written on it."""
    found = [(word["text"].strip(), *map(float, word["box"]), number) for number, block in enumerate(content["form"])
             for word in block["words"] if word["text"].strip()]
    if not found:
        raise LogicMPError(f"the page {name!r} has no words")
    words = [entry[0] for entry in found]
    pixels = np.array([entry[1:5] for entry in found])
    if size is None:
        width, height = pixels[:, 2:].max(0)
        # as much margin on the right and below as on the left and above
        size = int(width + pixels[:, 0].min()), int(height + pixels[:, 1].min())
    order = order_by_position(pixels, words)
    boxes = (pixels / np.array([*size, *size])).clip(0, 1)[order]
    # numbered by their first words, so that nothing of the order in the file is left
    numbers: dict[int, int] = {}
    block = np.array([numbers.setdefault(found[k][5], len(numbers)) for k in order])
    return Page(name, tuple(words[k] for k in order), boxes.astype(np.float32), block, size, image)


def order_by_position(boxes: np.ndarray, words: Sequence[str]) -> list[int]:
    """Line by line from the top, each from the left; words whose middles are at one height make a line.

    >>> boxes = np.array([[50, 11, 60, 21], [10, 40, 20, 50], [10, 10, 20, 20]])
    >>> order_by_position(boxes, ["two", "three", "one"])
    [2, 0, 1]
    """
    middle, height = (boxes[:, 1] + boxes[:, 3]) / 2, boxes[:, 3] - boxes[:, 1]
    lines: list[list[int]] = []
    # all of a word decides, so that words in one place do not come in the order of the file
    for k in sorted(range(len(words)), key=lambda k: (middle[k], *boxes[k], words[k])):
        if lines and middle[k] - middle[lines[-1]].mean() < 0.5 * min(height[k], height[lines[-1]].mean()):
            lines[-1].append(k)
        else:
            lines.append([k])
    return [k for line in lines for k in sorted(line, key=lambda k: (boxes[k][0], middle[k], *boxes[k], words[k]))]
