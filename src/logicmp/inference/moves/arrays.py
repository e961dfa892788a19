"""A ground network as the arrays that compiled loops run on, and a world in it that obeys the hard rules.

Stage: ground -> **infer**.

    soft evidence 0.8 S(A)          one more feature, !S(A), with log-weight log 0.2 - log 0.8
    hard rules                      unit propagation first: what they decide leaves the domains
    a quantified part               follows what it is made of, by the one feature that decides it

Everything is linear in the size of the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import CostError, LogicMPError
from ...ground.network import HARD, Network
from .slices import build_slices

if TYPE_CHECKING:
    from .loops import Ground, State


# cells of the table that says which value is in which set
MAX_MEMBERS = 2**28
HARD_HINT = "give one of them a weight, or correct the evidence"


@dataclass(frozen=True)
class GroundArrays:
    """What the sampling methods share."""

    network: Network
    ground: Ground
    # by feature: what it adds to the log-probability where it holds, 0 if it is hard
    log_weight: np.ndarray
    # by feature: whether it must not hold
    is_hard: np.ndarray
    # by value: whether evidence and unit propagation of the hard rules leave it possible
    domain: np.ndarray
    # by feature: how many literals unit propagation left open, -1 if it cannot hold
    n_open: np.ndarray
    # the quantified parts, each after those it is made of
    parts: np.ndarray
    # cells of tables are features, too: those of table k from table_first[k] on, the log-weights in `cells`
    table_first: np.ndarray
    cells: np.ndarray

    @property
    def n_features(self) -> int:
        return len(self.log_weight)

    def new_state(self, weight: np.ndarray, listed: np.ndarray) -> State:
        """A world of zeros; to be filled and refreshed."""
        from .loops import State

        n = self.n_features
        return State(np.zeros(len(self.ground.starts) - 1, dtype=np.int32), np.zeros(n, dtype=np.int32),
                     weight.astype(np.float64), listed.astype(np.int8), np.zeros(n, dtype=np.int32),
                     np.full(n, -1, dtype=np.int32), np.zeros(1, dtype=np.int64), np.zeros(1))

    def random_world(self, state: State, rng: np.random.Generator, kind: int = 2) -> None:
        """Random values within the domains (or the first of each, the last of each), and what follows from them."""
        from . import loops

        loops.scatter(self.ground, state, self.domain, min(kind, 2), rng)
        self.follow(state)

    def follow(self, state: State) -> None:
        """Give the quantified parts their values, and count anew."""
        from . import loops

        loops.refresh(self.ground, state)
        loops.settle_parts(self.ground, state, self.parts)
        # the sum anew, without what the way here has rounded
        loops.refresh(self.ground, state)


def build_arrays(network: Network, weights: np.ndarray | None = None, unary_features: bool = False,
                 tables: bool = False) -> GroundArrays:
    """The arrays of a network.

    Args:
        weights: instead of the network's own.
        unary_features: soft evidence as features of one literal, after the network's own.
        tables: rules over the same variables as one table, its cells the last features; see `slices`.
    """
    from . import loops

    weights = network.weights if weights is None else weights
    is_hard = network.param == HARD
    log_weight = np.where(is_hard, 0.0, -network.share * np.append(weights, 0.0)[network.param])
    begins, var, chosen = network.begins, network.var, network.set
    if unary_features:
        more_var, more_set, more_weight = _unary(network)
        begins = np.concatenate([begins, begins[-1] + 1 + np.arange(len(more_var))])
        var, chosen = np.concatenate([var, more_var]), np.concatenate([chosen, more_set])
        log_weight = np.concatenate([log_weight, more_weight])
        is_hard = np.concatenate([is_hard, np.zeros(len(more_var), dtype=bool)])
    member = _members(network)
    table_first, cells = np.full(1, len(log_weight), dtype=np.int64), np.zeros(0)
    if tables:
        slices = build_slices(network, begins, var, chosen, log_weight, member)
        table_first, cells = len(log_weight) + slices.first, slices.value
        begins = np.concatenate([begins, begins[-1] + slices.begins])
        var, chosen = np.concatenate([var, slices.var]), np.concatenate([chosen, slices.set])
        log_weight = np.concatenate([np.where(slices.is_replaced, 0.0, log_weight), np.zeros(len(cells))])
        is_hard = np.concatenate([is_hard, np.zeros(len(cells), dtype=bool)])
        # the tables may speak of sets that no rule does
        member = _members(network)
    n_variables = len(network.cards)
    owner = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    order = np.argsort(var, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(var, minlength=n_variables))])
    decider, inside = _deciders(network)
    parts, follow_first, follows = _followers(network, decider)
    # without a sign: numba then need not look for indices that count from the end
    small = np.uint32
    ground = loops.Ground(
        network.starts, begins.astype(np.int64), var.astype(small), chosen.astype(small), first.astype(np.int64),
        owner[order].astype(small), chosen[order].astype(small), member, network.n_own,
        decider, inside, follow_first, follows)
    domain = ~np.isneginf(network.potentials)
    n_open, stack = np.zeros(len(is_hard), dtype=np.int32), np.zeros(len(is_hard) + 1, dtype=np.int32)
    room = np.zeros(int(network.cards.max(initial=1)), dtype=bool)
    if not loops.propagate(ground, is_hard.astype(np.int8), domain, n_open, stack, room):
        raise contradiction(network)
    return GroundArrays(network, ground, log_weight, is_hard, domain, n_open, parts, table_first, cells)


def contradiction(network: Network, message: str = "no world obeys the hard rules and the evidence") -> LogicMPError:
    rules = sorted({int(r) for r in network.rule[(network.param == HARD) & (network.defines < 0)]})
    shown = "".join(f"\n  {network.rules[r]}" for r in rules[:5])
    return LogicMPError(f"{message}; the hard rules are:{shown}", HARD_HINT)


def _unary(network: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variable, set and log-weight of a feature for each value that is not its variable's most probable."""
    owner = np.repeat(np.arange(len(network.cards)), network.cards)
    top = np.maximum.reduceat(network.potentials, network.starts[:-1]) if len(network.cards) else np.zeros(0)
    at = np.flatnonzero((network.potentials < top[owner]) & ~np.isneginf(network.potentials))
    var, value = owner[at], at - network.starts[owner[at]]
    chosen = np.zeros(len(at), dtype=np.int64)
    for card in np.unique(network.cards[var]).tolist():
        some = network.cards[var] == card
        chosen[some] = network.sets.single(card)[value[some]]
    return var, chosen, network.potentials[at] - top[var]


