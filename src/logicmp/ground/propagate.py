"""The ground network as factors for belief propagation: products of literals, and small tables.

Stage: ground -> **infer**.

    1.5 Smokes(A) => Cancer(A)      a product: e^-1.5 where Smokes(A) !Cancer(A), 1 elsewhere
    1 Smokes(A) <=> Cancer(A)       two features over the same variables: one table of four cells
    part <=> EXIST y Friends(A,y)   a product with a head: !part is true just where !Friends(A,B) !Friends(A,C) ... is

Features over the same variables are one factor, because two of them would already be a loop; so are those over a part
of the variables of exactly one small table.
"""

from __future__ import annotations

import numpy as np

from ..errors import LogicMPError
from .join import number_rows, spread
from .network import HARD, Network, label_components


def propagate(network: Network) -> np.ndarray:
    """For each value of each variable whether it is possible, as far as hard features say one at a time.

    A hard feature of which all literals but one must hold excludes the values of the last one; raises where a feature
    has no such last one.
    """
    possible = network.potentials > -np.inf
    hard = np.flatnonzero(network.param == HARD)
    starts = network.starts
    row, literal = spread(network.begins[hard], np.diff(network.begins)[hard])
    var, sets = network.var[literal], network.set[literal]
    used = np.unique(sets)
    lengths = np.array([len(network.sets.members[k]) for k in used.tolist()], dtype=np.int64)
    members = np.array([v for k in used.tolist() for v in sorted(network.sets.members[k])], dtype=np.int64)
    firsts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    # equal literals share their list of values
    pair = number_rows(var, sets)
    _, example = np.unique(pair, return_index=True)
    place = np.searchsorted(used, sets[example])
    owner, at = spread(firsts[place], lengths[place])
    flat = starts[var[example]][owner] + members[at]
    while len(hard):
        left = np.add.reduceat(possible.astype(np.int64), starts[:-1])
        is_true = (np.bincount(owner, possible[flat], len(example)) == left[var[example]])[pair]
        n_open = np.bincount(row, ~is_true, len(hard))
        if not n_open.all() or not left.all():
            broken = var[row == np.flatnonzero(n_open == 0)[0]][0] if not n_open.all() else np.flatnonzero(left == 0)[0]
            raise _contradiction(network, int(broken))
        last = np.zeros(len(example), dtype=bool)
        last[pair[~is_true & (n_open[row] == 1)]] = True
        excluded = flat[last[owner]]
        if not possible[excluded].any():
            break
        possible[excluded] = False
    return possible


def _contradiction(network: Network, variable: int) -> LogicMPError:
    label = label_components(network)
    near = (label[network.var[network.begins[:-1]]] == label[variable]) & (network.param == HARD)
    # quantified parts are defined by hard features too, whatever their rule
    rules = [network.rules[r] for r in np.unique(network.rule[near]) if network.rules[r].is_hard]
    shown = "\n".join(f"  {rule}" for rule in rules[:5])
    return LogicMPError(f"no world obeys the hard rules and the evidence; these cannot hold together:\n{shown}",
                        "give one of them a weight, or correct the evidence")
