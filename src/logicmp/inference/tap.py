"""The TAP (Onsager) correction of mean field, for the feedback of an atom to itself through its neighbours.

Room: inference/bp -> **tap** -> mean_field.  Plefka (1982), Georges and Yedidia (1991).

    log Z  ~  E[score] + entropy  +  1/2 E[psi^2]       psi: a factor without its parts that depend on one atom alone
    2 Smokes(A) ^ Smokes(B)          psi = 2 (Smokes(A) - q_A) (Smokes(B) - q_B)

Mean field takes the atoms of a rule as independent: the first two terms. The third is the next term of the expansion of
log Z in the weights. Its derivative is added to the log-odds of each atom: 1/2 E[psi^2 | the atom].

The term is computed on the ground network, not by the contractions of a plan: rules over the same atoms are one factor
there, and the square of a sum is not the sum of the squares. The expansion is for weak rules. Strong ones make the term
too large, so no correction is larger than `MAX_FIELD`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ground.network import Network
from .bp.graph import Tables, build_graph

# largest correction of a log-odds, approached as MAX_FIELD tanh(x / MAX_FIELD): of 1, 2, 3 and 4 the one with the
# lowest mean error on 270 random theories of `logicmp.testing`
MAX_FIELD = 3.0
# probabilities in a product are at least this, because it divides by them
TINY = 1e-12


class Onsager:
    """The correction of every value of every variable of a ground network.

    A quantified part with a variable of its own is left to plain mean field.

    Args:
        network: the rules that act; every feature is a factor, or part of one.
        hard_weight: finite weight that stands in for a hard rule.
    """

    def __init__(self, network: Network, hard_weight: float):
        self.network = network
        self.possible = network.potentials > -np.inf
        graph, _ = build_graph(network, self.possible, hard=-hard_weight)
        products = graph.products
        is_atom = np.bincount(products.owner, products.var >= network.n_own, len(products.gain)) == 0
        chosen = (products.head_var < 0) & (np.diff(products.begins) > 1) & is_atom
        literals = chosen[products.owner]
        # every value in the set of every literal: the literal, and the place of the value
        self.literal, value = network.sets.values_of(products.set[literals])
        self.place = network.starts[products.var[literals]][self.literal] + value
        counts = np.diff(products.begins)[chosen]
        self.owner = np.repeat(np.arange(len(counts)), counts)
        self.begins = np.cumsum(counts) - counts
        self.half_square = products.gain[chosen] ** 2 / 2
        self.tables: list[Tables] = []
        for table in graph.tables:
            atoms = (table.var < network.n_own).all(1)
            if table.var.shape[1] > 1 and atoms.any():
                self.tables.append(replace(table, kind=table.kind[atoms], var=table.var[atoms], size=table.size[atoms]))

    def __call__(self, p: np.ndarray) -> np.ndarray:
        """What to add to the log-potential of each value, 0 for impossible ones.

        Args:
            p: of every value of every variable.
        """
        found = self.unlimited(p)
        begins, cards = self.network.starts[:-1], self.network.cards
        if not len(begins):
            return found
        top = np.maximum.reduceat(np.where(self.possible, found, -np.inf), begins)
        found = np.where(self.possible, found - np.repeat(top, cards), 0.0)
        width = -np.minimum.reduceat(found, begins)
        scale = MAX_FIELD * np.tanh(width / MAX_FIELD) / np.where(width > 0, width, 1.0)
        return np.asarray(found * np.repeat(scale, cards))

    def unlimited(self, p: np.ndarray) -> np.ndarray:
        """1/2 E[psi^2 | value], summed over all factors, up to a constant for each variable."""
        found = self._of_products(p)
        for table in self.tables:
            self._add_tables(table, p, found)
        return found

    def _of_products(self, p: np.ndarray) -> np.ndarray:
        """In closed form, for any number of literals."""
        if not len(self.owner):
            return np.zeros_like(p)
        r = np.bincount(self.literal, p[self.place]).clip(TINY, 1.0)
        logs = np.log(r)
        # the probability that all other literals are true
        others = np.exp(np.add.reduceat(logs, self.begins)[self.owner] - logs)
        single = others * (1 - r)
        rest = np.add.reduceat(single, self.begins)[self.owner] - single
        field = self.half_square[self.owner] * others * (1 - others - 2 * rest)
        return np.bincount(self.place, field[self.literal], len(p))

    def _add_tables(self, table: Tables, p: np.ndarray, found: np.ndarray) -> None:
        values = table.values[table.kind]
        n, *cards = values.shape
        axes = range(len(cards))
        at = [self.network.starts[table.var[:, k], None] + np.arange(card) for k, card in enumerate(cards)]
        q = [p[places].reshape(n, *(card if j == k else 1 for j, card in enumerate(cards)))
             for k, places in enumerate(at)]
        means = [_average(values, q, k) for k in axes]
        mean = (means[0] * q[0]).sum(1, keepdims=True)
        psi = values - sum(means) + (len(cards) - 1) * mean
        for k in axes:
            np.add.at(found, at[k], _average(psi**2, q, k).reshape(n, -1) / 2)


def _average(table: np.ndarray, q: list[np.ndarray], axis: int) -> np.ndarray:
    """The mean of a batch of tables over all variables but one, whose axis is kept; the others have size one."""
    for k, given in enumerate(q):
        if k != axis:
            table = (table * given).sum(k + 1, keepdims=True)
    return table
