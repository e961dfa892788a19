"""Heads on the encoder: pairs, links with rules, and three baselines that do not predict pairs.

    PairHead     row and column projections, dot product, log-odds [batch, n, n]  (the paper's LayoutLM-Pair)
    Bioes        a tag for each word, in the order of positions
    SpanHead     a score for each span of words (SpanNER)
    SpadeHead    for each word the previous word of its block, or none (SPADE)
    LinksHead    SPADE's links, trained on the blocks that follow from them by the rules of links.mln
    BothHead     the same, with evidence on pairs

All but PairHead have `loss(states, batch)`, and `blocks(states, batch)` for a batch of one page.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .blocks import cluster_blocks, components
from .features import N_GEOMETRY, Batch
from .links import sweep

TAGS = "BIES"
# probabilities of pairs are kept this far from 0 and 1
LEAST = 1e-6


class Scores(nn.Module):
    """A score for each ordered pair of words: dot product of two projections, plus a bias from their geometry."""

    def __init__(self, dim: int, hidden: int = 24):
        super().__init__()
        self.rows, self.columns = nn.Linear(dim, dim), nn.Linear(dim, dim)
        # not GELU, which would take a quarter of a training step: there is a row for each pair
        self.geometry = nn.Sequential(nn.Linear(N_GEOMETRY, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        # most pairs are not in one block
        nn.init.constant_(self.geometry[-1].bias, -3.0)

    def forward(self, states: Tensor, batch: Batch) -> Tensor:
        dots = self.rows(states) @ self.columns(states).mT / math.sqrt(states.shape[-1])
        return torch.as_tensor(dots + self.geometry(batch.geometry).squeeze(-1))


class PairHead(nn.Module):
    """The log-odds that two words are in one block."""

    def __init__(self, dim: int):
        super().__init__()
        self.scores = Scores(dim)

    def forward(self, states: Tensor, batch: Batch) -> Tensor:
        return torch.as_tensor(self.scores(states, batch))


def pair_loss(log_odds: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of all pairs, divided by the number of words: words of long pages do not count more."""
    losses = functional.binary_cross_entropy_with_logits(log_odds, batch.truth, reduction="none")
    return (losses * batch.pairs).sum() / batch.mask.sum()


def tags_of(block: np.ndarray) -> np.ndarray:
    """The tag of each word in page order; an interrupted block is several spans.

    >>> "".join(TAGS[tag] for tag in tags_of(np.array([0, 0, 0, 1, 2, 2, 1])))
    'BIESBES'
    """
    starts = np.append(True, block[1:] != block[:-1])
    ends = np.append(block[1:] != block[:-1], True)
    return np.where(starts & ends, 3, np.where(starts, 0, np.where(ends, 2, 1)))


def blocks_of(tags: np.ndarray) -> np.ndarray:
    """The block of each word: a block starts at B or S, and after E or S.

    >>> blocks_of(tags_of(np.array([0, 0, 0, 1, 2, 2])))
    array([0, 0, 0, 1, 2, 2])
    """
    starts = np.isin(tags, (0, 3)) | np.append(True, np.isin(tags[:-1], (2, 3)))
    return np.cumsum(starts) - 1


class InOrder(nn.Module):
    """Scores for each word, from the word and its two neighbours in page order."""

    def __init__(self, dim: int, n_numbers: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(dim, dim, 3, padding=1), nn.GELU(), nn.Conv1d(dim, n_numbers, 1))

    def forward(self, states: Tensor) -> Tensor:
        return torch.as_tensor(self.layers(states.mT).mT)


class Bioes(nn.Module):
    """Tags of words in page order; every word is in a block, so there is no O."""

    def __init__(self, dim: int):
        super().__init__()
        self.tags = InOrder(dim, len(TAGS))

    def forward(self, states: Tensor) -> Tensor:
        return torch.as_tensor(self.tags(states))

    def loss(self, states: Tensor, batch: Batch) -> Tensor:
        wanted = torch.full(batch.mask.shape, -100)
        for k, item in enumerate(batch.items):
            wanted[k, : len(item.page)] = torch.from_numpy(tags_of(item.page.block))
        return functional.cross_entropy(self(states * batch.mask[..., None]).flatten(0, 1), wanted.flatten())

    def blocks(self, states: Tensor, batch: Batch) -> np.ndarray:
        return blocks_of(self(states)[0].argmax(-1).numpy())


def spans_of(block: np.ndarray) -> Tensor:
    """[n, n]: whether the words from row to column are a block, or a maximal span of an interrupted block."""
    starts = np.flatnonzero(np.append(True, block[1:] != block[:-1]))
    ends = np.append(starts[1:], len(block)) - 1
    found = torch.zeros(len(block), len(block))
    found[starts, ends] = 1.0
    return found


def pick_spans(scores: np.ndarray) -> np.ndarray:
    """The block of each word: the segmentation of the page with the highest sum of log-odds.

    >>> pick_spans(np.array([[-1, 3, 1], [0, -1, 4], [0, 0, -2.0]]))
    array([0, 1, 1])
    """
    n = len(scores)
    # for the words before each position: the best sum, and the start of its last span
    best, start = np.zeros(n + 1), np.zeros(n + 1, dtype=int)
    for end in range(1, n + 1):
        sums = best[:end] + scores[:end, end - 1]
        start[end] = int(sums.argmax())
        best[end] = sums[start[end]]
    starts = np.zeros(n, dtype=int)
    end = n
    while end:
        end = start[end]
        starts[end] = 1
    return np.cumsum(starts) - 1


