"""Quantified parts of rules: their truth under the evidence, their own variables, and the feature that decides each.

Room: ground.

    EXIST y Friends(x,y)       for each x: true, false, or open with the literals Friends(x,A), Friends(x,B), ...
    !EXIST y Friends(x,y)      in a product: the conjunction  !Friends(x,A) !Friends(x,B) ...
    anything else              a variable a of its own, tied by the hard features  Friends(x,A) !a,  Friends(x,B) !a,
                               ...  and the one that decides it,  !Friends(x,A) !Friends(x,B) ... a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..normalize.cubes import Literal
from .engine import ALONE, Shares
from .join import Guard, Rows, ragged_ranges
from .literals import Literals, Sets, simplify
from .network import Draft, Network


@dataclass
class Part:
    """A quantified part `EXIST y body(x, y)`: for each x its truth, and the products one of which must be true."""

    # over the free variables: whether it can be true, and whether it is
    can: np.ndarray
    must: np.ndarray
    # the products, and which x (as one number) each belongs to, in order
    disjuncts: Literals
    owner: np.ndarray
    # for each x whether all its products are single literals, and its own variable, -1 until it needs one
    is_flat: np.ndarray
    variable: np.ndarray

    def literals(self, literal: Literal, rows: Rows, is_open: np.ndarray, expand: bool, draft: Draft,
                 guard: Guard) -> tuple[np.ndarray | None, Literals]:
        """What the part adds to each row where it is open; and the old number of each row, if it makes more of them.

        Args:
            is_open: over the free variables, whether the literal is not certain.
            expand: one row for each product that makes the part true.
        """
        number = np.zeros(rows.n, dtype=np.int64)
        for arg, size in zip(literal.args, self.can.shape, strict=True):
            number = number * size + rows.value(arg)
        row_open = is_open.reshape(-1)[number]
        first, counts = self._products(number)
        if not literal.negated and expand:
            row, product = ragged_ranges(first, np.where(row_open, counts, 1), guard)
            at = np.flatnonzero(row_open[row])
            chosen = self.disjuncts.take(product[at])
            return row, Literals(len(row), at[chosen.row], chosen.var, chosen.set)
        # all products are false: the conjunction of all negated literals, where they are literals
        inline = row_open & self.is_flat[number] & literal.negated
        at, product = ragged_ranges(first, np.where(inline, counts, 0), guard)
        chosen = self.disjuncts.take(product)
        flat = Literals(rows.n, at[chosen.row], chosen.var, draft.sets.complement(chosen.set))
        own = np.flatnonzero(row_open & ~inline)
        variable = self._own_variable(number[own], draft)
        rest = Literals(rows.n, own, variable, np.full(len(own), int(literal.negated), dtype=np.int64))
        return None, Literals.joined([flat, rest])

    def _products(self, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first product of each x, and how many it has."""
        first = np.searchsorted(self.owner, number, "left")
        return first, np.searchsorted(self.owner, number, "right") - first

    def _own_variable(self, number: np.ndarray, draft: Draft) -> np.ndarray:
        """The variable of the part for each x, tied to its products by hard features when it is made."""
        new = np.unique(number[self.variable[number] < 0])
        if len(new):
            self.variable[new] = draft.new_variables(len(new))
            owner, product = ragged_ranges(*self._products(new))
            products = self.disjuncts.take(product)
            # no product is true where the part is false
            draft.tie(products, self.variable[new[owner]], is_true=False)
            # where it is true, one is: not all of them can be false
            one = _one_literal(products, draft)
            draft.tie(Literals(len(new), owner, one.var, draft.sets.complement(one.set)), self.variable[new],
                      is_true=True)
        return np.asarray(self.variable[number])


