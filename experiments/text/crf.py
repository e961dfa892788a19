"""A conditional random field over the labels of a sentence: forward algorithm for training, Viterbi for prediction.

    score(y) = start[y_1] + sum of logits[i, y_i] + sum of transitions[y_i, y_i+1] + end[y_n]

All tensors are padded, [sentences, longest, labels]; `lengths` are the lengths of the sentences.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# the score of a forbidden transition
FORBIDDEN = -1e4


class Crf(nn.Module):
    """A linear chain.

    Args:
        allowed: [labels + 1, labels + 1], bool, which transitions are allowed; the last row and column are for the
            start and the end. None allows all.
    """

    def __init__(self, n_labels: int, allowed: Tensor | None = None):
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(n_labels, n_labels))
        self.start = nn.Parameter(torch.zeros(n_labels))
        self.end = nn.Parameter(torch.zeros(n_labels))
        if allowed is None:
            allowed = torch.ones(n_labels + 1, n_labels + 1, dtype=torch.bool)
        self.register_buffer("barrier", torch.where(allowed, 0.0, FORBIDDEN), persistent=False)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return (self.transitions + self.barrier[:-1, :-1], self.start + self.barrier[-1, :-1],
                self.end + self.barrier[:-1, -1])

    def log_z(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """The log-partition function, [sentences]."""
        transitions, start, end = self._parts()
        total = start + logits[:, 0]
        for i in range(1, logits.shape[1]):
            step = torch.logsumexp(total.unsqueeze(2) + transitions, 1) + logits[:, i]
            total = torch.where((i < lengths).unsqueeze(1), step, total)
        return torch.logsumexp(total + end, 1)

    def score(self, logits: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """The score of given labels, [sentences]."""
        transitions, start, end = self._parts()
        exists = torch.arange(logits.shape[1]) < lengths.unsqueeze(1)
        own = logits.gather(2, labels.unsqueeze(2)).squeeze(2)
        total = (own * exists).sum(1) + (transitions[labels[:, :-1], labels[:, 1:]] * exists[:, 1:]).sum(1)
        last = labels.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)
        return total + start[labels[:, 0]] + end[last]

    def loss(self, logits: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """The negative log-likelihood of the labels, [sentences]."""
        return self.log_z(logits, lengths) - self.score(logits, labels, lengths)

    @torch.no_grad()
    def best(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """The most probable labels (Viterbi), [sentences, longest]; zero beyond the end of a sentence."""
        transitions, start, end = self._parts()
        total = start + logits[:, 0]
        came_from = []
        for i in range(1, logits.shape[1]):
            step, before = (total.unsqueeze(2) + transitions).max(1)
            exists = (i < lengths).unsqueeze(1)
            total = torch.where(exists, step + logits[:, i], total)
            came_from.append(torch.where(exists, before, torch.arange(logits.shape[2])))
        label = (total + end).argmax(1)
        found = [label]
        for before in reversed(came_from):
            label = before.gather(1, label.unsqueeze(1)).squeeze(1)
            found.append(label)
        exists = torch.arange(logits.shape[1]) < lengths.unsqueeze(1)
        return torch.stack(found[::-1], 1) * exists
