"""The most probable world by an integer program, with a proof that it is the best.

Room: inference/search; used by map and decode.

    a variable with values a, b, c       one proposition for each, exactly one of which is true
    2 Smokes(A) => Cancer(A)             minimize 2 y, where  y >= s + (1 - c) - 1
    -2 Smokes(A) => Cancer(A)            minimize -2 y, where  y <= s  and  y <= 1 - c
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from ...errors import LogicMPError
from ...ground.propagate import contradiction
from ...limits import need
from ..moves.arrays import GroundArrays


def solve_ilp(arrays: GroundArrays, seconds: float | None) -> tuple[np.ndarray | None, bool]:
    """The best world by SciPy's HiGHS, and whether that is proven; None if it found no world in time.

    Args:
        arrays: with soft evidence as features.
    """
    need("scipy", "map", "solver 'ilp'")
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    g = arrays.ground
    n_values, n_variables, soft = len(g.domain), len(g.starts) - 1, np.flatnonzero(g.log_weight)
    if not n_values:
        return np.zeros(0, dtype=np.int32), True
    # columns: a proposition for each value, then one for each soft feature, 1 if it is true
    indicator = np.full(arrays.n_features, -1, dtype=np.int64)
    indicator[soft] = n_values + np.arange(len(soft))
    lengths = np.diff(g.begins)
    owner = np.repeat(np.arange(arrays.n_features), lengths)
    literal, x = np.nonzero(g.member[g.set] & (np.arange(g.member.shape[1]) < np.diff(g.starts)[g.var][:, None]))
    column = g.starts[g.var[literal]] + x
    wants = g.log_weight > 0
    # rows: one value each; sum of literals - y <= length - 1 for features to avoid; y <= literal for those to reach
    avoided = np.flatnonzero(g.is_hard | (g.log_weight < 0))
    row_of = np.full(arrays.n_features, -1, dtype=np.int64)
    row_of[avoided] = n_variables + np.arange(len(avoided))
    first = n_variables + len(avoided)
    wanted = np.flatnonzero(wants[owner])
    row_of_literal = np.full(len(owner), -1, dtype=np.int64)
    row_of_literal[wanted] = first + np.arange(len(wanted))
    at = row_of[owner[literal]] >= 0
    of = row_of_literal[literal] >= 0
    has_y = avoided[indicator[avoided] >= 0]
    rows = np.concatenate([np.repeat(np.arange(n_variables), np.diff(g.starts)), row_of[owner[literal[at]]],
                           row_of[has_y], row_of_literal[literal[of]], row_of_literal[wanted]])
    columns = np.concatenate([np.arange(n_values), column[at], indicator[has_y], column[of],
                              indicator[owner[wanted]]])
    entries = np.concatenate([np.ones(n_values), np.ones(at.sum()), -np.ones(len(has_y)), -np.ones(of.sum()),
                              np.ones(len(wanted))])
    n_rows, n_columns = first + len(wanted), n_values + len(soft)
    upper = np.concatenate([np.ones(n_variables), lengths[avoided] - 1.0, np.zeros(len(wanted))])
    lower = np.concatenate([np.ones(n_variables), np.full(n_rows - n_variables, -np.inf)])
    found = _interruptibly(lambda: milp(
        np.concatenate([np.zeros(n_values), -g.log_weight[soft]]),
        integrality=np.concatenate([np.ones(n_values), np.zeros(len(soft))]),
        bounds=Bounds(0, np.concatenate([g.domain.astype(np.float64), np.ones(len(soft))])),
        constraints=LinearConstraint(coo_array((entries, (rows, columns)), (n_rows, n_columns)).tocsr(), lower, upper),
        options={"mip_rel_gap": 0.0} | ({} if seconds is None else {"time_limit": max(seconds, 0.01)})))
    if found.status == 2:
        raise contradiction(arrays.network)
    if found.status not in (0, 1):
        raise LogicMPError(f"HiGHS gave up: {found.message}", "use solver='maxsat' or 'walksat'")
    if found.x is None:
        return None, False
    p = found.x[:n_values]
    # `member` has columns only for the variables that are in a feature
    padded = np.full((n_variables, int(np.diff(g.starts).max())), -1.0)
    which = np.repeat(np.arange(n_variables), np.diff(g.starts))
    padded[which, np.arange(n_values) - g.starts[which]] = p
    return padded.argmax(1).astype(np.int32), found.status == 0


def _interruptibly(solve: Callable[[], Any]) -> Any:
    """Run a solver in a thread of its own, because HiGHS ignores Ctrl-C; it ends with the process at the latest."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(solve())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not future.done():
        # Windows delivers an interrupt only between two waits
        thread.join(0.1)
    return future.result()
