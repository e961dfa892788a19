"""A ground network as arrays: what search and sampling run on, and what integer programs and MaxSAT are built from.

Room: inference/moves.

    soft evidence 0.8 S(A)          one more feature, !S(A), with log-weight log 0.2 - log 0.8
    hard rules                      unit propagation first: values that they exclude leave the domain
    a quantified part               follows its atoms, by the one feature that decides it

Building the arrays takes time linear in the size of the network, and needs numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...ground.features import log_weights, soft_evidence
from ...ground.network import HARD, Network
from ...ground.patterns import sort_order
from ...ground.propagate import propagate
from ...ground.quantifiers import deciding_literals, part_order


class Ground(NamedTuple):
    """The arrays that do not change."""

    # where the values of each variable begin
    starts: np.ndarray
    # by value: whether evidence and unit propagation of the hard rules leave it possible
    domain: np.ndarray
    # the literals of feature f are begins[f] to begins[f+1]
    begins: np.ndarray
    var: np.ndarray
    set: np.ndarray
    # by feature: what it adds to the log-probability if it is true, 0 if it is hard; and whether it must be false
    log_weight: np.ndarray
    is_hard: np.ndarray
    # the occurrences of variable v are first[v] to first[v+1]: in which feature, and with which set
    first: np.ndarray
    feature: np.ndarray
    chosen: np.ndarray
    # [sets, values]: which values each set has
    member: np.ndarray
    # variables from here on follow others: `decider` is the feature that decides them, -1 if they are always true
    n_own: int
    decider: np.ndarray
    # if the other literals of the decider are true, the variable is not `inside`
    inside: np.ndarray
    # the variables of quantified parts, each after those it is made of
    parts: np.ndarray
    # the parts that follow variable v are follows[follow_first[v]] and on, in the order in which to update them
    follow_first: np.ndarray
    follows: np.ndarray


class State(NamedTuple):
    """A world, and the counts that moves keep up to date."""

    values: np.ndarray
    # how many literals of each feature are false
    n_false: np.ndarray
    # what each feature adds to the score if it is true
    weight: np.ndarray
    # 1: violated if true; -1: violated if false; 0: never
    listed: np.ndarray
    # the violated features, the place of each in this list, and how many there are
    violated: np.ndarray
    place: np.ndarray
    n_violated: np.ndarray
    score: np.ndarray


class Gains(NamedTuple):
    """What each value would add to the score, up to a constant, and the sets of values in short."""

    # by value of each variable: the weights of the features that are true if the variable has it
    value: np.ndarray
    # the members of set k are members[begins[k]] and on; sign -1 if they are those of its complement
    begins: np.ndarray
    members: np.ndarray
    sign: np.ndarray


@dataclass(frozen=True)
class GroundArrays:
    """A ground network, and the arrays made from it."""

    network: Network
    ground: Ground

    @property
    def n_features(self) -> int:
        return len(self.ground.log_weight)

    def new_state(self, weight: np.ndarray, listed: np.ndarray) -> State:
        """A world of zeros; call `loops.refresh` after filling it."""
        n = self.n_features
        return State(np.zeros(len(self.ground.starts) - 1, dtype=np.int32), np.zeros(n, dtype=np.int32),
                     weight.astype(np.float64), listed.astype(np.int8), np.zeros(n, dtype=np.int32),
                     np.full(n, -1, dtype=np.int32), np.zeros(1, dtype=np.int64), np.zeros(1))


def build_arrays(network: Network, weights: np.ndarray | None = None, unary_features: bool = False) -> GroundArrays:
    """The arrays of a network; raises an error if unit propagation finds a contradiction.

    Args:
        weights: instead of the network's own.
        unary_features: append soft evidence as features of one literal.
    """
    domain = propagate(network)
    is_hard = network.param == HARD
    log_weight = log_weights(network, weights)
    log_weight[is_hard] = 0.0
    begins, var, chosen = network.begins, network.var, network.set
    if unary_features:
        more_var, more_set, more_weight = soft_evidence(network)
        begins = np.concatenate([begins, begins[-1] + 1 + np.arange(len(more_var))])
        var, chosen = np.concatenate([var, more_var]), np.concatenate([chosen, more_set])
        log_weight = np.concatenate([log_weight, more_weight])
    is_hard = np.concatenate([is_hard, np.zeros(len(log_weight) - len(is_hard), dtype=bool)])
    # unsigned: numba then does not check for negative indices
    var, chosen = (column.astype(np.int32, copy=False).view(np.uint32) for column in (var, chosen))
    owner = np.repeat(np.arange(len(begins) - 1, dtype=np.uint32), np.diff(begins))
    order = sort_order(var)
    first = np.concatenate([[0], np.cumsum(np.bincount(var, minlength=len(network.cards)))])
    ground = Ground(
        network.starts, domain, begins, var, chosen, log_weight, is_hard, first, owner[order], chosen[order],
        network.sets.table(), network.n_own, *deciders(network), *followers(network))
    return GroundArrays(network, ground)


def deciders(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """For each variable the feature that decides it, and the value it has in that feature."""
    decider = np.full(len(network.cards), -1, dtype=np.int64)
    inside = np.zeros(len(network.cards), dtype=np.int8)
    literals = deciding_literals(network)
    decider[network.var[literals]] = network.owner[literals]
    # set 0 is {1}
    inside[network.var[literals]] = network.set[literals] == 0
    return decider, inside


def followers(network: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The variables of quantified parts in order, and for each variable those that follow it, in order."""
    order = part_order(network)
    pairs = sorted((v, rank, a) for rank, (a, sources) in enumerate(order) for v in sources)
    found = np.array(pairs, dtype=np.int64).reshape(-1, 3)
    counts = np.bincount(found[:, 0], minlength=len(network.cards))
    return np.array([a for a, _ in order], dtype=np.int64), np.concatenate([[0], np.cumsum(counts)]), found[:, 2].copy()
