"""Merge rules over the same variables into one table, so that opposite rules cancel before MC-SAT slices them.

Room: inference/sampling; used by mc-sat.

    -1.2 A(x) ^ B(x)    -0.1 A(x) ^ !B(x)    -2.3 !A(x) ^ B(x)        one table over A(x), B(x), with four cells

Sliced one by one, each of these rules that is false now would be kept with its own probability, and together they
would rarely let the world change. The cells of a table are features with the log-weight below that of the best cell.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ...ground.network import Network

# variables and cells of one table
MAX_SCOPE = 4
MAX_CELLS = 256


@dataclass(frozen=True)
class Tables:
    """Cells of tables as features to append to those of a network, and the features that they replace."""

    # literals of each cell
    lengths: np.ndarray
    var: np.ndarray
    set: np.ndarray
    # by cell, 0 for the best of each table
    log_weight: np.ndarray
    # by feature of the network, whether a table replaces it
    is_replaced: np.ndarray


def build_tables(network: Network, begins: np.ndarray, var: np.ndarray, chosen: np.ndarray,
                 log_weight: np.ndarray) -> Tables:
    """Build tables for all features that share their variables with others.

    Args:
        begins, var, chosen: the features; within each the variables are sorted.
        log_weight: by feature, 0 for those that stay as they are.
    """
    lengths, member = np.diff(begins), network.sets.table()
    features = {n: np.flatnonzero((log_weight != 0) & (lengths == n)) for n in range(1, MAX_SCOPE + 1)}
    scopes, group = _group(network, features, begins, var, log_weight)
    counts = {n: np.zeros(len(scopes[n]), dtype=np.int64) for n in scopes}
    for wide, number in group.values():
        for n in scopes:
            counts[n] += np.bincount(number[wide == n], minlength=len(scopes[n]))
    is_replaced = np.zeros(len(log_weight), dtype=bool)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for n, kinds in scopes.items():
        cards = network.cards[kinds]
        is_table = (counts[n] > 1) & (cards.prod(1) <= MAX_CELLS)
        for shape in np.unique(cards[is_table], axis=0).tolist():
            some = np.flatnonzero(is_table & (cards == shape).all(1))
            grid = np.indices(shape).reshape(n, -1).T
            place = np.full(len(kinds), -1, dtype=np.int64)
            place[some] = np.arange(len(some))
            table = np.zeros((len(some), len(grid)))
            for length, (wide, number) in group.items():
                at = np.flatnonzero((wide == n) & (place[number % max(1, len(kinds))] >= 0))
                f = features[length][at]
                literal = begins[f][:, None] + np.arange(length)
                # the column of each literal's variable in its table
                column = (kinds[number[at]][:, None, :] == var[literal][:, :, None]).argmax(2)
                holds = member[chosen[literal][:, None, :], grid.T[column].transpose(0, 2, 1)].all(2)
                np.add.at(table, place[number[at]], log_weight[f][:, None] * holds)
                is_replaced[f] = True
            table -= table.max(1, keepdims=True)
            singles = np.stack([network.sets.single(card)[grid[:, k]] for k, card in enumerate(shape)], 1)
            parts.append((np.repeat(kinds[some], len(grid), 0), np.tile(singles, (len(some), 1)), table))
    widths = np.concatenate([np.zeros(0, dtype=np.int64), *(np.full(v.shape[0], v.shape[1]) for v, _, _ in parts)])
    none = np.zeros(0, dtype=np.int64)
    return Tables(widths, np.concatenate([none, *(v.reshape(-1) for v, _, _ in parts)]),
                  np.concatenate([none, *(s.reshape(-1) for _, s, _ in parts)]),
                  np.concatenate([np.zeros(0), *(t.reshape(-1) for _, _, t in parts)]), is_replaced)


def _group(network: Network, features: dict[int, np.ndarray], begins: np.ndarray, var: np.ndarray,
           log_weight: np.ndarray) -> tuple[dict[int, np.ndarray], dict[int, tuple[np.ndarray, np.ndarray]]]:
    """The distinct scopes by length, and for each feature the length and the number of the scope it goes to.

    A feature goes to a wider scope if there is one, to the one with the strongest rules if there are several: `A ^ B`
    is violated by `!A` and by `A !B`, which belong together, and opposite strong rules on A must be sliced at once.
    """
    scopes: dict[int, np.ndarray] = {}
    own: dict[int, np.ndarray] = {}
    goal: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    strength: dict[int, np.ndarray] = {}
    for n in range(MAX_SCOPE, 0, -1):
        rows = var[begins[features[n]][:, None] + np.arange(n)].reshape(-1, n)
        scopes[n], own[n] = np.unique(rows, axis=0, return_inverse=True)
        own[n] = own[n].reshape(-1)
        wide, number = np.full(len(scopes[n]), n), np.arange(len(scopes[n]))
        strength[n] = np.bincount(own[n], np.abs(log_weight[features[n]]), minlength=len(scopes[n]))
        best = np.zeros(len(scopes[n]))
        for m in range(n + 1, MAX_SCOPE + 1):
            fits = np.flatnonzero(network.cards[scopes[m]].prod(1) <= MAX_CELLS)
            # if there are several, the last one written counts
            fits = fits[np.argsort(strength[m][fits], kind="stable")]
            for columns in itertools.combinations(range(m), n):
                part = scopes[m][fits][:, list(columns)]
                both, inverse = np.unique(np.concatenate([scopes[n], part]), axis=0, return_inverse=True)
                inverse = inverse.reshape(-1)
                wider = np.full(len(both), -1)
                wider[inverse[len(scopes[n]) :]] = fits
                found = wider[inverse[: len(scopes[n])]]
                found_strength = np.where(found >= 0, np.append(strength[m], 0)[found], 0)
                chosen = np.flatnonzero(found_strength > best)
                best[chosen] = found_strength[chosen]
                wide[chosen], number[chosen] = goal[m][0][found[chosen]], goal[m][1][found[chosen]]
        goal[n] = wide, number
    return scopes, {n: (goal[n][0][own[n]], goal[n][1][own[n]]) for n in scopes}
