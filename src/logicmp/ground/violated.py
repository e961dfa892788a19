"""Groundings on demand: those that a world violates, found by joins over its atoms.

Room: ground; used by map.  Riedel 2008; Noessner, Niepert and Stuckenschmidt 2013 (RockIt).

    C(a,b) ^ C(b,c) => C(a,c).      1,000 constants: 10^9 groundings, of which a world with few true atoms violates few

Rules with few groundings are grounded at once. The others are joined with the true atoms of a world instead of those
that the evidence leaves possible; the rows are the groundings that it violates. If no new ones are found, the world has
the same score in this ground network as in the whole one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import CostError
from ..facts.supports import MAX_BOX, make_keys
from ..facts.world import UNKNOWN, World
from ..limits import MAX_GROUNDINGS
from ..normalize.build import counted_formulas
from ..normalize.cubes import Cube, Literal
from ..normalize.expand import variable_ranges
from ..parse.syntax import Atom, Exists, Forall, Formula, Not, atoms, children
from ..parse.theory import Rule
from .build import Grounder
from .network import Network, card_of

# groundings that are made at once, of all rules together; the other rules are grounded on demand. A rule with a single
# unobserved literal does not count, and is grounded at once up to MAX_SINGLE
MAX_AT_ONCE = 2**20
MAX_SINGLE = 2**22
# groundings of one rule that are added for one world
MAX_ADDED = 2**18


class Violated(Grounder):
    """A ground network that grows by the groundings that worlds violate.

    Args:
        world: the evidence.
        rules: of which those with many groundings are grounded on demand.
        semantics: "exact" or "alchemy".
        max_groundings, allow: as for `build_network`.
        at_once: groundings of all rules together that are made at once; a rule that has more than are left is grounded
            on demand, unless it has quantifiers.
        progress: called after each rule that is grounded at once.
        check: called between pieces of work on demand; raises an error to stop.
    """

    def __init__(self, world: World, rules: Sequence[Rule], semantics: str = "exact",
                 max_groundings: int = MAX_GROUNDINGS,
                 allow: Callable[[float, str], None] = lambda n_bytes, what: None, at_once: int = MAX_AT_ONCE,
                 progress: Callable[[int, int], None] = lambda done, total: None,
                 check: Callable[[], None] = lambda: None):
        super().__init__(world, rules, max_groundings, allow)
        self.check = check
        self.semantics = semantics
        self.is_open = {name for name, values in world.values.items() if bool((values == UNKNOWN).any())}
        self.left = at_once
        self.now: dict[str, np.ndarray] = {}
        # by rule on demand, formula and product, the groundings that were added: sorted numbers of their bindings
        self.known: dict[tuple[int, int, int], np.ndarray] = {}
        self.on_demand = [r for r, rule in enumerate(self.rules) if not self._ground_at_once(r, rule, progress)]
        self.network = self.finish()

    def _ground_at_once(self, r: int, rule: Rule, progress: Callable[[int, int], None]) -> bool:
        """Ground a rule, unless it has too many groundings."""
        mark, n_rows, base = self.draft.mark(), self.n_rows, self.base.copy()
        most = self.max_groundings
        can_wait = not _has_quantifiers(rule.formula) and self._can_be_numbered(rule)
        is_single = sum(atom.predicate in self.is_open for atom in atoms(rule.formula) if isinstance(atom, Atom)) < 2
        try:
            if can_wait:
                self.max_groundings = min(most, n_rows + (MAX_SINGLE if is_single and self.left else self.left))
            for _ in self.add_rule(r, rule, self.semantics):
                progress(r, len(self.rules))
        except CostError:
            if not can_wait:
                raise
            self.draft.cut(mark)
            self.n_rows, self.base = n_rows, base
            if not rule.is_hard and not self._is_negative(r):
                for formula, share, free in counted_formulas(rule, self.semantics):
                    self.rule, self.r = rule, r
                    self.ranges = {**variable_ranges(formula), **{v.name: v for v in free}}
                    self._count(free, share)
            return False
        finally:
            self.max_groundings = most
        if not is_single:
            self.left = max(0, self.left - (self.n_rows - n_rows))
        progress(r + 1, len(self.rules))
        return True

    def _is_negative(self, r: int) -> bool:
        """Whether a world should violate the rule: its groundings on demand are the true ones."""
        rule = self.rules[r]
        return not rule.is_hard and rule.weight is not None and rule.weight < 0

    def _can_be_numbered(self, rule: Rule) -> bool:
        n = 1
        for t in rule.variables.values():
            n *= self.world.sizes[t]
        return n < MAX_BOX

    def add_violated(self, values: np.ndarray) -> int:
        """Add the groundings that a world violates and the network lacks; returns how many.

        Args:
            values: of all variables of the network.
        """
        if not self.on_demand:
            return 0
        self.now = {name: x for name, x in decided_values(self.network, values).items() if name in self.is_open}
        for key in [key for key in self._lists if isinstance(key, tuple) and key[0] in self.is_open]:
            del self._lists[key]
        n_added = 0
        for r in self.on_demand:
            n_added += self._add_rule_violated(r)
        more = self.draft.arrays()
        old = self.network
        more["begins"] = old.begins[-1] + more["begins"][1:]
        columns: dict[str, Any] = {name: np.concatenate([getattr(old, name), column])
                                   for name, column in more.items()}
        self.network = replace(old, base=self.base.copy(), **columns)
        return n_added

    def _add_rule_violated(self, r: int) -> int:
        rule = self.rules[r]
        self.rule, self.r, self.draft.rule = rule, r, r
        n_added = 0
        for k, (formula, share, free) in enumerate(counted_formulas(rule, self.semantics)):
            self.ranges = {**variable_ranges(formula), **{v.name: v for v in free}}
            # a negative weight: the groundings that are true count, and each of them against the world
            is_negative = self._is_negative(r)
            names = [v.name for v in free]
            for c, cube in enumerate(self._cubes(formula if is_negative else Not(formula))):
                n_added += self._add_cube(cube, names, (r, k, c), -share if is_negative else share)
        return n_added

    def _add_cube(self, cube: Cube, names: list[str], key: tuple[int, int, int], share: float) -> int:
        sizes = [self.world.sizes[self.ranges[name].type] for name in names]
        known = self.known.get(key, np.zeros(0, dtype=np.int64))
        n_added = 0
        for rows, literals in self._ground(cube, names, expand=self.rule.is_hard):
            self.check()
            numbers = make_keys([rows.columns[name] for name in names], sizes) if names else np.zeros(1, dtype=np.int64)
            at = np.searchsorted(known, numbers).clip(0, max(len(known) - 1, 0))
            is_new = known[at] != numbers if len(known) else np.ones(rows.n, dtype=bool)
            if not is_new.any():
                continue
            new = np.flatnonzero(is_new)[: MAX_ADDED - n_added]
            chosen = np.zeros(rows.n, dtype=bool)
            chosen[new] = True
            super()._guard(len(new))
            self.n_rows += len(new)
            self._add(rows.take(new), literals.keep(chosen), share)
            known = np.sort(np.concatenate([known, numbers[new]]))
            n_added += len(new)
            if n_added >= MAX_ADDED:
                break
        self.known[key] = known
        return n_added

    def _guard(self, n: int) -> None:
        if not self.now:
            super()._guard(n)
        else:
            # rows of a join on demand are not all added
            self.check()

    def _possible(self, literal: Literal) -> np.ndarray:
        if literal.predicate in self.now:
            return self._truth(literal, self.now[literal.predicate])[0]
        return super()._possible(literal)


def decided_values(network: Network, values: np.ndarray) -> dict[str, np.ndarray]:
    """The value of every atom in a world, in the shapes of the world's own values.

    Args:
        values: of all variables of the network.
    """
    world, padded = network.world, np.append(values, 0)
    found = {}
    for name, known in world.values.items():
        numbers, predicate = network.variables[name], world.stored(name)
        if not bool((numbers >= 0).any()):
            found[name] = known
        elif not predicate.is_categorical:
            found[name] = np.where(numbers >= 0, padded[numbers], known).astype(np.int8)
        else:
            one_hot = np.eye(card_of(world, name), dtype=np.int8)[padded[numbers]]
            axes = (known.ndim - 1,) if predicate.labels is not None else predicate.functional
            last = tuple(range(known.ndim - len(axes), known.ndim))
            moved = np.moveaxis(known, axes, last).shape
            one_hot = one_hot[..., :-1] if predicate.may_be_none else one_hot
            is_open = np.expand_dims(numbers, axes) >= 0
            found[name] = np.where(is_open, np.moveaxis(one_hot.reshape(moved), last, axes), known)
    return found


def _has_quantifiers(formula: Formula) -> bool:
    return any(isinstance(part, (Exists, Forall)) for part in _walk(formula))


def _walk(formula: Formula) -> Iterator[Formula]:
    return itertools.chain([formula], *(_walk(child) for child in children(formula)))
