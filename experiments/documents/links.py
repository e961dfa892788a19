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

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

THEORY = Path(__file__).with_name("links.mln")


class _Sweep(torch.autograd.Function):
    """Links and pairs of a batch of pages, [batch, n, n]; the loop over words has its own gradient.

    In numpy, page by page: torch takes ten times as long for so many small products.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, odds: Tensor | None) -> tuple[Tensor, Tensor]:
        links = torch.zeros_like(scores)
        pairs = torch.eye(scores.shape[-1], dtype=scores.dtype).expand_as(scores).clone()
        for page, (all_links, all_pairs) in enumerate(zip(links.numpy(), pairs.numpy(), strict=True)):
            given, known = scores[page].detach().numpy(), None if odds is None else odds[page].detach().numpy()
            for i, row in enumerate(given):
                before, p = all_pairs[:i, :i], row[: i + 1]
                if known is not None:
                    # a first word makes no pair true
                    p = p + np.append(before @ known[i, :i], p.dtype.type(0))
                p = np.exp(p - p.max())
                p /= p.sum()
                all_links[i, : i + 1] = p
                all_pairs[i, :i] = all_pairs[:i, i] = before @ p[:i]
        ctx.save_for_backward(links, pairs, odds)
        return links, pairs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_links: Tensor, to_pairs: Tensor) -> tuple[Tensor, Tensor | None]:
        links, pairs, odds = ctx.saved_tensors
        to_scores, to_pairs = torch.zeros_like(links), to_pairs.clone()
        to_odds = None if odds is None else torch.zeros_like(odds)
        for page in range(len(links)):
            p, c, into_links, into_pairs, out = (x[page].numpy() for x in (links, pairs, to_links, to_pairs, to_scores))
            for i in range(len(p) - 1, -1, -1):
                row, before = p[i, : i + 1], c[:i, :i]
                # a pair has two entries
                entering = into_pairs[i, :i] + into_pairs[:i, i]
                to_row = into_links[i, : i + 1].copy()
                to_row[:i] += before @ entering
                pushed = out[i, : i + 1] = row * (to_row - row @ to_row)
                into_pairs[:i, :i] += np.outer(row[:i], entering)
                if to_odds is not None:
                    to_odds[page, i, :i] = torch.from_numpy(before @ pushed[:i])
                    into_pairs[:i, :i] += np.outer(pushed[:i], odds[page, i, :i].numpy())
        return to_scores, to_odds


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
