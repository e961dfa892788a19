"""Unit propagation of the hard rules, and the error for hard rules that contradict each other.

Room: ground.

    S(A).  S(x) => T(x).            S(A) and T(A) lose their value 0
    S(A).  S(x) => T(x).  !T(A).    error: no world satisfies the hard rules and the evidence

Every method that works on the ground network starts here.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..errors import LogicMPError
from .engine import ALONE, Shares
from .join import number_rows, ragged_ranges
from .network import HARD, Network, label_components

HINT = "give one of them a weight, or correct the evidence"
# rules that an error lists
MAX_RULES = 5


class _Literals:
    """How many values of each literal of some features are possible; equal literals are counted once."""

    def __init__(self, network: Network, features: np.ndarray, possible: np.ndarray):
        self.possible, self.starts = possible, network.starts
        self.n_possible = np.diff(np.cumsum(np.append(0, possible))[self.starts])
        self.counts = np.diff(network.begins)[features]
        self.begins = np.cumsum(self.counts) - self.counts
        self.feature, literal = ragged_ranges(network.begins[features], self.counts)
        # kinds of literals are sorted by variable
        self.kind = number_rows(network.var[literal], network.set[literal])
        example = np.zeros(int(self.kind.max(initial=-1)) + 1, dtype=np.int64)
        example[self.kind] = np.arange(len(self.kind))
        self.var, self.set = network.var[literal[example]], network.set[literal[example]]
        self.sets = network.sets
        self.small, self.is_other = (column[self.set] for column in self.sets.smaller())
        self.n_small = self._count(np.arange(len(example)))

    def _count(self, kinds: np.ndarray) -> np.ndarray:
        owner, value = self.sets.values_of(self.small[kinds])
        return np.bincount(owner, self.possible[self.starts[self.var[kinds]][owner] + value], len(kinds))

    def is_certain(self, kinds: np.ndarray) -> np.ndarray:
        """Whether a literal is true for all possible values of its variable."""
        return np.asarray(self.n_small[kinds] == np.where(self.is_other[kinds], 0, self.n_possible[self.var[kinds]]))

    def exclude(self, kinds: np.ndarray) -> np.ndarray:
        """Make some literals false; returns the variables that lost a value."""
        owner, value = self.sets.values_of(self.set[kinds])
        places = np.unique(self.starts[self.var[kinds]][owner] + value)
        places = places[self.possible[places]]
        self.possible[places] = False
        changed, n_lost = np.unique(np.searchsorted(self.starts, places, "right") - 1, return_counts=True)
        self.n_possible[changed] -= n_lost
        near = self._kinds_of(changed)
        self.n_small[near] = self._count(near)
        return changed

    def _kinds_of(self, variables: np.ndarray) -> np.ndarray:
        first = np.searchsorted(self.var, variables, "left")
        return ragged_ranges(first, np.searchsorted(self.var, variables, "right") - first)[1]

    def features_of(self, variables: np.ndarray) -> np.ndarray:
        """The features with a literal of one of these variables."""
        feature, begins = self._by_kind
        kinds = self._kinds_of(variables)
        return np.unique(feature[ragged_ranges(begins[kinds], np.diff(begins)[kinds])[1]])

    @cached_property
    def _by_kind(self) -> tuple[np.ndarray, np.ndarray]:
        """The features of the literals sorted by kind, and where each kind begins."""
        counts = np.bincount(self.kind, minlength=len(self.var))
        return self.feature[np.argsort(self.kind, kind="stable")], np.concatenate([[0], np.cumsum(counts)])


def propagate(network: Network, shares: Shares = ALONE) -> np.ndarray:
    """For each value of each variable whether it is possible, by checking one hard feature at a time.

    If all literals of a hard feature but one are certain, the last one must be false. Raises an error if all of them
    are certain, or if a variable has no possible value left.

    Args:
        shares: the processes that have the other features, if the network is divided.
    """
    possible = network.potentials > -np.inf
    if network.owners is None:
        _exclude(network, possible)
        return possible
    while True:
        error: LogicMPError | None = None
        try:
            _exclude(network, possible)
        except LogicMPError as found:
            error = found
        if shares.agree(error is not None):
            raise error or contradiction(network)
        own = possible
        everywhere = np.bitwise_and.reduce(shares.gather(np.packbits(own)))
        possible = np.unpackbits(everywhere, count=len(own)).astype(bool)
        n_possible = np.diff(np.cumsum(np.append(0, possible))[network.starts])
        if not n_possible.all():
            raise contradiction(network, int(np.argmin(n_possible)))
        if not shares.agree(bool((possible != own).any())):
            return possible


def _exclude(network: Network, possible: np.ndarray) -> None:
    """What `propagate` does with the features of one process, in place."""
    hard = np.flatnonzero(network.param == HARD)
    literals = _Literals(network, hard, possible)
    # all features first, then those of the variables that lost a value
    todo = np.arange(len(hard))
    while True:
        row, at = ragged_ranges(literals.begins[todo], literals.counts[todo])
        kind = literals.kind[at]
        is_open = ~literals.is_certain(kind)
        n_open = np.bincount(row, is_open, len(todo))
        if not n_open.all():
            raise contradiction(network, int(literals.var[kind[n_open[row] == 0][0]]))
        changed = literals.exclude(np.unique(kind[is_open & (n_open[row] == 1)]))
        if not len(changed):
            break
        if not literals.n_possible[changed].all():
            raise contradiction(network, int(changed[literals.n_possible[changed] == 0][0]))
        todo = literals.features_of(changed)


def contradiction(network: Network, variable: int | None = None) -> LogicMPError:
    """The error for hard rules that no world satisfies.

    Args:
        variable: of the component with the contradiction; None if any of the hard rules may have a part in it.
    """
    return LogicMPError("no world satisfies the hard rules and the evidence; these cannot all be satisfied:"
                        f"{list_hard_rules(network, variable)}", HINT)


def list_hard_rules(network: Network, variable: int | None = None) -> str:
    """The hard rules of the component of a variable, or all, one per line."""
    hard = network.param == HARD
    if variable is not None:
        label = label_components(network)
        hard &= label[network.var[network.begins[:-1]]] == label[variable]
    # the features that define a quantified part are hard, even if its rule is not
    rules = [network.rules[r] for r in np.unique(network.rule[hard]).tolist() if network.rules[r].is_hard]
    more = [f"... and {len(rules) - MAX_RULES} more"] if len(rules) > MAX_RULES else []
    return "".join(f"\n  {line}" for line in [*rules[:MAX_RULES], *more])
