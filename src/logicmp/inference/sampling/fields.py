"""The arrays that chains run on: the open part of a ground network, and a score for every value that moves keep.

Room: inference/sampling; used by gibbs and mc-sat.

    S(A).  S(x) => T(x).              S(A) and T(A) are decided: features with a false literal go, true literals too
    score of the value 1 of T(B)      log-weights of the features that are true if T(B) has this value, given the others

A draw reads the scores of one variable. A move updates those of its neighbours, so the time of a step grows with what
moves, and not with the size of the ground network.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...ground.features import log_weights, queried_features
from ...ground.join import number_rows
from ...ground.network import HARD, Network, select_features
from ...ground.patterns import sort_order
from ...ground.propagate import propagate
from ...limits import Limits
from ..moves.arrays import build_arrays, deciders, followers
from ..search.start import satisfy_hard_rules
from .tables import build_tables

# what a true hard feature and an impossible value add to a score
HARD_WEIGHT = -(2.0**21)
# scores are multiples of this: sums of them are exact, so that moves back and forth leave no rounding error
UNIT = 2.0**-30


class Fields(NamedTuple):
    """The arrays that do not change."""

    # where the values of each variable begin, and whether evidence and hard rules leave each value possible
    starts: np.ndarray
    domain: np.ndarray
    # by value: the score from soft evidence and the rules over the variable alone
    base: np.ndarray
    # the literals of feature f are begins[f] to begins[f+1]; a variable and its set are neighbours in memory
    begins: np.ndarray
    var: np.ndarray
    set: np.ndarray
    # by feature: what it adds to the log-probability if it is true
    weight: np.ndarray
    # the occurrences of variable v are first[v] to first[v+1]: in which feature, where its literals begin, and the kind
    first: np.ndarray
    feature: np.ndarray
    begin: np.ndarray
    kind: np.ndarray
    # by kind of occurrence: the set of the literal, its place in the feature, weight and literals of the feature; so a
    # move reads few bytes for each occurrence
    kind_set: np.ndarray
    kind_place: np.ndarray
    kind_weight: np.ndarray
    kind_length: np.ndarray
    # before this one: features with a positive weight, of which one alone can decide the variable
    split: np.ndarray
    # [sets, values]: which values each set has
    member: np.ndarray
    # by set: its only value and 1, or the only value outside it and -1, or -1 and 1
    single: np.ndarray
    sign: np.ndarray
    # variables from here on follow others; see `moves.arrays`
    n_own: int
    decider: np.ndarray
    inside: np.ndarray
    parts: np.ndarray
    follow_first: np.ndarray
    follows: np.ndarray
    # atoms with several possible values
    free: np.ndarray
    # by variable: whether a hard rule ties it to others
    is_tied: np.ndarray


class World(NamedTuple):
    """A world of one chain, with what moves keep up to date."""

    values: np.ndarray
    # by feature, in the low half of the bits: how many literals are false; in the high half: the exclusive or of their
    # places, so that the place of the only false literal is known
    false: np.ndarray
    # by value of each variable: the log-weights of the features that are true if the variable takes it
    score: np.ndarray
    # room for the occurrences of one variable
    found: np.ndarray


@dataclass(frozen=True)
class Prepared:
    """A ground network, and the arrays made from its open part."""

    network: Network
    fields: Fields
    # by feature of these arrays: its number in the network, -1 for a cell of a table; whether it is a hard rule over
    # several variables
    origin: np.ndarray
    is_tie: np.ndarray
    # the features of queried formulas in these arrays, and those of the network that are true in all worlds
    watch: np.ndarray
    always: np.ndarray

    @property
    def n_features(self) -> int:
        return len(self.fields.weight)

    def queried_values(self, names: Collection[str]) -> np.ndarray:
        """The places of the possible values of the variables of some predicates, of all if no names are given."""
        network, g = self.network, self.fields
        if not names:
            return np.flatnonzero(np.repeat(np.isin(np.arange(len(network.cards)), g.free), network.cards))
        chosen = np.zeros(len(network.cards), dtype=bool)
        for name in names:
            numbers = network.variables[name]
            chosen[numbers[numbers >= 0]] = True
        chosen &= np.isin(np.arange(len(chosen)), g.free)
        return np.flatnonzero(np.repeat(chosen, network.cards))

    def new_world(self) -> World:
        """A world of zeros; call `field_loops.refresh` after filling it."""
        g = self.fields
        longest, most = (int(np.diff(x).max(initial=0)) for x in (g.begins, g.first))
        bits = next(n for n in (8, 16, 32, 64) if longest < 2 ** (n // 2))
        return World(np.zeros(len(self.network.cards), dtype=np.int32), np.zeros(self.n_features, dtype=f"uint{bits}"),
                     np.zeros(len(g.base)), np.zeros(most, dtype=np.int64))

    def start(self, rngs: list[np.random.Generator], max_flips: int, limits: Limits) -> list[World]:
        """One world for each chain, all of which satisfy the hard rules."""
        from . import field_loops

        worlds = [self.new_world() for _ in rngs]
        hard = self.network.param == HARD
        if hard.any():
            arrays = build_arrays(select_features(self.network, hard))
            state = arrays.new_state(arrays.ground.is_hard, arrays.ground.is_hard)
            for chain, (world, rng) in enumerate(zip(worlds, rngs, strict=True)):
                satisfy_hard_rules(arrays, state, rng, max_flips, limits, chain)
                world.values[:] = state.values
        for chain, (world, rng) in enumerate(zip(worlds, rngs, strict=True)):
            if not hard.any():
                field_loops.fill(self.fields, world, chain, rng)
            field_loops.refresh(self.fields, world)
        return worlds


def prepare(network: Network, tables: bool = False) -> Prepared:
    """The arrays of a network; raises an error if unit propagation of the hard rules finds a contradiction.

    Args:
        tables: merge rules that a world should violate with others over the same variables; see `tables`.
    """
    n, starts = len(network.cards), network.starts
    domain = propagate(network)
    part = _open_part(network, domain)
    origin, var, chosen, lengths = part.origin, part.var, part.set, part.lengths
    weight, is_hard = log_weights(network)[origin], network.param[origin] == HARD
    weight[is_hard] = HARD_WEIGHT
    is_tie = is_hard & (network.defines[origin] < 0) & (lengths > 1)
    is_watched = network.param[origin] >= network.offsets[len(network.world.theory.rules)]
    is_positive = (weight > 0) & (lengths > 1)
    if tables and is_positive.any():
        begins = np.concatenate([[0], np.cumsum(lengths)])
        is_near = _is_near(begins, var, is_positive, n) & ~is_hard
        merged = build_tables(network, begins, var, chosen, np.where(is_near, weight, 0.0))
        weight[merged.is_replaced] = 0
        more = len(merged.lengths)
        var, chosen = np.concatenate([var, merged.var]), np.concatenate([chosen, merged.set])
        lengths, weight = np.concatenate([lengths, merged.lengths]), np.concatenate([weight, merged.log_weight])
        origin = np.concatenate([origin, np.full(more, -1)])
        is_tie, is_watched = (np.concatenate([mask, np.zeros(more, dtype=bool)]) for mask in (is_tie, is_watched))
    # to multiples of UNIT
    weight = np.round(weight / UNIT) * UNIT
    best = np.maximum.reduceat(network.potentials, starts[:-1]) if n else np.zeros(0)
    with np.errstate(invalid="ignore"):
        base = np.round((network.potentials - np.repeat(best, network.cards)) / UNIT) * UNIT
    # soft rules over one variable are part of its own scores
    owner = np.repeat(np.arange(len(lengths)), lengths)
    alone = np.flatnonzero(((lengths == 1) & (weight > HARD_WEIGHT))[owner])
    place, value = network.sets.values_of(chosen[alone])
    np.add.at(base, starts[var[alone]][place] + value, weight[owner[alone]][place])
    weight[owner[alone]] = 0.0
    base[~domain] = HARD_WEIGHT
    # a feature without weight has no effect, unless it is queried
    keep = (weight != 0) | is_watched
    stay = keep[owner]
    var, chosen = (column[stay].astype(np.int32).view(np.uint32) for column in (var, chosen))
    lengths, weight, origin, is_tie = lengths[keep], weight[keep], origin[keep], is_tie[keep]
    owner = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
    is_deciding = (weight > 0)[owner]
    order = sort_order(2 * var.astype(np.int64) + ~is_deciding)
    first = np.concatenate([[0], np.cumsum(np.bincount(var, minlength=n))])
    begins = np.concatenate([[0], np.cumsum(lengths)])
    kind, kind_set, kind_place, kind_weight, kind_length = _kinds(chosen, begins, weight, owner)
    kind, feature, literals = kind[order], owner[order], np.stack([var, chosen], 1)
    is_tied = np.zeros(n, dtype=bool)
    is_tied[var[is_tie[owner]]] = True
    decider, inside = deciders(network)
    new = np.full(network.n_features + 1, -1)
    new[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
    n_possible = np.diff(np.cumsum(np.append(0, domain))[starts])
    fields = Fields(
        starts, domain, base, begins, literals[:, 0], literals[:, 1], weight, first, feature,
        begins.astype(np.uint32)[feature], kind, kind_set, kind_place, kind_weight, kind_length,
        first[:-1] + np.bincount(var[is_deciding], minlength=n), network.sets.table(),
        *_single_values(network), network.n_own, new[decider], inside, *followers(network),
        np.flatnonzero(n_possible[: network.n_own] > 1), is_tied)
    return Prepared(network, fields, origin, is_tie, np.flatnonzero(is_watched[keep]), part.always)


def _kinds(chosen: np.ndarray, begins: np.ndarray, weight: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, ...]:
    """The kind of each literal, and by kind: set, place, weight and number of literals of the feature."""
    lengths = np.diff(begins)
    number, n_places, n_sets = number_rows(weight, lengths), int(lengths.max(initial=1)), int(chosen.max(initial=0)) + 1
    n_codes = (int(number.max(initial=0)) + 1) * n_places * n_sets
    # one number for class of the feature, place and set, in few bytes: there can be hundreds of millions of literals
    integer = np.int32 if max(n_codes, len(owner)) * 2 < 2**31 else np.int64
    code = (number * n_places - begins[:-1]).astype(integer)[owner]
    code += np.arange(len(owner), dtype=integer)
    code *= n_sets
    code += chosen.view(np.int32)
    if n_codes > 4 * len(code):
        known, code = np.unique(code, return_inverse=True)
        n_codes, code = len(known), code.reshape(-1)
    # one literal of each code
    at = np.full(n_codes, -1)
    at[code] = np.arange(len(code))
    rank, at = np.cumsum(at >= 0) - 1, at[at >= 0]
    kind = rank.astype(np.min_scalar_type(len(at)))[code]
    return kind, chosen[at], at - begins[owner[at]], weight[owner[at]], lengths[owner[at]]


def _is_near(begins: np.ndarray, var: np.ndarray, chosen: np.ndarray, n: int) -> np.ndarray:
    """By feature: whether all its variables are in chosen features."""
    near, owner = np.zeros(n, dtype=bool), np.repeat(np.arange(len(chosen)), np.diff(begins))
    near[var[chosen[owner]]] = True
    n_far = np.bincount(owner, ~near[var], len(chosen))
    return np.asarray(n_far == 0)


class _Part(NamedTuple):
    """The features of a network that can be true and false, without the literals that are true in every world."""

    # by feature: its number in the network, and how many literals are left
    origin: np.ndarray
    lengths: np.ndarray
    var: np.ndarray
    set: np.ndarray
    # queried features of the network that are true in all worlds
    always: np.ndarray


def _open_part(network: Network, domain: np.ndarray) -> _Part:
    """What unit propagation leaves open.

    The features that define quantified parts stay whole: a part follows the number of its false literals.
    """
    lengths, starts, owner = np.diff(network.begins), network.starts, network.owner
    n_possible = np.diff(np.cumsum(np.append(0, domain))[starts])
    is_cut = n_possible < network.cards
    literals = np.flatnonzero(is_cut[network.var] & (network.defines < 0)[owner] if is_cut.any() else [])
    small, is_other = network.sets.smaller()
    kinds, var = network.set[literals], network.var[literals]
    place, value = network.sets.values_of(small[kinds])
    n_inside = np.bincount(place, domain[starts[var][place] + value], len(literals)).astype(np.int64)
    n_true = np.where(is_other[kinds], n_possible[var] - n_inside, n_inside)
    is_possible = np.ones(network.n_features, dtype=bool)
    is_possible[owner[literals[n_true == 0]]] = False
    is_certain = np.zeros(len(owner), dtype=bool)
    is_certain[literals[n_true == n_possible[var]]] = True
    lengths = lengths - np.bincount(owner[is_certain], minlength=network.n_features)
    keep = is_possible & (lengths > 0)
    stay = keep[owner] & ~is_certain
    queried = queried_features(network)
    return _Part(np.flatnonzero(keep), lengths[keep], network.var[stay], network.set[stay],
                 queried[is_possible[queried] & (lengths[queried] == 0)])


def _single_values(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """For each set its only value and 1, or the only value outside it and -1; -1 and 1 for other sets."""
    small, is_other = network.sets.smaller()
    values, begins = network.sets.flat()
    is_single = np.diff(begins)[small] == 1
    only = np.where(is_single, np.append(values, 0)[begins[small]], -1)
    return only.astype(np.int32), np.where(is_single & is_other, -1.0, 1.0)
