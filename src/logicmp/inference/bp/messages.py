"""Messages between the variables and the factors of a graph, all of them at once.

Room: inference/bp.

    e^g if l1 l2 l3 are true, else 1      log-odds to l1:  log(1 + (e^g - 1) r2 r3),  r = P(literal is true)

A product sends one number along each literal, for any number of literals; a small table sends a vector. Products of
probabilities are kept as t = log(-log r), which distinguishes 1 - 1e-300 from 1, so that no message is infinite.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec

import numpy as np

from ...ground.engine import ALONE, Shares
from ...ground.join import number_rows
from ...ground.places import Places
from .batches import largest_change, make_batch
from .graph import IMPOSSIBLE, Graph, take_variables

# edges from which compiled loops are worth their import, if numba is installed
COMPILED = 100_000
# factors of one call of a loop
SHARE = 2**16


def make_workers() -> ThreadPoolExecutor:
    """Threads for compiled loops, as many as this process has cores."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())


def log_sums(x: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The log sum exp of each segment of x; no segment may be empty."""
    top = np.maximum.reduceat(x, begins[:-1])
    return np.asarray(top + np.log(np.add.reduceat(np.exp(x - np.repeat(top, np.diff(begins))), begins[:-1])))


def log_sums_of_others(x: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """For each entry the log sum exp of the others in its segment; -inf if there are none.

    >>> log_sums_of_others(np.log([1.0, 2, 4, 5]), np.array([0, 3, 4])).round(3).tolist()
    [1.792, 1.609, 1.099, -inf]
    """
    owner = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    top = np.maximum.reduceat(x, begins[:-1])
    at = np.flatnonzero(x == top[owner])
    at = at[np.diff(owner[at], prepend=-1) > 0]
    # scale the largest entry's others by the second largest, all others by the largest: nearly equal numbers are never
    # subtracted
    rest = x.copy()
    rest[at] = -np.inf
    second = np.maximum.reduceat(rest, begins[:-1])
    second = np.where(second == -np.inf, 0.0, second)
    scaled = np.exp(x - top[owner])
    others = np.add.reduceat(scaled, begins[:-1])[owner] - scaled
    reference = top[owner]
    others[at] = np.add.reduceat(np.exp(rest - second[owner]), begins[:-1])
    reference[at] = second
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(others) + reference)


def log_cost(odds: np.ndarray) -> np.ndarray:
    """t = log(-log r) of the probability r with these log-odds."""
    with np.errstate(divide="ignore"):
        return np.where(odds > 600, -odds, np.log(np.logaddexp(0, -odds.clip(None, 600))))


def log_both(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log r and log(1 - r) from t = log(-log r)."""
    log_r = -np.exp(t)
    with np.errstate(divide="ignore"):
        return log_r, np.where(t < -30, t, np.log(-np.expm1(log_r)))


def log_sigmoid(odds: np.ndarray) -> np.ndarray:
    return np.asarray(-np.logaddexp(0, -odds))


class Messages:
    """The messages of one graph, all updated at once from those of the round before.

    If factors and variables represent groups, an edge counts (size of the factor) / (size of the variable) times: the
    number of equal edges of each ground variable.
    """

    def __init__(self, graph: Graph, shares: Shares | None = None):
        # the processes that have other factors; each has the variables of its own ones
        self.shares = shares or ALONE
        self.places: tuple[Places, Places] | None = None
        if self.shares.share.size > 1:
            graph, variables, values = take_variables(graph, self.shares)
            self.places = variables, values
        self.graph = graph
        self.starts = np.concatenate([[0], np.cumsum(graph.cards)])
        products = graph.products
        self.with_head = np.flatnonzero(products.head_var >= 0)
        # the literals of all products, then all heads
        var = np.concatenate([products.var, products.head_var[self.with_head]])
        sets = np.concatenate([products.set, products.head_set[self.with_head]])
        # how many ground edges of each ground variable an edge stands for; empty if all stand for one
        self.count = self._size() / graph.size[var] if len(var) else np.zeros(0)
        if bool((self.count == 1).all()):
            self.count = np.zeros(0)
        self._locate(var, sets)
        self.sent = np.zeros(len(var))
        self.workers = make_workers() if graph.n_edges >= COMPILED and find_spec("numba") is not None else None
        self.batches = [make_batch(table, self.starts, graph.size, self._share if self.workers else None)
                        for table in graph.tables]

    @cached_property
    def owner(self) -> np.ndarray:
        """The product of each literal."""
        return self.graph.products.owner

    @cached_property
    def head(self) -> np.ndarray:
        """The number of the head of each product among all literals and heads, -1 for none."""
        found = np.full(len(self.graph.products.gain), -1, dtype=np.int64)
        found[self.with_head] = len(self.graph.products.var) + np.arange(len(self.with_head))
        return found

    def _size(self) -> np.ndarray:
        """The number of ground factors of each literal and head."""
        size = self.graph.products.size
        return np.concatenate([np.repeat(size, np.diff(self.graph.products.begins)), size[self.with_head]])

    def _share(self, loop: Callable[[int, int], float], n: int) -> float:
        """Run a loop over ranges of factors on all cores; returns its largest result."""
        assert self.workers is not None
        firsts = range(0, n, SHARE)
        return max(self.workers.map(loop, firsts, [min(n, first + SHARE) for first in firsts]), default=0.0)

    def _locate(self, var: np.ndarray, sets: np.ndarray) -> None:
        """Find the place of each literal: a single value, all values but one, or a set of values with its own list.

        Single values are numbered as the values are, the lists come after them.
        """
        known, place = np.unique(sets, return_inverse=True)
        values, begins = self.graph.sets.flat()
        size = np.diff(begins)[known]
        is_but = (size == np.array(self.graph.sets.cards)[known] - 1) & (size > 1)
        named = known.copy()
        named[is_but] = self.graph.sets.complement(known[is_but])
        values, begins = self.graph.sets.flat()
        value = values[begins[named]]
        self.sign = np.where(is_but, -1, 1).astype(np.int8)[place]
        n = int(self.starts[-1])
        self.place = (self.starts[var] + value[place]).astype(np.int32 if n + len(var) < 2**31 else np.int64)
        listed = np.flatnonzero(((size > 1) & ~is_but)[place])
        number = number_rows(var[listed], sets[listed])
        self.place[listed] = n + number
        _, example = np.unique(number, return_index=True)
        self.n_lists = len(example)
        # the values inside each list; and for its two sides the values inside and outside, after an impossible value -1
        inside: list[int] = []
        parts: list[list[int]] = []
        owner: list[int] = []
        for k, edge in enumerate(listed[example].tolist()):
            first, chosen = int(self.starts[var[edge]]), self.graph.sets.members[int(sets[edge])]
            inside += [first + v for v in sorted(chosen)]
            owner += [k] * len(chosen)
            parts += [[-1, *(first + v for v in sorted(chosen))],
                      [-1, *(first + v for v in range(int(self.graph.cards[var[edge]])) if v not in chosen)]]
        self.inside, self.inside_owner = np.array(inside, dtype=np.int64), np.array(owner, dtype=np.int64)
        self.sides = np.array([v for part in parts for v in part], dtype=np.int64)
        self.side_begins = np.cumsum([0, *(len(part) for part in parts)])

    def beliefs(self) -> np.ndarray:
        """For each value of each variable its log-potential plus all messages."""
        n = int(self.starts[-1])
        found = self._received(n + self.n_lists)
        # without literals bincount returns integers
        sent = (found[:n] + np.bincount(self.inside, found[n:][self.inside_owner], n)).astype(np.float64)
        for batch in self.batches:
            batch.add_to(sent)
        if self.places is not None:
            sent = self.places[1].add_up(sent)
        return np.asarray(self.graph.potentials + sent)

    def _received(self, n: int) -> np.ndarray:
        """The sum of the messages of products at each of n places."""
        if self.workers is None:
            return np.bincount(self.place, self.sign * self.sent * (self.count if len(self.count) else 1.0), n)
        from .loops import add_signed

        found = np.zeros(n)
        add_signed(self.place, self.sign, self.sent, self.count, found)
        return found

    def _odds(self, belief: np.ndarray) -> np.ndarray:
        """The log-odds of each place."""
        odds = belief - log_sums_of_others(belief, self.starts) if len(belief) else belief
        if self.n_lists:
            sums = log_sums(np.append(belief, IMPOSSIBLE)[self.sides], self.side_begins)
            odds = np.concatenate([odds, sums[::2] - sums[1::2]])
        return np.asarray(odds)

    def _literal_odds(self, belief: np.ndarray) -> np.ndarray:
        """The log-odds of each literal without the factor's own message."""
        return np.asarray((self.sign * self._odds(belief)[self.place] - self.sent).clip(IMPOSSIBLE, -IMPOSSIBLE))

    def update(self, belief: np.ndarray, damping: float) -> float:
        """Update all messages; returns the largest change before damping.

        Args:
            belief: see `beliefs`.
        """
        changes = [0.0]
        if len(self.sent) and self.workers:
            changes.append(self._update_products(belief, damping))
        elif len(self.sent):
            new = self._from_products(self._literal_odds(belief))
            changes.append(largest_change(new, self.sent))
            self.sent = (1 - damping) * new + damping * self.sent
        changes += [batch.update(belief, damping) for batch in self.batches]
        return self.shares.largest(max(changes))

    def _update_products(self, belief: np.ndarray, damping: float) -> float:
        """What `_from_products` computes, by a compiled loop."""
        from .loops import send_products

        odds, products = self._odds(belief), self.graph.products
        return self._share(lambda first, last: float(send_products(
            first, last, products.begins, self.place, self.sign, products.gain, self.head, odds, self.sent, damping,
            -IMPOSSIBLE)), len(products.gain))

    def _from_products(self, odds: np.ndarray) -> np.ndarray:
        n, begins = len(self.owner), self.graph.products.begins
        cost = log_cost(odds[:n])
        log_p, log_not = log_both(log_sums_of_others(cost, begins))
        body = np.logaddexp(log_not, self._gain(odds)[self.owner] + log_p)
        if not len(self.with_head):
            return np.asarray(body.clip(IMPOSSIBLE, -IMPOSSIBLE))
        log_p, log_not = log_both(log_sums(cost, begins)[self.with_head])
        return np.asarray(np.concatenate([body, log_p - log_not]).clip(IMPOSSIBLE, -IMPOSSIBLE))

    def _gain(self, odds: np.ndarray) -> np.ndarray:
        """The gain of each product; that of a product with a head is the log-odds of its head."""
        gain = self.graph.products.gain.copy()
        gain[self.with_head] = odds[len(self.owner) :]
        return np.asarray(gain)

    def log_partition(self) -> float:
        """The Bethe approximation of log Z, exact on trees, without the base counts of the weights."""
        belief = self.beliefs()
        # each variable in one process
        size = self.graph.size if self.places is None else self.graph.size * self.places[0].is_own
        total = float((log_sums(belief, self.starts) * size).sum()) if len(belief) else 0.0
        if len(self.sent):
            odds = self._literal_odds(belief)
            log_p, log_not = log_both(log_sums(log_cost(odds[: len(self.owner)]), self.graph.products.begins))
            gain = self._gain(odds)
            # the message of a head is a probability, not a ratio
            scale = np.zeros(len(gain))
            scale[self.with_head] = log_sigmoid(-gain[self.with_head])
            total += float(((np.logaddexp(log_not, gain + log_p) + scale) * self.graph.products.size).sum())
            signed = self.sign * odds
            total -= float((np.logaddexp(log_sigmoid(signed) + self.sign * self.sent, log_sigmoid(-signed))
                            * self._size()).sum())
        total += sum(batch.log_partition(belief) for batch in self.batches)
        return float(self.shares.total(np.array([total]))[0])

    def whole(self, x: np.ndarray) -> np.ndarray:
        """A number for each value of all variables, from those of this process."""
        if self.places is None:
            return x
        values = self.places[1]
        found = np.zeros(values.n)
        found[values.places[values.is_own]] = x[values.is_own]
        return self.shares.total(found)

    def table_beliefs(self, k: int, rows: np.ndarray, belief: np.ndarray) -> np.ndarray:
        """The probability of each cell of some tables of batch k, [rows, cells], at the beliefs of all values."""
        joint = self.batches[k].joint(belief, rows)
        return np.asarray(np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)))