def build_part(shape: tuple[int, ...], owner: np.ndarray, products: Sequence[Literals], sets: Sets) -> Part:
    """A quantified part from the open products of its body.

    Args:
        shape: of its free variables.
        owner: for each product of all lists together, which x it belongs to.
    """
    size = int(np.prod(shape, dtype=np.int64))
    simple, possible = simplify(Literals.stacked(list(products)), sets)
    owner, counts = owner[possible], simple.counts
    can, must, is_flat = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    can[owner] = True
    must[owner[counts == 0]] = True
    is_flat[owner[counts > 1]] = False
    # a part that is true already needs no products
    order = np.flatnonzero(~must[owner])
    order = order[np.argsort(owner[order], kind="stable")]
    return Part(can.reshape(shape), must.reshape(shape), simple.take(order), owner[order], is_flat,
                np.full(size, -1, dtype=np.int64))


def _one_literal(products: Literals, draft: Draft) -> Literals:
    """Each product as one literal: itself, or a variable of its own that is true where the product is."""
    counts = products.counts
    several = np.flatnonzero(counts > 1)
    row, var, sets = products.row, products.var, products.set
    if len(several):
        long = products.take(several)
        own = draft.new_variables(len(several))
        draft.tie(long, own, is_true=False)
        each = Literals(len(long.row), np.arange(len(long.row)), long.var, draft.sets.complement(long.set))
        draft.tie(each, own[long.row], is_true=True)
        alone = counts[row] == 1
        row = np.concatenate([row[alone], several])
        var = np.concatenate([var[alone], own])
        sets = np.concatenate([sets[alone], np.zeros(len(own), dtype=np.int64)])
    order = np.argsort(row, kind="stable")
    return Literals(products.n, row[order], var[order], sets[order])


def deciding_sides(network: Network, shares: Shares = ALONE) -> np.ndarray:
    """2 v + s for each variable v of a quantified part whose literal with set s is in one feature, which decides it.

    A part `a = d1 v d2` has `!d1 !d2 a` as the only one of its features with `a`; a product `a = d1 d2` has `d1 d2 !a`
    as the only one with `!a`. A part without such a feature is always true.

    Args:
        shares: the processes that have the other features, if the network is divided.
    """
    if network.n_own == len(network.cards):
        return np.zeros(0, dtype=np.int64)
    key = _parts(network)[1]
    single = np.sort(key[np.bincount(key)[key] == 1])
    if network.owners is not None:
        # another process may have more features with the variable
        single = single[network.owners.has(single // 2)]
    # set 0 is {1}: where both sides have one feature, take the one with `a`
    _, first = np.unique(single // 2, return_index=True)
    return shares.union(single[first])


def deciding_literals(network: Network, sides: np.ndarray | None = None) -> np.ndarray:
    """For each variable of a quantified part, the place of its literal in the feature that decides it, see above."""
    own, key = _parts(network)
    found = own[np.isin(key, deciding_sides(network) if sides is None else sides)]
    return np.asarray(found[np.argsort(network.var[found], kind="stable")])


def _parts(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """The literals of the parts' variables in the features that define them, and 2 v + s of each."""
    own = np.flatnonzero(network.defines[network.owner] == network.var)
    return own, 2 * network.var[own].astype(np.int64) + network.set[own]


def part_order(network: Network) -> list[tuple[int, set[int]]]:
    """The variables of quantified parts, each after those it is made of, with the atoms that they depend on."""
    decided = deciding_literals(network)
    feature = dict(zip(network.var[decided].tolist(), network.owner[decided].tolist(), strict=True))
    inputs: dict[int, list[int]] = {}
    for a in range(network.n_own, len(network.cards)):
        span = slice(network.begins[feature[a]], network.begins[feature[a] + 1]) if a in feature else slice(0)
        inputs[a] = [v for v in network.var[span].tolist() if v != a]
    sources: dict[int, set[int]] = {}
    for a in _inputs_first(inputs):
        sources[a] = {u for v in inputs[a] for u in sources.get(v, (v,))}
    return list(sources.items())


def _inputs_first(inputs: dict[int, list[int]]) -> list[int]:
    """The keys, each after the keys among its inputs.

    >>> _inputs_first({2: [0, 3], 3: [1]})
    [3, 2]
    """
    order: dict[int, None] = {}
    for root in inputs:
        stack = [root]
        while stack:
            waiting = [v for v in inputs[stack[-1]] if v in inputs and v not in order]
            if waiting:
                stack += waiting
            else:
                order.setdefault(stack.pop())
    return list(order)
