"""Group the words of a form into blocks: word boxes, a small model that judges pairs, and the picture.

Room: show -> **demo** -> cli.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..limits import Progress, silent
from ..show.picture import COLOURS, Picture
from .forms import LEADING, LETTER, WIDTH, make_form

# seeds of the pages that are scored, the first of which is drawn, and of those the model is trained on
PAGES, TRAINING_PAGES = range(10), range(100, 112)
# the model is trained towards 0.05 and 0.95 instead of 0 and 1: label smoothing
SMOOTHING = 0.1
# of training
STEPS = 500
# bits of a word's hash, and waves per 100 pixels of its position
N_BITS, FREQUENCIES = 8, (0.5, 1.0, 2.0)
# pixels on the page per pixel of the form, then per cell of the matrix
PAGE_WIDTH = WIDTH * 2 // 3
SCALE, MARGIN = 5, 24
# the iterations that are drawn for each schedule, and pixels per cell
STRIP = {"paper": (0, 1, 2, 3, 4, 5), "adaptive": (0, 3, 6, 9, 12, 15)}
STRIP_SCALE = 2

Form = list[dict[str, Any]]


def read_words(form: Form) -> tuple[Tensor, Tensor]:
    """The box of each word, [n, 4], and the number of its block, [n]."""
    found = [(word["box"], number) for number, block in enumerate(form) for word in block["words"]]
    return torch.tensor([box for box, _ in found]).float(), torch.tensor([number for _, number in found])


def geometry(boxes: Tensor) -> Tensor:
    """Horizontal and vertical distances between all pairs of words at several scales, [n, n, 8]."""
    x0, y0, x1, _ = boxes.T
    gap = (torch.maximum(x0[:, None], x0) - torch.minimum(x1[:, None], x1)) / LETTER
    down = (y0[:, None] - y0).abs() / LEADING
    start = (x0[:, None] - x0).abs() / LETTER
    return torch.stack([torch.tanh(gap - 1.5), torch.tanh(gap / 6), torch.tanh(gap / 24), torch.tanh(down),
                        torch.tanh(3 * (down - 1.2)), torch.tanh(down / 4), torch.tanh(start / 8), down < 0.5], -1)


def describe_words(form: Form) -> Tensor:
    """Each word on its own, [n, 28]: capitals, punctuation at its end, a hash of its text, its position."""
    rows = []
    for word in (word for block in form for word in block["words"]):
        text = word["text"]
        hashed = zlib.crc32(text.lower().encode())
        bits = [2.0 * (hashed >> k & 1) - 1 for k in range(N_BITS)]
        angles = [place / 100 * frequency for frequency in FREQUENCIES for place in word["box"][:3]]
        rows.append([float(text.isupper()), float(text[-1] in ":."), *bits, *map(math.sin, angles),
                     *map(math.cos, angles)])
    return torch.tensor(rows)


def describe_pairs(form: Form) -> Tensor:
    """What the model sees of each pair of words, the same in both orders, [n, n, 64]."""
    words = describe_words(form)
    return torch.cat([geometry(read_words(form)[0]), words[:, None] + words, words[:, None] * words], -1)


def train_model(progress: Progress = silent) -> nn.Module:
    """A small model that judges whether two words belong to one block, from `describe_pairs`."""
    pages = [make_form(seed)["form"] for seed in TRAINING_PAGES]
    inputs = torch.cat([describe_pairs(page).flatten(0, 1) for page in pages])
    labels = torch.cat([(block[:, None] == block).float().flatten() for _, block in map(read_words, pages)])
    targets = labels * (1 - SMOOTHING) + SMOOTHING / 2
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(inputs.shape[-1], 32), nn.GELU(), nn.Linear(32, 1), nn.Flatten(-2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(STEPS):
            progress("training the model", step, STEPS)
            some = torch.randint(len(labels), (4096,))
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(inputs[some]), targets[some])
            torch.autograd.backward(loss)
            optimizer.step()
    return model


def connected(together: Tensor) -> Tensor:
    """The connected component of each word, [n]: the number of its first word."""
    n = len(together)
    together = together | together.T | torch.eye(n, dtype=torch.bool)
    numbers = torch.arange(n)
    for _ in range(n):
        numbers = torch.where(together, numbers, n).amin(1)
    return numbers


def first_words(block: Tensor) -> list[int]:
    """The first word of each block."""
    return [int((block == number).nonzero()[0]) for number in sorted(set(block.tolist()))]


def draw_page(picture: Picture, top: int, form: Form, found: Tensor, q: Tensor, block: Tensor,
              title: str) -> None:
    """Draw the page with the predicted blocks in colour, and the matrix of pairs with frames around the true blocks."""
    picture.write(MARGIN, top + MARGIN // 3, title)
    top, left = top + MARGIN, MARGIN
    words = [word for entry in form for word in entry["words"]]
    places = [[round(x * 2 / 3) for x in word["box"]] for word in words]
    for k, number in enumerate(sorted(set(found.tolist()))):
        colour = COLOURS[k % len(COLOURS)]
        members = [places[w] for w in (found == number).nonzero().flatten().tolist()]
        for x0, y0, x1, y1 in members:
            picture.fill(left + x0 - 1, top + y0, left + x1, top + y1, colour, 0.4)
        picture.frame(left + min(p[0] for p in members) - 3, top + min(p[1] for p in members) - 2,
                      left + max(p[2] for p in members) + 2, top + max(p[3] for p in members) + 2, colour)
    for word, (x0, y0, _, _) in zip(words, places, strict=True):
        picture.write(left + x0, top + y0 + 2, word["text"])
    left += PAGE_WIDTH + MARGIN
    draw_matrix(picture, left, top, q, block, SCALE)


def draw_matrix(picture: Picture, left: int, top: int, q: Tensor, block: Tensor, scale: int) -> None:
    """Draw the matrix of pairs with frames around the true blocks."""
    picture.matrix(left, top, q.numpy(), scale)
    for first in first_words(block):
        size = int((block == block[first]).sum())
        corner = left + scale * first, top + scale * first
        picture.frame(*corner, corner[0] + scale * size, corner[1] + scale * size, COLOURS[4])


def strip_size(n: int) -> tuple[int, int]:
    """The pixels that `draw_iterations` needs for n words, from left to right and from top to bottom."""
    step = STRIP_SCALE * n + MARGIN
    return max(map(len, STRIP.values())) * step + MARGIN, len(STRIP) * step + MARGIN


def draw_iterations(picture: Picture, top: int, runs: Mapping[str, Sequence[Tensor]], block: Tensor) -> None:
    """Draw the matrix of pairs after some iterations of each run, one row for each; the first matrix is the input."""
    width = STRIP_SCALE * len(block)
    for row, (schedule, numbers) in enumerate(STRIP.items()):
        for k, number in enumerate(numbers):
            left, at = MARGIN + k * (width + MARGIN), top + row * (MARGIN + width) + MARGIN
            label = f"{schedule}: input" if number == 0 else f"iteration {number} of {len(runs[schedule]) - 1}"
            picture.write(left, at - MARGIN // 2, label)
            draw_matrix(picture, left, at, runs[schedule][number], block, STRIP_SCALE)
