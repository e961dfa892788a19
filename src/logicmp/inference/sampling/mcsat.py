"""MC-SAT: slice sampling; each step keeps some of the satisfied rules, and draws a world that satisfies them.

Room: inference/sampling.  Paper: Eq. 1; Poon and Domingos 2006.

    2 Smokes(A) => Cancer(A)      satisfied now: kept in the next step with probability 1 - exp(-2)
    -1 Smokes(A)                  false now: like !Smokes(A) with weight 1
    Smokes(A) v Smokes(B).        kept in every step

Hard and strong rules, which block single-variable moves, do not slow it down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..method import Problem, Solution
from ..moves.arrays import build_arrays
from ..search.start import satisfy_hard_rules
from .chains import Sampler, Tally, solution_of

# a component with at most this many states is listed
MAX_STATES = 4096


@dataclass
class MCSat(Sampler):
    """MC-SAT, with exactly uniform draws for small components of the kept rules, and SampleSAT for the others.

    Args:
        max_states: a component with at most this many states is listed, and drawn from exactly.
        max_search_flips: limit of one run of SampleSAT; if it finds no world, the component keeps its old one.
    """

    name: ClassVar[str] = "mc-sat"
    error: float = 0.004
    max_states: int = MAX_STATES
    max_search_flips: int = 100_000

    def solve(self, problem: Problem) -> Solution:
        chains = self.plan(problem)
        network = self.network(problem)
        from . import mcsat_loops

        arrays = build_arrays(network, unary_features=True, tables=True)
        work = mcsat_loops.new_workspace(arrays, self.max_states, self.max_search_flips)
        states, rngs = [], [np.random.default_rng([problem.seed, chain]) for chain in range(self.chains)]
        for chain, rng in enumerate(rngs):
            states.append(arrays.new_state(arrays.ground.is_hard, arrays.ground.is_hard))
            satisfy_hard_rules(arrays, states[-1], rng, self.max_flips, problem.limits, chain)

        def advance(chain: int, n: int, tally: Tally) -> None:
            mcsat_loops.sample(arrays.ground, states[chain], work, arrays.cells, tally, n, rngs[chain])

        solution = solution_of(arrays, chains.run(advance, network))
        if work.failures[1]:
            solution.notes.append(f"SampleSAT drew {work.failures[1]:,} large components and found no world in "
                                  f"{work.failures[0]:,} of them, which kept their old one")
        return solution
