"""The ground network: variables, and weighted products of literals over them.

Stage: normalize -> **ground** -> infer.  Paper: Eq. 1.

    w Smokes(A) => Cancer(A)        feature  Smokes(A) !Cancer(A)  with log-weight -w: it holds where the rule is broken

The score of a world is  sum_p w_p (base_p - sum of the shares of its features that hold); a hard feature never holds.
A formula that is no clause has several features that exclude each other, so that formula semantics stays exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..facts.world import World
from ..parse.theory import Predicate, Rule
from .join import spread


def n_values(predicate: Predicate, sizes: Mapping[str, int]) -> int:
    """How many values a variable of the predicate has; the last one of a `?` predicate is "none"."""
    if predicate.labels is not None:
        return len(predicate.labels)
    if predicate.functional:
        return math.prod(sizes[predicate.types[k]] for k in predicate.functional) + predicate.may_be_none
    return 2


HARD = -1


class Sets:
    """Sets of values that literals speak of, by number: 0 is {1} and 1 is {0} of a variable with two values."""

    def __init__(self) -> None:
        self.cards: list[int] = []
        self.members: list[frozenset[int]] = []
        self._numbers: dict[tuple[int, frozenset[int]], int] = {}
        self._single: dict[int, np.ndarray] = {}
        self.of(2, {1})
        self.of(2, {0})

    def of(self, card: int, members: set[int] | frozenset[int]) -> int:
        key = (card, frozenset(members))
        if key not in self._numbers:
            self._numbers[key] = len(self.cards)
            self.cards.append(card)
            self.members.append(key[1])
        return self._numbers[key]

    def single(self, card: int) -> np.ndarray:
        """The numbers of {0}, {1}, ..., {card - 1}."""
        if card not in self._single:
            self._single[card] = np.array([self.of(card, {value}) for value in range(card)], dtype=np.int64)
        return self._single[card]

    def complement(self, numbers: np.ndarray) -> np.ndarray:
        found, inverse = np.unique(numbers, return_inverse=True)
        return np.array([self.of(self.cards[k], frozenset(range(self.cards[k])) - self.members[k])
                         for k in found.tolist()], dtype=np.int64)[inverse]

    def intersect(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Numbers of the intersections, pair by pair; -1 where nothing is left."""
        pairs, inverse = np.unique(np.stack([one, other]), axis=1, return_inverse=True)
        found = []
        for a, b in pairs.T.tolist():
            common = self.members[a] & self.members[b]
            found.append(self.of(self.cards[a], common) if common else -1)
        return np.array(found, dtype=np.int64)[inverse.reshape(-1)]

    def indicator(self, k: int) -> np.ndarray:
        """One for each value in the set, zero for the others."""
        found = np.zeros(self.cards[k])
        found[list(self.members[k])] = 1
        return found


@dataclass(frozen=True)
class Literals:
    """Products of literals, one below the other: literal j says that variable `var[j]` has a value in `set[j]`."""

    n: int
    # which product each literal belongs to
    row: np.ndarray
    var: np.ndarray
    set: np.ndarray

    @staticmethod
    def none(n: int) -> Literals:
        empty = np.zeros(0, dtype=np.int64)
        return Literals(n, empty, empty, empty)

    @staticmethod
    def joined(parts: list[Literals]) -> Literals:
        """All literals of the same products."""
        return Literals(parts[0].n, *(np.concatenate([getattr(part, name) for part in parts])
                                      for name in ("row", "var", "set")))

    @staticmethod
    def stacked(parts: list[Literals]) -> Literals:
        """The products of all parts, one part after the other."""
        starts = np.cumsum([0, *(part.n for part in parts)])
        rows = [part.row + start for part, start in zip(parts, starts, strict=False)]
        return Literals(int(starts[-1]), np.concatenate([np.zeros(0, dtype=np.int64), *rows]),
                        *(np.concatenate([np.zeros(0, dtype=np.int64), *(getattr(part, name) for part in parts)])
                          for name in ("var", "set")))

    @property
    def counts(self) -> np.ndarray:
        return np.bincount(self.row, minlength=self.n)

    def keep(self, mask: np.ndarray) -> Literals:
        """The products with these numbers only, numbered anew."""
        new = np.cumsum(mask) - 1
        chosen = mask[self.row]
        return Literals(int(mask.sum()), new[self.row[chosen]], self.var[chosen], self.set[chosen])

    def take(self, products: np.ndarray) -> Literals:
        """These products, in this order, any of them as often as it is named."""
        order = np.argsort(self.row, kind="stable")
        counts = self.counts
        starts = counts.cumsum() - counts
        owner, place = spread(starts[products], counts[products])
        return Literals(len(products), owner, self.var[order[place]], self.set[order[place]])


