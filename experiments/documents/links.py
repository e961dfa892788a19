"""Exact inference in the theory of links and blocks, along the reading order.

    links.mln      the theory: `prev(a, b)`, the choice of each word; `C(a, b)`, two words in one block
    sweep          the marginals of both, differentiable

The rules define C by the links. The links of different words are independent, and the link of a word concerns earlier
words only, so one sweep over the words has all marginals:

    C(i, j) = sum over k < i of P(prev(i) = k) C(k, j)      for j < i

Tests compare it with `LogicMP(links.mln, method="exact")` on short pages; it needs n**3 operations instead of tables
that grow exponentially. With evidence on pairs the sweep is mean field in reading order: the link of a word receives
the evidence on the pairs that it would make true, given the blocks of the words before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

THEORY = Path(__file__).with_name("links.mln")


class _Sweep(torch.autograd.Function):
    """Links and pairs of a batch of pages, [batch, n, n]; the loop over words has its own gradient."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, odds: Tensor | None) -> tuple[Tensor, Tensor]:
        links = torch.zeros_like(scores)
        pairs = torch.eye(scores.shape[-1], dtype=scores.dtype, device=scores.device).expand_as(scores).clone()
        for i in range(scores.shape[-1]):
            row, before = scores[:, i, : i + 1], pairs[:, :i, :i]
            if odds is not None and i:
                # a first word makes no pair true
                row = row + functional.pad(_times(before, odds[:, i, :i]), (0, 1))
            links[:, i, : i + 1] = row.softmax(-1)
            pairs[:, i, :i] = _times(before, links[:, i, :i])
            pairs[:, :i, i] = pairs[:, i, :i]
        ctx.save_for_backward(links, pairs, odds)
        return links, pairs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_links: Tensor, to_pairs: Tensor) -> tuple[Tensor, Tensor | None]:
        links, pairs, odds = ctx.saved_tensors
        to_scores, to_pairs = torch.zeros_like(links), to_pairs.clone()
        to_odds = None if odds is None else torch.zeros_like(odds)
        for i in range(links.shape[-1] - 1, -1, -1):
            row, before = links[:, i, : i + 1], pairs[:, :i, :i]
            # a pair has two entries
            entering = to_pairs[:, i, :i] + to_pairs[:, :i, i]
            to_row = to_links[:, i, : i + 1] + functional.pad(_times(before, entering), (0, 1))
            pushed = row * (to_row - (row * to_row).sum(-1, keepdim=True))
            to_scores[:, i, : i + 1] = pushed
            to_before = row[:, :i, None] * entering[:, None]
            if odds is not None:
                to_odds[:, i, :i] = _times(before, pushed[:, :i])
                to_before += pushed[:, :i, None] * odds[:, i, None, :i]
            to_pairs[:, :i, :i] += to_before
        return to_scores, to_odds


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None]).squeeze(-1)


def sweep(scores: Tensor, odds: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Probabilities of links and of pairs, [batch, n, n] each.

    >>> links, pairs = sweep(torch.tensor([[[0.0, 9.0], [0.0, 0.0]]]))
    >>> links.tolist(), pairs.tolist()
    ([[[1.0, 0.0], [0.5, 0.5]]], [[[1.0, 0.5], [0.5, 1.0]]])

    Args:
        scores: of links, [batch, n, n], from row to column; links to later words are ignored. The diagonal stands for
            the first word of a block.
        odds: evidence on pairs as log-odds, [batch, n, n]; the entries of earlier words count.
    """
    found: tuple[Tensor, Tensor] = _Sweep.apply(scores, odds)
    return found
