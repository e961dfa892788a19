"""Draw rectangles, text and matrices with numpy alone, and save them as PNG."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from ..files import write_whole

# capitals of 5 by 7 pixels: each character, then its rows from the top, five bits each, as digits in base 32
LETTERS = (
    "Aehhvhhh Buhhuhhu Cehggghe Duhhhhhu Evgguggv Fvgguggg Gehgnhhf Hhhhvhhh Ie44444e J72222ic Khikokih Lggggggv "
    "Mhrllhhh Nhpljhhh Oehhhhhe Puhhuggg Qehhhlid Ruhhukih Sfgge11u Tv444444 Uhhhhhhe Vhhhhha4 Whhhllrh Xhha4ahh "
    "Yhha4444 Zv1248gv 0ehjlphe 14c4444e 2eh168gv 3u11e11u 426aiv22 5vgu11he 668guhhe 7v124888 8ehhehhe 9ehhf12c "
    ".00000cc ,0000c48 :0cc0cc0 -000v000"
)
GLYPHS = {entry[0]: np.array([[int(row, 32) >> bit & 1 for bit in range(4, -1, -1)] for row in entry[1:]], dtype=bool)
          for entry in LETTERS.split()}
# pixels from one letter to the next
ADVANCE = 6
Colour = tuple[int, int, int]
BLACK: Colour = (40, 40, 40)
# colours that colour-blind readers can tell apart (Okabe and Ito)
COLOURS: tuple[Colour, ...] = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (0, 114, 178), (213, 94, 0),
                               (204, 121, 167))


class Picture:
    """A white picture; coordinates are pixels from the left and from the top, and drawing is clipped at the edge."""

    def __init__(self, width: int, height: int):
        # [height, width, red green blue]
        self.pixels = np.full((height, width, 3), 255, dtype=np.uint8)

    def fill(self, x0: int, y0: int, x1: int, y1: int, colour: Colour, opacity: float = 1.0) -> None:
        """Fill a rectangle."""
        part = self.pixels[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)]
        part[:] = np.rint((1 - opacity) * part + opacity * np.array(colour))

    def frame(self, x0: int, y0: int, x1: int, y1: int, colour: Colour) -> None:
        """Draw the outline of a rectangle, one pixel wide."""
        for box in ((x0, y0, x1, y0 + 1), (x0, y1 - 1, x1, y1), (x0, y0, x0 + 1, y1), (x1 - 1, y0, x1, y1)):
            self.fill(*box, colour)

    def write(self, x: int, y: int, text: str, colour: Colour = BLACK) -> None:
        """Write text in capitals; a character without a glyph leaves a gap."""
        for character in text.upper():
            if character in GLYPHS:
                part = self.pixels[y : y + 7, x : x + 5]
                part[GLYPHS[character][: part.shape[0], : part.shape[1]]] = colour
            x += ADVANCE

    def matrix(self, x: int, y: int, values: np.ndarray, scale: int) -> None:
        """Draw a matrix of values from 0 (white) to 1 (dark), each a square of `scale` pixels."""
        shades = np.rint(255 - 225 * values).astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
        self.pixels[y : y + len(shades), x : x + shades.shape[1]] = shades[..., None]

    def save(self, path: Path) -> None:
        """Write a PNG file, whole or not at all."""
        height, width, _ = self.pixels.shape
        rows = np.concatenate([np.zeros((height, 1), np.uint8), self.pixels.reshape(height, -1)], 1)

        def chunk(kind: bytes, data: bytes) -> bytes:
            body = kind + data
            return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        data = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
                + chunk(b"IEND", b""))
        write_whole(path, data, "the picture")
