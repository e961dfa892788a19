"""Equal soft features as one, with the sum of their weights: fewer to search through, and smaller programs.

Room: inference/search; used by map and decode.

    0.6 Links(d,e) ^ Topic(d,c) => Topic(e,c)
    0.1 Links(e,d) ^ Topic(d,c) => Topic(e,c)      both have the feature  Topic(d,c) !Topic(e,c)  if both are links
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...ground.join import number_rows, ragged_ranges
from ...ground.patterns import sort_order
from ..moves.arrays import GroundArrays


def merge_features(arrays: GroundArrays) -> GroundArrays:
    """The arrays with each soft feature once, without those of weight 0; hard features keep their order and come first.

    The variables of each feature are sorted, so that equal features have equal literals in equal order.
    """
    g = arrays.ground
    lengths = np.diff(g.begins)
    hard = np.flatnonzero(g.is_hard)
    chosen: list[np.ndarray] = [hard]
    weights: list[np.ndarray] = [np.zeros(len(hard))]
    for n in np.unique(lengths[g.log_weight != 0]).tolist():
        some = np.flatnonzero((lengths == n) & (g.log_weight != 0))
        literal = g.begins[some][:, None] + np.arange(n)
        number = number_rows(*(column[literal[:, k]] for k in range(n) for column in (g.var, g.set)))
        total = np.bincount(number, g.log_weight[some])
        first = np.zeros(len(total), dtype=np.int64)
        first[number[::-1]] = some[::-1]
        # what is left of opposite weights is rounding
        size = np.bincount(number, np.abs(g.log_weight[some]))
        kept = np.abs(total) > 1e-12 * size
        chosen.append(first[kept])
        weights.append(total[kept])
    features = np.concatenate(chosen)
    counts = lengths[features]
    owner, literal = ragged_ranges(g.begins[features], counts)
    var, sets = g.var[literal], g.set[literal]
    order = sort_order(var)
    # by old feature, where the hard ones are now
    place = np.full(arrays.n_features + 1, -1, dtype=np.int64)
    place[hard] = np.arange(len(hard))
    ground = g._replace(
        begins=np.concatenate([[0], np.cumsum(counts)]), var=var, set=sets, log_weight=np.concatenate(weights),
        is_hard=np.arange(len(features)) < len(hard), decider=place[g.decider],
        first=np.concatenate([[0], np.cumsum(np.bincount(var, minlength=len(g.starts) - 1))]),
        feature=owner.astype(np.uint32)[order], chosen=sets[order])
    return replace(arrays, ground=ground)
