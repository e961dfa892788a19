"""What is measured: average precision over all pairs of item and label, exact match, incoherent pairs, log loss."""

from __future__ import annotations

import numpy as np
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

# a child counts as more probable than its parent above this difference: float32 rounds
TOLERANCE = 1e-6


def average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """The area under the curve of precision and recall: the mean precision at the score of each true entry.

    Entries with equal scores count together.

    >>> average_precision(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]))
    0.8333333333333333
    """
    order = np.argsort(-scores.ravel(), kind="stable")
    ranked, true = scores.ravel()[order], truth.ravel()[order]
    # the last entry of each score
    last = np.append(np.nonzero(np.diff(ranked))[0], len(ranked) - 1)
    hits = np.cumsum(true)[last]
    gained = np.diff(hits, prepend=0)
    return float((gained * hits / (last + 1)).sum() / hits[-1])


def measure(logits: Tensor, worlds: Tensor, truth: Tensor, parent: Tensor) -> dict[str, float]:
    """The values of a row.

    Args:
        logits: log-odds of all labels, [items, labels].
        worlds: the labels that are predicted, bool, [items, labels].
        truth: bool, [items, labels].
        parent: parent[c, p], bool.
    """
    child, above = parent.nonzero(as_tuple=True)
    probabilities = logits.double().sigmoid()
    incoherent = probabilities[:, child] > probabilities[:, above] + TOLERANCE
    return {
        "auprc": round(average_precision(logits.numpy(), truth.numpy()), 5),
        "exact_match": round(100 * float((worlds == truth).all(1).double().mean()), 2),
        # pairs of child and parent, on average over items
        "incoherent": round(float(incoherent.sum(1).double().mean()), 3),
        "violated": round(float((worlds[:, child] & ~worlds[:, above]).sum(1).double().mean()), 3),
        "log_loss": round(float(binary_cross_entropy_with_logits(logits.double(), truth.double())), 5),
    }