def settle(literals: Literals, sets: Sets) -> tuple[Literals, np.ndarray]:
    """Literals of one variable in one product become one; a product that contradicts itself is marked, not kept.

    Returns the literals sorted by product and variable, and which products are left.
    """
    possible = np.ones(literals.n, dtype=bool)
    row, var, chosen = literals.row, literals.var, literals.set
    order = np.lexsort((var, row))
    row, var, chosen = row[order], var[order], chosen[order]
    while True:
        again = (row[1:] == row[:-1]) & (var[1:] == var[:-1])
        # of three in a row, merge the first two now and the third in the next round
        again &= ~np.concatenate([[False], again[:-1]]) if len(again) else again
        at = np.flatnonzero(again)
        if not len(at):
            return Literals(literals.n, row, var, chosen).keep(possible), possible
        merged = sets.intersect(chosen[at], chosen[at + 1])
        possible[row[at[merged < 0]]] = False
        chosen[at] = merged
        stay = np.ones(len(row), dtype=bool)
        stay[at + 1] = False
        stay &= possible[row]
        row, var, chosen = row[stay], var[stay], chosen[stay]


@dataclass(frozen=True)
class Network:
    """Everything the propositional methods need."""

    world: World
    rules: tuple[Rule, ...]
    # variables: how many values each has, and the log-potential of each value, -inf where it cannot be
    cards: np.ndarray
    potentials: np.ndarray
    # by predicate, the variable of each atom (functional arguments left out), -1 where it is decided
    variables: Mapping[str, np.ndarray]
    # variables from here on are not the user's: each stands for a quantified part, which decides it
    n_own: int
    sets: Sets
    # features: feature f is a product of the literals begins[f] to begins[f+1]
    begins: np.ndarray
    var: np.ndarray
    set: np.ndarray
    # the weight a feature belongs to, HARD if it must not hold, and its share of it
    param: np.ndarray
    share: np.ndarray
    rule: np.ndarray
    # weights: rule r has those from offsets[r] to offsets[r+1], one for each of its constants of +x
    weights: np.ndarray
    offsets: np.ndarray
    # how often each weight would count if no feature held
    base: np.ndarray
    # for each feature the quantified part's variable that it is there to define, -1 for the features of rules
    defines: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """Where the potentials of each variable begin."""
        return np.concatenate([[0], np.cumsum(self.cards)])

    @property
    def n_features(self) -> int:
        return len(self.param)

    def __str__(self) -> str:
        soft, hard = int((self.param != HARD).sum()), int((self.param == HARD).sum())
        own = f"{self.n_own:,} unknown variables"
        more = f" and {len(self.cards) - self.n_own:,} for quantifiers" if len(self.cards) > self.n_own else ""
        return f"ground network: {own}{more}, {soft:,} soft and {hard:,} hard features, {len(self.var):,} literals"

    def name(self, variable: int) -> str:
        """A variable as the user knows it, for messages."""
        for predicate, numbers in self.variables.items():
            at = np.argwhere(numbers == variable)
            if len(at):
                declared = self.world.theory.predicate[predicate]
                types = [t for k, t in enumerate(declared.types) if k not in declared.functional]
                args = [self.world.theory.type[t].constants[i] for t, i in zip(types, at[0].tolist(), strict=True)]
                return f"{predicate}({','.join(args)})" if args else predicate
        return "a quantified part"


def label_components(network: Network) -> np.ndarray:
    """For each variable a number that it shares with the variables it is connected to, and with no others."""
    label = np.arange(len(network.cards))
    if not network.n_features:
        return label
    owner = np.repeat(np.arange(network.n_features), np.diff(network.begins))
    while True:
        lowest = np.minimum.reduceat(label[network.var], network.begins[:-1])[owner]
        new = label.copy()
        # the lowest label reaches not the variable alone but all that share its label
        np.minimum.at(new, label[network.var], lowest)
        while (new != new[new]).any():
            new = new[new]
        if (new == label).all():
            return label
        label = new