class SpanHead(nn.Module):
    """A score for each span of words, from its first and last word."""

    def __init__(self, dim: int):
        super().__init__()
        # not the scores of pairs, which are high for every part of a block
        self.ends = Scores(dim)
        self.bounds = InOrder(dim, 2)

    def forward(self, states: Tensor, batch: Batch) -> Tensor:
        starts, ends = self.bounds(states * batch.mask[..., None]).unbind(-1)
        return torch.as_tensor(self.ends(states, batch) + starts[:, :, None] + ends[:, None, :])

    def loss(self, states: Tensor, batch: Batch) -> Tensor:
        scores = self(states, batch)
        wanted = torch.zeros_like(scores)
        for k, item in enumerate(batch.items):
            n = len(item.page)
            wanted[k, :n, :n] = spans_of(item.page.block)
        losses = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
        return (losses * batch.pairs).triu().sum() / batch.mask.sum()

    def blocks(self, states: Tensor, batch: Batch) -> np.ndarray:
        return pick_spans(self(states, batch)[0].numpy())


def earlier_of(block: np.ndarray) -> np.ndarray:
    """The previous word of the same block; for the first word, the word itself.

    >>> earlier_of(np.array([0, 1, 0, 0]))
    array([0, 1, 0, 2])
    """
    last: dict[int, int] = {}
    found = np.arange(len(block))
    for k, number in enumerate(block.tolist()):
        found[k] = last.get(number, k)
        last[number] = k
    return found


def follow(earlier: np.ndarray) -> np.ndarray:
    """The blocks that result from links to earlier words.

    >>> follow(np.array([0, 1, 0, 2]))
    array([0, 1, 0, 0])
    """
    n = len(earlier)
    is_near = np.zeros((n, n), dtype=bool)
    is_near[np.arange(n), earlier] = True
    return components(is_near | is_near.T)


def block_loss(scores: Tensor, batch: Batch) -> Tensor:
    """Minus the log-probability of the true blocks by the rules of links.mln, per word; links are summed out.

    A word may link to any earlier word of its block; the first word links to itself.
    """
    is_right = batch.truth.bool().tril(-1)
    is_right = is_right | torch.diag_embed(~is_right.any(-1))
    found = scores.masked_fill(~is_right, -torch.inf).logsumexp(-1) - scores.logsumexp(-1)
    return -found.masked_fill(~batch.mask, 0.0).sum() / batch.mask.sum()


class SpadeHead(nn.Module):
    """For each word a choice among the words before it and itself; itself means it is the first of its block."""

    def __init__(self, dim: int):
        super().__init__()
        self.scores = Scores(dim)
        self.first = nn.Linear(dim, 1)

    def forward(self, states: Tensor, batch: Batch) -> Tensor:
        """[batch, n, n], minus infinity for later words."""
        scores = self.scores(states, batch)
        scores = scores + torch.diag_embed(self.first(states).squeeze(-1))
        after = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
        return scores.masked_fill(after, -torch.inf)

    def targets(self, batch: Batch) -> Tensor:
        """[batch * n]: the true link of each word, -100 for padding."""
        wanted = torch.full(batch.mask.shape, -100)
        for k, item in enumerate(batch.items):
            wanted[k, : len(item.page)] = torch.from_numpy(earlier_of(item.page.block))
        return wanted.flatten()

    def relation(self, states: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Probabilities of links, and log-odds of the pairs that follow from them by the rules."""
        links, pairs = sweep(*self.evidence(states, batch))
        return links, torch.logit(pairs, LEAST)

    def evidence(self, states: Tensor, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Scores of links, and log-odds of pairs if there are any."""
        return self(states, batch), None

    def loss(self, states: Tensor, batch: Batch) -> Tensor:
        return functional.cross_entropy(self(states, batch).flatten(0, 1), self.targets(batch))

    def blocks(self, states: Tensor, batch: Batch) -> np.ndarray:
        return follow(self(states, batch)[0].argmax(-1).numpy())


class LinksHead(SpadeHead):
    """SPADE's links with the rules: the loss has the blocks that follow."""

    # 0: the likelihood of the blocks; above: that of SPADE's links, and the pairs with this weight
    share = 0.0

    def loss(self, states: Tensor, batch: Batch) -> Tensor:
        if not self.share:
            scores, known = self.evidence(states, batch)
            if known is not None:
                scores = sweep(scores, known)[0].clamp_min(LEAST**2).log()
            return block_loss(scores, batch)
        links, odds = self.relation(states, batch)
        wanted = functional.nll_loss(links.clamp_min(LEAST**2).log().flatten(0, 1), self.targets(batch))
        return wanted + self.share * pair_loss(odds, batch)

    def blocks(self, states: Tensor, batch: Batch) -> np.ndarray:
        return cluster_blocks(self.relation(states, batch)[1][0])


class BothHead(LinksHead):
    """Links and evidence on pairs, of which the rules make one relation."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.pair = PairHead(dim)
        self.weight = nn.Parameter(torch.tensor(0.1))

    def evidence(self, states: Tensor, batch: Batch) -> tuple[Tensor, Tensor | None]:
        return self(states, batch), self.weight * self.pair(states, batch)


class StartHead(nn.Module):
    """Pairs and links, for the encoder that all methods start from."""

    # weight of the links in the loss
    share = 0.0

    def __init__(self, dim: int):
        super().__init__()
        self.pair, self.link = PairHead(dim), SpadeHead(dim)

    def loss(self, states: Tensor, batch: Batch) -> Tensor:
        loss = pair_loss(self.pair(states, batch), batch)
        return loss + self.share * self.link.loss(states, batch) if self.share else loss
