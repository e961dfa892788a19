"""Which entry of the layer's tensors is which value of which variable of an exact plan.

Room: ground -> **execute** -> exact.

    L, logits [3]                      entries 0, 1, 2; row 2 k + 1 of the potentials, where row 2 k is "false"
    label(i) in {B, I, O}              three entries and three rows for each i
    exclusive atoms as one variable    one row for each atom, and one for "none"
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import CostError
from ..ground.elimination import Elimination
from ..ground.network import Network
from ..normalize.budget import Budget
from ..normalize.build import counted_formulas
from ..normalize.cubes import Literal, Var
from ..normalize.expand import Expander, variable_ranges
from ..parse.syntax import Exists, Forall, Formula, Not, children
from ..parse.theory import Predicate, Theory

# the way out where a mask and an exact plan do not go together
ONE_SIZE = "call the layer with items of one size, without mask"
NO_MASK = f"{ONE_SIZE}; or use method='mean-field'"


class Entries:
    """Which entry of which tensor is which value of which variable of a plan.

    Entries are the atoms (and labels) of all predicates that are not observed, one after the other.
    """

    def __init__(self, network: Network, latent: Sequence[Predicate], sizes: Mapping[str, int], masked: frozenset[str]):
        self.network, self.latent, self.sizes, self.masked = network, list(latent), sizes, masked
        self.places: dict[str, tuple[int, tuple[int, ...]]] = {}
        n = 0
        for predicate in latent:
            self.places[predicate.name] = n, predicate.shape(sizes)
            n += math.prod(predicate.shape(sizes))
        self.n_entries = n
        # for each variable and each masked argument: the entity, or the one after the last
        self.entities: dict[str, tuple[str, np.ndarray]] = {}
        may_miss = np.zeros(len(network.cards), dtype=bool)
        for predicate in latent if masked else ():
            numbers = network.variables[predicate.name]
            fixed = [t for k, t in enumerate(predicate.types) if k not in predicate.functional]
            at = np.nonzero(numbers >= 0)
            for k, type_name in enumerate(fixed):
                if type_name in masked:
                    key = f"mask of {type_name} {k}"
                    _, found = self.entities.setdefault(
                        key, (type_name, np.full(len(network.cards), sizes[type_name])))
                    found[numbers[at]] = at[k]
                    may_miss[numbers[at]] = True
        self.may_miss = may_miss if masked else None

    def build(self, plan: Elimination) -> None:
        """Fill the arrays, once the variables are in order."""
        reduced, row_of = plan.reduced, plan.row_of
        cards = plan.network.cards
        n_rows, n_variables = plan.n_rows, len(cards)
        # by row: its entry (the one after the last is 0), its variable in the order of rows, whether it is impossible
        entry = np.full(n_rows, self.n_entries)
        ordered = np.flatnonzero(row_of >= 0)
        ordered = ordered[np.argsort(row_of[ordered])]
        place = np.repeat(np.arange(len(ordered)), cards[ordered])
        never = np.zeros(n_rows, dtype=bool)
        is_missing = np.zeros(n_rows, dtype=bool)
        missing = np.flatnonzero(reduced.may_miss & (row_of >= 0))
        is_missing[row_of[missing] + cards[missing] - 1] = True
        # by entry: its row and the one to subtract; its variable and value; whether it is exact
        zero, certain, impossible = n_rows, n_rows + 1, n_rows + 2
        row, minus = np.full(self.n_entries, zero), np.full(self.n_entries, zero)
        variable, value = np.full(self.n_entries, n_variables), np.full(self.n_entries, 1)
        is_exact = np.ones(self.n_entries, dtype=bool)
        others, self.merged = self._others(plan)
        starts = self.network.starts
        for predicate in self.latent:
            begin, shape = self.places[predicate.name]
            ids = begin + np.arange(math.prod(shape)).reshape(shape)
            numbers = self.network.variables[predicate.name]
            known = self.network.world.values[predicate.name].reshape(-1)
            decided = begin + np.flatnonzero(known >= 0)
            row[decided] = np.where(known[known >= 0] == 1, certain, impossible)
            value[decided] = 1 - known[known >= 0]
            # [variables, values]; an atom is the value 1
            table = _by_variable(predicate, ids)
            is_open = numbers.reshape(-1) >= 0
            table, origin = table[is_open], numbers.reshape(-1)[is_open]
            home = reduced.home[origin]
            first = row_of[home]
            is_merged = reduced.value[origin] >= 0
            each = (np.where(is_merged, reduced.value[origin], 1)[:, None] if not predicate.is_categorical
                    else np.arange(table.shape[1])[None].repeat(len(table), 0))
            narrow = first >= 0
            is_exact[table[~narrow]] = False
            row[table[~narrow]] = zero
            own = (first[:, None] + each)[narrow]
            row[table[narrow]] = own
            variable[table[narrow]] = home[narrow][:, None]
            value[table[narrow]] = each[narrow]
            entry[own] = table[narrow]
            if not predicate.is_categorical:
                false = np.where(is_merged, others[first] + reduced.value[origin], first)
                minus[table[narrow]] = false[narrow][:, None]
            elif predicate.may_be_none:
                minus[table[narrow]] = (first + self.network.cards[origin] - 1)[narrow][:, None]
            if predicate.is_categorical:
                excluded = np.isneginf(self.network.potentials[starts[origin][:, None] + np.arange(
                    self.network.cards[origin[0]] if len(origin) else 0)])
                never[(first[:, None] + np.arange(excluded.shape[1]))[narrow][excluded[narrow]]] = True
        self.has_static = bool(never.any())
        self.arrays = {"entry": entry, "never": never, "is_missing": is_missing,
                       "row": row, "minus": minus, "variable": variable, "value": value, "is_exact": is_exact,
                       "ordered": ordered, "begin": row_of[ordered], "place": place, "all_rows": np.arange(n_rows),
                       "row_value": np.arange(n_rows) - row_of[ordered][place]}
        self.masks = {}
        for key, (name, entities) in self.entities.items():
            found = np.full(n_variables, self.sizes[name])
            found[reduced.home] = entities
            self.arrays[key], self.masks[key] = found[ordered][place], name
        self.value_masks = {}
        for predicate in self.latent:
            begin, shape = self.places[predicate.name]
            for k in predicate.functional:
                if predicate.types[k] in self.masked:
                    # by row, the entity that a value names
                    key, size = f"values {predicate.name} {k}", self.sizes[predicate.types[k]]
                    found = np.full(n_rows, size)
                    at = np.flatnonzero((entry >= begin) & (entry < begin + math.prod(shape)))
                    found[at] = np.unravel_index(entry[at] - begin, shape)[k]
                    self.arrays[key], self.value_masks[key] = found, predicate.types[k]

    def _others(self, plan: Elimination) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
        """For the first row of each merged variable, where the log-probabilities of its other values begin."""
        reduced = plan.reduced
        is_merged = np.zeros(len(plan.network.cards), dtype=bool)
        is_merged[reduced.home[reduced.value >= 0]] = True
        found, spans = np.zeros(plan.n_rows + 1, dtype=np.int64), []
        n = plan.n_rows + 3
        for group in plan.groups:
            if is_merged[group.variables].any():
                size = group.n * group.n_values
                found[group.row : group.row + size] = n + np.arange(size)
                spans.append((group.row, group.row + size, group.n))
                n += size
        return found, spans


def _by_variable(predicate: Predicate, ids: np.ndarray) -> np.ndarray:
    """Entries as [variables, values]."""
    if not predicate.is_categorical:
        return ids.reshape(-1, 1)
    axes = (ids.ndim - 1,) if predicate.labels is not None else predicate.functional
    moved = np.moveaxis(ids, axes, range(ids.ndim - len(axes), ids.ndim))
    return moved.reshape(math.prod(moved.shape[: ids.ndim - len(axes)]), -1)


def reject_uncovered(theory: Theory, semantics: str, masked: frozenset[str], latent: set[str]) -> None:
    """Raise unless every grounding with a missing entity has an unobserved atom with that entity."""
    for rule in theory.rules:
        for formula, _, free in counted_formulas(rule, semantics):
            ranges = {**variable_ranges(formula), **{v.name: v for v in free}}
            if not any(v.type in masked for v in ranges.values()) and not _names_constants(theory, masked):
                continue
            if _has_quantifier(formula):
                raise CostError("method='exact' cannot combine a mask with a quantifier", rule.span, NO_MASK)
            for _, cube in Expander(theory, ranges, Budget(rule)).expand(Not(formula)):
                covered = set()
                for literal in cube.factors:
                    if isinstance(literal, Literal):
                        predicate = theory.predicate[literal.predicate]
                        for k, arg in enumerate(literal.args):
                            if not isinstance(arg, Var) and predicate.types[k] in masked:
                                raise CostError("method='exact' cannot combine a mask with a constant of the masked "
                                                "type", rule.span, NO_MASK)
                            if isinstance(arg, Var) and predicate.name in latent and k not in predicate.functional:
                                covered.add((arg.name, arg.offset))
                for v in free:
                    if v.type in masked and not {(v.name, offset) for offset in (v.low, 0, v.high)} <= covered:
                        raise CostError(f"method='exact' cannot combine a mask with this rule: the grounding of "
                                        f"{v.name} may be missing without an unobserved atom of it", rule.span,
                                        NO_MASK)


def _names_constants(theory: Theory, masked: frozenset[str]) -> bool:
    return any(theory.type[name].constants for name in masked)


def _has_quantifier(formula: Formula) -> bool:
    return isinstance(formula, (Exists, Forall)) or any(map(_has_quantifier, children(formula)))