def _members(network: Network) -> np.ndarray:
    """[sets, values]: which value is in which set."""
    sets = network.sets
    shape = len(sets.members), max(sets.cards)
    if shape[0] * shape[1] > MAX_MEMBERS:
        raise CostError(f"the rules speak of {shape[0]:,} sets of up to {shape[1]:,} values: a table of more than "
                        f"{MAX_MEMBERS:,} cells", None, "use mean-field, which needs no such table")
    found = np.zeros(shape, dtype=bool)
    for k, members in enumerate(sets.members):
        found[k, list(members)] = True
    return found


def _deciders(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """For each variable the feature that decides it, and which of its values that feature speaks of.

    A part `a = d1 v d2` has `!d1 !d2 a` as the only one of its features with `a`; a product `a = d1 d2` has `d1 d2 !a`
    as the only one with `!a`.
    """
    n = len(network.cards)
    decider, inside = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.int8)
    owner = np.repeat(np.arange(network.n_features), np.diff(network.begins))
    own = np.flatnonzero(network.defines[owner] == network.var)
    part, feature = network.var[own], owner[own]
    # set 0 is {1}: first the only features with !a, then over them the only ones with a
    for value, number in ((0, 1), (1, 0)):
        with_value = network.set[own] == number
        is_only = np.bincount(part[with_value], minlength=n) == 1
        chosen = with_value & is_only[part]
        decider[part[chosen]], inside[part[chosen]] = feature[chosen], value
    return decider, inside


def _followers(network: Network, decider: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The quantified parts in order, and for each variable those that follow it, in order."""
    n, n_own = len(network.cards), network.n_own
    inputs: dict[int, list[int]] = {}
    for a in range(n_own, n):
        f = int(decider[a])
        span = slice(network.begins[f], network.begins[f + 1]) if f >= 0 else slice(0)
        inputs[a] = [v for v in network.var[span].tolist() if v != a]
    order = _inputs_first(inputs, n_own)
    sources: dict[int, set[int]] = {}
    pairs: list[tuple[int, int, int]] = []
    for rank, a in enumerate(order):
        sources[a] = {u for v in inputs[a] for u in (sources[v] if v >= n_own else (v,))}
        pairs += [(v, rank, a) for v in sources[a]]
    pairs.sort()
    found = np.array(pairs, dtype=np.int64).reshape(-1, 3)
    counts = np.bincount(found[:, 0], minlength=n) if len(found) else np.zeros(n, dtype=np.int64)
    return np.array(order, dtype=np.int64), np.concatenate([[0], np.cumsum(counts)]), found[:, 2].copy()


def _inputs_first(inputs: dict[int, list[int]], n_own: int) -> list[int]:
    """Quantified parts, each after those it is made of.

    >>> _inputs_first({2: [0, 3], 3: [1]}, 2)
    [3, 2]
    """
    order: list[int] = []
    is_done: set[int] = set()
    for root in inputs:
        stack = [root]
        while stack:
            a = stack[-1]
            waiting = [v for v in inputs[a] if v >= n_own and v not in is_done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if a not in is_done:
                is_done.add(a)
                order.append(a)
    return order


def possible_only(arrays: GroundArrays, p: np.ndarray) -> np.ndarray:
    """Zero only what evidence and hard rules exclude, not what was too improbable to be seen."""
    return np.where(arrays.domain, np.maximum(p, np.finfo(np.float64).tiny), 0.0)


def one_each(network: Network, values: np.ndarray) -> np.ndarray:
    """A world as probabilities: one for the value that each variable has."""
    p = np.zeros(int(network.starts[-1]))
    p[network.starts[:-1] + values] = 1
    return p
