"""Read pages of FUNSD, or in its format: words, their boxes and their blocks.

    pages = load_pages("test", folder)
    pages[0].words       ordered by position, line by line: the order in the files would reveal the blocks
    pages[0].boxes       [n, 4], x0 y0 x1 y1 as shares of the page
    pages[0].block       [n], the number of the block of each word

Words without text are dropped, and so are blocks without words.
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
FILES = DataFiles("FUNSD", (
    "FUNSD is for research only: find the download at github guillaumejaume/FUNSD; put training_data and testing_data "
    "into FOLDER/funsd and use --data FOLDER, or set LOGICMP_DATA"), Path(__file__).with_name("checksums.txt"), "funsd")
FORMAT = '{"form": [{"words": [{"box": [x0, y0, x1, y1], "text": "Name:"}, ...]}, ...]}'
# number of training pages held out to choose settings
N_HELD_OUT = 20


@dataclass(frozen=True, eq=False)
class Page:
    """A page, with words ordered by position."""

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
        # every seventh page by name; names do not depend on the content
        held = range(3, 7 * N_HELD_OUT, 7)
        return [page for k, page in enumerate(pages) if (k in held) == (split == "held-out")]
    if split not in SPLITS:
        raise LogicMPError(f"unknown split {split!r}", "splits: train, kept, held-out, test")
    names = [Path(path).stem for path in FILES.checksums if path.startswith(f"{SPLITS[split]}/annotations/")]
    pages = []
    for name in sorted(names):
        files = [f"{SPLITS[split]}/annotations/{name}.json", f"{SPLITS[split]}/images/{name}.png"]
        annotation, image = (FILES.read(file, data) for file in files)
        pages.append(build_page(name, json.loads(annotation), _png_size(image), folder / files[1]))
    return pages


def read_page(path: Path, image: Path | None = None) -> Page:
    """Read your own page in FUNSD's format; its image is looked up in the same folder and in `../images`."""
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
        raise LogicMPError(f"{str(path)!r} is not a page in FUNSD's format: {type(cause).__name__} {cause}",
                           f"a page is {FORMAT}") from None


def _png_size(data: bytes) -> tuple[int, int]:
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise LogicMPError("the image of a page is not a PNG file", "convert it to PNG")
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)


def build_page(name: str, content: Mapping[str, Any], size: tuple[int, int] | None = None,
               image: Path | None = None) -> Page:
    """Build a page from the content of its file; without an image, its boxes determine its size."""
    found = [(word["text"].strip(), *map(float, word["box"]), number) for number, block in enumerate(content["form"])
             for word in block["words"] if word["text"].strip()]
    if not found:
        raise LogicMPError(f"the page {name!r} has no words")
    words = [entry[0] for entry in found]
    pixels = np.array([entry[1:5] for entry in found])
    if size is None:
        width, height = pixels[:, 2:].max(0)
        # equal margins on opposite sides
        size = int(width + pixels[:, 0].min()), int(height + pixels[:, 1].min())
    order = order_by_position(pixels, words)
    boxes = (pixels / np.array([*size, *size])).clip(0, 1)[order]
    # number blocks by their first words: the order in the file must not matter
    numbers: dict[int, int] = {}
    block = np.array([numbers.setdefault(found[k][5], len(numbers)) for k in order])
    return Page(name, tuple(words[k] for k in order), boxes.astype(np.float32), block, size, image)


def order_by_position(boxes: np.ndarray, words: Sequence[str]) -> list[int]:
    """Order words by lines from the top, each from the left; a line has words of similar vertical position.

    >>> boxes = np.array([[50, 11, 60, 21], [10, 40, 20, 50], [10, 10, 20, 20]])
    >>> order_by_position(boxes, ["two", "three", "one"])
    [2, 0, 1]
    """
    middle, height = (boxes[:, 1] + boxes[:, 3]) / 2, boxes[:, 3] - boxes[:, 1]
    lines: list[list[int]] = []
    # box and text break ties, so that the order in the file does not matter
    for k in sorted(range(len(words)), key=lambda k: (middle[k], *boxes[k], words[k])):
        if lines and middle[k] - middle[lines[-1]].mean() < 0.5 * min(height[k], height[lines[-1]].mean()):
            lines[-1].append(k)
        else:
            lines.append([k])
    return [k for line in lines for k in sorted(line, key=lambda k: (boxes[k][0], middle[k], *boxes[k], words[k]))]
