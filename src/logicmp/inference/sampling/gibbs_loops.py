"""The compiled loops of Gibbs sampling: join blocks, list their states, draw them one after the other.

Room: inference/sampling.  Needs numba.

    a lone variable            its scores are at hand, see `field_loops`
    a block                    every joint state is tried to get its score
"""

from __future__ import annotations

import numpy as np

from ..moves.loops import compiled, find, literal_truth
from .blocks import Blocks
from .chains import Tally
from .field_loops import attempt, draw, draw_variable, move
from .fields import Fields, World


@compiled
def join_blocks(g: Fields, ties: np.ndarray, source_first: np.ndarray, sources: np.ndarray,
                parent: np.ndarray, log_states: np.ndarray, n_members: np.ndarray, roots: np.ndarray,
                max_log: float) -> None:
    """Put the open variables of each tie into one block, unless it would be too big.

    Args:
        ties: features, the most important first.
        sources: the quantified part a depends on sources[source_first[a - n_own]] and on.
        parent: of the union-find structure; log_states and n_members are valid for its roots.
        roots: room for the members of the largest block allowed.
    """
    for f in ties:
        n, size, total = 0, 0, 0.0
        for j in range(g.begins[f], g.begins[f + 1]):
            v = g.var[j]
            if literal_truth(g, g.domain, v, g.set[j]) != 0:
                continue
            low, high = (0, 1) if v < g.n_own else (source_first[v - g.n_own], source_first[v - g.n_own + 1])
            for k in range(low, high):
                root = find(parent, v if v < g.n_own else sources[k])
                is_known = log_states[root] == 0.0
                for i in range(n):
                    is_known |= roots[i] == root
                if is_known:
                    continue
                if n < len(roots):
                    roots[n] = root
                    n += 1
                total += log_states[root]
                size += n_members[root]
        if n < 2 or size > len(roots) or total > max_log + 1e-9:
            continue
        for k in range(1, n):
            parent[roots[k]] = roots[0]
        log_states[roots[0]], n_members[roots[0]] = total, size


@compiled
def list_states(g: Fields, must_not: np.ndarray, block: np.ndarray, depth: np.ndarray,
                values: np.ndarray, max_nodes: int, out: np.ndarray) -> int:
    """Write all joint values of a block that violate no hard feature inside it to `out`; -1 if there are too many.

    Args:
        depth: -1 for every variable; values: room for them.
    """
    n_found, n_nodes, at = 0, 0, 0
    for v in block:
        values[v] = -1
    while at >= 0:
        v = block[at]
        values[v] += 1
        if values[v] == g.starts[v + 1] - g.starts[v]:
            values[v], depth[v] = -1, -1
            at -= 1
            continue
        if not g.domain[g.starts[v] + values[v]]:
            continue
        depth[v] = at
        n_nodes += 1
        if n_nodes > max_nodes:
            n_found = -1
            break
        if _is_violated(g, must_not, depth, values, v):
            continue
        if at < len(block) - 1:
            at += 1
            continue
        if n_found == len(out):
            n_found = -1
            break
        for k in range(len(block)):
            out[n_found, k] = values[block[k]]
        n_found += 1
    for v in block:
        depth[v] = -1
    return n_found


@compiled
def _is_violated(g: Fields, must_not: np.ndarray, depth: np.ndarray, values: np.ndarray, v: int) -> bool:
    """Whether a hard feature of v is true for all values of the variables that have none yet."""
    for i in range(g.first[v], g.first[v + 1]):
        f = g.feature[i]
        if not must_not[f]:
            continue
        holds = True
        for j in range(g.begins[f], g.begins[f + 1]):
            u = g.var[j]
            if depth[u] >= 0:
                holds = g.member[g.set[j], values[u]]
            else:
                holds = literal_truth(g, g.domain, u, g.set[j]) > 0
            if not holds:
                break
        if holds:
            return True
    return False


@compiled
def sweep(g: Fields, s: World, b: Blocks, room: np.ndarray, tally: Tally, n_sweeps: int,
          rng: np.random.Generator) -> None:
    """Draw every block in turn, given all others; the conditional probabilities are counted, not the draws.

    Args:
        room: for the probabilities of the states of one block.
    """
    for _ in range(n_sweeps):
        for k in range(len(b.first) - 1):
            first, n = b.first[k], b.first[k + 1] - b.first[k]
            if b.state_first[k] < b.state_first[k + 1]:
                n_states = (b.state_first[k + 1] - b.state_first[k]) // n
                _draw_block(g, s, tally, b.var[first : first + n],
                            b.states[b.state_first[k] : b.state_first[k + 1]].reshape(n_states, n), room, rng)
            else:
                v = b.var[first]
                draw_variable(g, s, v, room, rng)
                for x in range(g.starts[v + 1] - g.starts[v]):
                    tally.total[g.starts[v] + x] += room[x]
        for k in range(len(tally.watch)):
            tally.watched[k] += s.false[tally.watch[k]] == 0


@compiled
def _draw_block(g: Fields, s: World, tally: Tally, block: np.ndarray, states: np.ndarray, p: np.ndarray,
                rng: np.random.Generator) -> None:
    total, old, n_equal = 0.0, 0, 0
    for k in range(len(states)):
        n_equal = 0
        while n_equal < len(block) and states[k, n_equal] == s.values[block[n_equal]]:
            n_equal += 1
        if n_equal == len(block):
            old = k
            break
    for k in range(len(states)):
        for i in range(len(block)):
            total += attempt(g, s, block[i], states[k, i])
        p[k] = total
    for i in range(len(block)):
        attempt(g, s, block[i], states[old, i])
    new = draw(p, len(states), rng)
    for i in range(len(block)):
        for k in range(len(states)):
            tally.total[g.starts[block[i]] + states[k, i]] += p[k]
        move(g, s, block[i], states[new, i])
