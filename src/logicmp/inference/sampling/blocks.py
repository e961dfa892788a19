"""Blocks of variables that Gibbs sampling draws together, and the joint states of each block.

Room: inference/sampling.  Jensen et al. 1995.

    Smokes(A) <=> Ill(A).              hard: one block with the joint states 00 and 11
    9 Smokes(A) <=> Ill(A)             strong: one block with all four states
    1.1 Smokes(A) => Smokes(B)         weak: two variables, drawn in turn
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import CostError
from .fields import HARD_WEIGHT, Prepared

# joint states, and variables joined by strong rules, of one block
MAX_STATES = 4096
MAX_MEMBERS = 20
# partial states that may be tried for each state that is listed
NODES_PER_STATE = 64


class Blocks(NamedTuple):
    """Which variables are drawn together, and from which joint states."""

    # the variables of block b are var[first[b]] to var[first[b+1]]
    first: np.ndarray
    var: np.ndarray
    # its joint states are states[state_first[b]] to states[state_first[b+1]], one after the other; a lone variable has
    # none
    state_first: np.ndarray
    states: np.ndarray
    n_joint: int
    largest: int


def build_blocks(prepared: Prepared, block_weight: float, max_states: int) -> Blocks:
    """Join the variables that hard rules tie together, then those of strong rules while the blocks stay small.

    Raises an error if hard rules make a block that is too big.
    """
    from . import gibbs_loops

    network, g = prepared.network, prepared.fields
    n_own = network.n_own
    sizes = np.add.reduceat(g.domain, network.starts[:-1]) if len(network.cards) else np.zeros(0, dtype=np.int64)
    parent, members = np.arange(n_own), np.ones(n_own, dtype=np.int64)
    log_states = np.log(sizes[:n_own].astype(np.float64))
    source_first, sources = _sources(prepared)
    gibbs_loops.join_blocks(g, np.flatnonzero(prepared.is_tie), source_first, sources, parent, log_states, members,
                            np.zeros(n_own, dtype=np.int64), np.inf)
    lister = _Lister(prepared, max_states)
    for block in _groups(parent):
        found = lister.states(block)
        if found is None:
            raise lister.too_big(block)
        log_states[parent[block[0]]] = np.log(max(1, len(found)))
    strong = np.flatnonzero((np.abs(g.weight) >= block_weight) & (g.weight > HARD_WEIGHT))
    strong = strong[np.argsort(-np.abs(g.weight[strong]), kind="stable")]
    gibbs_loops.join_blocks(g, strong, source_first, sources, parent, log_states, members,
                            np.zeros(MAX_MEMBERS, dtype=np.int64), np.log(max_states))
    return _collect(prepared, lister, _groups(parent), sizes[:n_own])


def _sources(prepared: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """The variables that each quantified part depends on."""
    g, n = prepared.fields, len(prepared.network.cards)
    owner = np.repeat(np.arange(n), np.diff(g.follow_first))
    order = np.argsort(g.follows, kind="stable")
    counts = np.bincount(g.follows - g.n_own, minlength=n - g.n_own)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), owner[order]


def _groups(parent: np.ndarray) -> list[np.ndarray]:
    """The blocks of more than one variable."""
    while (parent != parent[parent]).any():
        parent[:] = parent[parent]
    order = np.argsort(parent, kind="stable")
    starts = np.flatnonzero(np.diff(parent[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    return [order[a : a + n] for a, n in zip(starts[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True)]


class _Lister:
    """Lists the joint states of blocks."""

    def __init__(self, prepared: Prepared, max_states: int):
        self.prepared, self.max_states = prepared, max_states
        n = len(prepared.network.cards)
        self.depth, self.values = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def states(self, block: np.ndarray) -> np.ndarray | None:
        """The joint states of a block, [states, variables]; None if there are too many."""
        from . import gibbs_loops

        out = np.empty((self.max_states, len(block)), dtype=np.int32)
        n = gibbs_loops.list_states(self.prepared.fields, self.prepared.is_tie, block, self.depth, self.values,
                                    NODES_PER_STATE * self.max_states, out)
        return None if n < 0 else out[:n].copy()

    def too_big(self, block: np.ndarray) -> CostError:
        network, g = self.prepared.network, self.prepared.fields
        features = np.concatenate([g.feature[g.first[v] : g.first[v + 1]] for v in block.tolist()])
        features = self.prepared.origin[features[self.prepared.is_tie[features]]]
        span = network.rules[int(network.rule[features[0]])].span if len(features) else None
        names = ", ".join(network.name(int(v)) for v in block[:3])
        more = ", ..." if len(block) > 3 else ""
        return CostError(f"hard rules, this one among them, tie {len(block):,} variables together ({names}{more}), "
                         f"with more joint states than gibbs can draw from (limit {self.max_states:,})", span,
                         "use mc-sat or exact, or raise max_states, or give the rule a weight")


def _collect(prepared: Prepared, lister: _Lister, groups: list[np.ndarray], sizes: np.ndarray) -> Blocks:
    """The blocks as arrays: lone variables first, then those with joint states."""
    is_joint = np.zeros(len(sizes), dtype=bool)
    for group in groups:
        is_joint[group] = True
    alone = np.flatnonzero(~is_joint & (sizes > 1))
    tables = []
    for group in groups:
        found = lister.states(group)
        if found is None:
            raise lister.too_big(group)
        tables.append(found)
    lengths = np.concatenate([np.ones(len(alone), dtype=np.int64), np.array([len(b) for b in groups], dtype=np.int64)])
    counts = np.concatenate([np.zeros(len(alone), dtype=np.int64), np.array([t.size for t in tables], dtype=np.int64)])
    return Blocks(
        np.concatenate([[0], np.cumsum(lengths)]), np.concatenate([alone, *groups]).astype(np.int64),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([np.zeros(0, dtype=np.int32), *(t.reshape(-1) for t in tables)]),
        len(groups), max((len(t) for t in tables), default=0))
