"""Speed of the compiled loops: WalkSAT flips and Gibbs draws per second.

    python -m benchmarks sampling                      # 10,000 and 100,000 variables
    walksat, random 3-SAT, 10,000 variables            1.4e+06 flips/s
    walksat, smokers, 10,000 variables                 2.3e+06 flips/s
    gibbs, smokers, 10,000 variables                   4.8e+06 draws/s

The target is 10^6 per second at 10,000 variables. WalkSAT reads the ground network in random order. At 100,000
variables the ground network exceeds the processor's cache and memory limits the speed, so there is no target. The
ground networks are built as arrays, which is faster than reading them from files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from logicmp import parse_facts, parse_theory
from logicmp.facts.world import build_world
from logicmp.ground.build import build_network
from logicmp.ground.network import HARD, Network
from logicmp.inference.moves.arrays import build_arrays
from logicmp.inference.sampling.blocks import build_blocks
from logicmp.inference.sampling.chains import new_tally
from logicmp.inference.search.walksat import max_walksat
from logicmp.limits import Limits, silent

TARGET = 1e6
# the target applies up to this many variables
TARGET_SIZE = 10_000
# clauses per variable: so hard that the search does not end early, but not hopeless
RATIO = 4.2


def network_of(n_variables: int, features: list[np.ndarray], sets: list[np.ndarray], param: np.ndarray,
               weights: np.ndarray) -> Network:
    """A ground network of binary variables, from [features, literals] arrays of variables and sets."""
    empty = build_network(build_world(parse_facts("", parse_theory("p = {A}\nS(p)\n0 S(x)"))))
    lengths = np.concatenate([np.full(len(rows), rows.shape[1]) for rows in features])
    return replace(
        empty, cards=np.full(n_variables, 2, dtype=np.int64), potentials=np.zeros(2 * n_variables), n_own=n_variables,
        begins=np.concatenate([[0], np.cumsum(lengths)]), var=np.concatenate([rows.reshape(-1) for rows in features]),
        set=np.concatenate([rows.reshape(-1) for rows in sets]), param=param, share=np.ones(len(param)),
        rule=np.zeros(len(param), dtype=np.int64), weights=weights, offsets=np.array([0, len(weights)]),
        base=np.zeros(len(weights)), defines=np.full(len(param), -1))


def random_3sat(n: int, seed: int = 0) -> Network:
    """Random clauses of three literals, all hard."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, n, (int(RATIO * n), 3)), 1)
    rows = rows[(np.diff(rows, axis=1) > 0).all(1)]
    return network_of(n, [rows], [rng.integers(0, 2, rows.shape)], np.full(len(rows), HARD), np.zeros(1))


def smokers(n: int, seed: int = 0) -> Network:
    """A ground network of n/2 people with five friends each, and soft evidence on all atoms.

    Smokes(x) => Cancer(x), Friends(x,y) ^ Smokes(x) => Smokes(y), !Smokes(x).
    """
    rng = np.random.default_rng(seed)
    people = n // 2
    x = np.arange(people)
    pairs = np.stack([np.repeat(x, 5), (np.repeat(x, 5) + rng.integers(1, 100, 5 * people)) % people], 1)
    features = [np.stack([x, x + people], 1), pairs, x[:, None]]
    sets = [np.tile([0, 1], (people, 1)), np.tile([0, 1], (len(pairs), 1)), np.zeros((people, 1), dtype=np.int64)]
    param = np.repeat([0, 1, 2], [people, len(pairs), people])
    found = network_of(n, features, sets, param, np.array([1.5, 0.4, 0.5]))
    return replace(found, potentials=rng.normal(size=2 * n))


def flips_per_second(n: int, build: Callable[[int], Network] = random_3sat, flips: int = 1_000_000) -> float:
    """WalkSAT flips per second."""
    arrays = build_arrays(build(n), unary_features=True)
    rng = np.random.default_rng(0)
    max_walksat(arrays, rng, 1000, 1, 0.5, Limits(), silent)
    walk = max_walksat(arrays, rng, flips, 1, 0.5, Limits(), silent)
    return walk.flips / walk.seconds


def draws_per_second(n: int, sweeps: int = 20) -> float:
    """Variables drawn per second by Gibbs sampling, in the ground network of `smokers`."""
    from logicmp.inference.moves import loops
    from logicmp.inference.sampling import gibbs_loops

    network = smokers(n)
    arrays = build_arrays(network)
    blocks = build_blocks(arrays, 5.0, 4096)
    rng = np.random.default_rng(0)
    state = arrays.new_state(arrays.ground.log_weight, arrays.ground.is_hard)
    loops.random_world(arrays.ground, state, 2, rng)
    tally = new_tally(network)

    def run(n_sweeps: int) -> None:
        gibbs_loops.sweep(arrays.ground, state, blocks, network.potentials, tally, n_sweeps, rng)

    run(1)
    start = time.perf_counter()
    run(sweeps)
    return sweeps * n / (time.perf_counter() - start)


CASES: dict[str, tuple[Callable[[int], float], str]] = {
    "walksat, random 3-SAT": (flips_per_second, "flips/s"),
    "walksat, smokers": (partial(flips_per_second, build=smokers), "flips/s"),
    "gibbs, smokers": (draws_per_second, "draws/s"),
}


def measure(n: int, repeats: int = 5) -> dict[str, float]:
    """The median speed of each case, with `n` variables."""
    return {name: float(np.median([run(n) for _ in range(repeats)])) for name, (run, _) in CASES.items()}


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if a case misses the target."""
    is_slow = False
    for n in [int(size) for size in arguments] or [10_000, 100_000]:
        for name, speed in measure(n).items():
            print(f"{f'{name}, {n:,} variables':50} {speed:.1e} {CASES[name][1]}")
            is_slow |= speed < TARGET and n <= TARGET_SIZE
    return int(is_slow)
