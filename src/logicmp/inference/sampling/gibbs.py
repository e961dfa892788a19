"""Gibbs sampling: draw every variable given all others, in several chains.

Room: inference/sampling.  Paper: Eq. 1; Geman and Geman 1984, blocks as in Jensen et al. 1995.

    1.1 Smokes(A) => Smokes(B)         two variables, drawn in turn
    Smokes(A) <=> Ill(A).              a hard tie: one block, drawn from its joint states 00 and 11
    mood(A) in {Glad, Sad, Calm}       one variable, drawn from all its values

Conditional probabilities are counted instead of draws (Rao-Blackwell), so fewer samples are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..method import Problem, Solution
from ..moves.arrays import build_arrays
from ..search.start import satisfy_hard_rules
from .blocks import MAX_STATES, build_blocks
from .chains import Sampler, Tally, solution_of


@dataclass
class Gibbs(Sampler):
    """Blocked Gibbs sampling; raises a CostError if hard rules tie too many variables together.

    Args:
        block_weight: rules with at least this weight also tie their variables together, while the block stays small.
        max_states: limit of the joint states of a block.
    """

    name: ClassVar[str] = "gibbs"
    block_weight: float = 5.0
    max_states: int = MAX_STATES

    def solve(self, problem: Problem) -> Solution:
        chains = self.plan(problem)
        network = self.network(problem)
        from . import gibbs_loops

        arrays = build_arrays(network)
        blocks = build_blocks(arrays, self.block_weight, self.max_states)
        states, rngs = [], [np.random.default_rng([problem.seed, chain]) for chain in range(self.chains)]
        for chain, rng in enumerate(rngs):
            state = arrays.new_state(arrays.ground.log_weight, arrays.ground.is_hard)
            # no step writes weights, so that all chains share them
            states.append(state._replace(weight=arrays.ground.log_weight))
            satisfy_hard_rules(arrays, states[-1], rng, self.max_flips, problem.limits, chain)

        def advance(chain: int, n: int, tally: Tally) -> None:
            gibbs_loops.sweep(arrays.ground, states[chain], blocks, network.potentials, tally, n, rngs[chain])

        draws = chains.run(advance, network)
        # a variable with one possible value is in no block
        draws.p[blocks.decided] = arrays.ground.domain[blocks.decided]
        solution = solution_of(arrays, draws)
        if blocks.n_joint:
            solution.notes.append(f"{blocks.n_joint:,} blocks of variables that depend strongly on each other, of up "
                                  f"to {blocks.largest:,} joint states")
        return solution
