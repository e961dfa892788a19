"""Find a world that satisfies the hard rules, for chains to start from, or prove that there is none.

Room: inference/search; used by gibbs and mc-sat, the proof alone by bp.

    WalkSAT with restarts      finds one in most cases
    a SAT solver               otherwise finds one, or proves that there is none
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from ...errors import LogicMPError
from ...ground.network import HARD, Network, select_features
from ...ground.propagate import HINT, contradiction, list_hard_rules
from ...limits import Limits, need
from ..moves.arrays import GroundArrays, State, build_arrays
from .walksat import new_gains

# restarts of the search, and its share of random moves
RESTARTS = 10
NOISE = 0.3
# variables, and hard groundings, up to which a SAT solver runs for a proof; conflicts after which it gives up
MAX_PROVEN, MAX_CONFLICTS = 20_000, 20_000


def satisfy_hard_rules(arrays: GroundArrays, state: State, rng: np.random.Generator, max_flips: int, limits: Limits,
                    chain: int) -> None:
    """Fill a state with a world that satisfies the hard rules; raise an error if there is none.

    Args:
        state: must list the hard features as violated if true.
        chain: chain 0 starts from all false, chain 1 from all true, so that they find two modes if there are two.
    """
    from ..moves import loops
    from .walk_loops import fill_gains, walk

    search = arrays.new_state(arrays.ground.is_hard, arrays.ground.is_hard)
    trail, best = np.zeros((0, 2), dtype=np.int32), np.zeros_like(search.values)
    gains, flips = new_gains(arrays), 0
    for restart in range(RESTARTS):
        loops.random_world(arrays.ground, search, chain if restart == 0 else 2, rng)
        fill_gains(arrays.ground, search, gains)
        flips += walk(arrays.ground, search, gains, best, -np.inf, max_flips // RESTARTS, NOISE, trail, rng)[0]
        if search.n_violated[0] == 0 or limits.is_over():
            break
    if search.n_violated[0] > 0:
        search.values[:] = _by_sat_solver(arrays, flips)
    state.values[:] = search.values
    loops.refresh(arrays.ground, state)


def reject_contradiction(network: Network) -> None:
    """Raise an error if no world satisfies the hard rules; not if python-sat is missing, or cannot decide it soon."""
    is_hard = network.param == HARD
    n_hard = int(is_hard.sum())
    if not n_hard or max(n_hard, len(network.cards)) > MAX_PROVEN or find_spec("pysat") is None:
        return
    from .maxsat import is_satisfiable

    if is_satisfiable(build_arrays(select_features(network, is_hard)), MAX_CONFLICTS) is False:
        raise contradiction(network)


def _by_sat_solver(arrays: GroundArrays, flips: int) -> np.ndarray:
    """A world that satisfies the hard rules, or the proof that there is none."""
    from .maxsat import hard_world

    try:
        need("pysat", "map", "the proof")
    except LogicMPError as cause:
        raise LogicMPError(f"found no world that satisfies the hard rules in {flips:,} flips (there may be one; "
                           f"python-sat would decide); the hard rules are:{list_hard_rules(arrays.network)}",
                           f"{HINT}; or {cause.hint}") from None
    found = hard_world(arrays)
    if found is None:
        raise contradiction(arrays.network)
    return found
