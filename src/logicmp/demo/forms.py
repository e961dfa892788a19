"""Generate form pages: a heading, fields with their answers, a paragraph of several lines, a signature.

Room: show -> **demo** -> cli.  The format is that of FUNSD:
`{"form": [{"id", "label", "box", "text", "words": [{"box", "text"}], "linking"}]}`, with boxes in pixels
[x0, y0, x1, y1]. Each entry of `form` is a block. The demo and the tests of experiments/documents use these pages.
"""

from __future__ import annotations

import random
from typing import Any

WIDTH, HEIGHT = 760, 1000
# pixels: width of a letter, height of a line, distance between lines
LETTER, LINE, LEADING = 9, 15, 24
FIELDS = ("DATE:", "TO:", "FROM:", "PHONE NUMBER:", "FAX:", "SAMPLE NO.", "TYPE OF TEST:", "BRAND NAME:", "TOTAL COST:",
          "CITY AND STATE:", "ACCOUNT:", "APPROVED BY:", "QUANTITY:", "SHIP TO:")
TITLES = ("REQUEST FOR ANALYSIS", "TEST REPORT", "PURCHASE ORDER", "NEW ACCOUNT FORM", "PROJECT SUMMARY SHEET")
WORDS = ("paper", "sample", "report", "sales", "order", "market", "test", "store", "week", "number", "result", "carton",
         "method", "cost", "plan", "group", "copy", "plant", "letter", "change", "study", "of", "the", "and", "in",
         "for", "to", "with", "by", "is", "was", "at")
NAMES = ("Baker", "Miller", "Reed", "Olsen", "Hart", "Moreno", "Lang", "Price", "Dale", "Stone")


class _Writer:
    """Puts words on a page, block by block."""

    def __init__(self, draw: random.Random):
        self.draw = draw
        self.form: list[dict[str, Any]] = []

    def block(self, label: str, text: str, x: int, y: int, right: int = WIDTH - 40) -> int:
        """Add a block that starts at (x, y) and wraps at `right`; return the y of the next line."""
        left = x
        words: list[dict[str, Any]] = []
        for word in text.split():
            if x + LETTER * len(word) > right and x > left:
                x, y = left, y + LEADING
            # scanned words are off by a pixel
            top = y + self.draw.randint(-1, 1)
            words.append({"text": word, "box": [x, top, x + LETTER * len(word), top + LINE]})
            x += LETTER * (len(word) + 1)
        boxes = [word["box"] for word in words]
        box = [min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes)]
        self.form.append({"id": len(self.form), "label": label, "box": box, "text": text, "words": words,
                          "linking": []})
        return y + LEADING


def make_form(seed: int, lines: int = 6) -> dict[str, Any]:
    """The page of a seed; `lines` is the number of lines with fields, each line with one or two fields."""
    draw = random.Random(seed)
    page = _Writer(draw)
    y = page.block("header", draw.choice(TITLES), draw.randint(180, 280), 40) + LEADING
    fields = draw.sample(FIELDS, len(FIELDS))
    paragraph_at = draw.randrange(1, lines)
    for line in range(lines):
        end = y
        places = (40, 400) if draw.random() < 0.6 else (40,)
        for place in places:
            field = fields.pop() if fields else f"{draw.choice(WORDS).upper()}:"
            answer_at = place + LETTER * (len(field) + 2) + draw.randint(0, 20)
            page.block("question", field, place, y)
            right = WIDTH - 40 if place == places[-1] else 390
            end = max(end, page.block("answer", _answer(draw), answer_at, y, right))
        y = end + draw.randint(4, LEADING)
        if line == paragraph_at:
            y = page.block("other", _sentence(draw, draw.randint(20, 34)), 40, y, WIDTH - draw.randint(40, 240))
            y += LEADING
    page.block("question", "Signed:", 40, y)
    page.block("answer", f"{draw.choice(NAMES)}, {draw.choice(NAMES)}", 130, y)
    return {"form": page.form}


def _answer(draw: random.Random) -> str:
    """A date, a name, a number, or a few words, which may take two lines."""
    return draw.choice((
        lambda: f"{draw.choice(('May', 'June', 'Dec.'))} {draw.randint(1, 28)}, 19{draw.randint(70, 99)}",
        lambda: f"{draw.choice('ABCDJKM')}. {draw.choice(NAMES)}",
        lambda: f"{draw.randint(100, 999)}-{draw.randint(1000, 9999)}",
        lambda: " ".join(draw.choices(WORDS, k=draw.randint(2, 9))),
    ))()


def _sentence(draw: random.Random, n: int) -> str:
    words = draw.choices(WORDS, k=n)
    return " ".join([words[0].capitalize(), *words[1:-1], f"{words[-1]}."])
