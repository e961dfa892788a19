"""MC-SAT: slice sampling; each step keeps some of the satisfied rules, and draws a world that satisfies them.

Room: inference/sampling.  Paper: Eq. 1; Poon and Domingos 2006.

    2 Smokes(A) => Cancer(A)      satisfied now: kept in the next step with probability 1 - exp(-2)
    -1 Smokes(A)                  false now: like !Smokes(A) with weight 1
    Smokes(A) v Smokes(B).        kept in every step

The kept rules fall into components. A small one gets one of its worlds, all with the same probability. After that every
atom is drawn given all others, which moves the atoms of large components. If hard rules tie more atoms than can be
listed, or if the chains do not agree, SampleSAT draws a new world every few steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...ground.network import label_components, select_features
from ..method import Problem, Solution
from ..moves.arrays import Ground, GroundArrays
from .chains import Sampler, Tally, solution_of
from .fields import HARD_WEIGHT, Prepared, World, prepare

if TYPE_CHECKING:
    from .mcsat_loops import Slice

# a component is listed if that takes at most this many states
MAX_STATES = 1024
# steps between two runs of SampleSAT; after one that found nothing, twice as many
JUMP = 5


@dataclass
class MCSat(Sampler):
    """MC-SAT, with exactly uniform draws for small components of the kept rules.

    Args:
        max_states: a component is listed if that takes at most this many states.
        max_search_flips: limit of one run of SampleSAT; if it finds no world, the chain keeps its old one.
    """

    name: ClassVar[str] = "mc-sat"
    error: float = 0.004
    max_states: int = MAX_STATES
    max_search_flips: int = 100_000

    def solve(self, problem: Problem) -> Solution:
        network = self.network(problem)
        from . import mcsat_loops

        prepared = prepare(network, tables=True)
        rngs = [np.random.default_rng([problem.seed, chain]) for chain in range(self.chains)]
        worlds = prepared.start(rngs, self.max_flips, problem.limits)
        slices = [mcsat_loops.new_slice(prepared) for _ in rngs]
        jumps: list[_Jumps] = []

        def start_jumps() -> bool:
            if jumps:
                return False
            jumps.extend(_Jumps(prepared, self.max_search_flips) for _ in rngs)
            for chain in range(self.chains):
                # here, because the alarm of a time limit does not reach other threads while they compile
                jumps[chain].make(worlds[chain], slices[chain], rngs[chain])
            return True

        def advance(chain: int, n: int, tally: Tally) -> None:
            world, work, rng = worlds[chain], slices[chain], rngs[chain]
            if not jumps:
                mcsat_loops.sample(prepared.fields, world, work, tally, self.max_states, n, rng)
            while jumps and n:
                steps = min(n, jumps[chain].left)
                mcsat_loops.sample(prepared.fields, world, work, tally, self.max_states, steps, rng)
                jumps[chain].count(steps, world, work, rng)
                n -= steps

        if _ties_many(prepared):
            start_jumps()
        queried = prepared.queried_values(problem.queried)
        draws = self.plan(problem, prepared).run(advance, prepared, queried, start_jumps)
        solution = solution_of(prepared, draws)
        if jumps:
            failed, made = np.sum([work.failures for work in slices], 0).tolist()
            solution.notes.append(f"SampleSAT drew {made:,} worlds and found none {failed:,} times")
        return solution


def _ties_many(prepared: Prepared) -> bool:
    """Whether hard rules tie so many atoms together that their worlds cannot be listed."""
    from .mcsat_loops import MAX_MEMBERS

    if not prepared.is_tie.any():
        return False
    network, g = prepared.network, prepared.fields
    is_hard = np.zeros(network.n_features, dtype=bool)
    is_hard[prepared.origin[g.weight <= HARD_WEIGHT]] = True
    label = label_components(select_features(network, is_hard))
    sizes = np.bincount(label[g.free], minlength=len(label))
    return bool((sizes[label[np.flatnonzero(g.is_tied)]] > MAX_MEMBERS).any())


class _Jumps:
    """When a chain runs SampleSAT, and what it runs on: the kept rules that unit propagation leaves open."""

    def __init__(self, prepared: Prepared, max_flips: int):
        self.prepared, self.max_flips = prepared, max_flips
        self.interval = self.left = JUMP
        self.listed = np.zeros(prepared.n_features, dtype=np.int8)
        # quantified parts follow their atoms by these features, whether a rule is kept or not
        g = prepared.fields
        self.deciders = np.unique(g.decider[g.decider >= 0])

    def count(self, steps: int, world: World, work: Slice, rng: np.random.Generator) -> None:
        """Count steps of the chain, and draw a new world if it is time."""
        self.left -= steps
        if self.left == 0:
            self.make(world, work, rng)

    def make(self, world: World, work: Slice, rng: np.random.Generator) -> None:
        """Draw a new world."""
        from . import field_loops, samplesat_loops

        g = self.prepared.fields
        samplesat_loops.keep_rules(g, world, work, self.listed, rng)
        chosen = np.union1d(np.flatnonzero(self.listed), self.deciders) if len(self.deciders) else (
            np.flatnonzero(self.listed))
        arrays = self._arrays(chosen)
        weight = self.listed[chosen]
        state = arrays.new_state(weight, weight)
        state.values[:] = world.values
        if samplesat_loops.search(g, arrays.ground, work, state, self.max_flips, rng):
            world.values[:] = state.values
            field_loops.refresh(g, world)
        else:
            self.interval *= 2
        self.left = self.interval

    def _arrays(self, chosen: np.ndarray) -> GroundArrays:
        """Arrays for moves in the chosen features."""
        from . import samplesat_loops

        g, n = self.prepared.fields, len(self.prepared.network.cards)
        begins = np.concatenate([[0], np.cumsum(g.begins[chosen + 1] - g.begins[chosen])])
        var, sets, feature, kind = (np.zeros(begins[-1], dtype=np.uint32) for _ in range(4))
        new = np.searchsorted(chosen, g.decider)
        weight = g.weight[chosen]
        ground = Ground(g.starts, g.domain, begins, var, sets, weight, weight <= HARD_WEIGHT,
                        np.zeros(n + 1, dtype=np.int64), feature, kind, g.member, g.n_own,
                        np.where(g.decider >= 0, new, -1), g.inside, g.parts, g.follow_first, g.follows)
        samplesat_loops.copy_literals(g, chosen, ground)
        return GroundArrays(self.prepared.network, ground)
