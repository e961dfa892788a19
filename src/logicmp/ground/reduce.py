"""Make a ground network narrower without changing its worlds: exclusive atoms as one variable, long products split.

Room: **ground** -> execute, inference.

    !(P(A) ^ P(B)).  !(P(A) ^ P(C)).  !(P(B) ^ P(C)).      one variable with the values A, B, C and "none"
    P(A) v P(B) v P(C).                                    in addition: its value is not "none"
    l1 l2 l3 l4 l5 l6 l7                                   a2 = l1 l2,  a3 = a2 l3,  ...  and the product a6 l7
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .literals import Literals, simplify
from .network import HARD, Network, shorten

# groups of exclusive atoms with fewer members stay as they are
MIN_EXCLUSIVE = 3


@dataclass(frozen=True, eq=False)
class Reduced:
    """A network in other variables, and how its values come from those of the network it was made from."""

    origin: Network
    network: Network
    # by variable of the origin: its new variable, and the value that stands for "true" if it was merged, else -1
    home: np.ndarray
    value: np.ndarray
    # by new variable: whether it stands for atoms; whether its last value means "its entities do not exist"
    own: np.ndarray
    may_miss: np.ndarray

    def name(self, variable: int) -> str:
        """An atom of a variable, as text."""
        return self.origin.name(int(np.flatnonzero(self.home == variable)[0]))


def reduce_network(network: Network, may_miss: np.ndarray | None = None) -> Reduced:
    """Merge exclusive atoms and split long products.

    Args:
        network: the ground network.
        may_miss: by variable, whether its entities may be missing in some items. Such a variable gets one more value,
            at which all its literals are false, and is not merged.
    """
    n = len(network.cards)
    may_miss = np.zeros(n, dtype=bool) if may_miss is None else may_miss
    is_atom = np.zeros(n, dtype=bool)
    for predicate in network.world.theory.predicates:
        if not predicate.is_categorical:
            numbers = network.variables[predicate.name]
            is_atom[numbers[numbers >= 0]] = True
    groups = _exclusive_groups(network, is_atom & ~may_miss)
    home, value = np.full(n, -1), np.full(n, -1)
    for k, members in enumerate(groups):
        home[members], value[members] = k, np.arange(len(members))
    single = home < 0
    home[single] = len(groups) + np.arange(int(single.sum()))
    cards = np.concatenate([[len(members) + 1 for members in groups], (network.cards + may_miss)[single]]).astype(int)
    own = np.concatenate([np.ones(len(groups), dtype=bool), np.flatnonzero(single) < network.n_own])
    merged = _merge(network, home, value, cards)
    before = len(merged.cards)
    short = shorten(merged)
    more = np.zeros(len(short.cards) - before, dtype=bool)
    missing = np.concatenate([np.zeros(len(groups), dtype=bool), may_miss[single], more])
    return Reduced(network, short, home, value, np.concatenate([own, more]), missing)


def _exclusive_groups(network: Network, allowed: np.ndarray) -> list[list[int]]:
    """Disjoint sets of atoms no two of which can be true together, by hard features of two positive literals."""
    pairs = np.flatnonzero((network.param == HARD) & (np.diff(network.begins) == 2))
    first = network.begins[pairs]
    is_positive = (network.set[first] == 0) & (network.set[first + 1] == 0)
    near: dict[int, set[int]] = {}
    for a, b in zip(network.var[first[is_positive]].tolist(), network.var[first[is_positive] + 1].tolist(),
                    strict=True):
        if allowed[a] and allowed[b]:
            near.setdefault(a, set()).add(b)
            near.setdefault(b, set()).add(a)
    found = []
    used: set[int] = set()
    for v in sorted(near, key=lambda v: (-len(near[v]), v)):
        if v in used:
            continue
        group, common = [v], near[v] - used
        while common:
            # the one that leaves most others
            u = min(common, key=lambda u: (-len(near[u] & common), u)) if len(common) < 64 else min(common)
            group.append(u)
            common = common & near[u]
        if len(group) >= MIN_EXCLUSIVE:
            found.append(sorted(group))
            used.update(group)
    return found


def _merge(network: Network, home: np.ndarray, value: np.ndarray, cards: np.ndarray) -> Network:
    """The network over the new variables; its potentials are not used."""
    sets = network.sets
    chosen = network.set.copy()
    merged = np.flatnonzero(value[network.var] >= 0)
    for j in merged.tolist():
        v = network.var[j]
        card = int(cards[home[v]])
        true = {int(value[v])}
        chosen[j] = sets.of(card, true if network.set[j] == 0 else set(range(card)) - true)
    literals, left = simplify(Literals(network.n_features, network.owner, home[network.var], chosen), sets)
    defines = network.defines[left]
    return replace(network, cards=cards, potentials=np.zeros(int(cards.sum())),
                   begins=np.concatenate([[0], np.cumsum(literals.counts)]), var=literals.var, set=literals.set,
                   param=network.param[left], share=network.share[left], rule=network.rule[left],
                   defines=np.where(defines < 0, defines, home[defines]))
