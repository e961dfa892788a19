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
from .blocks import MAX_STATES, build_blocks
from .chains import Sampler, Tally, solution_of
from .fields import prepare


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
        network = self.network(problem)
        from . import gibbs_loops

        prepared = prepare(network)
        blocks = build_blocks(prepared, self.block_weight, self.max_states)
        rngs = [np.random.default_rng([problem.seed, chain]) for chain in range(self.chains)]
        worlds = prepared.start(rngs, self.max_flips, problem.limits)
        rooms = [np.zeros(max(blocks.largest, int(network.cards.max(initial=1)))) for _ in rngs]

        def advance(chain: int, n: int, tally: Tally) -> None:
            gibbs_loops.sweep(prepared.fields, worlds[chain], blocks, rooms[chain], tally, n, rngs[chain])

        draws = self.plan(problem, prepared).run(advance, prepared, prepared.queried_values(problem.queried))
        solution = solution_of(prepared, draws)
        if blocks.n_joint:
            solution.notes.append(f"{blocks.n_joint:,} blocks of variables that depend strongly on each other, of up "
                                  f"to {blocks.largest:,} joint states")
        return solution
