"""What methods compute from the features of a ground network: log-weights, soft evidence, expected counts.

Room: ground.  Paper: Eq. 1.

    2 Smokes(A) => Cancer(A)        feature  Smokes(A) !Cancer(A)  with log-weight -2
    0.8 Smokes(A) in the evidence   feature  !Smokes(A)  with log-weight log 0.2 - log 0.8
    a queried formula               a rule of weight 0: its expected count is its probability
"""

from __future__ import annotations

import numpy as np

from .join import ragged_ranges
from .network import HARD, Network


def log_weights(network: Network, weights: np.ndarray | None = None) -> np.ndarray:
    """What each feature adds to the log-probability of a world in which it is true; -inf if it is hard.

    Args:
        weights: one for each weight of the network, which they replace.
    """
    weights = network.weights if weights is None else weights
    # HARD is -1: the last of these
    found = -np.append(weights, np.inf)[network.param]
    found *= network.share
    return np.asarray(found)


def soft_evidence(network: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Soft evidence as features of one literal, one for each value less probable than the best of its variable.

    Returns the variable, the set and the log-weight of each feature.
    """
    best = np.maximum.reduceat(network.potentials, network.starts[:-1]) if len(network.cards) else np.zeros(0)
    best = np.repeat(best, network.cards)
    at = np.flatnonzero((network.potentials < best) & ~np.isneginf(network.potentials))
    var = np.searchsorted(network.starts, at, "right") - 1
    value = at - network.starts[var]
    chosen = np.zeros(len(at), dtype=np.int64)
    for card in np.unique(network.cards[var]).tolist():
        some = network.cards[var] == card
        chosen[some] = network.sets.single(card)[value[some]]
    return var, chosen, (network.potentials - best)[at]


def queried_features(network: Network) -> np.ndarray:
    """The numbers of the features of queried formulas, which come after the theory's own rules."""
    return np.flatnonzero(network.param >= network.offsets[len(network.world.theory.rules)])


def expected_counts(network: Network, holds: np.ndarray) -> np.ndarray:
    """The expected count of every weight; that of a queried formula for one binding is its probability.

    Args:
        holds: by feature, the probability that it is true.
    """
    soft = network.param != HARD
    return np.asarray(network.base - np.bincount(network.param[soft], (network.share * holds)[soft],
                                                 len(network.base)))


def true_features(network: Network, values: np.ndarray) -> np.ndarray:
    """For each feature whether it is true in a world.

    Args:
        values: of all variables.
    """
    is_true = network.sets.table()[network.set, values[network.var]]
    return np.logical_and.reduceat(is_true, network.begins[:-1]) if network.n_features else is_true


def literal_probabilities(network: Network, p: np.ndarray, literals: np.ndarray) -> np.ndarray:
    """The probability that each of some literals is true.

    Args:
        p: of every value of every variable.
    """
    owner, value = network.sets.values_of(network.set[literals])
    return np.bincount(owner, p[network.starts[network.var[literals]][owner] + value], len(literals))


def independent_probabilities(network: Network, p: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The probability that each of some features is true if its literals are independent."""
    counts = np.diff(network.begins)[features]
    _, literals = ragged_ranges(network.begins[features], counts)
    is_true = literal_probabilities(network, p, literals)
    return np.multiply.reduceat(is_true, np.cumsum(counts) - counts) if len(features) else is_true
