"""Group the words of a form into blocks: word boxes, a small model that judges pairs, and the picture.

Room: show -> **demo** -> cli.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..show.picture import COLOURS, Picture
from .forms import LEADING, LETTER, WIDTH, make_form

# the seed of the page that is shown; pixels on the page per pixel of the form, then per cell of the matrix
PAGE = 3
PAGE_WIDTH = WIDTH * 2 // 3
SCALE, MARGIN = 5, 24


def read_words(form: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
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


def judge_pairs(boxes: Tensor) -> Tensor:
    """Logits that two words belong to one block, [n, n], by a small model trained on twelve other pages."""
    pages = [read_words(make_form(seed)["form"]) for seed in range(PAGE + 1, PAGE + 13)]
    inputs = torch.cat([geometry(page).flatten(0, 1) for page, _ in pages])
    labels = torch.cat([(block[:, None] == block).float().flatten() for _, block in pages])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(500):
            some = torch.randint(len(labels), (4096,))
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(inputs[some]).squeeze(-1), labels[some])
            torch.autograd.backward(loss)
            optimizer.step()
    with torch.no_grad():
        return torch.as_tensor(model(geometry(boxes)).squeeze(-1))


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


def draw_page(picture: Picture, top: int, form: list[dict[str, Any]], found: Tensor, q: Tensor, block: Tensor,
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
    picture.matrix(left, top, q.numpy(), SCALE)
    for first in first_words(block):
        size = int((block == block[first]).sum())
        corner = left + SCALE * first, top + SCALE * first
        picture.frame(*corner, corner[0] + SCALE * size, corner[1] + SCALE * size, COLOURS[4])
